"""The scripted API server as a process of its own, for the bench. usage: python -m bench.launcher_server --help

Each line of its containers holds the time of day at which it was printed. It says its address on one line; on SIGUSR1
all programs end at their next line, on SIGTERM it ends.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.faults import FINE, Faults
from tests.fakeapi.model import Knobs, Program
from tests.fakeapi.sockets import SocketServer

_ENDLESS = 1 << 40
_HISTORY = 20_000
_CUT_BYTES = 20_000.0
_LAST = b'{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s-1"}'


class Lines(Sequence[tuple[float, bytes]]):
    """`count` lines (0: until SIGUSR1) of `size` bytes, `burst` at a time, such a burst each `every` seconds."""

    over = False

    def __init__(self, count: int, size: int, burst: int, every: float, phase: float) -> None:
        self._count = count or _ENDLESS
        self._burst = burst
        self._every = every
        self._phase = phase
        self._size = size
        self._said_all = False

    def __len__(self) -> int:
        return 0 if self._said_all else self._count

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            if self.over:
                self._said_all = True
                return [(0.0, _LAST)]
            return [self[one] for one in range(at.start, at.stop)]
        if at == self._count - 1:
            return 0.0, _LAST
        # The first burst of each run at a time of its own, or all would speak at once.
        delay = 0.0 if at % self._burst else self._every if at else self._phase
        text = b'{"type":"user","at":%.6f,"line":%d,"text":"' % (time.time(), at)
        return delay, text + b"." * (self._size - len(text) - 3) + b'"}'


async def serve(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    phases = random.Random(options.seed)

    def program_for(_: object) -> Program:
        phase = phases.random() * options.every
        return Program(Lines(options.count, options.size, options.burst, options.every, phase))

    knobs = Knobs(present_secrets=frozenset({"paperclip-agent-keys"}), equal_stamps=0.0, history=_HISTORY)
    cluster = FakeCluster(loop, options.seed, program_for=program_for, knobs=knobs, epoch=time.time() - loop.time())
    faults = Faults(cut=options.cut, cut_bytes=_CUT_BYTES) if options.cut else FINE
    server = SocketServer(cluster, faults, seed=options.seed)
    sys.stdout.write(f"{await server.start(options.port)}\n")
    sys.stdout.flush()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, lambda: setattr(Lines, "over", True))
    gc.freeze()  # its own pauses would be measured as ours
    parent = os.getppid()
    while not stop.is_set() and os.getppid() == parent:
        try:
            async with asyncio.timeout(1):
                await stop.wait()
        except TimeoutError:
            continue
    await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.launcher_server", description="A fake API server.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=0, help="lines of a run; 0: until SIGUSR1")
    parser.add_argument("--size", type=int, default=200, help="bytes of a line")
    parser.add_argument("--burst", type=int, default=1, help="lines at a time")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two bursts")
    parser.add_argument("--cut", type=float, default=0.0, help="chance of a stream that breaks off")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
