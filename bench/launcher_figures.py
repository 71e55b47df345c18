"""A figure of the launcher's bench, and what the scripts that measure one have in common."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from paperclip_launcher.cluster.access import Access, Tokens
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.network import NetworkTransport
from paperclip_launcher.cluster.wire import Address
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.metrics import Metrics
from paperclip_launcher.request import RunRequest
from paperclip_launcher.settings import Settings
from paperclip_launcher.templates import Templates

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "dist/minimal/job-templates"
_DESCRIPTORS = 20_000
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figure:
    """`target` is a bound, from below where `least`; None where there is none to hold."""

    name: str
    value: float
    unit: str
    target: float | None = None
    least: bool = False
    note: str = ""

    @property
    def missed(self) -> bool:
        if self.target is None:
            return False
        return self.value < self.target if self.least else self.value > self.target

    def __str__(self) -> str:
        if self.target is None:
            verdict = ""
        else:
            verdict = f"{'>=' if self.least else '<='} {self.target:g}  {'MISSED' if self.missed else 'held'}"
        return f"{self.name:<58} {self.value:>10.5g} {self.unit:<10} {verdict:<18} {self.note}"


class Tally:
    """A reader that counts bytes, and knows when the first came: in CPU seconds of this process."""

    offset = 0

    def __init__(self) -> None:
        self.size = 0
        self.first = 0.0

    async def log(self, data: bytes, offset: int) -> None:  # noqa: ARG002  as the protocol has it
        self.first = self.first or time.process_time()
        self.size += len(data)

    async def note(self, kind: str, text: str) -> None:
        pass


class Phases(Metrics):
    """Seconds that the runs of this launcher spent in each phase."""

    def __init__(self) -> None:
        super().__init__()
        self.spent: dict[str, list[float]] = defaultdict(list)

    def moved(self, before: str, after: str, seconds: float) -> None:
        super().moved(before, after, seconds)
        self.spent[before].append(seconds)


def tell(*figures: Figure) -> None:
    """To whoever started this script."""
    for one in figures:
        sys.stdout.write(json.dumps(asdict(one)) + "\n")
    sys.stdout.flush()


def measured(module: str, *arguments: str) -> Iterator[Figure]:
    """The figures that a script tells, in a process of its own. SystemExit where it fails."""
    command = [sys.executable, "-m", f"bench.{module}", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            yield Figure(**json.loads(line))
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def cpu_seconds(pid: int) -> float:
    """Of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mib(pid: int) -> float:
    line = next(one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def many_descriptors() -> None:
    """A stream is a descriptor, here and at the server."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_DESCRIPTORS, hard), hard))


@contextmanager
def server(**options: object) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A scripted API server with options of launcher_server, and its port."""
    given = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
    command = [sys.executable, "-m", "bench.launcher_server", *given]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, int(process.stdout.readline().rpartition(":")[2])  # type: ignore[union-attr]
        finally:
            process.terminate()


def access_to(port: int) -> Access:
    return Access(Address("127.0.0.1", port, None, "127.0.0.1"), "", Tokens(""), "paperclip-agents", "the bench")


def launcher(access: Access, templates: Templates, identity: str = "bench", **more: object) -> Launcher:
    rng = random.Random(1)
    cluster = Cluster(NetworkTransport(access), templates.namespace, rng=rng)
    return Launcher(cluster, Settings(templates.namespace, identity), templates, rng=rng, **more)  # type: ignore[arg-type]


def request(run: str, agent: str, prompt: str = "Do as you are told.", **config: object) -> RunRequest:
    return RunRequest.of(
        {
            "runId": run,
            "agent": {"id": agent, "companyId": "company-1", "name": "Ada", "adapterType": "claude_k8s"},
            "runtime": {},
            "config": {"promptTemplate": prompt, **config},
            "context": {"issueId": f"task-of-{agent}"},
            "authToken": f"token-of-the-run-{run}",
        }
    )
