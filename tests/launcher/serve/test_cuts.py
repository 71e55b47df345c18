"""Clients are lost, and launchers end, at any moment: what is stored is the log, byte by byte."""

from __future__ import annotations

import asyncio
import random

import pytest

from paperclip_launcher.provision import Stock
from paperclip_launcher.serve.service import Service
from tests.fakeapi.inprocess import Faults
from tests.fakeapi.model import Program
from tests.launcher.core.stage import Stage, spoken
from tests.launcher.serve.client import Client, Failure
from tests.launcher.serve.test_runs import context, printed

ROUGH = Faults(broken=0.02, refused={503: 0.02}, cut=0.3, stall=0.02, cut_bytes=4000)


def program(chance):
    """Bursts and pauses; some bytes are no text, some lines are longer than a batch."""
    lines = []
    for number in range(chance.randint(5, 120)):
        gap = chance.choice([0.0, 0.0, 0.01, 0.3, 4.0])
        filler = chance.choice([b"", b"\xff\x00", "é".encode() * 40, b"z" * chance.choice([10, 3000, 90_000])])
        lines.append((gap, b"line %d " % number + filler))
    return Program([*lines, *spoken("done", gap=0.1)])


class Store:
    """What survives of a client."""

    def __init__(self):
        self.log = b""
        self.result = None

    async def read(self, service, chance):
        """One connection, until it has the result or is cut at a random moment."""
        client = await Client(service).hello()
        # What was half made can only be gone on with by its request.
        method = chance.choice(["run.execute", "run.execute", "run.attach"]) if self.log else "run.execute"
        asked = {"context": context()} if method == "run.execute" else {"runId": "run-1"}
        begin = len(self.log)
        waiting = client.ask(method, offset=begin, **asked)
        done, _ = await asyncio.wait({waiting}, timeout=chance.choice([0.01, 0.3, 2.0, 20.0, 600.0]))
        client.leave()
        await client.ended()
        self.log += client.logs.get("run-1", b"")
        assert client.offsets.get("run-1", begin) == len(self.log)
        if done:
            self.take(waiting)

    def take(self, waiting):
        try:
            result = waiting.result()["result"]
        except Failure as error:
            assert error.data["code"] in {"run_not_found", "detached"}, error.data  # noqa: PT017  nothing else may come
            return
        assert self.result in (None, result)
        self.result = result


@pytest.mark.parametrize("seed", range(24))
def test_what_is_stored_is_the_log_whenever_a_connection_or_a_launcher_ends(seed):
    chance = random.Random(seed)
    stage = Stage(program(chance), seed)
    store = Store()
    faults = chance.choice([Faults(), ROUGH])

    async def scene():
        lives = chance.randint(1, 4)
        for life in range(lives):
            async with stage.launcher(faults=faults) as launcher:
                service = Service(launcher, Stock(), asyncio.Event())
                for _ in range(chance.randint(1, 5)):
                    await store.read(service, chance)
                    await asyncio.sleep(chance.choice([0.0, 0.1, 5.0, 60.0]))
                while life == lives - 1 and (store.result is None or len(store.log) < len(printed(stage))):
                    await store.read(service, chance)

    stage.play(scene, limit=36_000)
    assert store.log == printed(stage)
    assert store.result["exitCode"] == 0
    assert store.result["summary"] == "done"
    assert stage.cluster.calls["create", "jobs"] >= 1
