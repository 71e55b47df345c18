"""The client of one run as its sink: log in batches, never more on the way than the client has room for."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

BATCH = 64 << 10
"""Bytes of log after which a notification goes out at once."""
WINDOW = 4 << 20
"""Bytes of log that the client has been sent and has not acknowledged."""
_PAUSE = 0.05
"""Seconds for which a smaller batch waits for more."""
_PATIENCE = 20.0
"""Seconds that a client may be behind without a sign of life. The end of a log is waited for longer than that."""

REPLACED, TOO_SLOW, LOST, LEFT = "replaced", "reader_too_slow", "lost", "left"
"""Why a reader is detached: another client reads the run, it did not acknowledge in time, its connection ended, or it
has left the run for good.
"""

Send = Callable[[str, Mapping[str, Any]], None]


class Reader:
    """services.Sink. `begin` is how many bytes of the log the client has; `send` makes a notification, and `room`
    waits until the connection takes more (ConnectionError where it has ended).

    A reader that is detached takes all there is and throws it away, so that the run goes on; whoever comes next says
    what he has, and gets the rest from the container's log.
    """

    def __init__(self, run_id: str, begin: int, send: Send, room: Callable[[], Awaitable[None]]) -> None:
        self.run_id = run_id
        self.acknowledged = begin
        """Bytes of log that the client has stored."""
        loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[str] = loop.create_future()
        """Why it was detached."""
        self.detached_at = 0.0
        """The loop's time."""
        self._loop = loop
        self._handed = begin
        self._send = send
        self._room_in_connection = room
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._sent_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._heard = asyncio.Event()

    @property
    def offset(self) -> int | None:
        """None once nobody reads any more."""
        return None if self.gone.done() else self._handed

    async def log(self, data: bytes, offset: int) -> None:
        for piece, end in pieces(data, self._handed, offset):
            if not self.gone.done():
                await self._fit(end - self._handed)
            if self.gone.done():
                return
            self._handed = end
            self._pending.append(piece)
            self._pending_size += len(piece)
            if self._pending_size >= BATCH or self._loop.time() - self._sent_at >= _PAUSE:
                self.flush()
            elif self._timer is None:
                self._timer = self._loop.call_at(self._sent_at + _PAUSE, self.flush)

    async def note(self, kind: str, text: str) -> None:
        if not self.gone.done():
            self.flush()
            self._send("run.note", {"runId": self.run_id, "kind": kind, "text": text})

    def take_acknowledgement(self, offset: int) -> None:
        """The client has stored the log up to `offset`; more than it was sent is no more than that."""
        self.acknowledged = max(self.acknowledged, min(offset, self._handed))
        self._heard.set()

    def flush(self) -> None:
        """What waits for more goes out."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pending or self.gone.done():
            return
        data = b"".join(self._pending)
        self._pending, self._pending_size = [], 0
        self._sent_at = self._loop.time()
        self._send("run.log", {"runId": self.run_id, "offset": self._handed, **text_of(data)})

    def lose(self) -> None:
        """The connection has ended."""
        self.detach(LOST)

    def detach(self, reason: str) -> None:
        """Nobody reads any more."""
        if self.gone.done():
            return
        if self._timer is not None:
            self._timer.cancel()
        self._pending = []
        self.detached_at = self._loop.time()
        self.gone.set_result(reason)
        self._heard.set()

    async def _fit(self, size: int) -> None:
        """Until there is room for `size` bytes more, or the reader is given up."""
        while not self.gone.done() and self._handed - self.acknowledged > 0 and self._excess(size) > 0:
            self.flush()
            self._heard.clear()
            await self._within(self._heard.wait())
        if not self.gone.done() and self._pending_size == 0:
            await self._within(self._room_in_connection())

    def _excess(self, size: int) -> int:
        return self._handed - self.acknowledged + size - WINDOW

    async def _within(self, waiting: Awaitable[Any]) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                await waiting
        except TimeoutError:
            self.detach(TOO_SLOW)
        except ConnectionError:
            self.detach(LOST)


class Nobody:
    """services.Sink of a run that has no client."""

    offset: int | None = None

    async def log(self, data: bytes, offset: int) -> None: ...

    async def note(self, kind: str, text: str) -> None: ...


def pieces(data: bytes, begin: int, end: int) -> Iterator[tuple[bytes, int]]:
    """`data`, the log from `begin` to `end`, in pieces of at most BATCH bytes, each with the offset of its end.

    Where something in it was masked, its length says nothing of the log's, so it stays whole.
    """
    if len(data) <= BATCH or len(data) != end - begin:
        yield data, end
        return
    at = 0
    while at < len(data):
        stop = at + BATCH
        if stop < len(data):
            line = data.rfind(b"\n", at, stop) + 1
            stop = line or _between_characters(data, at, stop)
        yield data[at:stop], begin + min(stop, len(data))
        at = stop


def text_of(data: bytes) -> dict[str, str]:
    """`data` as text for people and, where it is no UTF-8, as it is."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data": data.decode("utf-8", "replace"), "base64": base64.b64encode(data).decode()}


def _between_characters(data: bytes, at: int, stop: int) -> int:
    """`stop`, or a few bytes before it where it would cut a character of UTF-8."""
    for back in range(4):
        if stop - back > at and data[stop - back] & 0xC0 != 0x80:
            return stop - back
    return stop
