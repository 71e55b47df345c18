"""All figures of reliability, measured: `make faults`. Ends with 1 when one of them is missed.

usage: python -m tests.faults.figures [SCENARIO ...] [--seed N] [--only CASE] [--jobs N] [--histories N] [--quick]

A scenario with its seed is played again by naming both, and a case of `kills`, `cuts` or `races` by its own seed as
well. Times are those of the launcher: most scenarios run on an event loop whose seconds are shorter, with real sockets.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed

from tests.faults import elsewhere
from tests.faults.table import Figure, exactly, lines

MINUTES = {
    "kills": 8.0,
    "load": 4.0,
    "outages": 1.5,
    "refusals": 0.5,
    "cuts": 4.0,
    "races": 5.0,
    "canaries": 1.0,
    "hostile": 2.0,
    "pods": 0.5,
    "synth": 2.0,
    "elsewhere": 1.0,
}
"""The scenarios, each with its time on two quiet cores, in which histories do not count."""
HISTORIES_A_SECOND = 200
CASES = ("kills", "cuts", "races")
"""The scenarios whose cases have seeds of their own, which are told with what went wrong."""


def measured(scenario: str, seed: int, only: int | None, full: bool) -> tuple[list[Figure], float]:  # noqa: FBT001
    """Its figures and seconds. In a process of its own, for which arguments have positions."""
    # Warnings of launchers under faults are no news; whoever measures them hears them nevertheless.
    logging.getLogger("paperclip_launcher").addHandler(logging.NullHandler())
    begun = time.monotonic()
    found: list[Figure] = []
    try:
        module = importlib.import_module(f"tests.faults.{scenario}")
        if only is not None:
            found.append(exactly(scenario, f"case {only}: what went wrong", module.again(seed, only), []))
        else:
            for one in module.figures(seed, full=full):
                found.append(one)  # noqa: PERF402  those before an error count
    except Exception:  # noqa: BLE001  the others go on
        traceback.print_exc()
        found.append(
            Figure(scenario, "it broke off", traceback.format_exc().splitlines()[-1][:160], "an end", ok=False)
        )
    return found, time.monotonic() - begun


def estimate(wanted: Iterable[str], *, full: bool) -> str:
    minutes = sum(MINUTES[one] for one in wanted) if full else 2.0
    text = f"about {_span(minutes)} on two quiet cores"
    many = elsewhere.count(full=full)
    more = many / HISTORIES_A_SECOND / 60
    if "elsewhere" in wanted and more > 1:
        text += f", and {_span(more)} more for {many:,} simulated histories (make faults COUNT=2000 plays fewer)"
    return text


def _span(minutes: float) -> str:
    hours, rest = divmod(max(1, round(minutes)), 60)
    return f"{hours} h {rest} min" if hours else f"{rest} min"


def told(scenario: str, seed: int, found: Sequence[Figure], seconds: float) -> str:
    head = f"{scenario}: took {seconds:.0f} s; again: python -m tests.faults.figures {scenario} --seed {seed}"
    return "\n".join((head, *(f"  {line}" for line in lines(found)), ""))


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.figures", description=__doc__)
    parser.add_argument("scenario", nargs="*", help=", ".join(MINUTES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="CASE", help="the one case of a scenario that has this seed")
    parser.add_argument("--jobs", type=int, default=1, help="scenarios at once; times are truest one by one")
    parser.add_argument("--quick", action="store_true", help="a small part of each")
    parser.add_argument("--histories", type=int, help="simulated ones; a million by default")
    options = parser.parse_args(words)
    if strange := set(options.scenario) - set(MINUTES):
        parser.error(f"there is no {', '.join(sorted(strange))}; there are {', '.join(MINUTES)}")
    if options.only is not None and (len(options.scenario) != 1 or options.scenario[0] not in CASES):
        parser.error(f"--only wants one scenario, of {', '.join(CASES)}")
    return options


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    if options.histories is not None:
        os.environ[elsewhere.HISTORIES] = str(options.histories)
    wanted = options.scenario or list(MINUTES)
    if options.only is None:
        sys.stdout.write(f"seed {options.seed}: {estimate(wanted, full=not options.quick)}\n\n")
        sys.stdout.flush()
    missed = count = 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        tasks: dict[Future[tuple[list[Figure], float]], str] = {
            pool.submit(measured, one, options.seed, options.only, not options.quick): one for one in wanted
        }
        for task in as_completed(tasks):
            found, seconds = task.result()
            missed += sum(not one.ok for one in found)
            count += sum(bool(one.target) for one in found)
            sys.stdout.write(told(tasks[task], options.seed, found, seconds) + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"{missed} of {count} figures missed\n" if missed else f"all {count} figures are met\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
