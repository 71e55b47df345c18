"""Figures that other programs of the tests measure: simulated histories, and races over files that are swapped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping

from tests.faults.place import ROOT
from tests.faults.table import Figure, exactly

HISTORIES = "PAPERCLIP_HISTORIES"
"""The variable that says how many histories are played."""
_MANY = 1_000_000


def _run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment: Mapping[str, str] = {**os.environ, **variables}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def figures(seed: int, *, full: bool = True) -> Iterator[Figure]:
    count = int(os.environ.get(HISTORIES, _MANY if full else 100))
    first, jobs = str(seed * 1_000_000_000), "2" if full else "1"
    words = ("--first", first, "--count", str(count), "--jobs", jobs)
    done = _run("tests.launcher.sim.histories", *words)
    sys.stderr.write(done.stdout + done.stderr)
    told = re.search(r"(\d+) histories from seed (\d+) on: (\d+) bad", done.stdout)
    found = tuple(map(int, told.groups())) if told else done.stderr[-200:]
    yield exactly("histories", "simulated lives of launchers: count, first seed, bad", found, (count, int(first), 0))
    swaps = "10000" if full else "600"
    which = ("tests/launcher/skills", "-k", "swapped", "-p", "no:xdist", "-q")
    done = _run("pytest", *which, PAPERCLIP_SWAPS=swaps, PAPERCLIP_SEED=str(seed))
    sys.stderr.write(done.stdout if done.returncode else "")
    yield exactly("skills", f"{swaps} swaps between look and open: exit code of the test", done.returncode, 0)
