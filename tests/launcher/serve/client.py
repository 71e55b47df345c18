"""A client of the protocol, and the two ends of a connection without a socket."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from typing import Any


class Line:
    """One direction: what is written comes out of `read`. With `stuck`, nothing leaves until it is false again."""

    def __init__(self) -> None:
        self.stuck = False
        self.ended = False
        self.broken = False
        self._data = bytearray()
        self._changed = asyncio.Event()

    # lines.Source

    async def read(self, most: int) -> bytes:
        while not self._data and not self.ended:
            self._changed.clear()
            await self._changed.wait()
        if self.broken:
            raise ConnectionResetError("reset")
        data = bytes(self._data[:most])
        del self._data[:most]
        return data

    # peer.Drain

    def write(self, data: bytes) -> None:
        if not self.ended:
            self._data += data
            self._changed.set()

    async def drain(self) -> None:
        while self.stuck and not self.ended:
            self._changed.clear()
            await self._changed.wait()
        if self.ended:
            raise ConnectionResetError("gone")

    def unread(self) -> int:
        return len(self._data) if self.stuck else 0

    def end(self) -> None:
        self.ended = True
        self._changed.set()

    abort = end

    async def close(self) -> None:
        self.end()


class Failure(Exception):
    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data", {})


class Client:
    """Keeps what it is told; acknowledges log at once unless `lazy`."""

    def __init__(self, service: Any, *, lazy: bool = False) -> None:
        self.up, self.down = Line(), Line()
        self.lazy = lazy
        self.logs: dict[str, bytes] = {}
        self.offsets: dict[str, int] = {}
        self.notices: list[dict[str, Any]] = []
        self.notes: list[tuple[str, str, str]] = []
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.peer = service.peer(self.up, self.down, "test")
        self._tasks = [asyncio.create_task(self.peer.serve()), asyncio.create_task(self._listen())]

    async def hello(self, client: Any = "test") -> Client:
        await self.call("initialize", protocolVersion=1, client=client)
        return self

    async def call(self, method: str, **params: Any) -> Any:
        return await self.ask(method, **params)

    def ask(self, method: str, **params: Any) -> asyncio.Future[Any]:
        """Sent at once; the answer comes later."""
        number = next(self._ids)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return self._waiting[number]

    def send(self, tree: Any) -> None:
        self.up.write(json.dumps(tree).encode() + b"\n")

    def leave(self) -> None:
        """As a process that is killed."""
        self.up.broken = self.down.broken = True
        self.up.end()
        self.down.end()

    async def ended(self) -> None:
        await asyncio.gather(*self._tasks)

    async def _listen(self) -> None:
        rest = b""
        try:
            while chunk := await self.down.read(1 << 20):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        except ConnectionResetError:
            return

    def _take(self, tree: dict[str, Any]) -> None:
        if "method" not in tree:
            waiting = self._waiting.pop(tree["id"], None) if tree["id"] is not None else None
            if waiting is None:
                self.notices.append(tree)
            elif "error" in tree:
                waiting.set_exception(Failure(tree["error"]))
            else:
                waiting.set_result(tree["result"])
            return
        params = tree["params"]
        self.notices.append(tree)
        if tree["method"] == "run.note":
            self.notes.append((params["runId"], params["kind"], params["text"]))
        if tree["method"] == "run.log":
            data = base64.b64decode(params["base64"]) if "base64" in params else params["data"].encode()
            self.logs[params["runId"]] = self.logs.get(params["runId"], b"") + data
            self.offsets[params["runId"]] = params["offset"]
            if not self.lazy:
                stored = {"runId": params["runId"], "offset": params["offset"]}
                self.send({"jsonrpc": "2.0", "method": "run.ack", "params": stored})
