"""A launcher before a FakeCluster on virtual time, with a reader that remembers what it was given."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.transport import Request
from paperclip_launcher.journal import Journal, MemoryJournal
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.request import RunRequest
from paperclip_launcher.settings import Settings
from paperclip_launcher.templates import Templates
from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.inprocess import FINE, Faults, InProcessTransport
from tests.fakeapi.loop import Process, VirtualLoop
from tests.fakeapi.model import Program

ROOT = Path(__file__).parents[3]


@cache
def templates() -> Templates:
    """Those of a shipped environment, as the launcher finds them."""
    return Templates.load(ROOT / "dist" / "minimal" / "job-templates")


def event(kind: str, **fields: Any) -> bytes:
    return json.dumps({"type": kind, **fields}).encode()


def spoken(*texts: str, session: str = "s-1", gap: float = 0.5) -> list[tuple[float, bytes]]:
    """What Claude Code writes for a run that says `texts` and ends well."""
    said = [
        event("assistant", session_id=session, message={"id": f"m{n}", "content": [{"type": "text", "text": text}]})
        for n, text in enumerate(texts)
    ]
    usage = {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 5}
    end = event("result", subtype="success", result=texts[-1], session_id=session, total_cost_usd=0.02, usage=usage)
    begin = event("system", subtype="init", session_id=session, model="model-1")
    return [(gap, line) for line in (begin, *said, end)]


def request(
    run: str = "run-1", agent: str = "agent-1", *, task: str = "T-1", task_key: str = "", **config: Any
) -> RunRequest:
    return RunRequest.of(
        {
            "runId": run,
            "agent": {"id": agent, "companyId": "company-1", "name": "Ada", "adapterType": "claude_k8s"},
            "runtime": {"taskKey": task_key} if task_key else {},
            "config": config,
            "context": {"issueId": task},
            "authToken": "token-of-the-run-0123456789",
        }
    )


class Reader:
    """A Sink."""

    def __init__(self, offset: int | None = None) -> None:
        self.offset = offset
        self.data = b""
        self.notes: list[tuple[str, str]] = []

    async def log(self, data: bytes, offset: int) -> None:
        self.data += data

    async def note(self, kind: str, text: str) -> None:
        self.notes.append((kind, text))

    def told(self, kind: str) -> list[str]:
        return [text for one, text in self.notes if one == kind]


class Stage:
    """One cluster; `play` runs a scene on it."""

    def __init__(self, program: Program | Callable[[Mapping[str, Any]], Program] | None = None, seed: int = 1) -> None:
        self.loop = VirtualLoop(seed)
        self.seed = seed
        chosen = program or Program(spoken("hello", "done"))
        found = chosen if callable(chosen) else lambda _job: chosen
        self.cluster = FakeCluster(self.loop, seed, program_for=found)
        self.cluster.put(
            "secrets", {"metadata": {"name": "paperclip-agent-keys"}, "data": {"ANTHROPIC_API_KEY": "eA=="}}
        )
        self.journal: Journal = MemoryJournal()

    def now(self) -> float:
        return self.cluster.store.epoch + self.loop.time()

    def launcher(
        self,
        identity: str = "one",
        *,
        faults: Faults = FINE,
        journal: Journal | None = None,
        hook: Callable[[str, Request], None] | None = None,
        **settings: Any,
    ) -> Launcher:
        rng = random.Random(self.seed)
        transport = InProcessTransport(self.cluster, faults, seed=self.seed, hook=hook)
        namespace = templates().namespace
        return Launcher(
            Cluster(transport, namespace, rng=rng),
            Settings(namespace, identity, **settings),
            templates(),
            journal=self.journal if journal is None else journal,
            clock=self,
            rng=rng,
        )

    def life(self, name: str, scene: Callable[[], Any]) -> tuple[Process, asyncio.Task[Any]]:
        """A process of its own that can be killed; what it was doing then simply stops."""
        process = Process(name)
        return process, self.loop.spawn(scene(), process)

    def play(self, scene, limit: float = 7200.0):
        return self.loop.run(scene(), limit=limit)

    def names(self, resource: str) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.cluster.objects(resource))
