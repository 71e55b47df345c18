"""One connection to the API server: one exchange after the other, or one stream.

An asyncio.Protocol instead of a client library, since a log stream needs what those hide: everything that has come in
one piece, a limit to what waits, silence noticed, and some 10 KiB a connection instead of 300.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from paperclip_launcher.cluster.http1 import Answer
from paperclip_launcher.cluster.tls import Session
from paperclip_launcher.cluster.transport import Broken, NotSent, Stalled, TransportError

# Bytes that wait for a reader before the server is made to wait.
_MOST_WAITING = 1 << 20
_CONNECT_SECONDS = 10.0
# A peer that is gone without a word is noticed after some 30 + 3 * 10 seconds.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000))


@dataclass(frozen=True, slots=True)
class Address:
    """`name` is what the server's certificate must be made out to."""

    host: str
    port: int
    context: ssl.SSLContext | None
    name: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


async def connect(address: Address) -> Connection:
    """NotSent, whatever is in the way."""
    loop = asyncio.get_running_loop()
    connection = Connection(address)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            await loop.create_connection(lambda: connection, address.host, address.port)
            await connection.connected()
    except TimeoutError:
        await connection.close()
        raise NotSent(f"{address}: no connection within {_CONNECT_SECONDS:.0f} s") from None
    except (OSError, TransportError) as error:  # TLS errors are OSErrors
        await connection.close()
        raise NotSent(f"{address}: {error}") from error
    except BaseException:
        await connection.close()
        raise
    return connection


class Connection(asyncio.Protocol):
    """Is the Stream of its present answer."""

    __slots__ = (
        "_address",
        "_answer",
        "_error",
        "_heard",
        "_idle",
        "_loop",
        "_parts",
        "_paused",
        "_size",
        "_timer",
        "_tls",
        "_transport",
        "_waiter",
        "headers",
        "lost",
        "status",
    )

    def __init__(self, address: Address) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.lost = False
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._tls = Session(address.context, address.name) if address.context else None
        self._transport: asyncio.Transport | None = None
        self._answer = Answer()
        self._parts: list[bytes] = []
        self._size = 0
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._error: TransportError | OSError | None = None
        self._idle = 0.0
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def reusable(self) -> bool:
        """Whether the answer is complete, and another may come."""
        answer = self._answer
        return answer.complete and answer.keep_alive and not self.lost and self._error is None

    async def connected(self) -> None:
        """OSError or TransportError where TLS does not come about."""
        while self._tls is not None and not self._tls.ready:
            if self._error is not None:
                raise self._error
            await self._wait()

    def send(self, data: bytes) -> None:
        """Begins an exchange. Broken if the connection is known to be lost."""
        self._answer = Answer()
        self._parts, self._size = [], 0
        if self._error is not None or self.lost or self._transport is None:
            raise Broken(f"{self._address}: {self._error or 'the connection is closed'}")
        self._transport.write(data if self._tls is None else self._tls.send(data))

    async def head(self) -> None:
        """Waits until `status` and `headers` are known. Broken."""
        while not self._answer.status:
            if self._error is not None:
                raise self._error
            await self._wait()
        self.status, self.headers = self._answer.status, self._answer.headers

    def limit_silence(self, idle: float) -> None:
        """From now on, `idle` seconds without a byte are the end."""
        self._idle = idle
        self._heard = self._loop.time()
        self._timer = self._loop.call_at(self._heard + idle, self._look_at_silence)

    async def read(self) -> bytes:
        while not self._parts:
            if self._answer.complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size = [], 0
        if self._paused and self._transport is not None and not self.lost:
            self._paused = False
            self._heard = self._loop.time()
            self._transport.resume_reading()
        return data

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        self._fail(Broken(f"{self._address}: closed by us"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # what create_connection makes
        _keep_alive(transport.get_extra_info("socket"))
        if self._tls is not None:
            self._through_tls(self._tls, b"")

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self._tls is None:
            self._take([data])
        else:
            self._take(self._through_tls(self._tls, data))
        if self._size > _MOST_WAITING and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        orderly = exc is None and (self._tls is None or self._tls.ended)
        if not (orderly and self._error is None and self._answer.end()):
            self._fail(Broken(f"{self._address}: {exc or 'the connection ended before the answer did'}"))
        self._wake()

    def _through_tls(self, tls: Session, data: bytes) -> list[bytes]:
        try:
            plain = tls.receive(data)
        except ssl.SSLError as error:
            self._fail(error if not tls.ready else Broken(f"{self._address}: {error}"))
            plain = []
        if self._transport is not None:
            if out := tls.outgoing():
                self._transport.write(out)
            if tls.ended or self._error is not None:
                self._transport.close()
        return plain

    def _take(self, pieces: list[bytes]) -> None:
        try:
            for piece in pieces:
                for part in self._answer.feed(piece):
                    self._parts.append(part)
                    self._size += len(part)
        except Broken as error:
            self._fail(Broken(f"{self._address}: {error}"))
            if self._transport is not None:
                self._transport.abort()

    def _look_at_silence(self) -> None:
        now = self._loop.time()
        if self._paused:  # it is we who do not read
            self._heard = now
        if now - self._heard < self._idle:
            self._timer = self._loop.call_at(self._heard + self._idle, self._look_at_silence)
            return
        self._timer = None
        if self._transport is not None:
            self._transport.abort()
        self._fail(Stalled(f"{self._address}: silent for {self._idle:.0f} s"))

    def _fail(self, error: TransportError | OSError) -> None:
        """The first error is the cause; later ones follow from it."""
        if self._error is None:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        await self._waiter


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if (option := getattr(socket, name, None)) is not None:  # not every system has them all
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
