"""The table itself: nothing unreachable, nothing without a way on, and what must never follow what."""

from __future__ import annotations

import pytest

from paperclip_launcher.lifecycle import IN_CLUSTER, LIFECYCLE, Event, Phase, following
from paperclip_launcher.run import WORK


def reachable(start: Phase) -> set[Phase]:
    found, todo = set(), [start]
    while todo:
        phase = todo.pop()
        if phase not in found:
            found.add(phase)
            todo += LIFECYCLE[phase].values()
    return found


def test_every_phase_has_work_and_a_way_to_the_end():
    assert set(LIFECYCLE) == set(Phase)
    assert set(WORK) == set(Phase) - {Phase.OVER}
    for phase in Phase:
        assert Phase.OVER in reachable(phase)


def test_every_phase_and_event_is_reached_from_a_beginning():
    assert reachable(Phase.PLANNED) | reachable(Phase.ADOPTING) == set(Phase)
    assert {event for table in LIFECYCLE.values() for event in table} == set(Event)


def test_a_result_is_stored_before_anything_is_cleared_away():
    before = {phase for phase in Phase if Phase.RELEASED in LIFECYCLE[phase].values()}
    assert before == {Phase.STORED}


@pytest.mark.parametrize("phase", sorted(IN_CLUSTER - {Phase.STOPPING, Phase.DRAINING, Phase.FINISHED}))
def test_a_cancel_leads_from_every_live_phase_to_a_proven_stop(phase):
    assert following(phase, Event.CANCEL) is Phase.STOPPING


def test_secrets_are_made_only_after_the_lock_is_won():
    assert [phase for phase in Phase if Event.SECRETS_MADE in LIFECYCLE[phase]] == [Phase.LOCKED]
    assert [phase for phase, table in LIFECYCLE.items() if Phase.LOCKED in table.values()] == [Phase.CREATED]


def test_only_a_job_that_is_proven_gone_is_made_anew():
    assert [phase for phase, table in LIFECYCLE.items() if Event.YIELDED in table] == [Phase.STOPPING]
    assert following(Phase.STOPPING, Event.YIELDED) is Phase.PLANNED


def test_what_is_not_known_or_not_ours_is_never_stopped():
    for phase in (Phase.ABANDONED, Phase.STORED, Phase.RELEASED):
        assert Phase.STOPPING not in reachable(phase)


def test_an_event_that_cannot_happen_is_a_defect():
    with pytest.raises(KeyError):
        following(Phase.RELEASED, Event.CANCEL)
