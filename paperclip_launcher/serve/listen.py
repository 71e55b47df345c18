"""Where clients come in: standard input and output, and a Unix socket for its owner alone."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import socket as sockets
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from paperclip_launcher.errors import LauncherError
from paperclip_launcher.serve.service import Service

_LOG = logging.getLogger(__name__)
_MOST_CLIENTS = 256
_LONGEST_PATH = 107
"""Bytes: what sun_path of Linux holds, less the NUL at its end."""
_LEAVING_SECONDS = 1.0
"""For what was written to leave, when a connection is ended."""


class SocketTaken(LauncherError):
    """The path of the socket is in use, or is no place for one."""


class StreamDrain:
    """peer.Drain over asyncio's streams."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def write(self, data: bytes, /) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        try:
            await self._writer.drain()
        except OSError as error:
            raise ConnectionResetError(str(error)) from error

    def unread(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(_LEAVING_SECONDS):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()


class Doors:
    """All ways in. `stop` is set where the last of them has closed by itself."""

    def __init__(self, service: Service, stop: asyncio.Event) -> None:
        self._service = service
        self._stop = stop
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._held: int | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def open(self, *, stdio: bool, socket: Path | None) -> None:
        """SocketTaken, OSError."""
        if socket is not None:
            await self._listen(socket)
        if stdio:
            await self._take_stdio(alone=socket is None)

    def shut(self) -> None:
        """Nobody new comes in; the path of the socket is free for the next launcher."""
        if self._server is not None:
            self._server.close()
        if self._path is not None:
            with suppress(FileNotFoundError):
                self._path.unlink()
        if self._held is not None:
            os.close(self._held)
            self._held = None

    async def close(self) -> None:
        """After `shut`: ends every connection, once its last answers have left."""
        # What waited for a run has its error now, and needs one turn to be written.
        await asyncio.sleep(0.05)
        for client in tuple(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _listen(self, path: Path) -> None:
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise SocketTaken(f"the path of the socket is longer than {_LONGEST_PATH} bytes: {path}")
        self._held = _hold(path)
        _clear_stale(path)
        bound = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        # So nobody else can connect at any moment; this is before any thread is started.
        mask = os.umask(0o177)
        try:
            bound.bind(str(path))
        finally:
            os.umask(mask)
        self._path = path
        self._server = await asyncio.start_unix_server(self._client, sock=bound, backlog=128)
        _LOG.info("listening on %s", path)

    def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= _MOST_CLIENTS:
            _LOG.warning("a client is turned away: there are %d already", len(self._clients))
            writer.transport.abort()
            return
        self._start(reader, writer, "socket")

    def _start(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> asyncio.Task[None]:
        peer = self._service.peer(reader, StreamDrain(writer), name)
        task = asyncio.create_task(peer.serve())
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)
        return task

    async def _take_stdio(self, *, alone: bool) -> None:
        reader, writer = await _stdio()
        task = self._start(reader, writer, "stdio")
        if alone:
            task.add_done_callback(lambda _: self._stop.set())


async def _stdio() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The client at the other end of standard input and output.

    Whatever else in this process writes to standard output from now on lands on standard error: a stray line would
    break the protocol.
    """
    loop = asyncio.get_running_loop()
    for stream in (sys.stdin, sys.stdout):
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise SocketTaken("standard input and output must be pipes or sockets, not files")
    incoming: BinaryIO = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    outgoing: BinaryIO = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), incoming)
    writing, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), outgoing
    )
    return reader, asyncio.StreamWriter(writing, protocol, None, loop)


def _hold(path: Path) -> int:
    """A lock beside the socket, for as long as this process lives: two that start at once do not undo each other."""
    lock = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SocketTaken(f"{lock}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise SocketTaken(f"another launcher listens on {path}") from None
    return descriptor


def _clear_stale(path: Path) -> None:
    """Removes a socket that nobody listens on any more, as one that was killed leaves it."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketTaken(f"{path} is there, and is no socket")
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise SocketTaken(f"{path}: {error.strerror}") from error
    raise SocketTaken(f"another process listens on {path}")
