"""The fake API server on a loopback socket: real HTTP/1.1 in raw bytes, which may be cut anywhere.

Random faults are those of `Faults`, with cuts counted in bytes on the wire, so that they fall into heads, chunk
sizes, lines and characters alike. `rules` script exact ones. As a program: `python -m tests.fakeapi.sockets --help`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from paperclip_launcher.cluster.access import Access, Tokens
from paperclip_launcher.cluster.wire import Address
from tests.fakeapi.api import Answer
from tests.fakeapi.cluster import NAMESPACE, FakeCluster
from tests.fakeapi.faults import FINE, Faults, refusal
from tests.fakeapi.statuses import refused
from tests.fakeapi.store import Source

_PHRASES = {200: "OK", 201: "Created", 401: "Unauthorized", 404: "Not Found", 409: "Conflict", 410: "Gone"}
_LINGER_NOT = struct.pack("ii", 1, 0)
_PIECE = 256 << 10


@dataclass(slots=True)
class Rule:
    """What happens to the next `times` requests that fit. "" fits all; `resource` as pods/log.

    `act`: status (answers `status` with `headers` and `body`), hang (no answer, no effect), reset (no effect),
    effect-reset (the effect, then a reset), effect-hang, slow (answers after `seconds`), cut (the answer ends after
    `after` bytes on the wire by `how`: reset, close or hang), clean (the body ends in an orderly way after `after`
    bytes), gone (a watch gets an ERROR event with 410).
    """

    act: str
    verb: str = ""
    resource: str = ""
    times: int = 1
    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    seconds: float = 0.0
    after: int = 0
    how: str = "reset"

    def fits(self, verb: str, resource: str) -> bool:
        return self.times > 0 and self.verb in ("", verb) and self.resource in ("", resource)


class SocketServer:
    """Serves a cluster at `url` from `start` to `stop`. `tokens` are accepted, None accepts all.

    `requests` counts (verb, resource) as they arrive, whatever becomes of them; `open_streams` those under way.
    """

    def __init__(self, cluster: FakeCluster, faults: Faults = FINE, *, seed: int = 0) -> None:
        self.cluster = cluster
        self.faults = faults
        self.random = Random(seed)
        self.tokens: set[str] | None = None
        self.rules: list[Rule] = []
        self.requests: Counter[tuple[str, str]] = Counter()
        self.cuts = 0
        self.connections: dict[Connection, None] = {}
        self.port = 0
        self.control: Callable[[str, str, bytes], Any] | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        cluster.outage_listeners.append(self.drop_all)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def access(self, token: str = "", token_file: Path | None = None) -> Access:
        """How a launcher's NetworkTransport gets here."""
        address = Address("127.0.0.1", self.port, None, "127.0.0.1")
        return Access(address, "", Tokens(token, token_file), NAMESPACE, "the fake API server")

    @property
    def open_streams(self) -> int:
        return sum(one.source is not None for one in self.connections)

    async def start(self, port: int = 0) -> str:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", port, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]
        return self.url

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if self._server is not None:
            self._server.close()
        self.drop_all()
        # So that the sockets are closed when this returns, even if the loop ends at once.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def drop_all(self) -> None:
        """Resets all connections."""
        for one in tuple(self.connections):
            one.reset()

    def refuse(self, seconds: float) -> None:
        """Nobody listens for so long; all connections are reset. The cluster goes on."""
        assert self._server is not None
        self._server.close()
        self.drop_all()
        task = asyncio.get_running_loop().create_task(self._listen_again(seconds))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen_again(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.start(self.port)

    def rule_for(self, verb: str, resource: str) -> Rule | None:
        for rule in self.rules:
            if rule.fits(verb, resource):
                rule.times -= 1
                return rule
        return self._drawn(verb, resource)

    def _drawn(self, verb: str, resource: str) -> Rule | None:
        """A random fault as a rule."""
        faults, chance = self.faults, self.random.random
        if faults is FINE or self.cluster.loop.time() >= faults.until:
            return None
        stream = verb == "watch" or resource == "pods/log"
        if chance() < faults.not_sent:
            return Rule("reset")
        if chance() < faults.broken:
            return Rule("reset" if stream or chance() < 0.5 else "effect-reset")
        if chance() < faults.timed_out:
            return Rule("hang" if stream or chance() < 0.5 else "effect-hang")
        for status, part in ((faults.stream_refused if stream else faults.refused) or {}).items():
            if chance() < part:
                headers, body = refusal(status, faults, self.random)
                return Rule("status", status=status, headers=headers, body=body.decode())
        if stream and chance() < faults.cut:
            after = int(self.random.expovariate(1 / faults.cut_bytes))
            return Rule("clean", after=after) if chance() < 0.3 else self._cut(after)
        if stream and chance() < faults.stall:
            return Rule("cut", after=int(self.random.expovariate(1 / faults.cut_bytes)), how="hang")
        if chance() < faults.slow:
            return Rule("slow", seconds=faults.slow_seconds * chance())
        return None

    def _cut(self, after: int) -> Rule:
        return Rule("cut", after=after, how="reset" if self.random.random() < 0.5 else "close")


def kubeconfig(url: str, token: str = "") -> str:
    """The text of a kubeconfig for the server at `url`."""
    user = {"user": {"token": token}} if token else {"user": {}}
    context = {"cluster": "fake", "user": "fake", "namespace": NAMESPACE}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": context}],
            "clusters": [{"name": "fake", "cluster": {"server": url}}],
            "users": [{"name": "fake", **user}],
        }
    )


class Connection(asyncio.Protocol):
    """One client. Requests on it are answered one after the other."""

    def __init__(self, server: SocketServer) -> None:
        self.server = server
        self.source: Source | None = None
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._busy = False
        self._paused = False
        self._budget = float("inf")
        """Bytes that may still be written; then `_how` says what comes."""
        self._clean = float("inf")
        self._how = ""
        self._head = b""
        self._queue = bytearray()
        self._dripping = False
        self._finished = False

    # The connection.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=1 << 20)
        self.server.connections[self] = None
        if not self.server.cluster.serving:
            self.reset()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.server.connections.pop(self, None)
        if self.source is not None:
            self.source.wake = None
            self.source.detach()
            self.source = None

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pump()

    def reset(self) -> None:
        """RST, at once."""
        if self._transport is not None:
            opened = self._transport.get_extra_info("socket")
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            self._transport.abort()

    # Requests.

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._busy:
            self._next()

    def _next(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        first, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", 0))
        if len(self._buffer) < end + 4 + size:
            return
        body = bytes(self._buffer[end + 4 : end + 4 + size])
        del self._buffer[: end + 4 + size]
        self._busy = True
        method, target, _ = first.split(" ")
        self._serve(method, target, headers, body)

    def _serve(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        parts = urlsplit(target)
        path, query = unquote(parts.path), tuple(parse_qsl(parts.query, keep_blank_values=True))
        server = self.server
        if path.startswith("/fake/"):
            assert server.control is not None, "no control"
            self._answer(Answer(200, body=json.dumps(server.control(path, parts.query, body)).encode()))
            return
        verb, resource = server.cluster.api.named(method, path, query)
        server.requests[verb, resource] += 1
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if server.tokens is not None and token not in server.tokens:
            self._answer(Answer(401, body=refused(401, "Unauthorized", "Unauthorized").body))
            return
        rule = server.rule_for(verb, resource)

        def act() -> Answer:
            kind = headers.get("content-type", "")
            return server.cluster.api.handle(method, path, query, body or None, kind)

        if rule is None:
            self._answer(act())
        else:
            self._misbehave(rule, act)

    def _misbehave(self, rule: Rule, act: Callable[[], Answer]) -> None:
        if rule.act == "status":
            headers = {"content-type": "application/json", **rule.headers}
            body = rule.body.encode() or refused(rule.status, "", f"the fake API server says {rule.status}").body
            self._answer(Answer(rule.status, headers, body))
        elif rule.act in ("effect-reset", "effect-hang"):
            act()
            if rule.act == "effect-reset":
                self.reset()
        elif rule.act == "reset":
            self.reset()
        elif rule.act == "slow":
            self.server.cluster.later("network", rule.seconds, lambda: self._transport and self._answer(act()))
        elif rule.act == "cut":
            self._budget, self._how = rule.after, rule.how
            self._answer(act())
        elif rule.act == "clean":
            self._clean = rule.after
            self._answer(act())
        elif rule.act == "gone":
            event = {"type": "ERROR", "object": json.loads(refused(410, "Expired", "too old resource version").body)}
            self._answer(Answer(200, body=json.dumps(event).encode() + b"\n"))
        else:
            assert rule.act == "hang", rule.act

    # Answers.

    def _answer(self, answer: Answer) -> None:
        phrase = _PHRASES.get(answer.status, "Other")
        head = f"HTTP/1.1 {answer.status} {phrase}\r\n"
        head += "".join(f"{key}: {value}\r\n" for key, value in answer.headers.items())
        if answer.source is None:
            head += f"content-length: {len(answer.body)}\r\n\r\n"
            self._write(head.encode("latin-1") + answer.body)
            self._done()
            return
        self.source = answer.source
        self._head = head.encode("latin-1") + b"transfer-encoding: chunked\r\n\r\n"
        answer.source.wake = self._pump
        if not answer.source.waiting():
            self._pump()

    def _done(self) -> None:
        self._busy = False
        if self._buffer and self._transport is not None:
            self._next()

    def _pump(self) -> None:
        """Passes on what the source has, as long as the client takes it."""
        source = self.source
        if source is None or self._paused or self._transport is None:
            return
        if source.broken:
            self.reset()
            return
        if self._head:
            self._write(self._head)
            self._head = b""
        data = source.take()
        if len(data) > self._clean:
            data, self._clean = data[: int(self._clean)], 0
        elif data:
            self._clean -= len(data)
        view = memoryview(data)
        for at in range(0, len(view), _PIECE):
            piece = view[at : at + _PIECE]
            self._write(b"%x\r\n%b\r\n" % (len(piece), piece))
        over = source.ended or self._clean <= 0
        if over and self.source is not None:
            source.wake = None
            source.detach()
            self.source = None
            self._write(b"0\r\n\r\n")
            self._clean = float("inf")
            self._done()

    def _write(self, data: bytes) -> None:
        if self._transport is None or self._finished:
            return
        if self.server.faults.fragments:
            self._queue += data
            if not self._dripping:
                self._dripping = True
                self._drip()
        else:
            self._put(data)

    def _drip(self) -> None:
        """Pieces of any size, each in a packet of its own."""
        if not self._queue or self._transport is None:
            self._dripping = False
            return
        size = 1 + int(self.server.random.random() * min(len(self._queue), 4096))
        piece = bytes(self._queue[:size])
        del self._queue[:size]
        self._put(piece)
        self.server.cluster.loop.call_soon(self._drip)

    def _put(self, data: bytes) -> None:
        assert self._transport is not None
        if self._finished:
            return
        if len(data) <= self._budget:
            self._budget -= len(data)
            self._transport.write(data)
            return
        self._transport.write(data[: int(self._budget)])
        self._finished = True
        self.server.cuts += 1
        if self.source is not None:
            self.source.wake = None
            self.source.detach()
            self.source = None
        if self._how == "reset":
            self.reset()
        elif self._how == "close":
            self._transport.close()


if __name__ == "__main__":
    from tests.fakeapi.serving import main

    main()
