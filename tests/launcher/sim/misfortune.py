"""Draws what goes wrong: deaths and standstills of servers, faults of the network, troubles of the cluster."""

from __future__ import annotations

from random import Random

from tests.fakeapi.inprocess import Faults
from tests.launcher.sim.script import Death, Freeze, Trouble

IDENTITIES = ("one", "two", "three")


def clock(random: Random) -> tuple[float]:
    """Two of them differ by less than the ten minutes that launchers bear with."""
    return (random.choice((0.0, 0.0, -240.0, 300.0)),)


def deaths(random: Random, chance: float, *, gone: float) -> tuple[Death, ...]:
    found: list[Death] = []
    while random.random() < chance and len(found) < 4:
        found.append(death(random, gone=gone))
        if found[-1].back is None:
            break
    return tuple(found)


def death(random: Random, *, gone: float) -> Death:
    back = None if random.random() < gone else random.choice((0.1, 1.0, 3.0, 40.0)) * (0.5 + random.random())
    kind = random.random()
    power, wiped = random.random() < 0.2, random.random() < 0.06
    if kind < 0.15:
        return Death(random.uniform(0, 8), back=back, orderly=True)
    if kind < 0.5:
        return Death(random.choice((0.1, 1.0, 4.0, 12.0)) * random.random(), back=back, power=power, wiped=wiped)
    moment = random.choice(("before", "after"))
    return Death(call=random.randint(1, 45), moment=moment, back=back, power=power, wiped=wiped)


def early_death(random: Random) -> Death:
    """Somewhere between the Job of its first run and that run's last Secret."""
    moment, back = random.choice(("before", "after")), random.choice((0.1, 1.0, 3.0, 40.0)) * (0.5 + random.random())
    return Death(call=random.randint(10, 17), moment=moment, back=back, power=random.random() < 0.2)


def faults(random: Random) -> Faults:
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


def trouble(random: Random, within: float, servers: int = 1) -> Trouble:
    at = random.choice((1.0, within)) * random.random()
    kind = random.choice(
        ("api-restart", "compact", "cut-off", "cut-off-silently", "delete-job", "delete-pod", "full", "refuse-secrets")
    )
    seconds = random.choice((0.3, 5.0, 45.0)) * random.random()
    target = {"cut-off": IDENTITIES, "cut-off-silently": IDENTITIES, "full": ("jobs", "pods")}.get(kind, ("",))
    chosen = random.choice(target[:servers] if target is IDENTITIES else target)
    return Trouble(kind, at, seconds, chosen)


def freeze(random: Random) -> Freeze:
    seconds = random.uniform(20, 200)
    if random.random() < 0.5:
        return Freeze(seconds, at=random.choice((1.0, 8.0, 40.0)) * random.random())
    method = random.choice(("POST", "PATCH", "GET", "DELETE", "DELETE", "DELETE"))
    return Freeze(seconds, call=random.choice((1, 1, 2, 4)), method=method, moment=random.choice(("before", "after")))
