"""The name of a run's Job: the same every time, never that of another run, always legal."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubekit import names

TEXTS = st.one_of(st.text(max_size=80), st.from_regex(r"[aA]{55,62}[-/:]?[aA1]?", fullmatch=True))


@pytest.mark.parametrize(
    ("run", "left"),
    [
        ("1", "1"),
        ("0198f2c4-7d1e-7a55-9a6b-1f0c2d3e4b5a", "0198f2c4-7d1e-7a55-9a6b-1f0c2d3e4b5a"),
        ("a" * 60, "a" * 42),
        ("A/b", "a-b"),
        ("\u00c9", "e"),
        ("", "x"),
        ("-", "x"),
    ],
)
def test_people_read_the_run_and_a_hash_tells_it_apart(run, left):
    name = names.job_name("agent", run)
    assert name[:-16] == f"run-{left}-"
    assert set(name[-16:]) <= set("0123456789abcdef")


def test_the_name_is_the_same_for_ever():
    assert names.job_name("agent-1", "1") == "run-1-3132caff1b886b32"


@given(st.text(max_size=200), st.text(max_size=200))
@example("agent", "run-1")
@example("", "a-0123456789abcdef")
def test_every_name_is_legal_and_short(agent, run):
    name = names.job_name(agent, run)
    assert names.is_dns_label(name)
    assert name.startswith("run-")
    assert names.job_name(agent, run) == name
    assert names.is_dns_subdomain(f"{name}-x7k2m-env")


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), unique=True))
@example([("a", "bc"), ("ab", "c"), ("", "abc"), ("1:a", "b"), ("1", ":ab")])
def test_two_pairs_never_share_a_name(pairs):
    assert len({names.job_name(*pair) for pair in pairs}) == len(pairs)
