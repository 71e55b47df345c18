"""The log through a connection that breaks anywhere: every line once, whole, in order.

The oracle is the log itself: what a follower delivered must be its bytes, less the stamps.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.transport import Stream
from paperclip_launcher.log.follow import FollowSettings, LogEnd, LogFollower
from paperclip_launcher.log.position import LogPosition
from tests.fakeapi.faults import FINE, Faults
from tests.fakeapi.logs import ContainerLog
from tests.fakeapi.model import Program
from tests.fakeapi.requests import job_tree
from tests.fakeapi.sockets import Rule
from tests.faults.place import Place, quick, until
from tests.faults.table import Figure, at_least, exactly

_SPEED = 50.0
_SETTINGS = FollowSettings(backoff=0.1, backoff_longest=0.5, drain=300.0)
"""Shorter pauses, since nothing but cuts is wrong with this server; patience, since machines are slow."""
_POD = "a"
_EPISODE = 100_000
"""Lines."""
_AHEAD = 400_000
"""Bytes that the agent may have written before they are read."""
_PLAIN = b"the quick brown agent jumps over the lazy cluster and says so "
_ODD = (
    "zwölf Boxkämpfer ".encode(),
    "日本語のログ ".encode(),
    "🧵🪡 ".encode(),
    b"\x1b[31mred\x1b[0m ",
    b"\xff\xfe ",
    b"\r",
    b"\0",
)
_SAME = (b"same again", b"", b"  ", "gleich 🧵".encode())


@dataclass
class Tally:
    """Of lines."""

    lines: int = 0
    bytes: int = 0
    cuts: int = 0
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    incomplete: int = 0
    bad_seeds: list[int] = field(default_factory=list)

    def add(self, seed: int, wanted: bytes, got: bytes, end: LogEnd) -> None:
        self.lines += wanted.count(b"\n")
        self.bytes += len(wanted)
        self.cuts += end.reconnects
        self.incomplete += not end.complete
        if got != wanted:
            self._compare(wanted.split(b"\n")[:-1], got.split(b"\n")[:-1])
        if got != wanted or not end.complete:
            self.bad_seeds.append(seed)

    def _compare(self, wanted: list[bytes], got: list[bytes]) -> None:
        here, there = Counter(wanted), Counter(got)
        lost, doubled = (here - there).total(), (there - here).total()
        self.lost += lost
        self.doubled += doubled
        self.reordered += not lost and not doubled


def numbered(rng: random.Random, first: int, count: int) -> Iterator[bytes]:
    """Lines that tell which one they are; some equal each other, some hold what is no text."""
    for number in range(first, first + count):
        drawn = rng.random()
        if drawn < 0.04:
            yield rng.choice(_SAME)
        elif drawn < 0.1:
            yield b"%d " % number + rng.choice(_ODD) * rng.randrange(1, 9)
        else:
            yield b"%d " % number + _PLAIN * (1 + int(rng.random() * 3))


async def pod_log(place: Place, talker: Cluster, name: str = _POD) -> tuple[str, ContainerLog]:
    """A running pod whose log is written by the test."""
    await talker.create("jobs", job_tree(name))
    await until(lambda: any(pod["status"]["phase"] == "Running" for pod in _pods(place, name)))
    return _pods(place, name)[0]["metadata"]["name"], place.cluster.kubelet.logs_of(name)[0]


def _pods(place: Place, job: str) -> list[dict]:
    return [pod for pod in place.cluster.objects("pods") if pod["metadata"]["name"].startswith(f"{job}-")]


def follower(talker: Cluster, pod: str, got: bytearray, seed: int) -> LogFollower:
    async def open_log(since: str, follow: bool) -> Stream:  # noqa: FBT001  the seam has two positions
        return await talker.open_log(pod, container="agent", follow=follow, since=since, idle=3600.0)

    async def deliver(data: bytes, _: LogPosition) -> None:
        got.extend(data)

    return LogFollower(open_log, deliver, note=lambda _: None, rng=random.Random(seed), settings=_SETTINGS)


async def _write(log: ContainerLog, rng: random.Random, count: int, epoch: float, reader: LogFollower) -> None:
    """Bursts of 10,000 lines a second, and pauses; the stamps are those of a clock of the log's own.

    What lies within two seconds has to come through between two cuts, since no server can be asked for less.
    """
    stamp, number, written = int(epoch * 1e9), 0, 0
    disorder = rng.choice((0.0, 0.0, 0.02))
    while number < count:
        burst = min(count - number, rng.choice((1, 2, 10, 100, 300, 600)))
        while burst:
            texts = list(numbered(rng, number, min(burst, rng.randrange(1, 200))))
            log.write(texts, stamp, equal=0.3, disorder=disorder)
            number, burst, stamp = number + len(texts), burst - len(texts), stamp + len(texts) * 100_000
            written += sum(map(len, texts)) + len(texts)
            await asyncio.sleep(0)
        stamp += int(rng.choice((1e6, 1e9, 2e9)))
        while written - reader.position.offset > _AHEAD:  # noqa: ASYNC110  as an agent that looks
            await asyncio.sleep(0.02)


async def episode(seed: int, lines: int, tally: Tally) -> None:
    """One log, read through random cuts."""
    rng = random.Random(seed)
    cut_bytes = rng.choice((120_000.0, 300_000.0, 1_000_000.0))
    async with Place(Program((), end="hang"), seed=seed) as place:
        talker = place.talker()
        pod, log = await pod_log(place, talker)
        got = bytearray()
        place.server.faults = Faults(cut=0.998, stall=1.0, cut_bytes=cut_bytes, fragments=seed % 8 == 0)
        found = follower(talker, pod, got, seed)
        reading = asyncio.create_task(found.run())
        await _write(log, rng, lines, place.cluster.store.epoch, found)
        log.end()
        found.finish()
        await asyncio.sleep(rng.choice((0.0, 5.0)))
        place.server.faults = FINE  # or chance alone might keep it from ever reading to the end
        end = await reading
        tally.add(seed, b"".join(line + b"\n" for line in log.lines()), bytes(got), end)


async def _episodes(seeds: Iterable[int], lines: int, tally: Tally) -> None:
    async with asyncio.TaskGroup() as group:
        for seed in seeds:
            group.create_task(episode(seed, lines, tally))


def random_cuts(seed: int, lines: int, cuts: int, *, at_once: int = 8) -> Tally:
    """Episodes until there were so many lines and cuts."""
    tally = Tally()
    while tally.lines < lines or tally.cuts < cuts:
        quick(_episodes(range(seed, seed + at_once), min(_EPISODE, lines), tally), _SPEED)
        seed += at_once
    return tally


def again(_: int, only: int) -> list[int]:
    """One episode; bytes come as the machine has them, so that it may not go wrong again."""
    tally = Tally()
    quick(_episodes([only], _EPISODE, tally), _SPEED)
    return tally.bad_seeds


_SMALL = (b"one", "zwölf 🧵".encode(), b"same", b"same", b"", b"last")


async def _each_byte(step: int, first: int) -> Tally:
    """A log of a few lines in several chunks, cut at each byte of the answer on the wire, in every way."""
    tally = Tally()
    async with Place(Program((), end="hang")) as place:
        talker = place.talker()
        wire = 0
        for after in range(first, 2000, step):
            if wire and after > wire:
                break
            for how in ("reset", "close", "clean"):
                name = f"{how}{after}"
                pod, log = await pod_log(place, talker, name)
                act = Rule("clean" if how == "clean" else "cut", "get", "pods/log", after=after, how=how)
                place.server.rules = [act]
                got = bytearray()
                found = follower(talker, pod, got, after)
                reading = asyncio.create_task(found.run())
                stamp = int(place.cluster.store.epoch * 1e9)
                for text in _SMALL:
                    log.write([text], stamp, equal=1.0)
                    stamp += 1_000_000 if text != b"same" else 0
                    await asyncio.sleep(0.02)
                log.end()
                found.finish()
                wire = 120 + len(log.data) + 8 * len(_SMALL)
                end = await reading
                tally.add(after, b"".join(line + b"\n" for line in log.lines()), bytes(got), end)
                tally.cuts += act.times == 0
                place.cluster.remove("jobs", name)
    return tally


def each_byte(step: int = 1, first: int = 0) -> Tally:
    return quick(_each_byte(step, first), _SPEED)


def figures(seed: int, *, full: bool = True) -> Iterator[Figure]:
    name = "cuts"
    lines, cuts = (10_000_000, 10_000) if full else (200_000, 200)
    tally = random_cuts(seed, lines, cuts)
    yield at_least(name, "lines read through cuts", tally.lines, lines)
    yield at_least(name, "random cuts", tally.cuts, cuts)
    yield exactly(name, "lost / doubled / reordered", (tally.lost, tally.doubled, tally.reordered), (0, 0, 0))
    yield exactly(name, "logs not proven complete; seeds", (tally.incomplete, tally.bad_seeds), (0, []))
    small = each_byte(1 if full else 7)
    yield at_least(name, "cuts at each byte of a short answer, 3 ways", small.cuts, 1000 if full else 140)
    yield exactly(name, "lost / doubled / reordered there", (small.lost, small.doubled, small.reordered), (0, 0, 0))
