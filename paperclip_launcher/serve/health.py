"""healthz, readyz and metrics over HTTP, for the kubelet and Prometheus: the least of HTTP/1.1 that they need."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from paperclip_launcher.cluster.watch import Reflector
from paperclip_launcher.launcher import Launcher

_LOG = logging.getLogger(__name__)
_HEAD = 8 << 10
"""Bytes of a request's head."""
_SECONDS = 5.0
_SILENCE = 180.0
"""Seconds; a watch hears something every minute, and takes its connection for dead after 150 s."""
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
_Answer = tuple[int, str, bytes]


def watch_ages(launcher: Launcher) -> dict[str, Callable[[], float]]:
    """For Metrics.watches."""
    view = launcher.view
    named = {"jobs": view.jobs, "pods": view.pods, "events": view.events, "leases": view.leases}
    return {name: partial(_age, one) for name, one in named.items()}


def _age(reflector: Reflector) -> float:
    return asyncio.get_running_loop().time() - reflector.last_heard


class Health:
    """`begun` is set while the launcher works: after its first lists, and before its end."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self.begun = False

    def problems(self) -> list[str]:
        """Why no run should be sent here now; nothing where all is well."""
        launcher = self._launcher
        if not self.begun:
            return ["the launcher has not begun, or is about to end"]
        found = []
        if launcher.lost.is_set():
            found.append(f"another process has taken the identity {launcher.settings.identity}")
        if launcher.lease_age > launcher.settings.lease_seconds:
            found.append(f"the Lease was renewed {launcher.lease_age:.0f} s ago")
        for name, age in watch_ages(launcher).items():
            if age() > _SILENCE:
                found.append(f"nothing was heard of {name} for {age():.0f} s")
        return found

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Answers there; gives the port, which is another one for port 0. OSError where it is taken."""
        server = await asyncio.start_server(self._serve, host, port, limit=_HEAD)
        try:
            found: int = server.sockets[0].getsockname()[1]
            _LOG.info("health and metrics on http://%s:%d", host, found)
            yield found
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            _LOG.debug("a request for health came to nothing")
        finally:
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            status, kind, body = _text(400, "this is no HTTP/1.1")
        elif words[0] not in (b"GET", b"HEAD"):
            status, kind, body = _text(405, "only GET is answered")
        else:
            status, kind, body = self._page(words[1].partition(b"?")[0].decode("latin-1"))
        lines = [
            f"HTTP/1.1 {status} {_REASONS[status]}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "Connection: close",
        ]
        whole = "\r\n".join(lines).encode() + b"\r\n\r\n"
        return whole if words[0] == b"HEAD" else whole + body

    def _page(self, path: str) -> _Answer:
        if path == "/healthz":
            # That this is answered is what it says: the loop turns.
            return _text(200, "ok")
        if path == "/readyz":
            problems = self.problems()
            return _text(503 if problems else 200, "\n".join(problems) or "ok")
        if path == "/metrics":
            # It takes a moment to import, and many launchers are never scraped.
            from paperclip_launcher.exposition import CONTENT_TYPE, exposition  # noqa: PLC0415

            return 200, CONTENT_TYPE, exposition(self._launcher.metrics)
        return _text(404, "there are /healthz, /readyz and /metrics")


def _text(status: int, text: str) -> _Answer:
    return status, "text/plain; charset=utf-8", f"{text}\n".encode()
