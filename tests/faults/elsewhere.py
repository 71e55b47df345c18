"""Figures that other programs of the tests measure: simulated histories, and races over files that are swapped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

from tests.faults.place import ROOT
from tests.faults.table import Figure, exactly

HISTORIES = "PAPERCLIP_HISTORIES"
"""The variable that says how many histories are played."""
MANY = 1_000_000


def count(*, full: bool) -> int:
    """Of histories."""
    return int(os.environ.get(HISTORIES) or (MANY if full else 100))


def _said(*words: str, **variables: str) -> tuple[int, str]:
    """Its exit code and what it said on stdout, which is told on stderr as it comes."""
    heard: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            heard.append(line)
            sys.stderr.write(line)
    return process.returncode, "".join(heard)


def passed(*words: str, **variables: str) -> str:
    """What pytest says of them in the end; "passed" where all is well."""
    code, said = _said("pytest", *words, "-p", "no:xdist", "-p", "no:cacheprovider", **variables)
    last = (said.splitlines() or [""])[-1]
    return "passed" if code == 0 and "passed" in last else f"exit code {code}: {last[:80]}"


def figures(seed: int, *, full: bool = True) -> Iterator[Figure]:
    name, many = "elsewhere", count(full=full)
    first = seed * 1_000_000_000
    words = ("--first", str(first), "--count", str(many), "--jobs", "2" if full else "1")
    code, said = _said("tests.launcher.sim.histories", *words)
    counted = re.search(r"(\d+) histories from seed (\d+) on: (\d+) bad", said)
    found = tuple(map(int, counted.groups())) if counted else f"exit code {code}: {said[-80:]}"
    yield exactly(name, "simulated lives of launchers: how many, first seed, bad ones", found, (many, first, 0))
    swaps = "10000" if full else "600"
    which = ("tests/launcher/skills", "-k", "swapped")
    told = passed(*which, PAPERCLIP_SWAPS=swaps, PAPERCLIP_SEED=str(seed))
    yield exactly(name, f"skills: {int(swaps):,} swaps between look and open, seed {seed}", told, "passed")
