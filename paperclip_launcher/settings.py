"""What one launcher is told. Times are in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """`identity` names this launcher among all: two that are alive at once never share one."""

    namespace: str
    identity: str
    lease_seconds: int = 30
    """Without a renewal for so long, a launcher is dead, and its runs may be adopted."""
    renew_seconds: float = 10
    keepalive_seconds: float = 15
    """After so much silence of a running agent, its reader is told that it lives."""
    stop_seconds: float = 50
    """A pod that is not proven gone by then, beyond its own grace period, is left alone: its state is not known."""
    drain_seconds: float = 30
    api_seconds: float = 120
    """How long a single change may be retried before the run's state counts as unknown."""
    journal_seconds: float = 1
    """The position in the log is kept at most so often; a reader that knows its offset loses nothing in between."""
    quota_seconds: float = 30
    """Between two tries to create a Job for which there is no room; the end of another run wakes it as well."""
