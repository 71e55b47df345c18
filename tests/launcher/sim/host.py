"""One server over all its lives: its disk, its clock, and what runs on it now."""

from __future__ import annotations

import asyncio
import random

from paperclip_launcher.journal import MemoryJournal, Record
from paperclip_launcher.launcher import Launcher
from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.inprocess import InProcessTransport
from tests.fakeapi.loop import Process
from tests.launcher.sim.script import Server
from tests.launcher.sim.wish import Wish

LEASE_SECONDS = 30


class Disk(MemoryJournal):
    """A journal of which a power loss takes what was not synced."""

    def __init__(self) -> None:
        super().__init__()
        self._safe: dict[str, str] = {}

    def write(self, record: Record, *, sync: bool = False) -> None:
        super().write(record, sync=sync)
        if sync:
            self._safe[record.key] = self._texts[record.key]

    def lose_power(self, rng: random.Random) -> None:
        for key in list(self._texts):
            if rng.random() < 0.5:
                continue
            if key in self._safe:
                self._texts[key] = self._safe[key]
            else:
                del self._texts[key]


class Clock:
    """The time of day as a server has it, `skew` seconds wrong."""

    def __init__(self, cluster: FakeCluster, skew: float) -> None:
        self._cluster = cluster
        self._skew = skew

    def now(self) -> float:
        return self._cluster.store.epoch + self._cluster.loop.time() + self._skew


class Host:
    """One server over all its lives."""

    def __init__(self, script: Server, twin: Host | None = None) -> None:
        self.script = script
        self.name = script.identity + ("'" if twin is not None else "")
        self.journal = twin.journal if twin is not None and script.shared else Disk()
        self.twin: Host | None = twin
        """The other process of the same identity."""
        self.freezes = [] if twin is not None else [*script.freezes]
        self.wishes: list[Wish] = []
        self.bell = asyncio.Event()
        self.launcher: Launcher | None = None
        self.process: Process | None = None
        self.transport: InProcessTransport | None = None
        self.leaving = False
        self.quits: Process | None = None
        """A life that is told to end in order."""
        self.died = asyncio.Event()
        self.gone = False
        self.gone_for_good = True
        self.given_up = False
        """Though it may be back."""
