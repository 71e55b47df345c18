"""A transport that answers what it is told to, and a server on loopback that writes the bytes it is told to."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.retry import RetrySettings
from paperclip_launcher.cluster.transport import Request, Response


def answer(tree, status=200, **headers):
    return Response(status, {key.replace("_", "-"): value for key, value in headers.items()}, json.dumps(tree).encode())


def refusal(status, reason="", message="", *, headers=None, **details):
    tree = {"kind": "Status", "code": status, "reason": reason, "message": message, "details": details}
    return Response(status, headers or {}, json.dumps(tree).encode())


class ScriptedStream:
    """Its pieces one after the other; an exception among them is raised, a number is a pause in seconds."""

    def __init__(self, pieces=(), status=200, headers=None):
        self.status = status
        self.headers = headers or {}
        self.closed = 0
        self._pieces = list(pieces)

    async def read(self):
        while self._pieces:
            piece = self._pieces.pop(0)
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, bytes):
                return piece
            await asyncio.sleep(piece)
        return b""

    async def close(self):
        self.closed += 1


class ScriptedTransport:
    """`script` holds responses, streams and exceptions, or functions of the request that give one; the last stays."""

    def __init__(self, *script):
        self.script = list(script)
        self.requests: list[Request] = []
        self.times: list[float] = []
        self.idles: list[float] = []

    def _next(self, request):
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        step = step(request) if callable(step) else step
        if isinstance(step, Exception):
            raise step
        return step

    async def send(self, request):
        return self._next(request)

    async def open(self, request, *, idle):
        self.idles.append(idle)
        return self._next(request)

    async def close(self):
        pass

    @property
    def pauses(self):
        return [later - earlier for earlier, later in pairwise(self.times)]


def cluster_over(*script, budget=60.0, seed=1, **more):
    transport = ScriptedTransport(*script)
    return transport, Cluster(transport, "agents", retry=RetrySettings(budget=budget), rng=random.Random(seed), **more)


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler, context=None):
    """The port; `handler` has each connection, which is closed when it returns."""

    async def handle(reader, writer):
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0)  # what was accepted just now gets its transport; its socket would stay open without one


async def read_request(reader):
    """Head and body; IncompleteReadError when the client is gone."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0)
    return head, await reader.readexactly(length)


def reply(body=b"{}", status=200, *fields):
    head = "\r\n".join((f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}", *fields, "", ""))
    return head.encode() + body


def chunked(*pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in pieces)


CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
