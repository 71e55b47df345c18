"""A log as a kubelet serves it, whose connections break in every way; and random histories of following one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from types import MappingProxyType
from typing import Any

from paperclip_launcher.cluster.errors import Invalid
from paperclip_launcher.cluster.transport import Broken, NotSent, Stalled
from paperclip_launcher.log.follow import LogEnd, LogFollower
from paperclip_launcher.log.position import LogPosition
from tests.fakeapi.loop import VirtualLoop

BILLION = 1_000_000_000
BEGIN = 1_790_000_000


def stamp(at: int, *, digits: int = 9, hours: int = 0) -> bytes:
    moment = (datetime.fromtimestamp(at // BILLION, UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S")
    zone = f"{hours:+03d}:00" if hours else "Z"
    fraction = f".{at % BILLION:09d}"[: digits + 1] if digits else ""
    return f"{moment}{fraction}{zone} ".encode()


class FakeLog:
    """`connections` counts what was opened; `fate` is asked, for each, how it ends: after how many bytes, and how."""

    def __init__(self, *, seed: int = 0, fate: Callable[[bool], tuple[int, str]] | None = None) -> None:
        self.rng = Random(seed)
        self.fate = fate or (lambda _follow: (1 << 62, "end"))
        self.records: list[tuple[int, bytes]] = []
        self.texts: list[bytes] = []
        self.first = 0  # what was before was rotated away
        self.ended = False
        self.unfinished = b""  # the last line of a program that did not end it
        self.asked: list[tuple[str, bool]] = []
        self.open_streams = 0
        self.largest = 4096
        self._news: set[asyncio.Future[None]] = set()

    def write(self, at: int, text: bytes, *, before: bytes | None = None) -> None:
        self.records.append((at, (stamp(at) if before is None else before) + text + b"\n"))
        self.texts.append(text + b"\n")
        self.tell()

    def end(self) -> None:
        self.ended = True
        self.tell()

    def tell(self) -> None:
        news, self._news = self._news, set()
        for one in news:
            one.done() or one.set_result(None)

    async def news(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._news.add(waiter)
        await waiter

    async def open(self, since: str, follow: bool) -> FakeStream:  # noqa: FBT001 the follower's seam
        self.asked.append((since, follow))
        budget, how = self.fate(follow)
        if how == "refused":
            raise NotSent("no connection")
        if how == "waiting":
            raise Invalid(400, "BadRequest", "container is waiting to start")
        if how == "silent head":
            await asyncio.sleep(1e9)
        begin = int(datetime.fromisoformat(since).timestamp()) * BILLION if since else 0
        self.open_streams += 1
        return FakeStream(self, begin, follow=follow, budget=budget, how=how)

    @property
    def text(self) -> bytes:
        return b"".join(self.texts) + self.unfinished[31:]


class FakeStream:
    status = 200
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(self, log: FakeLog, begin: int, *, follow: bool, budget: int, how: str) -> None:
        self.log, self.begin, self.follow, self.budget, self.how = log, begin, follow, budget, how
        self.at = log.first
        self.until = None if follow else len(log.records)
        self.buffer = b""
        self.tail_sent = False
        self.closed = False

    async def read(self) -> bytes:
        assert not self.closed
        while True:
            self._fill()
            if self.budget <= 0:
                return await self._fate()
            if self.buffer:
                size = min(self.log.rng.randint(1, self.log.largest), self.budget, len(self.buffer))
                chunk, self.buffer = self.buffer[:size], self.buffer[size:]
                self.budget -= size
                return chunk
            if not self.follow or self.log.ended:
                return b""
            await self.log.news()

    def _fill(self) -> None:
        records = self.log.records[self.at : self.until]
        self.at += len(records)
        self.buffer += b"".join([line for at, line in records if at >= self.begin])
        if (self.log.ended or not self.follow) and not self.tail_sent:
            self.tail_sent = True
            self.buffer += self.log.unfinished

    async def _fate(self) -> bytes:
        if self.how == "end":
            return b""
        if self.how == "stall":
            await asyncio.sleep(1e9)
        raise {"reset": Broken("reset"), "idle": Stalled("silent")}[self.how]

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.log.open_streams -= 1


class Reader:
    """Takes what is delivered; can be slow."""

    def __init__(self, *, rng: Random | None = None) -> None:
        self.data = bytearray()
        self.batches: list[int] = []
        self.positions: list[LogPosition] = []
        self.notes: list[str] = []
        self.rng = rng

    async def take(self, data: bytes, position: LogPosition) -> None:
        self.data += data
        self.batches.append(len(data))
        self.positions.append(position)
        assert position.offset == len(self.data)
        if self.rng is not None and self.rng.random() < 0.3:
            await asyncio.sleep(self.rng.random() / 10)


def follower(log: FakeLog, reader: Reader, **options: Any) -> LogFollower:
    return LogFollower(log.open, reader.take, note=reader.notes.append, rng=Random(1), **options)


def faults(rng: Random, chance: float) -> Callable[[bool], tuple[int, str]]:
    kinds = ["end", "reset", "idle", "stall", "refused", "waiting", "silent head"]

    def fate(follow: bool) -> tuple[int, str]:  # noqa: FBT001 as above
        if rng.random() > chance:
            return 1 << 62, "end"
        how = rng.choice(kinds if follow else kinds[1:])  # a clean cut of a read looks like its end to everybody
        return int(rng.choice((1, 200, 5000, 40_000)) * rng.random()), how

    return fate


async def write_random(log: FakeLog, rng: Random, count: int) -> None:
    """Lines with equal stamps, repeated lines, late ones, bursts and pauses."""
    at, late = BEGIN * BILLION + rng.randrange(BILLION), rng.random() < 0.5
    for number in range(count):
        pause = rng.choice((0, 0, 0, 1, 1000, 50_000_000, 700_000_000, 3_000_000_000))
        at += pause
        if rng.random() < 0.2:
            await asyncio.sleep(pause / BILLION)
        text = rng.choice(
            (b"same", b"", b"\r\x1b[31m\x00\xff\xc3", b"n%d" % number, b"x" * rng.randrange(3000), "né🙂".encode())
        )
        when = at - rng.randrange(1_900_000_000) if late and rng.random() < 0.2 else at
        for _ in range(rng.choice((1, 1, 1, 1, 3))):
            log.write(when, text)


def history(seed: int, *, lines: int = 60, chance: float = 0.8) -> tuple[FakeLog, Reader, LogEnd]:
    """One run of a launcher after another follows one log to its end, each from the position that the last one kept."""
    rng = Random(seed)
    loop = VirtualLoop(seed)
    log = FakeLog(seed=seed)
    log.largest = rng.choice((1, 7, 300, 100_000)) if lines < 100 else 5000
    log.fate = faults(rng, chance)
    reader = Reader(rng=rng)

    async def main() -> LogEnd:
        writer = asyncio.create_task(write_random(log, rng, lines))
        kept = LogPosition()
        while not writer.done():
            one = follower(log, reader, position=kept)
            task = asyncio.create_task(one.run())
            await asyncio.wait([writer], timeout=rng.choice((0.0, 0.3, 5, 60, 1e6)))
            task.cancel()
            await asyncio.wait([task])
            last = reader.positions[-1] if reader.positions else LogPosition()
            kept = LogPosition.from_json(last.to_json())
        if rng.random() < 0.3:
            log.unfinished = stamp(log.records[-1][0] + 1) + b"no end"
        log.end()
        last_one = follower(log, reader, position=kept)
        asyncio.get_running_loop().call_later(rng.choice((0, 1, 100)), last_one.finish)
        log.fate = faults(rng, chance / 2)
        return await last_one.run()

    try:
        return log, reader, loop.run(main())
    finally:
        loop.close()
