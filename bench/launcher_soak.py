"""Runs come and go for half an hour: descriptors, tasks and memory must stay what they are.

usage: python -m bench.launcher_soak [--minutes N] [--runs N]

Against the scripted API server, whose streams break all the time. A row a minute; the verdict compares the second
quarter of the time with the last. Exit code 1 where something grew.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path

from bench.launcher_figures import TEMPLATES, access_to, launcher, many_descriptors, request, resident_mib, server
from paperclip_launcher.journal import FolderJournal
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.templates import Templates

_ROW_SECONDS = 60.0
_ALLOWED = {"descriptors": 8.0, "tasks": 8.0, "heap KiB": 512.0, "RSS MiB": 8.0}
"""How much more than before is no growth."""


@dataclass
class Soak:
    done: int = 0
    wrong: int = 0
    size: int = 0
    rows: list[dict[str, float]] = field(default_factory=list)
    offset: int = 0

    async def log(self, data: bytes, offset: int) -> None:  # noqa: ARG002  as the protocol has it
        self.size += len(data)

    async def note(self, kind: str, text: str) -> None:
        pass


async def runs_for_ever(found: Launcher, worker: int, soak: Soak) -> None:
    """One run of an agent after the other."""
    number = 0
    while True:
        number += 1
        run = await found.begin(request(f"run-{worker}-{number}", f"agent-{worker}", concurrency="wait"), soak)
        result = await run.result
        soak.done += 1
        soak.wrong += result.code != ""
        run.acknowledge()
        while run.own_key in found.runs:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.05)


def row(folder: Path) -> dict[str, float]:
    gc.collect()
    return {
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "tasks": len(asyncio.all_tasks()),
        "journal": sum(1 for _ in folder.iterdir()),
        "heap KiB": tracemalloc.get_traced_memory()[0] / 1024,
        "RSS MiB": resident_mib(os.getpid()),
    }


async def look(soak: Soak, folder: Path, minutes: float) -> None:
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < minutes * 60:
        await asyncio.sleep(min(_ROW_SECONDS, minutes * 60 - passed))
        soak.rows.append(row(folder))
        said = "  ".join(f"{key} {value:.0f}" for key, value in soak.rows[-1].items())
        passed = (time.monotonic() - begun) / 60
        sys.stdout.write(f"{passed:5.1f} min  {soak.done} runs, {soak.wrong} not well  {soak.size >> 20} MiB  {said}\n")
        sys.stdout.flush()


def grown(rows: list[dict[str, float]]) -> list[str]:
    quarter = max(1, len(rows) // 4)
    early, late = rows[quarter : 2 * quarter] or rows[:1], rows[-quarter:]
    found = []
    for key, allowed in _ALLOWED.items():
        before, after = (statistics.median(one[key] for one in part) for part in (early, late))
        if after > before + allowed:
            found.append(f"{key} grew from {before:.0f} to {after:.0f}")
    return found


async def soak_of(options: argparse.Namespace, port: int, folder: Path) -> int:
    soak = Soak()
    async with launcher(access_to(port), Templates.load(TEMPLATES), journal=FolderJournal(folder)) as found:
        workers = [asyncio.create_task(runs_for_ever(found, one, soak)) for one in range(options.runs)]
        tracemalloc.start()
        watching = asyncio.create_task(look(soak, folder, options.minutes))
        await asyncio.wait([watching, *workers], return_when=asyncio.FIRST_COMPLETED)
        for one in workers:
            one.cancel()
        failed = [one for one in await asyncio.gather(*workers, return_exceptions=True) if isinstance(one, Exception)]
        watching.cancel()
        await found.cluster.close()
    problems = [*grown(soak.rows), *map(repr, failed)]
    if soak.wrong:
        problems.append(f"{soak.wrong} of {soak.done} runs did not end well")
    sys.stdout.write("".join(f"{one}\n" for one in problems) or f"flat, {soak.done} runs\n")
    return int(bool(problems))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.launcher_soak")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--runs", type=int, default=50, help="at a time")
    options = parser.parse_args()
    many_descriptors()
    with tempfile.TemporaryDirectory() as folder, server(count=200, every=0.05, cut=0.3) as (_, port):
        return asyncio.run(soak_of(options, port, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
