"""What happens in one history, drawn from its seed: servers, runs, faults, deaths, troubles. Pure data, printable.

Most histories are small, since they are cheap and a fault that needs much to happen is rare; the rest have it all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

from tests.fakeapi.inprocess import FINE, Faults
from tests.fakeapi.model import Program

IDENTITIES = ("one", "two", "three")


@dataclass(frozen=True, slots=True)
class Cancel:
    """Asked `at` seconds; through the Job's mark by another server where `by` is not the run's own."""

    at: float
    by: int


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
    delete-job, delete-pod, full (no room for `target`: jobs, pods), refuse-secrets.
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

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"seed {self.seed}: shuffle={self.shuffle} takeover={self.takeover!r}"
        yield f"  {self.faults}"
        yield from (f"  {one}" for one in (*self.servers, *self.troubles))
        for order in self.orders:
            program = order.program
            spoken = f"{len(program.lines)} lines in {sum(gap for gap, _ in program.lines):.2f} s"
            yield f"  {order}: {spoken}, end {program.end} {program.exit_code}, start {program.start}"


def drawn(seed: int) -> Script:
    """The history of a seed."""
    random = Random(seed)
    size = random.random()
    if size < 0.55:
        return _small(seed, random)
    return _middle(seed, random) if size < 0.9 else _large(seed, random)


def _small(seed: int, random: Random) -> Script:
    """One server and one run, with one kind of bad luck."""
    luck = random.random()
    deaths: tuple[Death, ...] = ()
    faults, troubles = FINE, []
    if luck < 0.5:
        deaths = (_death(random, gone=0.0),)
    elif luck < 0.75:
        faults = _faults(random)
    elif luck < 0.9:
        troubles = [_trouble(random, 4.0)]
    order = _order(random, "run-1", "agent-1", 0, 1)
    return Script(seed, (Server("one", deaths),), (order,), faults, tuple(troubles), random.random() < 0.3)


def _middle(seed: int, random: Random) -> Script:
    """Two servers or two runs that meet each other."""
    kind = random.random()
    for most, draw in _MIDDLE:
        if kind < most:
            return draw(seed, random)
    count = random.choice((1, 1, 2))
    servers = tuple(Server(IDENTITIES[n], _deaths(random, 0.4, gone=0.0), *_clock(random)) for n in range(count))
    orders = tuple(
        _order(random, f"run-{n + 1}", random.choice(("agent-1", "agent-1", "agent-2")), random.randrange(count), count)
        for n in range(2)
    )
    faults = _faults(random) if random.random() < 0.3 else FINE
    troubles = tuple(_trouble(random, 10.0) for _ in range(random.choice((0, 0, 1))))
    return Script(seed, servers, orders, faults, troubles, random.random() < 0.3)


def frozen(seed: int, random: Random) -> Script:
    """A server stands still for a while. Another one may be sent its runs meanwhile, and it knows nothing of that."""
    order = _order(random, "run-1", "agent-1", 0, 1, slow=0.8)
    freezes = tuple(_freeze(random) for _ in range(random.choice((1, 1, 2))))
    if random.random() < 0.3:
        # Just as it stops its run: what it sends once it goes on is late.
        order = replace(order, timeout=5, program=replace(order.program, lines=_spoken(random, 12, 150.0)))
        freezes = (Freeze(random.uniform(60, 200), call=1, method="DELETE"),)
    elif random.random() < 0.3:
        order = replace(order, timeout=random.choice((5, 30, 60)))
    others = tuple(_freeze(random) for _ in range(random.choice((0, 0, 0, 1))))
    servers = (
        Server("one", (), *_clock(random), freezes=freezes),
        Server("two", _deaths(random, 0.1, gone=0.0), *_clock(random), freezes=others),
    )
    faults = _faults(random) if random.random() < 0.1 else FINE
    takeover = random.choice(("", "same", "wake", "wake"))
    return Script(seed, servers, (order,), faults, (), random.random() < 0.3, takeover)


def _freeze(random: Random) -> Freeze:
    seconds = random.uniform(20, 200)
    if random.random() < 0.5:
        return Freeze(seconds, at=random.choice((1.0, 8.0, 40.0)) * random.random())
    method = random.choice(("POST", "PATCH", "GET", "DELETE", "DELETE", "DELETE"))
    return Freeze(seconds, call=random.choice((1, 1, 2, 4)), method=method, moment=random.choice(("before", "after")))


def twins(seed: int, random: Random) -> Script:
    """A new process of the same server while the old one still lives, as when a restart overlaps."""
    order = _order(random, "run-1", "agent-1", 0, 1, slow=0.7)
    freezes = tuple(_freeze(random) for _ in range(random.choice((0, 0, 1))))
    at = random.choice((1.0, 5.0, 60.0)) * random.random()
    server = Server("one", (), *_clock(random), freezes=freezes, twin_at=at, shared=random.random() < 0.5)
    faults = _faults(random) if random.random() < 0.2 else FINE
    return Script(seed, (server,), (order,), faults, (), random.random() < 0.3)


def node_lost(seed: int, random: Random) -> Script:
    """The node of a run does not answer any more."""
    deaths = _deaths(random, 0.3, gone=0.0)
    order = _order(random, "run-1", "agent-1", 0, 1, slow=0.5)
    whole = random.random() < 0.3
    seconds = random.choice((1.0, 10.0, 60.0)) * random.random()
    lines = _spoken(random, random.choice((0, 3, 12)), seconds, whole=whole)
    program = replace(order.program, lines=lines, end="node-lost", start="run")
    order = replace(order, program=program, code="" if whole else "k8s_node_lost")
    faults = _faults(random) if random.random() < 0.2 else FINE
    servers = (Server("one", deaths, *_clock(random)),)
    return Script(seed, servers, (order,), faults, (), random.random() < 0.3)


def inherited(seed: int, random: Random) -> Script:
    """The first server dies for good, or is cut off for so long that it counts as dead."""
    takeover = random.choice(("same", "wake"))
    order = _order(random, "run-1", "agent-1", 0, 1, slow=0.7)
    faults = _faults(random) if random.random() < 0.2 else FINE
    troubles: tuple[Trouble, ...] = ()
    if random.random() < 0.7:
        deaths: tuple[Death, ...] = (_death(random, gone=1.0),)
    else:
        deaths = ()
        kind = random.choice(("cut-off", "cut-off-silently"))
        troubles = (Trouble(kind, random.uniform(0, 6), random.uniform(20, 120), "one"),)
    servers = (Server("one", deaths, *_clock(random)), Server("two", _deaths(random, 0.2, gone=0.0), *_clock(random)))
    return Script(seed, servers, (order,), faults, troubles, random.random() < 0.3, takeover)


def raced(seed: int, random: Random) -> Script:
    """The same request goes to two servers at about the same time. The run is long, since the name of a Job that was
    reported and deleted is free again.
    """
    lines = _spoken(random, 8, 30.0)
    program = Program(lines)
    at = random.random() * 0.5
    policy = random.choice(("fail", "reattach", "wait", "allow"))
    later = random.choice((0.0, 0.01, 0.1, 1.0)) * random.random()
    order = Order("run-1", "agent-1", "T-1", at, 0, policy, program, rival=1, rival_at=at + later)
    servers = (Server("one", (), *_clock(random)), Server("two", (), *_clock(random)))
    return Script(seed, servers, (order,), FINE, (), random.random() < 0.5)


def rivals(seed: int, random: Random) -> Script:
    """Two servers begin different runs of one agent at the same moment: only the lock tells them apart."""
    at = random.random()
    orders = tuple(
        Order(
            f"run-{n + 1}",
            "agent-1",
            random.choice(("T-1", "T-2")),
            at + random.choice((0.0, 0.001, 0.02, 1.0)) * random.random(),
            n,
            random.choice(("fail", "reattach", "wait")),
            Program(_spoken(random, 3, random.choice((0.5, 5.0, 20.0)))),
        )
        for n in range(2)
    )
    servers = tuple(Server(IDENTITIES[n], _deaths(random, 0.3, gone=0.0), *_clock(random)) for n in range(2))
    faults = Faults(lag=(0.0, 0.3)) if random.random() < 0.5 else FINE
    return Script(seed, servers, orders, faults, (), random.random() < 0.5)


def outlived(seed: int, random: Random) -> Script:
    """A server is cut off for so long that its run is taken over by the next wake, and comes back with ideas."""
    at = random.uniform(0.5, 3.0)
    away = random.uniform(25.0, 110.0)
    order = Order("run-1", "agent-1", "T-1", 0.0, 0, "reattach", Program(_spoken(random, 8, random.uniform(60, 150))))
    if random.random() < 0.6:
        cancel = Cancel(random.choice((at + random.random(), random.uniform(30, 120))), 0)
        order = replace(order, cancel=cancel)
    else:
        order = replace(order, timeout=random.choice((0, 30, 60)))
    cut = Trouble(random.choice(("cut-off", "cut-off-silently")), at, away, "one")
    servers = (Server("one"), Server("two", (), *_clock(random)))
    takeover = "wake" if random.random() < 0.8 else "same"
    return Script(seed, servers, (order,), FINE, (cut,), random.random() < 0.5, takeover)


_MIDDLE = (
    (0.18, inherited),
    (0.28, outlived),
    (0.36, raced),
    (0.5, rivals),
    (0.66, frozen),
    (0.74, twins),
    (0.78, node_lost),
)


def _large(seed: int, random: Random) -> Script:
    """Up to three servers, four runs of two agents, and all that can go wrong."""
    count = random.randint(1, 3)
    servers = tuple(
        Server(
            IDENTITIES[n],
            _deaths(random, 0.6, gone=0.15 if n else 0.0),
            *_clock(random),
            random.choice((0, 0, 3)),
            freezes=tuple(_freeze(random) for _ in range(random.choice((0, 0, 0, 1)))),
        )
        for n in range(count)
    )
    orders = tuple(
        _order(random, f"run-{n + 1}", random.choice(("agent-1", "agent-2")), random.randrange(count), count)
        for n in range(random.randint(2, 4))
    )
    troubles = tuple(_trouble(random, 30.0, servers=count) for _ in range(random.randint(0, 3)))
    takeover = random.choice(("same", "wake"))
    return Script(seed, servers, orders, _faults(random), troubles, random.random() < 0.5, takeover)


# Parts.


def _clock(random: Random) -> tuple[float]:
    """Two of them differ by less than the ten minutes that launchers bear with."""
    return (random.choice((0.0, 0.0, -240.0, 300.0)),)


def _deaths(random: Random, chance: float, *, gone: float) -> tuple[Death, ...]:
    found: list[Death] = []
    while random.random() < chance and len(found) < 4:
        found.append(_death(random, gone=gone))
        if found[-1].back is None:
            break
    return tuple(found)


def _death(random: Random, *, gone: float) -> Death:
    back = None if random.random() < gone else random.choice((0.1, 1.0, 3.0, 40.0)) * (0.5 + random.random())
    kind = random.random()
    power, wiped = random.random() < 0.2, random.random() < 0.06
    if kind < 0.15:
        return Death(random.uniform(0, 8), back=back, orderly=True)
    if kind < 0.5:
        return Death(random.choice((0.1, 1.0, 4.0, 12.0)) * random.random(), back=back, power=power, wiped=wiped)
    moment = random.choice(("before", "after"))
    return Death(call=random.randint(1, 45), moment=moment, back=back, power=power, wiped=wiped)


def _faults(random: Random) -> Faults:
    bad = random.choice((0.02, 0.1, 0.3))
    chosen = {name for name in ("lost", "refused", "streams", "slow", "lag") if random.random() < 0.5}
    part = bad / 3
    return Faults(
        latency=random.choice(((0.0005, 0.005), (0.001, 0.3))),
        slow=bad if "slow" in chosen else 0.0,
        slow_seconds=random.choice((3.0, 40.0)),
        not_sent=part if "lost" in chosen else 0.0,
        broken=part if "lost" in chosen else 0.0,
        timed_out=part / 3 if "lost" in chosen else 0.0,
        refused={500: part, 503: part, 429: part, 504: part / 2, 408: part / 4} if "refused" in chosen else None,
        stream_refused={500: part, 429: part, 410: part / 2} if "streams" in chosen else None,
        cut=min(0.8, 3 * bad) if "streams" in chosen else 0.0,
        stall=bad / 4 if "streams" in chosen else 0.0,
        cut_bytes=random.choice((30.0, 600.0, 5000.0)),
        fragments="streams" in chosen and random.random() < 0.5,
        lag=(0.0, random.choice((0.2, 3.0))) if "lag" in chosen else (0.0, 0.0),
        until=random.choice((5.0, 30.0, 90.0)),
    )


def _trouble(random: Random, within: float, servers: int = 1) -> Trouble:
    at = random.choice((1.0, within)) * random.random()
    kind = random.choice(
        ("api-restart", "compact", "cut-off", "cut-off-silently", "delete-job", "delete-pod", "full", "refuse-secrets")
    )
    seconds = random.choice((0.3, 5.0, 45.0)) * random.random()
    target = {"cut-off": IDENTITIES, "cut-off-silently": IDENTITIES, "full": ("jobs", "pods")}.get(kind, ("",))
    chosen = random.choice(target[:servers] if target is IDENTITIES else target)
    return Trouble(kind, at, seconds, chosen)


_ENDS = (
    *[("exit", 0, "")] * 12,
    ("exit", 3, "agent_exit_nonzero"),
    ("exit", 1, "agent_exit_nonzero"),
    ("oom", 0, "k8s_oom_killed"),
    ("evicted", 0, "k8s_pod_evicted"),
    ("preempted", 0, "k8s_pod_evicted"),
)
_STARTS = (*["run"] * 14, "unschedulable", "image-error", "attach-error", "image-invalid")


def _order(random: Random, run: str, agent: str, server: int, servers: int, *, slow: float = 0.2) -> Order:
    end, exit_code, code = random.choice(_ENDS)
    start = random.choice(_STARTS)
    if start == "image-invalid":
        code = "k8s_image_invalid"
    seconds = random.uniform(20, 90) if random.random() < slow else random.choice((0.0, 1.0, 4.0)) * random.random()
    lines = _spoken(random, random.choice((0, 1, 3, 12)), seconds, whole=code == "")
    program = Program(
        lines,
        exit_code=exit_code,
        end=end,
        end_delay=random.choice((0.0, 0.0, 0.5)),
        start=start,
        start_trouble=random.uniform(0.1, 50),
        term_delay=random.choice((0.0, 0.05, 2.0, 20.0)),
        term_lines=(b"stopped",) if random.random() < 0.3 else (),
        ignore_term=random.random() < 0.05,
        disorder=0.4 if random.random() < 0.1 else 0.0,
    )
    cancel = None
    if random.random() < 0.15:
        cancel = Cancel(random.choice((0.1, 1.0, 10.0)) * random.random(), random.randrange(servers))
    return Order(
        run,
        agent,
        random.choice(("T-1", "T-1", "T-1", "T-2", "")),
        random.choice((0.0, 0.0, 0.5, 5.0)) * random.random(),
        server,
        random.choice(("reattach", "reattach", "reattach", "wait", "fail", "allow")),
        program,
        code,
        cancel,
        timeout=random.choice((0, 0, 0, 0, 0, 5)),
        retain=random.random() < 0.06,
        blind=random.random() < 0.1,
        attach=random.random() < 0.2,
    )


@cache
def _event(kind: str, text: str = "") -> bytes:
    tree: dict[str, object] = {"type": kind, "session_id": "s-1"}
    if kind == "system":
        tree |= {"subtype": "init", "model": "model-1"}
    elif kind == "assistant":
        tree |= {"message": {"id": f"m-{text}", "content": [{"type": "text", "text": text}]}}
    elif kind == "result":
        tree |= {"subtype": "success", "result": text, "total_cost_usd": 0.02, "usage": {"output_tokens": 20}}
    return json.dumps(tree).encode()


def _spoken(random: Random, count: int, seconds: float, *, whole: bool = True) -> tuple[tuple[float, bytes], ...]:
    """What Claude Code writes; bursts among it. Only a `whole` run says its result."""
    lines = [_event("system"), *(_event("assistant", f"line {n}") for n in range(count))]
    if whole:
        lines.append(_event("result", "done"))
    shares = [0.0 if random.random() < 0.3 else random.random() for _ in lines]
    total = sum(shares) or 1.0
    return tuple((seconds * share / total, line) for share, line in zip(shares, lines, strict=True))
