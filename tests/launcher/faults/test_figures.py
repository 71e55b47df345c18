"""The program behind `make faults`: what it prints, and how it ends."""

from __future__ import annotations

import pytest

from tests.faults import figures
from tests.faults.outages import WELL, well
from tests.faults.table import Figure, at_least, at_most, exactly, lines


def test_a_row_says_what_was_found_what_was_aimed_at_and_whether_that_is_met():
    rows = list(
        lines([at_most("x", "calls", 61, 60), at_least("x", "cuts", 20_312, 10_000), exactly("x", "bad", [], [])])
    )
    assert [row.split() for row in rows] == [
        ["figure", "found", "aim"],
        ["calls", "61", "<=", "60", "MISSED"],
        ["cuts", "20,312", ">=", "10,000", "ok"],
        ["bad", "none", "none", "ok"],
    ]


def test_of_many_bad_cases_some_are_named_and_all_are_counted():
    assert exactly("x", "bad", [f"seed {number}" for number in range(5)], []).measured == (
        "seed 0, seed 1, seed 2, and 2 more"
    )


def test_how_a_run_went_is_told_in_words():
    assert well("x", "cut", WELL).ok
    bad = well("x", "cut", ("timeout", False, {"jobs": ["a"]}))
    assert (bad.ok, bad.measured) == (False, "timeout, log NOT WHOLE, {'jobs': ['a']} left")


def test_a_scenario_that_breaks_off_is_a_missed_figure_that_is_told_with_those_before_it(monkeypatch, capsys):
    def breaks(seed, *, full):
        yield at_most("pods", "before", 1, 2)
        raise RuntimeError(f"seed {seed}, {full}")

    monkeypatch.setattr("tests.faults.pods.figures", breaks)
    found, _ = figures.measured("pods", 7, None, full=False)
    assert [(one.name, one.ok) for one in found] == [("before", True), ("it broke off", False)]
    assert found[1].measured == "RuntimeError: seed 7, False"
    assert "in breaks" in capsys.readouterr().err


def test_a_table_says_how_it_is_played_again():
    text = figures.told("pods", 7, [Figure("pods", "a", "1", "1", ok=True)], 3.2)
    assert text.startswith("pods: took 3 s; again: python -m tests.faults.figures pods --seed 7\n")


@pytest.mark.parametrize(
    ("count", "said"), [("1000000", " more for 1,000,000 simulated histories"), ("2000", "on two quiet cores")]
)
def test_how_long_it_takes_is_said_before_it_begins(monkeypatch, count, said):
    monkeypatch.setenv("PAPERCLIP_HISTORIES", count)
    text = figures.estimate(list(figures.MINUTES), full=True)
    assert said in text
    assert (" h " in text.partition(" more for ")[0].partition("and")[2]) is (count == "1000000")


@pytest.mark.parametrize("words", [["nowhere"], ["--only", "3"], ["pods", "--only", "3"]])
def test_what_cannot_be_played_is_refused(words, capsys):
    with pytest.raises(SystemExit) as ended:
        figures.main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize(("wins", "code"), [(1, 0), (2, 1)])
def test_it_ends_with_1_where_a_figure_is_missed(monkeypatch, capsys, wins, code):
    class Here:
        """A pool that is this process."""

        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def submit(self, work, *arguments):
            task = figures.Future()
            task.set_result(work(*arguments))
            return task

    monkeypatch.setattr(figures, "ProcessPoolExecutor", Here)
    monkeypatch.setattr("tests.faults.pods.figures", lambda seed, *, full: [exactly("pods", "wins", wins, 1)])
    assert figures.main(["pods", "--seed", "3", "--quick"]) == code
    said = capsys.readouterr().out
    assert ("1 of 1 figures missed" in said) is bool(code)
    assert said.startswith("seed 3: about ")


def test_a_case_that_a_seed_does_not_have_is_no_case_that_went_well(capsys):
    found, _ = figures.measured("kills", 1, 99_999, full=True)
    assert [one.ok for one in found] == [False]
    assert "the cases of seed 1 are 1 to 1100" in capsys.readouterr().err
