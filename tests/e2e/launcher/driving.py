"""The launcher as a library, on the real node: one process, one identity, and readers that keep all that they get."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from paperclip_launcher.cluster.access import Access
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.network import NetworkTransport
from paperclip_launcher.journal import Journal
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.outcome import RunResult
from paperclip_launcher.request import RunRequest
from paperclip_launcher.settings import Settings
from paperclip_launcher.templates import Templates

TOKEN = "run-token-of-the-tests"
_LONGEST = 240  # seconds: no run of a test takes longer
_KEPT = 1 << 20  # bytes


@dataclass
class Reader:
    """A sink: counts the log and keeps its beginning. `numbered` counts lines as `@agent lines` makes them for as long
    as each has the number that follows; `unlike` is the first that has not.
    """

    offset: int | None = None
    size: int = 0
    lines: int = 0
    numbered: int = 0
    unlike: bytes = b""
    kept: bytearray = field(default_factory=bytearray)
    notes: list[tuple[str, str]] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    async def log(self, data: bytes, offset: int) -> None:
        self.size += len(data)
        self.lines += data.count(b"\n")
        for line in data.split(b"\n"):
            if line.startswith(b"line ") and not self.unlike:
                self.numbered += 1
                if line[5:12] != b"%07d" % self.numbered:
                    self.unlike = line
        self.kept += data[: max(0, _KEPT - len(self.kept))]
        self.offsets.append(offset)

    async def note(self, kind: str, text: str) -> None:
        self.notes.append((kind, text))

    @property
    def text(self) -> str:
        return self.kept.decode(errors="replace")

    def __str__(self) -> str:
        return f"{self.lines} lines, {self.size} bytes; {self.notes[-5:]}; {self.text[-1500:]}"


def request(run: str, prompt: str, agent: str = "agent-1", **config: Any) -> RunRequest:
    """As Paperclip asks for it. `config` are fields of the agent's config; `session` its stored session."""
    session = config.pop("session", None)
    task = config.pop("task", "")
    return RunRequest.of(
        {
            "runId": run,
            "agent": {"id": agent, "companyId": "company-1", "name": "Ada", "adapterType": "claude_k8s"},
            "runtime": {"sessionParams": session},
            "config": {"promptTemplate": prompt, **config},
            "context": {"taskId": task} if task else {},
            "authToken": TOKEN,
        }
    )


@asynccontextmanager
async def launcher(site: Any, identity: str = "e2e", journal: Journal | None = None) -> AsyncIterator[Launcher]:
    rng = random.Random(1)
    transport = NetworkTransport(Access.of_kubeconfig(site.kubeconfig))
    cluster = Cluster(transport, site.agents, rng=rng)
    try:
        settings = Settings(namespace=site.agents, identity=identity)
        async with Launcher(
            cluster, settings, Templates.load(site.templates_folder), journal=journal, rng=rng
        ) as found:
            yield found
    finally:
        await transport.close()


async def ended(run: Any) -> RunResult:
    """The result of a run, told to be safe with its reader."""
    async with asyncio.timeout(_LONGEST):
        found: RunResult = await asyncio.shield(run.result)
        run.acknowledge()
    return found


async def settled(found: Launcher) -> None:
    """Until nothing is left to do for any run."""
    await until("the runs to be forgotten", lambda: not found.runs, _LONGEST)


def run_one(site: Any, run: str, prompt: str, **config: Any) -> tuple[RunResult, Reader]:
    """A run from its beginning to the end of its Job."""

    async def through() -> tuple[RunResult, Reader]:
        reader = Reader()
        async with launcher(site) as found:
            begun = await found.begin(request(run, prompt, **config), reader)
            result = await ended(begun)
            await settled(found)
        return result, reader

    return asyncio.run(through())


async def until(what: str, check: Callable[[], object], seconds: float = 60) -> None:
    """AssertionError where `check` is not true in time."""
    try:
        async with asyncio.timeout(seconds):
            while not check():  # noqa: ASYNC110  what is waited for tells nobody
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"waited {seconds:.0f} s for {what}") from None
