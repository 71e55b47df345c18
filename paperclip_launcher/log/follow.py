"""Follows the log of one container through all that ends a connection: every line once, whole and in order.

What breaks a connection never decides anything about the run: it is opened again, until somebody who knows says that
the container has ended. Then the rest is read, with a second look to prove that nothing is missing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from math import inf
from typing import TypeVar

from paperclip_launcher.cluster.errors import NotFound
from paperclip_launcher.cluster.transport import Stream, TransportError
from paperclip_launcher.errors import LauncherError
from paperclip_launcher.log.lines import LONGEST_LINE, LineSplitter, blocks
from paperclip_launcher.log.patience import Patience, TooLate
from paperclip_launcher.log.position import LogPosition
from paperclip_launcher.log.resume import Reading, Window

OpenLog = Callable[[str, bool], Awaitable[Stream]]
"""Takes `since` (RFC 3339, whole seconds, "" for the beginning) and whether to follow. ApiError or TransportError."""
Deliver = Callable[[bytes, LogPosition], Awaitable[None]]
"""Whole lines without stamps, and the position after them. The next batch comes when it returns."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """Times in seconds, sizes in bytes."""

    quiet: float = 45.0
    """After so much silence a second read looks whether the connection still tells all, and after four times as much
    again. An agent that was silent for longer of late is left alone for half as long again."""
    quiet_longest: float = 900.0
    reopen: float = 3600.0
    """No connection is older: a kubelet ends its streams after 4 hours."""
    backoff: float = 0.5
    backoff_longest: float = 30.0
    drain: float = 30.0
    """For the rest of the log: so long without a new line, and it is given up."""
    drain_longest: float = 600.0
    drain_quiet: float = 2.0
    """Silence of a stream after its container has ended: the kubelet itself looks once a second."""
    answer: float = 10.0
    """Silence of a read that does not follow."""
    batch: int = 256 << 10
    line: int = LONGEST_LINE


@dataclass(frozen=True, slots=True)
class LogEnd:
    """`complete`: the log was read to its end after the container had ended, and no gap was seen; else `reason` says
    why not. `bytes` and `lines` are those delivered here.
    """

    complete: bool
    reason: str
    reconnects: int
    bytes: int
    lines: int


class _ReaderStuck(Exception):
    """The next batch is not taken."""


class _ReaderFailed(Exception):
    """Carries what `deliver` raised past all that looks after the log itself."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


_SLACK = 1.0
"""Seconds after the deadline that what is under way may still take."""
_SAY_AGAIN = 60.0
_LONGEST_CAUSE = 256
_BEGINNING = LogPosition()
_DOUBLINGS = 10
_USUAL = 1.5
"""Times the longest silence of late: no sign yet that a stream has stopped."""


class LogFollower:
    """`run` it as a task. `note` is told in one line, without any of the agent's text, what goes wrong on the way.

    A `read` of a stream that is cancelled must lose nothing: after a look at a silent stream it is read on.
    """

    def __init__(
        self,
        open_log: OpenLog,
        deliver: Deliver,
        *,
        position: LogPosition = _BEGINNING,
        note: Callable[[str], None],
        rng: random.Random,
        settings: FollowSettings = FollowSettings(),
    ) -> None:
        self._open_log = open_log
        self._deliver = deliver
        self._note = note
        self._rng = rng
        self._settings = settings
        self._window = Window(position, self._say)
        self._begin = position.offset
        self._lines = 0
        self._opened = 0
        self._failures = 0
        self._quiet = settings.quiet
        self._said: dict[str, float] = {}
        self._ended = asyncio.Event()
        self._deadline = 0.0
        self._last_deadline = 0.0
        self._patience = Patience()
        self._after_end = 0.0

    @property
    def position(self) -> LogPosition:
        """After the last batch that was handed over."""
        return self._window.position()

    def finish(self) -> None:
        """The container has ended: no more lines will be written."""
        if self._ended.is_set():
            return
        now = asyncio.get_running_loop().time()
        self._deadline = now + self._settings.drain
        self._last_deadline = now + self._settings.drain_longest
        self._ended.set()
        self._patience.shorten(now + self._after_end)

    async def run(self) -> LogEnd:
        """Ends after `finish`, or by cancellation; what `deliver` raises comes through."""
        try:
            while not self._ended.is_set():
                cause = await self._follow()
                if cause and not self._ended.is_set():
                    self._say(f"{cause}; it is opened again")
                    await self._pause()
            reason = await self._drain()
        except _ReaderStuck:
            reason = "the reader did not take the log in time"
        except _ReaderFailed as failed:
            raise failed.error from None
        finally:
            self._patience.close()
        if not reason and self._window.gap:
            reason = "lines may be missing: the log was rotated while nobody could read it"
        return LogEnd(not reason, reason, max(0, self._opened - 1), self._window.offset - self._begin, self._lines)

    async def _follow(self) -> str:
        """One connection, to its end: why it ended, "" where there is no need to wait before the next."""
        settings = self._settings
        until = asyncio.get_running_loop().time() + settings.reopen * self._rng.uniform(0.9, 1.0)
        self._opened += 1
        try:
            async with self._stream(follow=True, seconds=settings.reopen, after_end=settings.drain_quiet) as stream:
                return await self._read_on(stream, until)
        except TooLate:
            return "the log was not opened in time"
        except (LauncherError, TransportError) as error:
            return f"the log broke off: {_cause(error)}"

    async def _read_on(self, stream: Stream, until: float) -> str:
        loop, settings = asyncio.get_running_loop(), self._settings
        reading, splitter = Reading(self._window), LineSplitter(settings.line)
        quiet = self._quiet
        heard = loop.time()
        look_at = heard + quiet
        while True:
            try:
                chunk = await self._timed(stream.read(), min(look_at, until) - loop.time(), settings.drain_quiet)
            except TooLate:
                if self._ended.is_set() or loop.time() >= until:
                    return ""
                if await self._look():
                    return "the log had stopped, though the agent went on writing"
                quiet = min(4 * quiet, settings.quiet_longest)
                look_at = loop.time() + quiet
                continue
            if not chunk:
                reading.end(splitter.rest())
                return "the log came to an end"
            await self._hand_over(reading, splitter.feed(chunk))
            silence, heard = loop.time() - heard, loop.time()
            # It falls by half, not at once: several lines may come together.
            usual = min(max(self._quiet / 2, _USUAL * silence), settings.quiet_longest)
            quiet = self._quiet = max(settings.quiet, usual)
            look_at = heard + quiet

    async def _look(self) -> bool:
        """Whether the log has lines that the silent stream did not bring. They are delivered now."""
        before = self._window.offset
        try:
            await self._read_all()
        except (TooLate, LauncherError, TransportError) as error:
            self._say(f"a look at the silent log failed: {_cause(error)}")
        return self._window.offset > before

    async def _drain(self) -> str:
        """Reads the rest: "" once that is proven to be all, else why it is not."""
        loop = asyncio.get_running_loop()
        rest, cause = b"", ""
        self._failures = 0
        while loop.time() < self._deadline:
            try:
                reading, end = await self._read_all()
            except NotFound as error:
                return f"the rest of the log is gone: {_cause(error)}"
            except (TooLate, LauncherError, TransportError) as error:
                cause = f": {_cause(error)}"
            else:
                if not reading.fresh and end == rest:
                    # A last line without an end. It was read twice: a runtime may still have been writing it.
                    await self._hand_over(reading, end)
                    return ""
                rest = end
                if reading.fresh:
                    continue
            await asyncio.sleep(max(0.0, min(self._next_delay(), self._deadline - loop.time())))
        return f"the rest of the log could not be read in time{cause}"

    async def _read_all(self) -> tuple[Reading, bytes]:
        """Once from where the log was delivered to, and what stands after its last line feed."""
        answer = self._settings.answer
        reading, splitter = Reading(self._window), LineSplitter(self._settings.line)
        async with self._stream(follow=False, seconds=answer, after_end=answer) as stream:
            while chunk := await self._timed(stream.read(), answer, answer):
                await self._hand_over(reading, splitter.feed(chunk))
        return reading, reading.end(splitter.rest())

    async def _hand_over(self, reading: Reading, lines: bytes) -> None:
        loop, settings = asyncio.get_running_loop(), self._settings
        for block in blocks(lines, settings.batch):
            text = reading.take(block)
            if not text:
                continue
            self._lines += text.count(b"\n")
            self._failures = 0
            if self._ended.is_set():
                self._deadline = min(loop.time() + settings.drain, self._last_deadline)
            try:
                await self._timed(self._deliver(text, self._window.position()), inf, settings.drain + _SLACK)
            except TooLate:
                raise _ReaderStuck from None
            except Exception as error:
                raise _ReaderFailed(error) from error

    @asynccontextmanager
    async def _stream(self, *, follow: bool, seconds: float, after_end: float) -> AsyncIterator[Stream]:
        stream = await self._timed(self._open_log(self._window.since, follow), seconds, after_end)
        try:
            yield stream
        finally:
            await stream.close()

    async def _timed(self, wait: Awaitable[_T], seconds: float, after_end: float) -> _T:
        """TooLate after `seconds`, or `after_end` seconds after the end of the container, or at the deadline."""
        now = asyncio.get_running_loop().time()
        if self._ended.is_set():
            seconds = min(seconds, after_end, self._deadline + _SLACK - now)
        self._after_end = after_end
        return await self._patience.wait(wait, now + seconds)

    async def _pause(self) -> None:
        with suppress(TooLate):
            await self._timed(self._ended.wait(), self._next_delay(), 0.0)

    def _next_delay(self) -> float:
        delay: float = self._settings.backoff * 2 ** min(self._failures, _DOUBLINGS)
        self._failures += 1
        return min(delay, self._settings.backoff_longest) * self._rng.uniform(0.75, 1.0)

    def _say(self, text: str) -> None:
        """The same at most once a minute."""
        now = asyncio.get_running_loop().time()
        self._said = {one: at for one, at in self._said.items() if now - at < _SAY_AGAIN}
        if text not in self._said:
            self._said[text] = now
            self._note(text)


def _cause(error: Exception) -> str:
    return (str(error) or ("no answer in time" if isinstance(error, TooLate) else type(error).__name__))[
        :_LONGEST_CAUSE
    ]
