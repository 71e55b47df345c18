"""Where faults happen: the fake cluster behind a real socket, real launchers before it, and time that runs fast.

`quick(scene, speed)` runs a coroutine on an event loop whose second lasts 1/speed of a second. Sockets, bytes and the
launcher's settings are the real ones; only waiting is shorter.
"""

from __future__ import annotations

import asyncio
import json
import random
import selectors
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.network import NetworkTransport
from paperclip_launcher.cluster.retry import RetrySettings
from paperclip_launcher.journal import Journal
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.masking import Mask
from paperclip_launcher.request import RunRequest
from paperclip_launcher.settings import Settings
from paperclip_launcher.templates import Templates
from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.faults import FINE, Faults
from tests.fakeapi.model import Knobs, Program
from tests.fakeapi.sockets import SocketServer

ROOT = Path(__file__).parents[2]
SOON = (0.0005, 0.002)
KEYS = "paperclip-agent-keys"


class _Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    speed = 1.0

    def select(self, timeout: float | None = None) -> Any:
        return super().select(timeout / self.speed if timeout else timeout)


class QuickLoop(asyncio.SelectorEventLoop):
    """Its time begins at 0."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._zero = time.monotonic()
        selector = _Selector()
        selector.speed = speed
        super().__init__(selector)

    def time(self) -> float:
        return (time.monotonic() - self._zero) * self._speed


def quick(scene: Coroutine[Any, Any, Any], speed: float = 1.0, *, limit: float = 600.0) -> Any:
    """The result of `scene`; TimeoutError after `limit` seconds of a real clock."""

    async def bounded() -> Any:
        async with asyncio.timeout(limit * speed):
            return await scene

    with asyncio.Runner(loop_factory=lambda: QuickLoop(speed)) as runner:
        return runner.run(bounded())


@cache
def templates() -> Templates:
    return Templates.load(ROOT / "dist" / "minimal" / "job-templates")


def event(kind: str, **fields: Any) -> bytes:
    return json.dumps({"type": kind, **fields}).encode()


INIT = event("system", subtype="init", session_id="s-1", model="m-1")
DONE = event("result", subtype="success", is_error=False, result="done", session_id="s-1", total_cost_usd=0.5)


def agent(*lines: bytes, every: float = 0.01, **more: Any) -> Program:
    """Claude Code that says `lines` between its beginning and its end."""
    return Program(tuple((every, one) for one in (INIT, *lines, DONE)), **more)


def request(run: str = "run-1", of: str = "agent-1", *, task: str = "T-1", **config: Any) -> RunRequest:
    return RunRequest.of(request_tree(run, of, task=task, **config))


def request_tree(run: str, of: str, *, task: str = "T-1", **config: Any) -> dict[str, Any]:
    return {
        "runId": run,
        "agent": {"id": of, "companyId": "company-1", "name": "Ada", "adapterType": "claude_k8s"},
        "runtime": {},
        "config": config,
        "context": {"issueId": task},
        "authToken": "token-of-the-run-0123456789",
    }


class Reader:
    """A Sink that remembers, with the loop's time of each note."""

    def __init__(self) -> None:
        self.offset: int | None = None
        self.data = bytearray()
        self.notes: list[tuple[float, str, str]] = []

    async def log(self, data: bytes, offset: int) -> None:
        self.data += data

    async def note(self, kind: str, text: str) -> None:
        self.notes.append((asyncio.get_running_loop().time(), kind, text))

    def told(self, kind: str) -> list[str]:
        return [text for _, one, text in self.notes if one == kind]

    def times(self, kind: str) -> list[float]:
        return [at for at, one, _ in self.notes if one == kind]


class Skewed:
    """A launcher's clock, which may be wrong."""

    def __init__(self, cluster: FakeCluster, skew: float) -> None:
        self._cluster = cluster
        self._skew = skew

    def now(self) -> float:
        return self._cluster.store.epoch + self._cluster.loop.time() + self._skew


def soon(**more: Any) -> Knobs:
    """A cluster that does all within moments."""
    spans = dict.fromkeys(("control", "schedule", "start", "kubelet", "follow_end", "collect"), SOON)
    return Knobs(**{**spans, "present_secrets": frozenset({KEYS}), **more})


class Place:
    """One cluster on a socket; async context."""

    server_class: type[SocketServer] = SocketServer

    def __init__(
        self,
        program: Program | Callable[[Mapping[str, Any]], Program] | None = None,
        *,
        seed: int = 1,
        knobs: Knobs | None = None,
        faults: Faults = FINE,
    ) -> None:
        chosen = program or agent(b"hello")
        loop = asyncio.get_running_loop()
        self.seed = seed
        self.cluster = FakeCluster(
            loop, seed, program_for=chosen if callable(chosen) else lambda _job: chosen, knobs=knobs or soon()
        )
        self.server = self.server_class(self.cluster, faults, seed=seed)
        self._transports: list[NetworkTransport] = []

    async def __aenter__(self) -> Self:
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for transport in self._transports:
            await transport.close()
        await self.server.stop()

    def talker(self, *, token_file: Path | None = None, retry: RetrySettings | None = None) -> Cluster:
        transport = NetworkTransport(self.server.access(token_file=token_file))
        self._transports.append(transport)
        return Cluster(transport, templates().namespace, rng=random.Random(self.seed), retry=retry or RetrySettings())

    def launcher(
        self,
        identity: str = "one",
        *,
        journal: Journal | None = None,
        skew: float = 0.0,
        mask: Mask | None = None,
        token_file: Path | None = None,
        **settings: Any,
    ) -> Launcher:
        return Launcher(
            self.talker(token_file=token_file),
            Settings(templates().namespace, identity, **settings),
            templates(),
            journal=journal,
            clock=Skewed(self.cluster, skew),
            rng=random.Random(f"{self.seed} {identity}"),
            mask=mask,
        )

    def names(self, resource: str) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.cluster.objects(resource))

    def made(self, resource: str) -> list[str]:
        """The names of all that ever were made, in order."""
        changes = self.cluster.store.changes
        return [one.item.key[2] for one in changes if one.kind == "ADDED" and one.item.key[0] == resource]

    def printed(self, job: str) -> bytes:
        return b"".join(line + b"\n" for line in self.cluster.printed(job))

    async def cleared(self, seconds: float = 60.0) -> dict[str, list[str]]:
        """What of runs is still there after so long; {} as soon as there is nothing."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            left = {kind: names for kind in ("jobs", "pods", "secrets", "leases") if (names := self.names(kind))}
            if not left or loop.time() > end:
                return left
            await asyncio.sleep(0.05)


async def until(true: Callable[[], Any], seconds: float = 600.0, step: float = 0.01) -> None:
    """TimeoutError."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110  what it waits for has no event
            await asyncio.sleep(step)


async def to_end(launcher: Launcher, asked: RunRequest, sink: Any) -> Any:
    """The result of a run, acknowledged and cleared away."""
    run = await launcher.begin(asked, sink)
    result = await run.result
    run.acknowledge()
    await until(lambda: run.own_key not in launcher.runs)
    return result
