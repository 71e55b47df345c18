"""What Paperclip wants and has: runs, and the copies of their logs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kubekit.names import job_name
from paperclip_launcher.request import RunRequest
from tests.fakeapi.loop import Process
from tests.launcher.sim.script import Order

if TYPE_CHECKING:
    from tests.launcher.sim.world import World


class Wish:
    """One run as Paperclip has it: what lasts, whatever becomes of the launchers. A copy of its log a server."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.own_job = job_name(order.agent, order.run)
        config = {"concurrency": order.policy, "waitSec": 60}
        if order.timeout:
            config |= {"timeoutSec": order.timeout, "graceSec": 1}
        if order.retain:
            config |= {"retainJobs": True, "ttlSecondsAfterFinished": 60}
        self.request = RunRequest.of(
            {
                "runId": order.run,
                "agent": {"id": order.agent, "companyId": "c", "name": "A", "adapterType": "claude_k8s"},
                "runtime": {},
                "config": config,
                "context": {"issueId": order.task} if order.task else {},
                "authToken": "token-of-the-run-0123456789",
            }
        )
        self.logs: dict[str, bytearray] = {}
        self.result: Mapping[str, Any] | None = None
        self.jobs: frozenset[str] = frozenset()
        """The uids of all Jobs that there had been when its result was told."""
        self.read = False
        """Whether its result was acknowledged."""
        self.settled = False
        self.cancelled = False
        """Asked for in time, so that it must win."""
        self.asked = 0
        self.holder = ""
        """The server that it was sent to after the first one had been given up."""
        self.busy: dict[str, Process] = {}
        self.taken: set[str] = set()
        """The servers that were told that another one has it."""
        self.job = ""
        """The Job that its result is of: its own, or one that it took over."""
        self.complete = True

    def is_busy(self, server: str) -> bool:
        """Whether another server is at it now."""
        return any(one.alive for name, one in self.busy.items() if name != server)


class Reader:
    """A Sink that holds one server's copy of a log."""

    def __init__(self, world: World, wish: Wish, server: str, slow: float) -> None:
        self._world = world
        self._wish = wish
        self._log = wish.logs.setdefault(server, bytearray())
        self._slow = slow
        self._blind = wish.order.blind
        self.offset: int | None = None if wish.order.blind else len(self._log)

    async def log(self, data: bytes, offset: int) -> None:
        if self._slow:
            await asyncio.sleep(self._slow * self._world.random.random())
        begin, have = offset - len(data), len(self._log)
        if begin > have or (begin < have and not self._blind):
            self._world.watcher.wrong(f"{self._wish.order.run}: bytes {begin} to {offset} come after {have}")
        again = self._log[begin:offset]
        if not data.startswith(again):
            self._world.watcher.wrong(f"{self._wish.order.run}: bytes {begin} to {offset} come again, and differ")
        self._log += data[len(again) :]
        if self._slow:
            await asyncio.sleep(self._slow * self._world.random.random())

    async def note(self, kind: str, text: str) -> None:
        if self._world.trace is not None:
            self._world.say(f"{self._wish.order.run} {kind}: {text}")
