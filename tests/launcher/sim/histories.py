"""Runs many histories, or replays one.

    python -m tests.launcher.sim.histories --count 1000000 --jobs 2
    python -m tests.launcher.sim.histories --seed 4711 -v

Exit code 1 where an invariant does not hold; each such line names the seed that replays it. How far it is stands on
stderr, every 30 seconds.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterable, Iterator

from tests.launcher.sim import world
from tests.launcher.sim.drawing import drawn

_MOST_TOLD = 50
_CHUNK = 250
_TELL = 30.0


def check(seeds: Iterable[int]) -> list[tuple[int, list[str]]]:
    """The seeds whose history breaks an invariant, with what was wrong."""
    found = []
    for seed in seeds:
        problems = of_seed(seed)
        if problems:
            found.append((seed, problems))
    gc.collect()
    return found


def of_seed(seed: int) -> list[str]:
    """What is wrong in one history; a defect of the simulation itself is told as well."""
    try:
        return world.play(drawn(seed))
    except Exception:  # noqa: BLE001  the other seeds go on
        return [traceback.format_exc(limit=-3)]


def _chunks(first: int, count: int) -> Iterator[range]:
    for begin in range(first, first + count, _CHUNK):
        yield range(begin, min(begin + _CHUNK, first + count))


def _replay(seed: int, *, verbose: bool) -> int:
    script = drawn(seed)
    for line in script.lines():
        print(line)
    problems = world.play(script, print if verbose else None)
    for problem in problems:
        print(f"WRONG  {problem}")
    return 1 if problems else 0


def _many(first: int, count: int, jobs: int) -> int:
    begun, done, bad = time.monotonic(), 0, 0
    told = begun
    world.templates()
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for chunk, found in zip(_chunks(first, count), pool.imap(check, _chunks(first, count)), strict=True):
            done += len(chunk)
            bad += len(found)
            for seed, problems in found[: max(0, _MOST_TOLD - bad + len(found))]:
                print(f"seed {seed}: {problems[0]}", flush=True)
            if time.monotonic() > told + _TELL and done < count:
                told = time.monotonic()
                left = (told - begun) / done * (count - done) / 60
                sys.stderr.write(f"{done:,} of {count:,} histories, {bad} bad, about {left:.0f} min more\n")
    seconds = time.monotonic() - begun
    print(f"{done} histories from seed {first} on: {bad} bad; {seconds:.0f} s, {done / seconds:.0f} a second")
    return 1 if bad else 0


def program(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.launcher.sim.histories", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one")
    parser.add_argument("-v", "--verbose", action="store_true", help="with all that happens")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        return _replay(chosen.seed, verbose=chosen.verbose)
    return _many(chosen.first, chosen.count, chosen.jobs)


if __name__ == "__main__":
    sys.exit(program())
