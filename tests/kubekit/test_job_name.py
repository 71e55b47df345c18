"""The name of a run's Job: the same every time, never that of another run, always legal."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubekit import names


@pytest.mark.parametrize("run", ["1", "0198f2c4-7d1e-7a55-9a6b-1f0c2d3e4b5a", "a" * 59])
def test_a_legal_id_stands_in_the_name_as_it_is(run):
    assert names.job_name(run) == f"run-{run}"


@pytest.mark.parametrize(("run", "left"), [("a" * 60, "a" * 42), ("A/b", "a-b"), ("É", "e"), ("", "x"), ("-", "x")])
def test_any_other_id_leaves_what_is_legal_and_a_hash(run, left):
    name = names.job_name(run)
    assert name[:-16] == f"run-{left}-"
    assert set(name[-16:]) <= set("0123456789abcdef")


@given(st.text(min_size=1, max_size=200))
@example("run-1")
@example("a-0123456789abcdef")
@example("é")
def test_every_name_is_legal_and_short(run):
    name = names.job_name(run)
    assert names.is_dns_label(name)
    assert name.startswith("run-")
    assert names.job_name(run) == name
    assert names.is_dns_subdomain(f"{name}-prompt")


@settings(deadline=None)
@given(st.lists(st.one_of(st.text(max_size=80), st.from_regex(r"[aA]{55,62}[-/]?[aA1]?", fullmatch=True)), unique=True))
def test_two_runs_never_share_a_name(runs):
    assert len({names.job_name(run) for run in runs}) == len(runs)


def test_a_name_that_looks_shortened_is_another_runs():
    shortened = names.job_name("A/b").removeprefix("run-")
    assert names.job_name(shortened) != names.job_name("A/b")
