"""Two launchers at once, a few times; `make faults` does it a thousand times each way."""

from __future__ import annotations

import pytest

from tests.faults.races import AGENT, KINDS, bad_races, on_sockets, virtual


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_launchers_one_starts_a_container(kind):
    races = [virtual(seed, kind) for seed in range(12)]
    assert bad_races(races) == []
    assert all(race.started for race in races)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_holds_on_sockets(kind):
    races = on_sockets(range(4), kind)
    assert bad_races(races) == []
    assert len(races) == 4


def test_a_lease_is_given_up_even_while_it_is_renewed():
    """Its renewal was on its way as the launcher ended."""
    assert virtual(1181, AGENT).problems == []
