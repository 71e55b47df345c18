"""The launcher's transport without sockets: calls reach the FakeCluster through a network that may fail.

A request that has left takes its effect even when the launcher that sent it is killed or has given up on it. Two
requests under way may overtake each other. Several transports may share one cluster: one a launcher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from paperclip_launcher.cluster.transport import Broken, NotSent, Request, Response, Stalled, TimedOut
from tests.fakeapi.api import Answer
from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.faults import FINE, Faults, refusal
from tests.fakeapi.loop import PROCESS, Process
from tests.fakeapi.store import Source, Watch


class InProcessTransport:
    """One launcher's way to the cluster. `process` is what `kill` kills; whoever calls belongs to the process that its
    task was spawned in. `hook` hears ("before", request) as a call is sent and ("after", request) as
    its answer is about to be handed over; it may kill or freeze the process, which then stops at exactly this point.
    """

    def __init__(
        self,
        cluster: FakeCluster,
        faults: Faults = FINE,
        *,
        seed: int = 0,
        user: str = "launcher",
        process: Process | None = None,
        hook: Callable[[str, Request], None] | None = None,
    ) -> None:
        self.cluster = cluster
        self.faults = faults
        self.random = Random(seed)
        self.user = user
        self.process = process
        self.hook = hook
        self.calls = 0
        self.streams: dict[_Stream, None] = {}
        self._loop = cluster.loop
        self._dead = False
        self._cut_off = 0.0
        self._cut_silently = False

    def kill(self) -> None:
        """From now on it serves nobody, and its open calls and streams break. The process, if it has one, dies."""
        self._dead = True
        if self.process is not None:
            self.process.kill()
        for stream in tuple(self.streams):
            stream.lose()

    def cut_off(self, seconds: float, *, silently: bool = False) -> None:
        """No network to the API server for so long: connections are refused, or packets vanish."""
        self._cut_off = self._loop.time() + seconds
        self._cut_silently = silently
        if not silently:
            for stream in tuple(self.streams):
                stream.lose()
        else:
            for stream in tuple(self.streams):
                stream.silence()

    def hush(self, resource: str) -> None:
        """The open watches of the resource stay open, and tell no more."""
        for stream in tuple(self.streams):
            if stream.watched == resource:
                stream.silence()

    # The Transport.

    async def send(self, request: Request) -> Response:
        await self._point("before", request)
        self.calls += 1
        waiter: asyncio.Future[Response] = self._loop.create_future()
        self._depart(request, waiter)
        response = await waiter
        await self._point("after", request)
        return response

    async def open(self, request: Request, *, idle: float) -> _Stream:
        await self._point("before", request)
        self.calls += 1
        waiter: asyncio.Future[Response] = self._loop.create_future()
        found: list[Answer] = []
        self._depart(request, waiter, found)
        try:
            response = await waiter
            await self._point("after", request)
        except BaseException:
            if found and found[0].source is not None:
                found[0].source.detach()
            raise
        source = found[0].source if found else None
        return _Stream(self, response, source, idle)

    async def close(self) -> None:
        for stream in tuple(self.streams):
            await stream.close()

    # How a call goes.

    async def _point(self, phase: str, request: Request) -> None:
        process = PROCESS.get()
        if self._dead or (process is not None and process.ghost):
            raise Broken(f"{request.method} {request.path}: this launcher is dead")
        if self.hook is not None:
            self.hook(phase, request)
            if self._dead or (process is not None and not process.alive):
                # Nothing of this process runs on: it stays here until the history is cleared away.
                await self._loop.create_future()
            if process is not None and process.frozen:
                await asyncio.sleep(0)  # until it thaws

    def _later(self, seconds: float, act: Callable[..., None], *args: Any) -> None:
        self.cluster.later("network", seconds, act, *args)

    def _delay(self) -> float:
        low, high = self.faults.latency
        return low + (high - low) * self.random.random()

    def _depart(self, request: Request, waiter: asyncio.Future[Response], found: list[Answer] | None = None) -> None:
        fate = self._fate(request, stream=found is not None)
        if fate is None:
            self._later(self._delay(), self._arrive, request, waiter, found)
        else:
            fate(waiter, found)

    def _fate(self, request: Request, *, stream: bool) -> Callable[..., None] | None:
        """What goes wrong with this call: None for nothing."""
        faults, now, chance = self.faults, self._loop.time(), self.random.random
        where = f"{request.method} {request.path}"
        if now < self._cut_off:
            error = TimedOut(f"{where}: no answer") if self._cut_silently else NotSent(f"{where}: connection refused")
            wait = request.timeout if self._cut_silently else self._delay()
            return lambda waiter, found: self._later(wait, _fail, waiter, error)
        if now >= faults.until:
            return None
        if faults.not_sent and chance() < faults.not_sent:
            return lambda waiter, found: self._later(self._delay(), _fail, waiter, NotSent(f"{where}: no connection"))
        if faults.broken and chance() < faults.broken:
            return lambda waiter, found: self._break(request, waiter, stream=stream)
        if faults.timed_out and chance() < faults.timed_out:
            return lambda waiter, found: self._hang(request, waiter, stream=stream)
        for status, part in ((faults.stream_refused if stream else faults.refused) or {}).items():
            if chance() < part:
                return lambda waiter, found, status=status: self._refuse(status, waiter, found)
        if faults.slow and chance() < faults.slow:
            wait = faults.slow_seconds * chance()
            return lambda waiter, found: self._slow(wait, request, waiter, found)
        return None

    def _slow(self, wait: float, request: Request, waiter: asyncio.Future[Response], found: Any) -> None:
        if wait + self._delay() < request.timeout:
            self._later(wait, self._arrive, request, waiter, found)
        else:
            self._hang(request, waiter, stream=found is not None)

    def _break(self, request: Request, waiter: asyncio.Future[Response], *, stream: bool) -> None:
        error = Broken(f"{request.method} {request.path}: connection reset")
        seen = self._delay()
        self._later(seen, _fail, waiter, error)
        kind = self.random.random()
        if not stream and kind < 0.5:
            part = self.random.random()
            # Before the sender hears of it, or some time after.
            self._later(seen * part if kind < 0.3 else seen + 5 * part, self._do, request)

    def _hang(self, request: Request, waiter: asyncio.Future[Response], *, stream: bool) -> None:
        self._later(request.timeout, _fail, waiter, TimedOut(f"{request.method} {request.path}: no answer in time"))
        kind = self.random.random()
        if not stream and kind < 2 / 3:
            part = self.random.random()
            self._later(request.timeout * part if kind < 1 / 3 else request.timeout + 5 * part, self._do, request)

    def _refuse(self, status: int, waiter: asyncio.Future[Response], found: list[Answer] | None) -> None:
        headers, body = refusal(status, self.faults, self.random)
        self._later(2 * self._delay(), _give, waiter, Response(status, headers, body))

    def _do(self, request: Request) -> Answer | None:
        """The effect. None: nobody is there."""
        if not self.cluster.serving:
            return None
        return self.cluster.api.handle(
            request.method, request.path, request.query, request.body, request.content_type, self.user
        )

    def _arrive(self, request: Request, waiter: asyncio.Future[Response], found: list[Answer] | None) -> None:
        try:
            answer = self._do(request)
        except AssertionError as error:
            _fail(waiter, error)
            return
        if answer is None:
            _fail(waiter, NotSent(f"{request.method} {request.path}: connection refused"))
            return
        if found is None:
            assert answer.source is None, f"{request.path} is a stream: open it"
        else:
            found.append(answer)
        source = answer.source
        if source is not None and waiter.cancelled():
            source.detach()
        response = Response(answer.status, answer.headers, answer.body)
        if source is None or not source.waiting():
            self._later(self._delay(), _give, waiter, response)
            return

        def head() -> None:
            source.wake = None
            _give(waiter, response)

        def no_head() -> None:
            if not waiter.done():
                source.wake = None
                source.detach()
                _fail(waiter, TimedOut(f"{request.method} {request.path}: no answer in time"))

        source.wake = head
        self._later(request.timeout, no_head)


def _fail(waiter: asyncio.Future[Response], error: Exception) -> None:
    if not waiter.done():
        waiter.set_exception(error)


def _give(waiter: asyncio.Future[Response], response: Response) -> None:
    if not waiter.done():
        waiter.set_result(response)


class _Stream:
    """A body in pieces, with the faults that were drawn as it was opened."""

    def __init__(self, transport: InProcessTransport, response: Response, source: Source | None, idle: float) -> None:
        self.status = response.status
        self.headers = response.headers
        self._transport = transport
        self._loop = transport._loop
        self._source = source
        self.watched = source.resource if isinstance(source, Watch) else ""
        self._idle = idle
        self._left = bytearray(response.body)
        self._waiter: asyncio.Future[None] | None = None
        self._heard = self._loop.time()
        self._watchdog: Any = None
        self._closed = False
        self._lost = False
        self._silent = False
        self._lagging = False
        self._limit, self._how = self._draw()
        if source is not None:
            source.wake = self._wake
            transport.streams[self] = None

    def _draw(self) -> tuple[float, str]:
        faults, random = self._transport.faults, self._transport.random
        if self._source is None or not (faults.cut or faults.stall) or self._loop.time() >= faults.until:
            return float("inf"), ""
        kind = random.random()
        if kind < faults.cut:
            return random.expovariate(1 / faults.cut_bytes), "reset" if random.random() < 0.5 else "end"
        if kind < faults.cut + faults.stall:
            return random.expovariate(1 / faults.cut_bytes), "stall"
        return float("inf"), ""

    # What the cluster and the network do.

    def _wake(self) -> None:
        low, high = self._transport.faults.lag
        if high and self._loop.time() < self._transport.faults.until:
            if not self._lagging:
                self._lagging = True
                self._transport._later(low + (high - low) * self._transport.random.random(), self._rouse)
        else:
            self._rouse()

    def _rouse(self) -> None:
        self._lagging = False
        if self._waiter is not None and not self._waiter.done() and not self._silent:
            self._waiter.set_result(None)

    def lose(self) -> None:
        self._lost = True
        self._silent = False
        self._rouse()

    def silence(self) -> None:
        self._silent = True

    # What the launcher calls.

    async def read(self) -> bytes:
        while True:
            if self._closed:
                # So that who reads on and on after the end is found by the loop's limit of callbacks.
                await asyncio.sleep(0)
                return b""
            if self._lost:
                self._end()
                raise Broken("connection reset")
            if not self._silent and not self._lagging:
                data = self._next()
                if data is not None:
                    self._heard = self._loop.time()
                    return data
            await self._wait()

    def _next(self) -> bytes | None:
        """The next piece, b"" at the end, None where there is nothing yet."""
        source = self._source
        if source is not None and not source.broken:
            self._left += source.take()
        if len(self._left) > self._limit:
            del self._left[max(0, int(self._limit)) :]
        data = self._piece()
        if data:
            return data
        if self._limit < 1:
            if self._how == "stall":
                self._silent = True
                self._transport_detach()
                return None
            self._end()
            if self._how == "reset":
                raise Broken("connection reset")
            self._closed = True
            return b""
        if source is None or source.ended:
            self._end()
            self._closed = True
            return b""
        if source.broken:
            self._end()
            raise Broken("connection reset by the server")
        return None

    def _piece(self) -> bytes:
        size = len(self._left)
        if size > 1 and self._transport.faults.fragments:
            size = 1 + int(self._transport.random.random() * size)
        data = bytes(self._left[:size])
        del self._left[:size]
        self._limit -= size
        return data

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        if self._watchdog is None:
            self._watchdog = self._loop.call_at(self._heard + self._idle, self._check)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _check(self) -> None:
        """One timer a stream, set anew only when it rings: reads need none of their own."""
        self._watchdog = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() >= self._heard + self._idle:
            self._end()
            self._waiter.set_exception(Stalled(f"silent for {self._idle:g} s"))
        else:
            self._watchdog = self._loop.call_at(self._heard + self._idle, self._check)

    def _transport_detach(self) -> None:
        if self._source is not None:
            self._source.wake = None
            self._source.detach()

    def _end(self) -> None:
        self._transport_detach()
        self._transport.streams.pop(self, None)
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None

    async def close(self) -> None:
        self._closed = True
        self._end()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
