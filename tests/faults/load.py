"""How much a run costs: calls an hour, memory for a log of a gigabyte and for an endless line, many runs at once."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from tests.fakeapi.model import Program
from tests.faults.place import DONE, INIT, KEYS, ROOT, Place, Reader, quick, request, templates
from tests.faults.table import Figure, at_least, at_most, exactly

_MIB = 1 << 20


def _at_work(hours: float) -> Program:
    """An agent that writes every 5 seconds, and thinks for 4 minutes after each 6."""
    lines: list[tuple[float, bytes]] = []
    for _ in range(int(hours * 6)):
        lines += [(240.0, b'{"type":"user"}'), *[(5.0, b'{"type":"user"}')] * 72]
    return Program(((0.01, INIT), *lines, (0.01, DONE)))


async def _calls(program: Program, runs: int) -> dict[str, float]:
    async with Place(program) as place, place.launcher() as launcher:
        begun = [await launcher.begin(request(f"run-{n}", f"agent-{n}"), Reader()) for n in range(runs)]
        while not all(run.phase.value == "running" for run in begun):  # noqa: ASYNC110  there is no event
            await asyncio.sleep(1.0)
        await asyncio.sleep(60.0)
        streams = place.server.open_streams
        place.server.requests.clear()
        await asyncio.sleep(3600.0)
        return {"streams": streams / runs, "calls": sum(place.server.requests.values()) / runs}


def calls_an_hour(program: Program, runs: int, speed: float = 120.0) -> dict[str, float]:
    """Of one of so many runs: streams that are open at once, and calls in an hour, the share of the launcher's own."""
    found: dict[str, float] = quick(_calls(program, runs), speed)
    return found


@contextmanager
def serving(**shape: Any) -> Iterator[int]:
    """The port of a fake API server that is a process of its own."""
    command = [sys.executable, "-m", "tests.fakeapi.sockets", "--program", json.dumps(shape), "--present-secret", KEYS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.terminate()


class Digest:
    """A Sink that keeps nothing but a sum, and looks at the memory of its process."""

    offset = None

    def __init__(self, expected: int) -> None:
        self.sum = sha256()
        self.size = 0
        self.cut = False
        self.tenth = 0
        self._expected = expected

    async def log(self, data: bytes, offset: int) -> None:
        self.sum.update(data)
        self.size += len(data)
        self.cut = self.cut or b"bytes cut by paperclip]" in data
        if not self.tenth and self.size > self._expected // 10:
            self.tenth = resident()

    async def note(self, kind: str, text: str) -> None:
        pass


def resident() -> int:
    """Bytes, at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _read(port: int, expected: int, answer: Any) -> None:
    """In a process of its own: one run, all of its log."""
    from paperclip_launcher.cluster.access import Access, Tokens
    from paperclip_launcher.cluster.api import Cluster
    from paperclip_launcher.cluster.network import NetworkTransport
    from paperclip_launcher.cluster.wire import Address
    from paperclip_launcher.launcher import Launcher
    from paperclip_launcher.settings import Settings

    async def run() -> None:
        import random

        address = Address("127.0.0.1", port, None, "127.0.0.1")
        transport = NetworkTransport(Access(address, "", Tokens("", None), templates().namespace, "a fake"))
        cluster = Cluster(transport, templates().namespace, rng=random.Random(1))
        async with Launcher(cluster, Settings(templates().namespace, "one"), templates()) as launcher:
            before, digest = resident(), Digest(expected)
            run = await launcher.begin(request(), digest)
            result = await run.result
            run.acknowledge()
            answer.send(
                (before, digest.tenth, resident(), digest.size, digest.sum.hexdigest(), digest.cut, result.exit_code)
            )
            while launcher.runs:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.01)
        await transport.close()

    asyncio.run(run())


def memory(**shape: Any) -> dict[str, Any]:
    """Of a launcher that reads the log of one run, MiB."""
    expected = shape["lines"] * (shape["size"] + 1)
    with serving(**shape) as port:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        child = context.Process(target=_read, args=(port, expected, there))
        child.start()
        there.close()
        before, tenth, end, size, digest, cut, code = here.recv()
        child.join()
    return {
        "before": before / _MIB,
        "growth": (end - tenth) / _MIB,
        "peak": end / _MIB,
        "size": size,
        "whole": size == expected and digest == _sum_of(shape),
        "cut": cut,
        "code": code,
    }


def _sum_of(shape: dict[str, Any]) -> str:
    total = sha256()
    fill = b"." * shape["size"]
    for at in range(shape["lines"]):
        text = b"line %d " % at
        total.update(text + fill[len(text) :] + b"\n")
    return total.hexdigest()


def many_runs(count: int, seconds: float) -> Iterator[Figure]:
    """As `make bench` measures them."""
    command = [sys.executable, "-m", "bench.launcher_load", "--runs", str(count), "--seconds", str(seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for one in (one for one in found if one["target"] is not None):
        name, limit = one["name"], one["target"]
        judge = at_least if one.get("least") else at_most
        yield judge("load", name, one["value"], limit, one["unit"])
    if not found:
        yield Figure("load", f"{count} runs at once", f"no figures: {done.stderr[-200:]}", "", ok=False)


def figures(seed: int, *, full: bool = True) -> Iterator[Figure]:
    name = "load"
    found = calls_an_hour(_at_work(2.0), 20)
    yield at_most(name, "of 20 runs, a run's open streams: watch and log", found["streams"], 2)
    yield at_most(name, "calls in a run's hour", found["calls"], 60)
    slow = Program(((0.01, INIT), *[(60.0, b"{}")] * 100))
    worst = calls_an_hour(slow, 20)["calls"]
    about = "the same of an agent that writes once a minute, whose log is looked after each time"
    yield Figure(name, about, f"{worst:.0f}", "", ok=True)
    log = memory(lines=8_000_000 if full else 400_000, size=134, burst=4000, every=0.004)
    yield exactly(
        name, f"log of {log['size'] / (1 << 30):.2f} GiB: whole, exit code", (log["whole"], log["code"]), (True, 0)
    )
    yield at_most(name, "that log: memory from a tenth of it to its end", log["growth"], 8, "MiB")
    yield at_most(name, "that log: memory at most", log["peak"], 300, "MiB")
    line = memory(lines=2, size=80 * _MIB, burst=1, every=0.05)
    yield exactly(name, "lines of 80 MiB: cut with a marker, exit code", (line["cut"], line["code"]), (True, 0))
    yield at_most(name, "these lines: memory at most", line["peak"], 512, "MiB")
    if full:
        yield from many_runs(200, 20)
