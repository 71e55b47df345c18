"""One connection: its requests are taken in order and answered as they are done, its notifications go out between."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from paperclip_launcher.serve import messages
from paperclip_launcher.serve.lines import LONGEST, Source, read_lines
from paperclip_launcher.serve.messages import Call, RpcError

_LOG = logging.getLogger(__name__)
_MOST_AT_ONCE = 4096
"""Requests that are under way on one connection."""
_MOST_UNREAD = 64 << 20
"""Bytes of answers that a client may leave unread; logs wait long before."""


class Drain(Protocol):
    """Where a connection's lines go to: listen.py's over asyncio, or what a test puts in its place."""

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None:
        """Until little is left that was written and has not left. ConnectionError."""
        ...

    def unread(self) -> int:
        """Bytes that were written and have not left yet."""
        ...

    def abort(self) -> None:
        """Ends the connection at once."""
        ...

    async def close(self) -> None:
        """Ends it after what was written has left, but soon. Never raises."""
        ...


class Peer:
    """`handle` answers one call; `translate` makes an RpcError of what it raises."""

    def __init__(
        self,
        source: Source,
        drain: Drain,
        handle: Callable[[Peer, Call], Any],
        translate: Callable[[Exception], RpcError],
        *,
        name: str,
    ) -> None:
        self.name = name
        self.initialized = False
        self.client = ("", "")
        """Its name, and which of its lives this is; "" where it does not say."""
        self.closing: set[Callable[[], None]] = set()
        """Called once when the connection has ended."""
        self._source = source
        self._drain = drain
        self._handle = handle
        self._translate = translate
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = True

    async def serve(self) -> None:
        """Until the client goes, or until this is cancelled; requests that are under way then end unanswered."""
        try:
            async for line in read_lines(self._source):
                self._take(line)
                if not self._open:
                    break
        except ConnectionError as error:
            _LOG.info("%s: %s", self.name, error)
        finally:
            await self._end()

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Goes nowhere once the connection has ended."""
        self._write(messages.notice(method, params))

    async def room(self) -> None:
        """Waits until the client has read most of what was written. ConnectionError where it has gone."""
        if not self._open:
            raise ConnectionResetError("the client has gone")
        await self._drain.drain()

    def _take(self, line: bytes | None) -> None:
        try:
            if line is None:
                text = f"the line is longer than {LONGEST} bytes"
                raise RpcError(messages.INVALID_REQUEST, text, {"code": "line_too_long"})  # noqa: TRY301
            call = messages.read(line)
        except RpcError as error:
            self._write(messages.failure(getattr(error, "id", None), error))
            return
        try:
            result = self._handle(self, call)
        except Exception as error:  # noqa: BLE001  every mistake becomes an answer
            self._refuse(call, error)
            return
        if not inspect.isawaitable(result):
            self._answer(call, result)
        elif len(self._tasks) >= _MOST_AT_ONCE:
            asyncio.ensure_future(result).cancel()
            self._refuse(call, RpcError(messages.LAUNCHER_ERROR, "too many requests at once on one connection"))
        else:
            task = asyncio.create_task(self._later(call, result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _later(self, call: Call, result: Awaitable[Any]) -> None:
        try:
            self._answer(call, await result)
        except Exception as error:  # noqa: BLE001  every mistake becomes an answer
            self._refuse(call, error)

    def _answer(self, call: Call, result: Any) -> None:
        if call.answered:
            self._write(messages.answer(call.id, result))

    def _refuse(self, call: Call, error: Exception) -> None:
        told = self._translate(error)
        if call.answered:
            self._write(messages.failure(call.id, told))

    def _write(self, line: bytes) -> None:
        if not self._open:
            return
        self._drain.write(line)
        if self._drain.unread() > _MOST_UNREAD:
            _LOG.warning("%s: the client does not read its answers; the connection is closed", self.name)
            self._open = False
            self._drain.abort()

    async def _end(self) -> None:
        self._open = False
        for act in tuple(self.closing):
            act()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._drain.close()
