"""One run through everything that an API server and a network do to it. Times are virtual seconds."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Self

from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.settings import Settings
from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.faults import Faults
from tests.fakeapi.inprocess import InProcessTransport
from tests.fakeapi.loop import VirtualLoop
from tests.fakeapi.model import Knobs, Program
from tests.fakeapi.sockets import Rule
from tests.faults.place import DONE, INIT, KEYS, Place, Reader, Skewed, quick, request, templates, to_end, until
from tests.faults.table import Figure, at_most, exactly


def talkative(seconds: float, every: float = 0.5) -> Program:
    """An agent that writes a line every so often."""
    lines = ((every, b'{"type":"user","n":%d}' % number) for number in range(int(seconds / every)))
    return Program(((0.01, INIT), *lines, (every, DONE)))


class Warned(logging.Handler):
    """What the launcher logs from a warning on, with the loop's time."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((asyncio.get_running_loop().time(), record.getMessage()))

    def __enter__(self) -> Self:
        self._log = logging.getLogger("paperclip_launcher")
        self._before = self._log.propagate
        self._log.addHandler(self)
        self._log.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        self._log.removeHandler(self)
        self._log.propagate = self._before

    def most_in_a_minute(self) -> int:
        times = [at for at, _ in self.lines]
        return max((sum(at <= other < at + 60 for other in times) for at in times), default=0)


async def ended_well(place: Place, launcher: Launcher, reader: Reader, asked: Any) -> tuple[str, bool, dict]:
    """The run's code, whether its reader has the whole log, and what is left in the cluster."""
    result = await to_end(launcher, asked, reader)
    whole = bytes(reader.data) == place.printed(place.made("jobs")[0]) and len(place.made("jobs")) == 1
    names = {kind: place.names(kind) for kind in ("jobs", "secrets")}
    for _ in range(100):
        if not any(names.values()):
            break
        await asyncio.sleep(0.1)
        names = {kind: place.names(kind) for kind in ("jobs", "secrets")}
    return result.code, whole, {kind: found for kind, found in names.items() if found}


WELL = ("", True, {})


def well(scenario: str, name: str, found: tuple[str, bool, dict]) -> Figure:
    """A figure of what `ended_well` found."""
    code, whole, left = found
    shown = f"{code or 'success'}, log {'whole' if whole else 'NOT WHOLE'}, {left or 'nothing'} left"
    return Figure(scenario, name, shown, "success, log whole, nothing left", found == WELL)


async def _restarts(seed: int, count: int, long: float) -> tuple[Any, int]:
    """The server is restarted again and again, in all ways, and once it is away for long."""
    rng = random.Random(seed)
    done = 0
    async with Place(talkative(count * 40.0 + long), seed=seed) as place, place.launcher() as launcher:
        reader = Reader()
        ending = asyncio.create_task(ended_well(place, launcher, reader, request()))
        await until(lambda: reader.data)
        for number in range(count + 1):
            seconds = long if number == count // 2 else rng.choice((0.1, 1.0, 5.0, 30.0))
            way = rng.choice(("refuse", "reset", "hang"))
            if way == "refuse":
                place.server.refuse(seconds)
            elif way == "reset":
                place.cluster.restart(seconds, compact=rng.random() < 0.3)
            else:
                place.server.drop_all()
                place.server.rules.append(Rule("hang", times=1 << 30))
            await asyncio.sleep(seconds)
            place.server.rules.clear()
            done += 1
            await asyncio.sleep(rng.uniform(0.1, 20.0))
        return await ending, done


def restarts(seed: int, count: int = 20, long: float = 600.0, speed: float = 40.0) -> tuple[Any, int]:
    return quick(_restarts(seed, count, long), speed)


async def _silence(seed: int, rule: Rule, seconds: float) -> tuple[Any, float]:
    """The log falls silent in the midst of the run: how long no line comes."""
    times: list[float] = []

    class Timed(Reader):
        async def log(self, data: bytes, offset: int) -> None:
            times.append(asyncio.get_running_loop().time())
            await super().log(data, offset)

    async with Place(talkative(seconds, 0.2), seed=seed) as place:
        place.server.rules.append(rule)
        async with place.launcher() as launcher:
            found = await ended_well(place, launcher, Timed(), request())
    return found, max(late - early for early, late in pairwise(times))


def silent_stall(seed: int, seconds: float = 120.0, speed: float = 25.0) -> tuple[Any, float]:
    """An open connection on which nothing comes any more."""
    return quick(_silence(seed, Rule("cut", "get", "pods/log", after=3000, how="hang"), seconds), speed)


async def _rotation(seed: int, seconds: float) -> tuple[Any, float]:
    """The kubelet has rotated the file, and its follower watches the old one: the pod writes on, the stream is open."""
    times: list[float] = []

    class Timed(Reader):
        async def log(self, data: bytes, offset: int) -> None:
            times.append(asyncio.get_running_loop().time())
            await super().log(data, offset)

    async with Place(talkative(seconds, 0.2), seed=seed) as place, place.launcher() as launcher:
        ending = asyncio.create_task(ended_well(place, launcher, Timed(), request()))
        await until(lambda: len(times) > 20)
        for follower in place.cluster.kubelet.followers():
            follower.detach()
        found = await ending
    return found, max(late - early for early, late in pairwise(times))


def rotation(seed: int, seconds: float = 150.0, speed: float = 25.0) -> tuple[Any, float]:
    return quick(_rotation(seed, seconds), speed)


async def _stall_at_the_end() -> float:
    """The container has ended, and each read of its log hangs: how long until there is a result."""
    async with Place(talkative(5.0)) as place:
        place.server.rules.append(Rule("cut", "get", "pods/log", after=900, how="hang"))
        place.server.rules.append(Rule("hang", "get", "pods/log", times=1 << 30))
        async with place.launcher() as launcher:
            run = await launcher.begin(request(), Reader())
            await until(lambda: run.phase.value == "draining", step=0.1)
            begun = asyncio.get_running_loop().time()
            await run.result
            return asyncio.get_running_loop().time() - begun


def stall_at_the_end(speed: float = 20.0) -> float:
    """Seconds beyond the time that the rest of a log may take, 30."""
    return quick(_stall_at_the_end(), speed) - 30.0


async def _bad_calls(seed: int, seconds: float) -> tuple[Any, Warned, float]:
    """30 % of all calls fail, in every way, for so long."""
    part = 0.3 / 7
    refused = dict.fromkeys((500, 502, 503, 504, 408), part)
    faults = Faults(
        refused=refused, stream_refused=refused, broken=part, not_sent=part, until=seconds, cut=0.3, cut_bytes=4000
    )
    with Warned() as warned:
        async with Place(talkative(seconds), seed=seed, faults=faults) as place, place.launcher() as launcher:
            found = await ended_well(place, launcher, Reader(), request())
            asked = sum(place.server.requests.values())
    return found, warned, asked


def bad_calls(seed: int, seconds: float = 600.0, speed: float = 25.0) -> tuple[Any, Warned, float]:
    return quick(_bad_calls(seed, seconds), speed)


def slow_calls(seed: int, seconds: float = 3600.0) -> tuple[str, float]:
    """Calls that take up to 30 s, and a silent agent: how the run ends, and the largest error of the 15 seconds between
    two signs of life. On virtual time, since a busy machine is late by itself.
    """
    loop = VirtualLoop(seed)
    silent = Program(((0.01, INIT), (seconds, DONE)))
    cluster = FakeCluster(loop, seed, program_for=lambda _: silent, knobs=Knobs(present_secrets=frozenset({KEYS})))
    transport = InProcessTransport(cluster, Faults(slow=0.3, slow_seconds=30.0), seed=seed)
    talker = Cluster(transport, templates().namespace, rng=random.Random(seed))
    settings = Settings(templates().namespace, "one")
    times: list[float] = []

    class Timed(Reader):
        async def note(self, kind: str, text: str) -> None:
            if kind == "keepalive":
                times.append(loop.time())

    async def scene() -> str:
        async with Launcher(talker, settings, templates(), clock=Skewed(cluster, 0.0)) as launcher:
            result = await to_end(launcher, request(), Timed())
            return result.code

    code = loop.run(scene(), limit=2 * seconds)
    return code, max(abs(late - early - 15.0) for early, late in pairwise(times))


async def _job_deleted() -> tuple[str, bool, str]:
    """Somebody deletes the Job of a run with kubectl."""
    async with Place(talkative(600.0)) as place, place.launcher() as launcher:
        reader = Reader()
        run = await launcher.begin(request(), reader)
        await until(lambda: reader.data.count(b"\n") > 10)
        place.cluster.remove("jobs", run.record.job_name)
        result = await run.result
        printed = place.printed(run.record.job_name)
        run.acknowledge()
        return result.code, printed.startswith(bytes(reader.data)), result.error_message or ""


def job_deleted(speed: float = 20.0) -> tuple[str, bool, str]:
    return quick(_job_deleted(), speed)


async def _late_controller(lag: float) -> tuple[Any, float]:
    """The Job controller sleeps; only the pod says that the agent has ended."""
    async with Place(talkative(2.0)) as place, place.launcher() as launcher:
        reader = Reader()
        ending = asyncio.create_task(ended_well(place, launcher, reader, request()))
        await until(lambda: reader.data)
        place.cluster.knobs.control = (lag, lag)
        await until(lambda: DONE in reader.data)
        begun = asyncio.get_running_loop().time()
        found = await ending
        return found, asyncio.get_running_loop().time() - begun


def late_controller(lag: float = 600.0, speed: float = 20.0) -> tuple[Any, float]:
    return quick(_late_controller(lag), speed)


async def _skewed(seconds: float) -> list[Any]:
    """Two launchers whose clocks are 10 minutes wrong, each with a run; neither takes what is the other's."""
    async with (
        Place(talkative(seconds, 1.0)) as place,
        place.launcher("fast", skew=600.0) as fast,
        place.launcher("slow", skew=-600.0) as slow,
    ):
        readers = [Reader(), Reader()]
        results = await asyncio.gather(
            to_end(fast, request("run-a", "agent-a"), readers[0]), to_end(slow, request("run-b", "agent-b"), readers[1])
        )
        whole = [
            bytes(reader.data) == place.printed(job) for reader, job in zip(readers, place.made("jobs"), strict=True)
        ]
        return [*(result.code for result in results), *whole, place.server.requests["patch", "jobs"]]


def skewed(seconds: float = 120.0, speed: float = 20.0) -> list[Any]:
    return quick(_skewed(seconds), speed)


def figures(seed: int, *, full: bool = True) -> Iterator[Figure]:
    name = "outages"
    ended, count = restarts(seed, 20 if full else 5)
    yield well(name, f"a run through {count} outages of the API server, one of 600 s", ended)
    for what, scene in (("silent stall of the log", silent_stall), ("log rotation that stops a follow", rotation)):
        ended, silence = scene(seed)
        yield well(name, what, ended)
        yield at_most(name, f"{what}: longest silence", silence, 60.0, "s")
    yield at_most(name, "stall after the container's end: over the 30 s for the rest", stall_at_the_end(), 3.0, "s")
    ended, warned, asked = bad_calls(seed)
    yield well(name, f"30 % of {asked:.0f} calls fail for 600 s", ended)
    yield at_most(name, "warnings in a minute of it", warned.most_in_a_minute(), 1)
    ended, error = slow_calls(seed)
    yield exactly(name, "a third of all calls takes up to 30 s: error code", ended, "")
    yield at_most(name, "calls of up to 30 s: error of the signs of life", error, 1.0, "s")
    code, prefix, _ = job_deleted()
    yield exactly(
        name,
        "Job deleted by hand: code, log is as written so far",
        (code, prefix),
        ("k8s_job_deleted_externally", True),
    )
    ended, seconds = late_controller()
    yield well(name, "Complete lags the pod by 600 s", ended)
    yield at_most(name, "Complete lags the pod: result after", seconds, 90.0, "s")
    yield exactly(
        name, "clocks 10 min fast and slow: codes, logs whole, taken over", tuple(skewed()), ("", "", True, True, 0)
    )
