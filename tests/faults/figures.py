"""All figures of reliability, measured: `make faults`. Ends with 1 when one of them is missed.

usage: python -m tests.faults.figures [SCENARIO ...] [--seed N] [--jobs N] [--histories N] [--quick]

A scenario with its seed is played again by naming both. Times are those of the launcher: most scenarios run on an
event loop whose seconds are shorter, with real sockets.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.faults.elsewhere import HISTORIES
from tests.faults.table import Figure, lines

# Those that take long first.
SCENARIOS = ("kills", "load", "outages", "refusals", "cuts", "races", "canaries", "hostile", "pods", "elsewhere")


def measured(scenario: str, seed: int, full: bool) -> list[Figure]:  # noqa: FBT001  a process pool has positions
    begun = time.monotonic()
    found: list[Figure] = []
    try:
        for one in importlib.import_module(f"tests.faults.{scenario}").figures(seed, full=full):
            found.append(one)  # noqa: PERF402  those before an error count
    except Exception:  # noqa: BLE001  the others go on
        traceback.print_exc()
        found.append(Figure(scenario, "it broke off", traceback.format_exc().splitlines()[-1][:160], "", ok=False))
    seconds = f"{time.monotonic() - begun:.0f} s"
    return [*found, Figure(scenario, f"seed {seed}: took", seconds, "", ok=True)]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.figures", description=__doc__)
    parser.add_argument("scenario", nargs="*", help=", ".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="scenarios at once; times are truest one by one")
    parser.add_argument("--quick", action="store_true", help="a small part of each")
    parser.add_argument("--histories", type=int, help="simulated ones; a million by default")
    options = parser.parse_args(words)
    if options.histories is not None:
        os.environ[HISTORIES] = str(options.histories)
    wanted = options.scenario or SCENARIOS
    context = multiprocessing.get_context("spawn")
    missed = 0
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        tasks = [pool.submit(measured, one, options.seed, not options.quick) for one in wanted]
        for task in as_completed(tasks):
            found = task.result()
            missed += sum(not one.ok for one in found)
            sys.stdout.write("\n".join(lines(found)) + "\n\n")
            sys.stdout.flush()
    sys.stdout.write(f"{missed} figures missed\n" if missed else "all figures are met\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
