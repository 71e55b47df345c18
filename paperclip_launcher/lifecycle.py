"""The life of a run as a table: what each phase waits for, and where each event leads. No I/O.

`run.py` does the work of a phase and looks up here what its event means. Work is repeatable: a launcher that dies in
any phase is followed by one that begins again at PLANNED or ADOPTING, finds what is there already, and goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Phase(StrEnum):
    PLANNED = "planned"
    """Nothing in the cluster is ours yet; other runs of the agent are looked at."""
    ADOPTING = "adopting"
    """A Job that a dead launcher left is being taken over."""
    ADMITTED = "admitted"
    """The Job may be created."""
    CREATED = "created"
    """The Job is there; its container cannot start, since its Secrets are not."""
    LOCKED = "locked"
    """The agent is ours."""
    STARTING = "starting"
    """All is there; the pod has to start."""
    RUNNING = "running"
    STOPPING = "stopping"
    """The Job is being deleted; its pod must be proven gone."""
    DRAINING = "draining"
    """The agent has ended; the rest of its log is read."""
    FINISHED = "finished"
    """The outcome is being made and stored."""
    STORED = "stored"
    """The result is safe, and waits until its reader has it."""
    RELEASED = "released"
    """Reported; what is left in the cluster is cleared away."""
    ABANDONED = "abandoned"
    """Another launcher owns the Job, or how it stands is not known: it is left alone."""
    OVER = "over"


class Event(StrEnum):
    CLEAR = "clear"
    BLOCKED = "blocked"
    ORPHAN = "orphan"
    ADOPTED = "adopted"
    LOST_RACE = "lost-race"
    STORED_BEFORE = "stored-before"
    CREATED = "created"
    REFUSED = "refused"
    LOCK_WON = "lock-won"
    LOCK_BUSY = "lock-busy"
    SECRETS_MADE = "secrets-made"
    STARTED = "started"
    BROKEN = "broken"
    """A diagnosis says that it will not mend itself."""
    ENDED = "ended"
    GONE = "gone"
    CANCEL = "cancel"
    DEADLINE = "deadline"
    STOPPED = "stopped"
    YIELDED = "yielded"
    """Its Job is gone, and never had its Secrets: another run had the lock, and it waits for that one."""
    UNKNOWN = "unknown"
    OWNED_ELSEWHERE = "owned-elsewhere"
    LOG_READ = "log-read"
    RESULT_STORED = "result-stored"
    ACKNOWLEDGED = "acknowledged"
    CLEARED = "cleared"


_STOPS = {
    Event.CANCEL: Phase.STOPPING,
    Event.BROKEN: Phase.STOPPING,
    Event.DEADLINE: Phase.STOPPING,
    Event.GONE: Phase.DRAINING,
    Event.UNKNOWN: Phase.ABANDONED,
    Event.OWNED_ELSEWHERE: Phase.ABANDONED,
}

LIFECYCLE: Mapping[Phase, Mapping[Event, Phase]] = MappingProxyType(
    {
        Phase.PLANNED: {
            Event.CLEAR: Phase.ADMITTED,
            Event.ORPHAN: Phase.ADOPTING,
            Event.BLOCKED: Phase.FINISHED,
            Event.CANCEL: Phase.FINISHED,
            Event.STORED_BEFORE: Phase.STORED,
        },
        Phase.ADOPTING: {
            Event.ADOPTED: Phase.STARTING,
            Event.LOST_RACE: Phase.PLANNED,
            Event.GONE: Phase.DRAINING,
            Event.OWNED_ELSEWHERE: Phase.ABANDONED,
            Event.CANCEL: Phase.FINISHED,
            Event.UNKNOWN: Phase.ABANDONED,
        },
        Phase.ADMITTED: {
            Event.CREATED: Phase.CREATED,
            Event.REFUSED: Phase.FINISHED,
            Event.CANCEL: Phase.FINISHED,
            Event.GONE: Phase.DRAINING,
            Event.UNKNOWN: Phase.ABANDONED,
            Event.OWNED_ELSEWHERE: Phase.ABANDONED,
        },
        Phase.CREATED: {Event.LOCK_WON: Phase.LOCKED, Event.LOCK_BUSY: Phase.STOPPING, **_STOPS},
        Phase.LOCKED: {Event.SECRETS_MADE: Phase.STARTING, **_STOPS},
        Phase.STARTING: {Event.STARTED: Phase.RUNNING, Event.ENDED: Phase.DRAINING, **_STOPS},
        Phase.RUNNING: {Event.ENDED: Phase.DRAINING, **_STOPS},
        Phase.STOPPING: {
            Event.STOPPED: Phase.DRAINING,
            Event.YIELDED: Phase.PLANNED,
            Event.UNKNOWN: Phase.ABANDONED,
            Event.OWNED_ELSEWHERE: Phase.ABANDONED,
        },
        Phase.DRAINING: {Event.LOG_READ: Phase.FINISHED},
        Phase.FINISHED: {Event.RESULT_STORED: Phase.STORED},
        Phase.STORED: {Event.ACKNOWLEDGED: Phase.RELEASED},
        Phase.RELEASED: {Event.CLEARED: Phase.OVER},
        Phase.ABANDONED: {Event.ACKNOWLEDGED: Phase.OVER},
        Phase.OVER: {},
    }
)


def following(phase: Phase, event: Event) -> Phase:
    """Where `event` leads. KeyError where it cannot happen: that is a defect, and a test walks all of them."""
    return LIFECYCLE[phase][event]


IN_CLUSTER = frozenset(
    {Phase.CREATED, Phase.LOCKED, Phase.STARTING, Phase.RUNNING, Phase.STOPPING, Phase.DRAINING, Phase.FINISHED}
)
"""Phases in which a Job of ours may be alive, so that a launcher that stops leaves work behind."""
