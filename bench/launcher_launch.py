"""One launch at a time against the scripted API server: what it costs over a bare create of the Job, and where.

usage: python -m bench.launcher_launch [--rounds N] [--profile FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import os
import tempfile
import time
from pathlib import Path

from bench.launcher_figures import (
    TEMPLATES,
    Figure,
    Phases,
    Tally,
    access_to,
    launcher,
    percentile,
    request,
    server,
    tell,
)
from kubekit.identity import Manifest
from paperclip_launcher import marks
from paperclip_launcher.dialects import DIALECTS
from paperclip_launcher.journal import FolderJournal
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.lifecycle import Phase
from paperclip_launcher.manifest import plan
from paperclip_launcher.options import RunOptions
from paperclip_launcher.request import RunRequest
from paperclip_launcher.run import Run
from paperclip_launcher.templates import Templates

_WARM = 5
"""Rounds that do not count."""
_BEGINNING = frozenset((Phase.PLANNED, Phase.ADMITTED, Phase.CREATED, Phase.LOCKED))


async def bare(found: Launcher, templates: Templates, number: int) -> tuple[float, float]:
    """Seconds, and CPU seconds, of a create of the same Job."""
    asked = request(f"bare-{number}", "agent-bare")
    dialect = DIALECTS["claude"]
    options = RunOptions.of(asked.config, dialect)
    job = plan(asked, options, dialect, templates, owner="nobody", nonce="0", bundle="").job
    begun, cpu = time.perf_counter(), time.process_time()
    made: Manifest = await found.cluster.create("jobs", job)
    passed = time.perf_counter() - begun, time.process_time() - cpu
    await found.cluster.delete("jobs", marks.name(made), uid=marks.uid(made))
    return passed


async def begun_run(found: Launcher, asked: RunRequest) -> tuple[Run, float, float]:
    """The run, and the seconds and CPU seconds until its last Secret was made."""
    begun, cpu = time.perf_counter(), time.process_time()
    run = await found.begin(asked, Tally())
    while run.phase in _BEGINNING:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0.0002)
    return run, time.perf_counter() - begun, time.process_time() - cpu


async def end(found: Launcher, run: Run) -> None:
    run.cancel()
    await run.result
    run.acknowledge()
    while run.own_key in found.runs:  # noqa: ASYNC110  as above
        await asyncio.sleep(0.01)


async def launches(rounds: int, port: int, folder: Path, profile: cProfile.Profile | None) -> None:
    phases, templates = Phases(), Templates.load(TEMPLATES)
    alone, whole = [], []
    journal = FolderJournal(folder)
    async with launcher(access_to(port), templates, journal=journal, metrics=phases) as found:
        for number in range(rounds + _WARM):
            if number == _WARM:
                phases.spent.clear()
            alone.append(await bare(found, templates, number))
            if profile is not None:
                profile.enable()
            run, passed, spent = await begun_run(found, request(f"whole-{number}", f"agent-{number}"))
            if profile is not None:
                profile.disable()
            whole.append((passed, spent))
            await end(found, run)
        await found.cluster.close()
    _tell(alone[_WARM:], whole[_WARM:], phases)


def _tell(alone: list[tuple[float, float]], whole: list[tuple[float, float]], phases: Phases) -> None:
    over = [(one - other) * 1000 for (one, _), (other, _) in zip(whole, alone, strict=True)]
    load = f"load {os.getloadavg()[0]:.1f}"
    tell(
        Figure("launch on the loopback: over a bare create, p50", percentile(over, 0.5), "ms", 20, note=load),
        Figure("launch on the loopback: over a bare create, p95", percentile(over, 0.95), "ms"),
        Figure("launch on the loopback: a bare create, p50", percentile([one for one, _ in alone], 0.5) * 1000, "ms"),
        Figure("launch on the loopback: CPU of it, p50", percentile([one for _, one in alone], 0.5) * 1000, "ms"),
        Figure("launch on the loopback: CPU of a launch, p50", percentile([one for _, one in whole], 0.5) * 1000, "ms"),
    )
    for phase, what in (("admitted", "the Job"), ("created", "the agent's lock"), ("locked", "the Secrets")):
        tell(Figure(f"launch on the loopback: {what}, p50", percentile(phases.spent[phase], 0.5) * 1000, "ms"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.launcher_launch")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--profile", default="", help="a file for cProfile's figures of the launches alone")
    options = parser.parse_args()
    profile = cProfile.Profile() if options.profile else None
    # Not in memory: an fsync is a part of what is measured.
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder, server(every=60.0) as (_, port):
        gc.freeze()
        asyncio.run(launches(options.rounds, port, Path(folder), profile))
    if profile is not None:
        profile.dump_stats(options.profile)


if __name__ == "__main__":
    main()
