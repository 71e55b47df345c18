"""Many runs at once against the scripted API server, which is another process.

usage: python -m bench.launcher_load [--runs N] [--every SECONDS] [--seconds N] [--profile FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import os
import re
import signal
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path

from bench.launcher_figures import (
    TEMPLATES,
    Figure,
    access_to,
    cpu_seconds,
    launcher,
    many_descriptors,
    percentile,
    request,
    resident_mib,
    server,
    tell,
)
from paperclip_launcher.journal import FolderJournal
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.lifecycle import Phase
from paperclip_launcher.run import Run
from paperclip_launcher.templates import Templates

_AT = re.compile(rb'"at":([0-9.]+)')
_BEGINNING = 64
"""Runs that are being begun at once."""
_PATIENCE = 600.0


class Reader:
    """Notes how late each line is, on the machine's one clock."""

    offset = 0

    def __init__(self, delays: array[float]) -> None:
        self._delays = delays
        self.size = 0

    async def log(self, data: bytes, offset: int) -> None:
        now = time.time()
        self.size = offset
        self._delays.extend(now - float(at) for at in _AT.findall(data))

    async def note(self, kind: str, text: str) -> None:
        pass


async def begin(found: Launcher, number: int, delays: array[float], slots: asyncio.Semaphore) -> Run:
    async with slots:
        run = await found.begin(request(f"run-{number}", f"agent-{number}"), Reader(delays))
        await until(lambda: run.phase not in {Phase.PLANNED, Phase.ADMITTED, Phase.CREATED, Phase.LOCKED})
    return run


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not check():  # noqa: ASYNC110  what is waited for tells nobody
            await asyncio.sleep(0.05)


async def end(run: Run) -> str:
    async with asyncio.timeout(_PATIENCE):
        result = await run.result
        run.acknowledge()
    return result.code


async def load(options: argparse.Namespace, port: int, server_pid: int, folder: Path) -> None:
    delays: array[float] = array("d")
    own, count = os.getpid(), options.runs
    templates = Templates.load(TEMPLATES)
    async with launcher(access_to(port), templates, journal=FolderJournal(folder)) as found:
        before = resident_mib(own)
        begun, cpu = time.perf_counter(), time.process_time()
        slots = asyncio.Semaphore(_BEGINNING)
        runs = await asyncio.gather(*(begin(found, number, delays, slots) for number in range(count)))
        await until(lambda: all(run.phase is Phase.RUNNING for run in runs))
        ramp, ramp_cpu = time.perf_counter() - begun, time.process_time() - cpu
        await asyncio.sleep(options.every)
        del delays[:]
        begun, cpu, served = time.perf_counter(), time.process_time(), cpu_seconds(server_pid)
        await asyncio.sleep(options.seconds)
        passed, spent = time.perf_counter() - begun, time.process_time() - cpu
        served = cpu_seconds(server_pid) - served
        steady = delays.tolist()
        resident = resident_mib(own)
        os.kill(server_pid, signal.SIGUSR1)
        begun, cpu = time.perf_counter(), time.process_time()
        codes = await asyncio.gather(*(end(run) for run in runs))
        await until(lambda: not found.runs)
        wrong = sum(code != "" for code in codes)
        closing, closing_cpu = time.perf_counter() - begun, time.process_time() - cpu
        await found.cluster.close()
    few = count <= 1000
    name = f"{count} runs at once"
    tell(
        Figure(f"{name}: p95 delay of a line", percentile(steady, 0.95) * 1000, "ms", 200 if few else None),
        Figure(f"{name}: p50 delay of a line", percentile(steady, 0.5) * 1000, "ms"),
        Figure(f"{name}: memory", resident, "MiB", 300 if few else 600, note=f"{before:.0f} MiB before the first"),
        Figure(f"{name}: cores", spent / passed, "", 1, note=f"{len(steady) / passed:.0f} lines/s"),
        Figure(f"{name}: cores of the scripted server", served / passed, ""),
        Figure(f"{name}: CPU to begin a run", ramp_cpu / count * 1000, "ms", note=f"all in {ramp:.1f} s"),
        Figure(f"{name}: CPU to end a run", closing_cpu / count * 1000, "ms", note=f"all in {closing:.1f} s"),
        Figure(f"{name}: runs that did not end well", wrong, "", 0),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.launcher_load")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--every", type=float, default=0.1, help="seconds between two lines of a run")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure once all run")
    parser.add_argument("--profile", default="", help="a file for cProfile's figures")
    options = parser.parse_args()
    many_descriptors()
    with tempfile.TemporaryDirectory() as folder, server(every=options.every) as (process, port):
        work = load(options, port, process.pid, Path(folder))
        gc.freeze()
        if options.profile:
            profile = cProfile.Profile()
            profile.runcall(asyncio.run, work)
            profile.dump_stats(options.profile)
        else:
            asyncio.run(work)


if __name__ == "__main__":
    main()
