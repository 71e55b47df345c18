"""The launcher's figures, each with its target. usage: python -m bench.launcher [--quick] [--no-cluster] [--strict]

Each part is a process of its own, and so is the API server that it talks to. With --strict a missed target is an
error. The soak of 30 minutes is a script apart: python -m bench.launcher_soak.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

from bench.launcher_figures import Figure, measured


def figures(*, quick: bool, cluster: bool) -> Iterator[Figure]:
    more = ["--quick"] if quick else []
    yield from measured("launcher_parts", *more)
    yield from measured("launcher_launch", f"--rounds={50 if quick else 200}")
    yield from measured("launcher_load", "--runs=200", "--every=0.1", f"--seconds={10 if quick else 30}")
    yield from measured("launcher_load", f"--runs={1000 if quick else 5000}", "--every=5", "--seconds=30")
    if cluster:
        yield from measured("launcher_cluster", *more)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.launcher")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and 1,000 runs instead of 5,000")
    parser.add_argument("--no-cluster", action="store_true", help="without the real API server, which needs root")
    parser.add_argument("--strict", action="store_true", help="exit code 1 where a target is missed")
    options = parser.parse_args()
    cluster = not options.no_cluster
    if cluster and os.geteuid() != 0:
        sys.stderr.write("not root: the figures of the real API server are left out\n")
        cluster = False
    missed = 0
    for one in figures(quick=options.quick, cluster=cluster):
        sys.stdout.write(f"{one}\n")
        sys.stdout.flush()
        missed += one.missed
    return int(options.strict and missed > 0)


if __name__ == "__main__":
    sys.exit(main())
