"""Plays one script: servers with whole launchers on virtual time, their readers, and what befalls them."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from kubekit import yamlread
from paperclip_launcher import launcher, marks, podstate, runlog
from paperclip_launcher.masking import Mask
from paperclip_launcher.skills import pack
from paperclip_launcher.templates import Templates
from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.loop import VirtualLoop
from tests.fakeapi.model import Program
from tests.fakeapi.store import Change
from tests.launcher.sim import asking, bundles, clearing, judging, living, striking
from tests.launcher.sim.host import LEASE_SECONDS, Host
from tests.launcher.sim.invariants import Watcher
from tests.launcher.sim.masks import Remembering
from tests.launcher.sim.script import NO_SKILLS, Script
from tests.launcher.sim.wish import Wish

_ROOT = Path(__file__).parents[3]
_PATIENCE = 300_000.0


@cache
def templates() -> Templates:
    """Those of the shipped environment, with a short text in place of entry.sh: it would be most of the bytes."""
    folder = _ROOT / "dist/minimal/job-templates"
    trees: dict[str, Any] = {path.stem: yamlread.read(path.read_bytes(), path.name).value for path in folder.iterdir()}
    [container] = trees["claude"]["job"]["spec"]["template"]["spec"]["containers"]
    container["command"] = ["/bin/sh", "-c", "exec"]
    return Templates.of(trees)


class World:
    """One history. `trace` is called with each line for people."""

    def __init__(self, script: Script, trace: Callable[[str], None] | None = None) -> None:
        self.script = script
        self.trace = trace
        self.random = random.Random(f"world {script.seed}")
        self.templates = templates()
        self.loop = VirtualLoop(script.seed, shuffle=script.shuffle, steps=150_000)
        self.cluster = FakeCluster(self.loop, script.seed, program_for=self._program, keep_trail=trace is not None)
        keys = {"metadata": {"name": "paperclip-agent-keys"}, "data": {"ANTHROPIC_API_KEY": "eA=="}}
        self.cluster.put("secrets", keys)
        self.cluster.knobs.present_secrets = frozenset({"paperclip-agent-keys"})
        self.wishes = {order.run: Wish(order) for order in script.orders}
        longest = max((one.seconds for server in script.servers for one in server.freezes), default=0.0)
        self.watcher = Watcher(
            self.cluster,
            self._policy,
            self._stoppable,
            LEASE_SECONDS,
            longest,
            prompt=script.prompt,
            watched=script.watched,
        )
        if any(order.program.end == "node-lost" for order in script.orders):
            self.cluster.knobs.node_eviction = self.random.choice((45.0, 300.0))
            self.cluster.knobs.deleted_node_pods_vanish = self.random.uniform(1.0, 400.0)
        if trace is not None:
            self.cluster.store.listeners.append(self._changed)
        self.hosts: list[Host] = []
        self.lives = 0
        """Begun so far."""
        self.full: dict[str, float] = {}
        """Resource to when there is room again."""
        self._change = asyncio.Event()

    def say(self, text: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.loop.time():10.3f}  {text}")

    def settle(self, wish: Wish) -> None:
        wish.settled = True
        self._change.set()

    def play(self) -> list[str]:
        """What was wrong; nothing, if all is well."""
        try:
            self.loop.run(self._main(), limit=_PATIENCE)
        except AssertionError as error:
            self.watcher.wrong(f"{type(error).__name__}: {error}")
        for problem in self.loop.problems:
            self.watcher.wrong(f"{problem.get('message')}: {problem.get('exception')!r}")
        return self.watcher.problems

    def _policy(self, run: str) -> str:
        wish = self.wishes.get(run)
        return wish.order.policy if wish is not None else "reattach"

    def _stoppable(self, run: str) -> bool:
        """Whether its launcher may want to end it early."""
        order = self.wishes[run].order if run in self.wishes else None
        changes = order is not None and order.skills.changed < float("inf")  # what it waits for may not be had any more
        return order is None or order.cancel is not None or order.timeout > 0 or changes

    def _program(self, job: Mapping[str, Any]) -> Program:
        wish = self.wishes.get(marks.annotation(dict(job), marks.RUN_ID))
        program = wish.order.program if wish is not None else Program()
        return replace(program, on_start=self._starts)

    def _starts(self, pod: Mapping[str, Any]) -> None:
        self.watcher.container_starts(pod)
        run = marks.annotation(dict(pod), marks.RUN_ID)
        whole = run not in self.watcher.disturbed  # else its Secrets may be on their way out
        if run in self.wishes and self.wishes[run].order.skills is not NO_SKILLS and whole:
            wrong = bundles.problem(self.wishes[run].order.skills, pod, partial(self.cluster.get, "secrets"))
            if wrong:
                self.watcher.wrong(f"{run}: {wrong}")

    def _changed(self, change: Change) -> None:
        resource, _, name = change.item.key
        if resource in ("jobs", "pods", "secrets"):
            tree = change.item.obj
            seen = (
                podstate.progress(None, tree)
                if resource == "pods"
                else podstate.terminal(tree)
                if resource == "jobs"
                else ""
            )
            self.say(f"    {change.actor}: {change.kind} {resource} {name} {seen}")

    async def _main(self) -> None:
        self.hosts = [Host(server) for server in self.script.servers]
        for host in self.hosts:
            for freeze in host.freezes:
                if not freeze.call:
                    self.cluster.later("test", freeze.at, living.stand_still, self, host, freeze.seconds)
        cancels: list[asyncio.Task[None]] = []
        for wish in list(self.wishes.values()):
            self.hosts[wish.order.server].wishes.append(wish)
            if wish.order.rival is not None:
                self.hosts[wish.order.rival].wishes.append(wish)
            if wish.order.cancel is not None:
                cancels.append(asyncio.create_task(asking.cancel(self, wish)))
        for trouble in self.script.troubles:
            self.cluster.later("test", trouble.at, striking.strike, self, trouble)
        lives = [asyncio.create_task(living.supervise(self, host)) for host in self.hosts]
        lives += [
            asyncio.create_task(living.overlap(self, host)) for host in self.hosts if host.script.twin_at is not None
        ]
        while not all(wish.settled for wish in self.wishes.values()):
            self._change.clear()
            change = asyncio.create_task(self._change.wait())
            done, _ = await asyncio.wait({*lives, change}, return_when=asyncio.FIRST_COMPLETED)
            change.cancel()
            for life in done - {change}:
                life.result()
                lives.remove(life)
        self.say("all runs are settled")
        for host in self.hosts:
            host.leaving = True
            host.bell.set()
        await asyncio.gather(*lives)
        await clearing.clear_up(self)
        judging.judge(self)


class _Complaints(logging.Handler):
    """Errors that the launcher logs are problems of the history; with a trace, all that it says is in it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.DEBUG if world.trace is not None else logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.name.removeprefix('paperclip_launcher.')}: {record.getMessage()}"
        self._world.say(text)
        if record.levelno >= logging.ERROR:
            error = record.exc_info[1] if record.exc_info else None
            self._world.watcher.wrong(f"logged as an error: {text} {error!r}")


def play(script: Script, trace: Callable[[str], None] | None = None) -> list[str]:
    """Plays it: what was wrong."""
    world = World(script, trace)
    log = logging.getLogger("paperclip_launcher")
    handler = _Complaints(world)
    level, spread, handlers = log.level, log.propagate, log.handlers
    # What a dead launcher was waiting for only holds itself: Python must not clear it away before the history is over.
    collecting = gc.isenabled()
    gc.disable()
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.DEBUG if trace is not None else logging.ERROR)
    launcher.Mask = runlog.Mask = Remembering
    room, pack.SECRET_BYTES = pack.SECRET_BYTES, bundles.SECRET_BYTES
    try:
        return world.play()
    finally:
        launcher.Mask = runlog.Mask = Mask
        pack.SECRET_BYTES = room
        log.setLevel(level)
        log.handlers, log.propagate = handlers, spread
        if collecting:
            gc.enable()
