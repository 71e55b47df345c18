"""The network behind the calls: one pool of connections for single calls, and one connection for each stream."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from paperclip_launcher.cluster.access import Access
from paperclip_launcher.cluster.transport import NotSent, Request, Response, Stream, TimedOut
from paperclip_launcher.cluster.wire import Connection, connect

# Calls under way at once; a server that is slow to answer some must not hold up the others.
_MOST_CALLS = 64
_MOST_KEPT = 16
# Servers drop a connection that is not used for some 90 s; one that is about to be dropped breaks a call.
_KEPT_SECONDS = 50.0


class NetworkTransport:
    """To the server of `access`, as its user. Redirects are answers like any other, and proxies are not used: both lead
    a token to somebody else.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._slots = asyncio.Semaphore(_MOST_CALLS)
        # With the loop's time of their last use, the latest last.
        self._kept: list[tuple[Connection, float]] = []

    async def send(self, request: Request) -> Response:
        token = self._token()
        response = await self._exchange(request, token)
        if response.status == 401 and (renewed := self._renewed(token)):
            return await self._exchange(request, renewed)
        return response

    async def open(self, request: Request, *, idle: float) -> Stream:
        token = self._token()
        stream = await self._open(request, token, idle)
        if stream.status == 401 and (renewed := self._renewed(token)):
            await stream.close()
            return await self._open(request, renewed, idle)
        return stream

    async def close(self) -> None:
        """The kept connections; each stream is closed by whoever opened it."""
        kept, self._kept = self._kept, []
        for connection, _ in kept:
            await connection.close()

    async def _exchange(self, request: Request, token: str) -> Response:
        connection: Connection | None = None
        try:
            async with asyncio.timeout(request.timeout), self._slots:
                connection = await self._connection()
                connection.send(self._bytes(request, token))
                await connection.head()
                parts: list[bytes] = []
                while part := await connection.read():
                    parts.append(part)
            return Response(connection.status, connection.headers, b"".join(parts))
        except TimeoutError:
            raise self._too_late(connection, request) from None
        finally:
            if connection is not None:
                await self._keep(connection)

    async def _open(self, request: Request, token: str, idle: float) -> Connection:
        connection: Connection | None = None
        try:
            async with asyncio.timeout(request.timeout):
                connection = await connect(self._access.address)
                connection.send(self._bytes(request, token))
                await connection.head()
        except TimeoutError:
            if connection is not None:
                await connection.close()
            raise self._too_late(connection, request) from None
        except BaseException:
            if connection is not None:
                await connection.close()
            raise
        connection.limit_silence(idle)
        return connection

    async def _connection(self) -> Connection:
        oldest = asyncio.get_running_loop().time() - _KEPT_SECONDS
        while self._kept:
            connection, used = self._kept.pop()
            if used >= oldest and connection.reusable:
                return connection
            await connection.close()
        return await connect(self._access.address)

    async def _keep(self, connection: Connection) -> None:
        if connection.reusable and len(self._kept) < _MOST_KEPT:
            self._kept.append((connection, asyncio.get_running_loop().time()))
        else:
            await connection.close()

    def _too_late(self, connection: Connection | None, request: Request) -> TimedOut | NotSent:
        said = f"{self._access.address}: no answer within {request.timeout:.0f} s"
        return NotSent(said) if connection is None else TimedOut(said)

    def _bytes(self, request: Request, token: str) -> bytes:
        target = self._access.prefix + request.path
        if request.query:
            target += "?" + "&".join(f"{quote(key)}={quote(value, safe='')}" for key, value in request.query)
        lines = [
            f"{request.method} {target} HTTP/1.1",
            f"Host: {self._access.host_header}",
            "User-Agent: paperclip-launcher",
            "Accept: application/json, */*",
        ]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        if request.body is not None:
            lines += [f"Content-Type: {request.content_type}", f"Content-Length: {len(request.body)}"]
        head = "\r\n".join(lines)
        # What could end a line early was quoted or refused further up; here is the last place to notice.
        if not head.isascii() or not head.replace("\r\n", "").isprintable() or " " in target:
            raise ValueError(f"a {request.method} request with a character that no head may hold")
        return f"{head}\r\n\r\n".encode() + (request.body or b"")

    def _token(self) -> str:
        return self._access.tokens.current(asyncio.get_running_loop().time())

    def _renewed(self, refused: str) -> str:
        """Another token than the refused one, or ""."""
        token = self._access.tokens.read(asyncio.get_running_loop().time())
        return "" if token == refused else token
