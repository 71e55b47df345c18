"""What the launcher counts.

Plain Python: an update of a dict, no lock, no thread, and one `Metrics` a launcher, so that a simulation may hold
thousands. `exposition.py` writes it for Prometheus. No key ever holds an id of a run, agent or Job: series stay few.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate

SUCCEEDED = "succeeded"
"""The code of a run that ended well, where others have one of codes.CODES."""

_PHASE_BOUNDS = (0.01, 0.05, 0.25, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 43200)
"""Seconds: from a Job created in 10 ms to an agent that works for twelve hours."""
_CALL_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(slots=True)
class Spread:
    """How often a duration fell between two bounds, in seconds; the last count is of all that are longer."""

    bounds: tuple[float, ...]
    counts: list[int]
    total: float = 0.0

    @classmethod
    def of(cls, bounds: tuple[float, ...]) -> Spread:
        return cls(bounds, [0] * (len(bounds) + 1))

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus wants them: each with all below it."""
        names = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        return list(zip(names, accumulate(self.counts), strict=True))


def _phases() -> defaultdict[str, Spread]:
    return defaultdict(lambda: Spread.of(_PHASE_BOUNDS))


def _calls() -> defaultdict[tuple[str, ...], Spread]:
    return defaultdict(lambda: Spread.of(_CALL_BOUNDS))


@dataclass(slots=True)
class Metrics:
    """Of one launcher. All times in seconds, of the event loop's clock."""

    runs: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Alive now, by phase."""
    ended: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By code."""
    phases: defaultdict[str, Spread] = field(default_factory=_phases)
    calls: defaultdict[tuple[str, ...], int] = field(default_factory=lambda: defaultdict(int))
    """By verb, resource and status; status "none" where no answer came."""
    call_seconds: defaultdict[tuple[str, ...], Spread] = field(default_factory=_calls)
    log_bytes: int = 0
    log_lines: int = 0
    log_reconnects: int = 0
    leases: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Held now, by kind: launcher, agent."""
    lease_failures: int = 0
    """Renewals that failed."""
    watches: dict[str, Callable[[], float]] = field(default_factory=dict)
    """By resource: says how many seconds ago its watch was last heard of."""

    def moved(self, before: str, after: str, seconds: float) -> None:
        """A run went on after `seconds` in a phase. "" as `before` is a new run, as `after` the end of one."""
        if before:
            self.runs[before] -= 1
            self.phases[before].observe(seconds)
        if after:
            self.runs[after] += 1

    def finished(self, code: str) -> None:
        """A run has a result; `code` as in codes.CODES, "" for success."""
        self.ended[code or SUCCEEDED] += 1

    def called(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """One exchange with the API server; `status` 0 where no answer came."""
        self.calls[verb, resource, str(status or "none")] += 1
        self.call_seconds[verb, resource].observe(seconds)

    def logged(self, size: int, lines: int) -> None:
        self.log_bytes += size
        self.log_lines += lines
