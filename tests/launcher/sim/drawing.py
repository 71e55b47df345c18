"""Draws the history of a seed.

Most histories are small, since they are cheap and a fault that needs much to happen is rare; the rest have it all.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.fakeapi.inprocess import FINE, Faults
from tests.fakeapi.model import Program
from tests.launcher.sim import misfortune
from tests.launcher.sim.misfortune import IDENTITIES
from tests.launcher.sim.orders import order as drawn_order
from tests.launcher.sim.orders import skills as drawn_skills
from tests.launcher.sim.orders import spoken
from tests.launcher.sim.script import Cancel, Death, Freeze, Order, Script, Server, Trouble


def drawn(seed: int) -> Script:
    """The history of a seed. What was added later has its chances by itself, so that the others stay as they were."""
    chance = Random(f"rare {seed}").random()
    for most, draw in _RARE:
        if chance < most:
            return draw(seed, Random(f"rare history {seed}"))
    return _whole(seed)


def _whole(seed: int) -> Script:
    random = Random(seed)
    size = random.random()
    if size < 0.55:
        return small(seed, random)
    return middle(seed, random) if size < 0.9 else large(seed, random)


def small(seed: int, random: Random) -> Script:
    """One server and one run, with one kind of bad luck."""
    luck = random.random()
    deaths: tuple[Death, ...] = ()
    faults, troubles = FINE, []
    if luck < 0.5:
        deaths = (misfortune.death(random, gone=0.0),)
    elif luck < 0.75:
        faults = misfortune.faults(random)
    elif luck < 0.9:
        troubles = [misfortune.trouble(random, 4.0)]
    order = drawn_order(random, "run-1", "agent-1", 0, 1)
    return Script(seed, (Server("one", deaths),), (order,), faults, tuple(troubles), random.random() < 0.3)


def middle(seed: int, random: Random) -> Script:
    """Two servers or two runs that meet each other."""
    kind = random.random()
    for most, draw in _MIDDLE:
        if kind < most:
            return draw(seed, random)
    count = random.choice((1, 1, 2))
    servers = tuple(
        Server(IDENTITIES[n], misfortune.deaths(random, 0.4, gone=0.0), *misfortune.clock(random)) for n in range(count)
    )
    orders = tuple(
        drawn_order(
            random, f"run-{n + 1}", random.choice(("agent-1", "agent-1", "agent-2")), random.randrange(count), count
        )
        for n in range(2)
    )
    faults = misfortune.faults(random) if random.random() < 0.3 else FINE
    troubles = tuple(misfortune.trouble(random, 10.0) for _ in range(random.choice((0, 0, 1))))
    return Script(seed, servers, orders, faults, troubles, random.random() < 0.3)


def frozen(seed: int, random: Random) -> Script:
    """A server stands still for a while. Another one may be sent its runs meanwhile, and it knows nothing of that."""
    order = drawn_order(random, "run-1", "agent-1", 0, 1, slow=0.8)
    freezes = tuple(misfortune.freeze(random) for _ in range(random.choice((1, 1, 2))))
    if random.random() < 0.3:
        # Just as it stops its run: what it sends once it goes on is late.
        order = replace(order, timeout=5, program=replace(order.program, lines=spoken(random, 12, 150.0)))
        freezes = (Freeze(random.uniform(60, 200), call=1, method="DELETE"),)
    elif random.random() < 0.3:
        order = replace(order, timeout=random.choice((5, 30, 60)))
    others = tuple(misfortune.freeze(random) for _ in range(random.choice((0, 0, 0, 1))))
    servers = (
        Server("one", (), *misfortune.clock(random), freezes=freezes),
        Server("two", misfortune.deaths(random, 0.1, gone=0.0), *misfortune.clock(random), freezes=others),
    )
    faults = misfortune.faults(random) if random.random() < 0.1 else FINE
    takeover = random.choice(("", "same", "wake", "wake"))
    return Script(seed, servers, (order,), faults, (), random.random() < 0.3, takeover)


def twins(seed: int, random: Random) -> Script:
    """A new process of the same server while the old one still lives, as when a restart overlaps."""
    order = drawn_order(random, "run-1", "agent-1", 0, 1, slow=0.7)
    freezes = tuple(misfortune.freeze(random) for _ in range(random.choice((0, 0, 1))))
    at = random.choice((1.0, 5.0, 60.0)) * random.random()
    server = Server("one", (), *misfortune.clock(random), freezes=freezes, twin_at=at, shared=random.random() < 0.5)
    faults = misfortune.faults(random) if random.random() < 0.2 else FINE
    return Script(seed, (server,), (order,), faults, (), random.random() < 0.3)


def node_lost(seed: int, random: Random) -> Script:
    """The node of a run does not answer any more."""
    deaths = misfortune.deaths(random, 0.3, gone=0.0)
    order = drawn_order(random, "run-1", "agent-1", 0, 1, slow=0.5)
    whole = random.random() < 0.3
    seconds = random.choice((1.0, 10.0, 60.0)) * random.random()
    lines = spoken(random, random.choice((0, 3, 12)), seconds, whole=whole)
    program = replace(order.program, lines=lines, end="node-lost", start="run")
    order = replace(order, program=program, code="" if whole else "k8s_node_lost")
    faults = misfortune.faults(random) if random.random() < 0.2 else FINE
    servers = (Server("one", deaths, *misfortune.clock(random)),)
    return Script(seed, servers, (order,), faults, (), random.random() < 0.3)


def inherited(seed: int, random: Random) -> Script:
    """The first server dies for good, or is cut off for so long that it counts as dead."""
    takeover = random.choice(("same", "wake"))
    order = drawn_order(random, "run-1", "agent-1", 0, 1, slow=0.7)
    faults = misfortune.faults(random) if random.random() < 0.2 else FINE
    troubles: tuple[Trouble, ...] = ()
    if random.random() < 0.7:
        deaths: tuple[Death, ...] = (misfortune.death(random, gone=1.0),)
    else:
        deaths = ()
        kind = random.choice(("cut-off", "cut-off-silently"))
        troubles = (Trouble(kind, random.uniform(0, 6), random.uniform(20, 120), "one"),)
    servers = (
        Server("one", deaths, *misfortune.clock(random)),
        Server("two", misfortune.deaths(random, 0.2, gone=0.0), *misfortune.clock(random)),
    )
    return Script(seed, servers, (order,), faults, troubles, random.random() < 0.3, takeover)


def raced(seed: int, random: Random) -> Script:
    """The same request goes to two servers at about the same time. The run is long, since the name of a Job that was
    reported and deleted is free again.
    """
    lines = spoken(random, 8, 30.0)
    program = Program(lines)
    at = random.random() * 0.5
    policy = random.choice(("fail", "reattach", "wait", "allow"))
    later = random.choice((0.0, 0.01, 0.1, 1.0)) * random.random()
    order = Order("run-1", "agent-1", "T-1", at, 0, policy, program, rival=1, rival_at=at + later)
    servers = (Server("one", (), *misfortune.clock(random)), Server("two", (), *misfortune.clock(random)))
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
            Program(spoken(random, 3, random.choice((0.5, 5.0, 20.0)))),
        )
        for n in range(2)
    )
    servers = tuple(
        Server(IDENTITIES[n], misfortune.deaths(random, 0.3, gone=0.0), *misfortune.clock(random)) for n in range(2)
    )
    faults = Faults(lag=(0.0, 0.3)) if random.random() < 0.5 else FINE
    return Script(seed, servers, orders, faults, (), random.random() < 0.5)


def outlived(seed: int, random: Random) -> Script:
    """A server is cut off for so long that its run is taken over by the next wake, and comes back with ideas."""
    at = random.uniform(0.5, 3.0)
    away = random.uniform(25.0, 110.0)
    order = Order("run-1", "agent-1", "T-1", 0.0, 0, "reattach", Program(spoken(random, 8, random.uniform(60, 150))))
    if random.random() < 0.6:
        cancel = Cancel(random.choice((at + random.random(), random.uniform(30, 120))), 0)
        order = replace(order, cancel=cancel)
    else:
        order = replace(order, timeout=random.choice((0, 30, 60)))
    cut = Trouble(random.choice(("cut-off", "cut-off-silently")), at, away, "one")
    servers = (Server("one"), Server("two", (), *misfortune.clock(random)))
    takeover = "wake" if random.random() < 0.8 else "same"
    return Script(seed, servers, (order,), FINE, (cut,), random.random() < 0.5, takeover)


def unseen(seed: int, random: Random) -> Script:
    """A container that starts late runs for a moment, and its pod goes, while the watch of pods tells nothing."""
    late, long = random.choice((0.5, 5.0, 60.0)) * random.random(), random.choice((0.05, 0.5, 5.0)) * random.random()
    exit_code = random.choice((0, 0, 1))
    program = Program(
        spoken(random, random.choice((0, 0, 1)), long, whole=exit_code == 0),
        exit_code=exit_code,
        start=random.choice(("image-error", "unschedulable", "attach-error")),
        start_trouble=late,
        term_delay=random.choice((0.0, 0.05, 2.0)),
    )
    policy = random.choice(("reattach", "wait", "fail", "allow"))
    code = "agent_exit_nonzero" if exit_code else ""
    order = Order("run-1", "agent-1", "T-1", 0.0, 0, policy, program, code, attach=random.random() < 0.2)
    hush = Trouble("hush", 0.2 + late * random.uniform(0.5, 1.1), target="pods")
    gone = Trouble("delete-pod", 0.2 + late + random.choice((0.5, 1.0, 5.0)) * random.random())
    server = Server("one", misfortune.deaths(random, 0.2, gone=0.0), *misfortune.clock(random))
    faults = Faults(latency=(0.001, 0.3)) if random.random() < 0.5 else misfortune.faults(random)
    return Script(seed, (server,), (order,), faults, (hush, gone), random.random() < 0.3)


def overtaken(seed: int, random: Random) -> Script:
    """A server stands still before it makes its Job; a new process of it does the whole run meanwhile."""
    program = Program(spoken(random, random.choice((0, 3)), random.choice((0.1, 3.0)) * random.random()))
    order = Order("run-1", "agent-1", "T-1", 0.0, 0, random.choice(("reattach", "wait", "fail", "allow")), program)
    moment = random.choice(("before", "after"))
    freeze = Freeze(random.uniform(5, 120), call=random.choice((2, 2, 3, 4)), method="POST", moment=moment)
    twin_at = random.choice((1.0, 10.0)) * random.random()
    server = Server(
        "one", (), *misfortune.clock(random), freezes=(freeze,), twin_at=twin_at, shared=random.random() < 0.3
    )
    return Script(seed, (server,), (order,), FINE, (), random.random() < 0.3)


def revived(seed: int, random: Random) -> Script:
    """A server restarts in order while its run is asked for from another one, which hears of all that late."""
    leaves = random.uniform(0.5, 4.0)
    program = Program(spoken(random, 8, 30.0))
    later = leaves + random.uniform(0.0, 3.0)
    order = Order("run-1", "agent-1", "T-1", 0.0, 0, "reattach", program, rival=1, rival_at=later)
    death = Death(leaves, back=random.uniform(0.1, 1.0), orderly=True)
    servers = (Server("one", (death,), *misfortune.clock(random)), Server("two", (), *misfortune.clock(random)))
    return Script(seed, servers, (order,), Faults(lag=(0.0, 6.0), until=60.0), (), random.random() < 0.3)


def skilled(seed: int, random: Random) -> Script:
    """The history of another seed, in which runs have skills; many a launcher dies between a Job and its Secrets."""
    script = _whole(random.randrange(1_000_000_000))
    orders = tuple(replace(one, skills=drawn_skills(random)) for one in script.orders)
    servers = script.servers
    if not (script.takeover or any(one.deaths or one.freezes or one.twin_at is not None for one in servers)):
        servers = tuple(replace(one, deaths=(misfortune.early_death(random),)) for one in servers)
    return replace(script, seed=seed, orders=orders, servers=servers)


_RARE = ((0.02, unseen), (0.03, overtaken), (0.04, revived), (0.1, skilled))
_MIDDLE = (
    (0.18, inherited),
    (0.28, outlived),
    (0.36, raced),
    (0.5, rivals),
    (0.66, frozen),
    (0.74, twins),
    (0.78, node_lost),
)


def large(seed: int, random: Random) -> Script:
    """Up to three servers, four runs of two agents, and all that can go wrong."""
    count = random.randint(1, 3)
    servers = tuple(
        Server(
            IDENTITIES[n],
            misfortune.deaths(random, 0.6, gone=0.15 if n else 0.0),
            *misfortune.clock(random),
            random.choice((0, 0, 3)),
            freezes=tuple(misfortune.freeze(random) for _ in range(random.choice((0, 0, 0, 1)))),
        )
        for n in range(count)
    )
    orders = tuple(
        drawn_order(random, f"run-{n + 1}", random.choice(("agent-1", "agent-2")), random.randrange(count), count)
        for n in range(random.randint(2, 4))
    )
    troubles = tuple(misfortune.trouble(random, 30.0, servers=count) for _ in range(random.randint(0, 3)))
    takeover = random.choice(("same", "wake"))
    return Script(seed, servers, orders, misfortune.faults(random), troubles, random.random() < 0.5, takeover)
