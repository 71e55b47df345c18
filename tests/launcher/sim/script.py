"""What happens in one history: servers, runs, faults, deaths, troubles. Pure data, printable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.fakeapi.inprocess import FINE, Faults
from tests.fakeapi.model import Program


@dataclass(frozen=True, slots=True)
class Cancel:
    """Asked `at` seconds; through the Job's mark by another server where `by` is not the run's own."""

    at: float
    by: int


@dataclass(frozen=True, slots=True)
class Skills:
    """Names of what a run is asked for with: from `changed` seconds on it is `later`."""

    names: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    changed: float = float("inf")

    def at(self, now: float) -> tuple[str, ...]:
        return self.later if now >= self.changed else self.names


NO_SKILLS = Skills()


@dataclass(frozen=True, slots=True)
class Order:
    """One run that Paperclip wants, from the server `server`; `rival` gets the same request too, `rival_at`."""

    run: str
    agent: str
    task: str
    at: float
    server: int
    policy: str
    program: Program = field(repr=False)
    code: str = ""
    """Of the result, if nobody disturbs the run."""
    cancel: Cancel | None = None
    timeout: int = 0
    retain: bool = False
    rival: int | None = None
    rival_at: float = 0.0
    blind: bool = False
    """Its reader does not know how much of the log it has."""
    attach: bool = False
    """Once its container has started it is attached to, in place of being asked for again."""
    skills: Skills = NO_SKILLS
    """In Secrets of the run: no launcher has the claim."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """A server that stands still for `seconds`: `at` seconds from the start on, or at its `call`-th request of `method`
    about runs ("before" it was sent or "after" it was answered).
    """

    seconds: float
    at: float = float("inf")
    call: int = 0
    method: str = ""
    moment: str = "before"


@dataclass(frozen=True, slots=True)
class Death:
    """The end of one life of a server: killed `at` seconds after its start, or at its `call`-th request ("before" it
    was sent or "after" it was answered). It is back after `back` seconds, None for never. An `orderly` one is no kill.
    `power`: what was not synced to the disk is lost; `wiped`: all of it.
    """

    at: float = float("inf")
    call: int = 0
    moment: str = "before"
    back: float | None = 1.0
    orderly: bool = False
    power: bool = False
    wiped: bool = False


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something in the cluster or between it and a server. `kind`: api-restart, compact, cut-off, cut-off-silently,
    delete-job, delete-pod, full (no room for `target`: jobs, pods), refuse-secrets, hush (the open watches of `target`
    tell no more).
    """

    kind: str
    at: float
    seconds: float = 0.0
    target: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """`deaths` of its lives in turn; after the last one it lives on. `skew` seconds its clock is wrong."""

    identity: str
    deaths: tuple[Death, ...] = ()
    skew: float = 0.0
    reader: float = 0.0
    """Seconds that its reader takes at most for a batch of log."""
    freezes: tuple[Freeze, ...] = ()
    twin_at: float | None = None
    """Since when it runs a second time, as another process of the same identity."""
    shared: bool = True
    """Whether both have the same disk."""


@dataclass(frozen=True, slots=True)
class Script:
    seed: int
    servers: tuple[Server, ...]
    orders: tuple[Order, ...]
    faults: Faults
    troubles: tuple[Trouble, ...] = ()
    shuffle: bool = False
    takeover: str = ""
    """When a server is dead for good: `same` sends its requests to another one, `wake` the next run of the same task,
    "" nobody cares.
    """

    @property
    def calm(self) -> bool:
        """Whether nothing at all is drawn against the runs from outside."""
        struck = any(server.deaths or server.freezes or server.twin_at is not None for server in self.servers)
        return self.faults is FINE and not self.troubles and not struck

    @property
    def prompt(self) -> bool:
        """Whether each request takes its effect at once."""
        quick = Faults(lag=self.faults.lag, until=self.faults.until)
        frozen = any(server.freezes for server in self.servers)
        return self.faults == quick and not self.troubles and not frozen

    @property
    def watched(self) -> bool:
        """Whether each launcher sees each change at once."""
        blind = {"api-restart", "compact", "cut-off", "cut-off-silently"}
        frozen = any(server.freezes for server in self.servers)
        return self.faults is FINE and not frozen and not any(one.kind in blind for one in self.troubles)

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"seed {self.seed}: shuffle={self.shuffle} takeover={self.takeover!r}"
        yield f"  {self.faults}"
        yield from (f"  {one}" for one in (*self.servers, *self.troubles))
        for order in self.orders:
            program = order.program
            spoken = f"{len(program.lines)} lines in {sum(gap for gap, _ in program.lines):.2f} s"
            yield f"  {order}: {spoken}, end {program.end} {program.exit_code}, start {program.start}"
