"""What can be measured of the launcher without a cluster: its import, the Job of a run, the path of the log.

usage: python -m bench.launcher_parts [--quick]
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable

from bench.launcher_figures import (
    ROOT,
    TEMPLATES,
    Figure,
    Tally,
    access_to,
    launcher,
    request,
    resident_mib,
    server,
    tell,
)
from paperclip_launcher import dialects
from paperclip_launcher.cluster.wire import connect
from paperclip_launcher.judging import Judge
from paperclip_launcher.log.lines import LineSplitter, blocks
from paperclip_launcher.log.position import LogPosition
from paperclip_launcher.log.resume import Reading, Window
from paperclip_launcher.manifest import Plan, plan
from paperclip_launcher.masking import Mask
from paperclip_launcher.options import RunOptions
from paperclip_launcher.templates import Templates
from tests.fakeapi.model import Program
from tests.launcher.core.stage import Stage

_MIB = 1 << 20
_LINE = 130
_READ = 256 << 10
_BATCH = 256 << 10
_STAMP = b"2026-11-21T07:00:%02d.%09dZ "


def imports(rounds: int) -> None:
    """Whole processes, in turns; what they import was compiled before, as it is where the package is installed."""
    programs = {
        "Python itself": ["-c", "pass"],
        "paperclip-launcher --help": ["-m", "paperclip_launcher.cli.main", "--help"],
        "import of the whole core": ["-c", "import paperclip_launcher.launcher"],
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    worked: dict[str, list[float]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as compiled:
        own = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        own["PYTHONPYCACHEPREFIX"] = compiled
        for _ in range(rounds + 1):
            for name, program in programs.items():
                begun, before = time.perf_counter(), _children_seconds()
                subprocess.run([sys.executable, *program], cwd=ROOT, env=own, check=True, stdout=subprocess.DEVNULL)
                times[name].append((time.perf_counter() - begun) * 1000)
                worked[name].append((_children_seconds() - before) * 1000)
    for name, found in times.items():
        target = None if name == "Python itself" else 150
        note = f"best {min(found):.0f}; CPU {statistics.median(worked[name][1:]):.0f} ms"
        tell(Figure(f"start: {name}", statistics.median(found[1:]), "ms", target, note=note))


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def micros(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The best and the median of one call."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times) * 1e6, statistics.median(times) * 1e6


def render(rounds: int) -> None:
    templates = Templates.load(TEMPLATES)
    dialect = dialects.DIALECTS["claude"]
    asked = request("run-1", "agent-1", "Do as you are told. " * 100, env={"ONE": "1", "TWO": "2"})
    options = RunOptions.of(asked.config, dialect)

    def planned() -> Plan:
        return plan(asked, options, dialect, templates, owner="bench", nonce="0a1b2c3d4e")

    made = planned()
    live = {**made.job, "metadata": {**made.job["metadata"], "uid": "a-uid"}}
    judge = Judge(templates)
    best, middle = micros(planned, rounds)
    tell(
        Figure("one Job from its template", middle, "us", 200, note=f"best {best:.0f}"),
        Figure("its Secrets", micros(lambda: made.secrets_for(live), rounds)[1], "us"),
        Figure("its config read", micros(lambda: RunOptions.of(asked.config, dialect), rounds)[1], "us"),
        Figure("its Job judged by the policies", micros(lambda: asyncio.run(judge.judge(made)), rounds // 10)[1], "us"),
    )


def text(mib: int) -> bytes:
    """A log of stamped lines of some 130 bytes, of the kind that agents write most: what their tools answered."""
    rng = random.Random(1)
    lines, size, number = [], 0, 0
    while size < mib * _MIB:
        number += 1
        body = b'{"type":"user","line":%d,"text":"%b"}' % (number, b"." * rng.randrange(_LINE))
        lines.append(_STAMP % (number // 20_000 % 60, number % 20_000 * 50_000) + body + b"\n")
        size += len(lines[-1])
    return b"".join(lines)


def log_parts(mib: int) -> None:
    """Each step alone, so that the slowest shows."""
    data = text(mib)
    chunks = [data[at : at + _READ] for at in range(0, len(data), _READ)]

    def stripped() -> list[bytes]:
        window = Window(LogPosition(), lambda _: None)
        reading, splitter = Reading(window), LineSplitter()
        return [reading.take(block) for chunk in chunks for block in blocks(splitter.feed(chunk), _BATCH)]

    texts = stripped()
    mask = Mask(("token-of-the-run-0123456789", "another-secret-value"))
    parser = dialects.DIALECTS["claude"].parser()

    def parsed() -> None:
        for one in texts:
            parser.feed(one)

    for name, work in (
        ("lines, stamps and hashes", stripped),
        ("secrets masked", lambda: [mask.whole(one) for one in texts]),
        ("events of the agent", parsed),
    ):
        begun = time.process_time()
        work()
        tell(Figure(f"log: {name}", len(data) / _MIB / (time.process_time() - begun), "MB/s"))


async def log_of_a_run(port: int) -> None:
    """A run that writes as fast as it can, through the whole launcher. The server is slower: CPU seconds count."""
    async with launcher(access_to(port), Templates.load(TEMPLATES)) as found:
        reader = Tally()
        begun = time.perf_counter()
        run = await found.begin(request("run-1", "agent-1"), reader)
        result = await run.result
        run.acknowledge()
        passed, spent = time.perf_counter() - begun, time.process_time() - reader.first
        resident = resident_mib(os.getpid())
        while found.runs:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.05)
        await found.cluster.close()
    size = reader.size / _MIB
    assert result.code == "", result
    note = f"{size:.0f} MiB in {passed:.1f} s, {spent:.1f} s of them ours"
    tell(
        Figure("log: a whole run, over the loopback", size / spent, "MB/s", 50, least=True, note=note),
        Figure("log: memory after it", resident, "MiB"),
    )


async def wire(port: int) -> None:
    """The stream alone: chunks of 4 KiB without a meaning."""
    connection = await connect(access_to(port).address)
    spent, size = time.process_time(), 0
    connection.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await connection.head()
    while data := await connection.read():
        size += len(data)
    await connection.close()
    tell(Figure("log: the stream alone, chunks of 4 KiB", size / _MIB / (time.process_time() - spent), "MB/s"))


_STREAMER = """
import socket, sys
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
peer, _ = listening.accept()
peer.recv(65536)
peer.sendall(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
block = (b"1000\\r\\n" + b"x" * 4096 + b"\\r\\n") * 256
for _ in range(int(sys.argv[1])):
    peer.sendall(block)
peer.sendall(b"0\\r\\n\\r\\n")
peer.recv(1)
"""


def an_hour(every: float) -> Counter[tuple[str, str]]:
    """All calls of ten runs that write a line each `every` seconds, in an hour of virtual time once they run."""
    lines = [(every, b'{"type":"user"}')] * int(4200 / every)
    stage = Stage(Program(lines))

    async def scene() -> Counter[tuple[str, str]]:
        async with stage.launcher() as found:
            for one in range(10):
                await found.begin(request(f"run-{one}", f"agent-{one}", timeoutSec=7200), Tally())
            await asyncio.sleep(60)
            before = Counter(stage.cluster.calls)
            await asyncio.sleep(3600)
            return Counter(stage.cluster.calls) - before

    found: Counter[tuple[str, str]] = stage.play(scene)
    return found


def hours() -> None:
    for name, every in (("that writes each 10 s", 10.0), ("that writes each 10 min", 600.0)):
        calls = an_hour(every)
        reads = sum(count for (verb, _), count in calls.items() if verb in {"get", "list", "watch"})
        said = ", ".join(f"{verb} {resource} {count}" for (verb, resource), count in sorted(calls.items()))
        text = f"{said} in an hour of virtual time, ten runs"
        tell(Figure(f"API: reads a run-minute of an agent {name}", reads / 600, "", 0.1, note=text))


def main() -> None:
    quick = "--quick" in sys.argv
    imports(5 if quick else 15)
    render(300 if quick else 3000)
    log_parts(32 if quick else 128)
    mib = 128 if quick else 512
    with subprocess.Popen([sys.executable, "-c", _STREAMER, str(mib)], stdout=subprocess.PIPE) as streamer:
        asyncio.run(wire(int(streamer.stdout.readline())))  # type: ignore[union-attr]
    lines = 300_000 if quick else 1_000_000
    hours()
    with server(count=lines, size=_LINE, burst=2000, every=0.001) as (_, port):
        asyncio.run(log_of_a_run(port))


if __name__ == "__main__":
    main()
