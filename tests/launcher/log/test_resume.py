from __future__ import annotations

import itertools
import subprocess
import sys
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from paperclip_launcher.log.position import LogPosition
from paperclip_launcher.log.resume import Reading, Window, hashes_of
from tests.launcher.log.fakelog import BEGIN, BILLION, stamp

START = BEGIN * BILLION


def lines(*pairs, **form):
    return b"".join(stamp(START + at, **form) + text + b"\n" for at, text in pairs)


def window(position=None, notes=None):
    return Window(position or LogPosition(), [].append if notes is None else notes.append)


def test_only_what_was_not_delivered_comes_and_equal_lines_as_often_as_they_were_written():
    one = window()
    first = lines((0, b"a"), (5, b"same"), (5, b"same"))
    assert Reading(one).take(first) == b"a\nsame\nsame\n"
    again = Reading(one)
    assert again.take(first + lines((5, b"same"), (6, b"a"))) == b"same\na\n"
    assert (again.fresh, one.gap) == (2, False)


def test_a_position_can_be_stored_and_gone_on_with():
    one = window()
    Reading(one).take(lines((0, b"old"), (9 * BILLION, b"a"), (10 * BILLION, b"b")))
    position = one.position()
    Reading(one).take(lines((10 * BILLION + 1, b"c")))
    assert (position.offset, len(position.seen)) == (8, 3)  # as it was then
    stored = LogPosition.from_json(position.to_json())
    assert stored == position
    assert stored.since == stamp(START + 8 * BILLION, digits=0).decode().strip()
    other = window(stored)
    assert Reading(other).take(lines((9 * BILLION, b"a"), (10 * BILLION, b"b"), (10 * BILLION, b"new"))) == b"new\n"
    assert other.offset == 12


def test_hashes_are_the_same_in_every_process():
    code = "from paperclip_launcher.log.resume import hashes_of; print(list(hashes_of([b'', b'x' * 200])))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(list(hashes_of([b"", b"x" * 200])))


def test_late_lines_within_the_overlap_come_once():
    one = window()
    log = lines((5 * BILLION, b"a"), (4 * BILLION, b"late"), (3 * BILLION + 1, b"very late"))
    assert Reading(one).take(log) == b"a\nlate\nvery late\n"
    assert Reading(one).take(log + lines((3 * BILLION + 2, b"later still"))) == b"later still\n"


def test_a_clock_set_back_loses_nothing():
    notes = []
    one = window(notes=notes)
    Reading(one).take(lines((100 * BILLION, b"before")))
    after = lines((0, b"after"), (1, b"goes on"))
    assert Reading(one).take(lines((100 * BILLION, b"before")) + after) == b"after\ngoes on\n"
    assert "set back" in notes[0]
    assert one.since < stamp(START).decode()
    assert Reading(one).take(lines((100 * BILLION, b"before")) + after + lines((2, b"x"))).endswith(b"x\n")


def test_lines_that_are_gone_are_a_gap():
    notes = []
    one = window(notes=notes)
    Reading(one).take(lines((0, b"a"), (1, b"b")))
    assert Reading(one).take(lines((1, b"b"), (2, b"c"))) == b"c\n"
    assert not one.gap
    assert Reading(one).take(lines((3, b"e"))) == b"e\n"
    assert one.gap
    assert len(notes) == 1


def test_a_log_that_writes_very_much_is_remembered_for_a_shorter_while():
    one, step = window(), BILLION // 10_000
    log = [stamp(START + number * step) + b"n%d\n" % number for number in range(30_000)]
    reading = Reading(one)
    sizes = []
    for begin in range(0, len(log), 1000):
        reading.take(b"".join(log[begin : begin + 1000]))
        sizes.append(len(one.position().seen))
    assert max(sizes) <= 6_000
    stored = window(LogPosition.from_json(one.position().to_json()))
    assert Reading(stored).take(b"".join([*log, stamp(START + len(log) * step) + b"new\n"])) == b"new\n"
    assert not stored.gap


def test_what_is_read_again_is_known_in_large_pieces_as_line_by_line():
    log = [stamp(START + number * BILLION // 3) + b"n%d\n" % number for number in range(1000)]
    one = window()
    Reading(one).take(b"".join(log[:900]))
    for begin, piece in itertools.product((0, 890, 900), (1, 7, 500, 1000)):
        again = window(one.position())
        reading = Reading(again)
        texts = [reading.take(b"".join(log[at : at + piece])) for at in range(begin, len(log), piece)]
        assert b"".join(texts) == b"".join(b"n%d\n" % number for number in range(900, 1000))
        assert (reading.fresh, again.gap) == (100, begin == 900)


def test_lines_before_the_floor_that_are_still_there_prove_that_none_is_missing():
    since, floor = stamp(START, digits=0).decode().strip(), START + BILLION
    for read_again, gap in ((lines((0, b"a"), (1, b"b")), False), (b"", True)):
        one = window(LogPosition(4, since, (17,), floor))
        reading = Reading(one)
        assert not read_again or reading.take(read_again) == b""
        assert reading.take(lines((2 * BILLION, b"c"))) == b"c\n"
        assert one.gap == gap


@given(
    st.lists(st.tuples(st.integers(-BILLION, 5 * BILLION), st.sampled_from([9, 9, 9, 0])), min_size=1, max_size=30),
    st.integers(0, 30),
    st.integers(1, 10),
)
def test_the_fast_way_delivers_and_remembers_what_the_slow_way_does(steps, had, piece):
    at, log = START, []
    for number, (step, digits) in enumerate(steps):
        at += step
        log.append(stamp(at, digits=digits) + b"n%d\n" % (number % 3))

    def read():
        notes = []
        one = window(notes=notes)
        Reading(one).take(b"".join(log[: had or 1]))
        reading = Reading(one)
        texts = [reading.take(b"".join(log[begin : begin + piece])) for begin in range(0, len(log), piece)]
        return texts, one.position(), one.gap, reading.fresh, notes

    with mock.patch("paperclip_launcher.log.resume.strip_alike", return_value=None):
        slow = read()
    assert read() == slow


def test_what_the_kubelet_says_of_itself_is_no_line():
    notes = []
    reading = Reading(window(notes=notes))
    error = b"rpc error: code = NotFound desc = an error occurred when try to find container"
    assert reading.take(lines((0, b"a")) + error + b"\n" + lines((1, b"b"))) == b"a\nb\n"
    assert reading.end(b"failed to watch file: " + b"x" * 1000) == b""
    assert reading.end(b"2026-11-2") == b""
    assert reading.end(stamp(START)[:-1] + b" half") != b""
    assert [len(note) < 300 for note in notes] == [True, True]
    assert error.decode() in notes[0]


def test_text_without_a_stamp_is_not_quoted_since_it_may_be_the_agents():
    notes = []
    Reading(window(notes=notes)).take(lines((0, b"a")) + b"secret-canary\n")
    assert len(notes) == 1
    assert "canary" not in notes[0]


def test_the_end_of_a_long_line_from_before_the_time_asked_for_is_dropped():
    notes = []
    one = window(notes=notes)
    known = lines((0, b"a"))
    Reading(one).take(known)
    assert Reading(one).take(b"of a line\n" + known + lines((1, b"b"))) == b"b\n"
    assert notes == []


@settings(max_examples=30)
@given(st.integers(0, 9), st.integers(-12, 12), st.sampled_from([b"", b"x", b"\r\0\xff"]))
def test_stamps_of_any_digits_and_zone_are_taken_off(digits, hours, text):
    one, step = window(), 10 ** (9 - digits) * 3
    log = lines((0, text), (step, text), digits=digits, hours=hours)
    assert Reading(one).take(log) == (text + b"\n") * 2
    assert Reading(one).take(log + lines((step, b"z"), digits=digits, hours=hours)) == b"z\n"


def test_a_change_of_zone_in_the_middle_changes_nothing():
    one = window()
    log = lines((0, b"summer"), hours=2) + lines((1, b"winter"), hours=1)
    assert Reading(one).take(log) == b"summer\nwinter\n"
    assert Reading(one).take(log + lines((2, b"x"), hours=1)) == b"x\n"


def test_stamps_that_old_kubelets_put_into_long_lines_are_taken_out():
    for size in (8192, 16384):
        text = bytes(range(32, 127)) * 500
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        line = b"".join(stamp(START + number) + part for number, part in enumerate(parts)) + b"\n"
        assert Reading(window()).take(line) == text + b"\n"


def test_stamps_that_the_agent_itself_prints_stay():
    for text in (stamp(START).ljust(64, b"x") * 1000, b"x" * 16384 + stamp(START) + b"y" * 20_000):
        assert Reading(window()).take(lines((0, text))) == text + b"\n"
