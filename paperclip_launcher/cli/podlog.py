"""The log of a run's pod, read straight from the API server: beside any launcher, and without touching anything."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from paperclip_launcher import marks, podstate
from paperclip_launcher.cli.lookup import Seen
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.errors import Invalid, NotFound
from paperclip_launcher.cluster.transport import Stream, TransportError
from paperclip_launcher.cluster.watch import Change, Reflector
from paperclip_launcher.errors import LauncherError, NotFoundRun, Unreachable
from paperclip_launcher.log.follow import LogFollower
from paperclip_launcher.log.lines import LineSplitter
from paperclip_launcher.log.position import LogPosition
from paperclip_launcher.log.resume import Reading, Window
from paperclip_launcher.log.stamps import stamp_of
from paperclip_launcher.running import CONTAINER

Write = Callable[[bytes], Awaitable[None]]
_SILENCE = 10.0
"""Seconds without a byte, for a read that does not follow."""
_IDLE = 3600.0


class PodLog:
    """Of one run. `since` is RFC 3339 in whole seconds, "" for the beginning; `note` hears what goes wrong."""

    def __init__(self, cluster: Cluster, seen: Seen, since: str, note: Callable[[str], None]) -> None:
        """NotFoundRun where there is no pod any more."""
        if seen.pod is None:
            error = NotFoundRun(f"run {seen.run_id} has no pod: it has not started, or its pod and its log are gone")
            error.remedy = f"`paperclip-launcher describe {seen.run_id}` says which"
            raise error
        self._cluster = cluster
        self._pod = seen.pod
        self._selector = f"{marks.JOB_NAME}={marks.name(seen.job)}"
        self._since = since
        self._note = note
        self._window = Window(LogPosition(), note)
        self._first = 0

    async def read(self, write: Write, tail: int | None = None) -> None:
        """What there is now; the last `tail` lines alone where that is said. LauncherError."""
        reading, splitter = Reading(self._window), LineSplitter()
        # Without a last line it would not be known from where on to follow.
        asked = None if tail is None else max(tail, 1)
        try:
            stream = await self._open("", follow=False, tail=asked)
            try:
                while chunk := await stream.read():
                    if whole := splitter.feed(chunk):
                        await self._hand_on(reading, whole, _nowhere if tail == 0 else write)
            finally:
                await stream.close()
        except TransportError as error:
            raise Unreachable(f"the log could not be read: {error}") from error
        if podstate.terminated(self._pod) and (rest := reading.end(splitter.rest())):
            await self._hand_on(reading, rest + b"\n", _nowhere if tail == 0 else write)

    async def _hand_on(self, reading: Reading, lines: bytes, write: Write) -> None:
        begin = stamp_of(lines)
        self._first = self._first or (begin.at if begin else 0)
        if text := reading.take(lines):
            await write(text)

    async def follow(self, write: Write) -> None:
        """From where `read` stopped, until the container has ended."""

        async def open_log(since: str, follow: bool) -> Stream:  # noqa: FBT001  the follower's seam has two positions
            return await self._open(since, follow=follow)

        async def deliver(data: bytes, _: LogPosition) -> None:
            await write(data)

        rng = random.Random()  # noqa: S311  jitter, no secrets
        # What lies before the first line that was read was not asked for.
        position = replace(self._window.position(), floor=self._first)
        follower = LogFollower(open_log, deliver, position=position, note=self._note, rng=rng)

        def look(change: Change) -> None:
            if change.name == marks.name(self._pod) and (change.new is None or _over(change)):
                follower.finish()

        pods = Reflector(self._cluster, "pods", label_selector=self._selector, on_change=look, rng=rng)
        watching = asyncio.create_task(pods.run())
        checking = asyncio.create_task(self._finish_if_gone(pods, follower))
        try:
            end = await follower.run()
            if not end.complete:
                self._note(f"the log may be incomplete: {end.reason}")
        finally:
            for task in (watching, checking):
                task.cancel()

    async def _finish_if_gone(self, pods: Reflector, follower: LogFollower) -> None:
        """A pod that went before the first look is told of by no change."""
        await pods.synced.wait()
        if pods.store.get(marks.name(self._pod)) is None:
            follower.finish()

    async def _open(self, since: str, *, follow: bool, tail: int | None = None) -> Stream:
        name, idle = marks.name(self._pod), _IDLE if follow else _SILENCE
        return await self._cluster.open_log(
            name, container=CONTAINER, follow=follow, since=since or self._since, idle=idle, tail=tail
        )


async def _nowhere(_: bytes) -> None:
    """For lines that nobody wants to see."""


def _over(change: Change) -> bool:
    return change.kind == "DELETED" or podstate.terminated(change.new) is not None


async def last_lines(cluster: Cluster, seen: Seen, count: int) -> list[str]:
    """The end of the log as text; nothing where there is none, or where it cannot be had."""
    found: list[bytes] = []

    async def write(data: bytes) -> None:
        found.append(data)

    if seen.pod is None or count <= 0 or not podstate.started(seen.pod):
        return []
    try:
        async with asyncio.timeout(_SILENCE):
            await PodLog(cluster, seen, "", lambda _: None).read(write, count)
    except (TimeoutError, Invalid, NotFound, LauncherError):
        return []
    return b"".join(found).decode("utf-8", "replace").splitlines()
