"""The lives of a server: it starts, is killed, stands still, is there twice, and ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from paperclip_launcher import sweep
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.transport import Request
from paperclip_launcher.errors import LauncherError
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.settings import Settings
from tests.fakeapi.cluster import NAMESPACE
from tests.fakeapi.inprocess import InProcessTransport
from tests.fakeapi.loop import Process
from tests.launcher.sim import asking, inheriting
from tests.launcher.sim.host import LEASE_SECONDS, Clock, Disk, Host
from tests.launcher.sim.script import Death, Freeze
from tests.launcher.sim.wish import Wish

if TYPE_CHECKING:
    from tests.launcher.sim.world import World

_SWEEPS = 300.0
_PODLESS = frozenset({"evicted", "preempted", "node-lost"})
"""Ends after which the pod may be gone before its Job."""


async def supervise(world: World, host: Host) -> None:
    """Life after life of one server."""
    deaths = [*host.script.deaths]
    while not host.leaving:
        death = deaths.pop(0) if deaths else None
        host.died.clear()
        host.quits = None
        task = _begin_life(world, host, death)
        ended = asyncio.create_task(host.died.wait())
        await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        launcher, host.launcher = host.launcher, None
        if task.done() and not host.died.is_set():
            _look_at(world, task)
            if launcher is not None and launcher.lost.is_set() and host.twin is not None:
                world.say(f"server {host.name} has lost its identity")
                host.leaving = True
                for wish in host.wishes:
                    wish.busy.pop(host.name, None)
                return
            quits = host.quits is not None and host.quits is host.process
            if death is not None and not quits:
                deaths.insert(0, death)  # it never began
            await asyncio.sleep((quits and death is not None and death.back) or 1.0)
            continue
        if death is None:
            raise AssertionError("who dies has a death")
        world.say(f"server {host.script.identity} is dead: {death}")
        if death.wiped:
            world.watcher.untold |= {one.job_name for one in host.journal.records() if one.acknowledged}
            host.journal = Disk()
            inheriting.forget_begun(world, host)
        elif death.power:
            host.journal.lose_power(world.random)
        if death.back is None:
            host.gone = True
            await inheriting.take_over(world, host)
            return
        await asyncio.sleep(death.back)


async def overlap(world: World, host: Host) -> None:
    """The second process of a server: Paperclip speaks with it from now on, while the first one still runs."""
    await asyncio.sleep(host.script.twin_at or 0.0)
    if host.leaving:
        return
    twin = host.twin = Host(host.script, host)
    world.hosts.append(twin)
    for wish in host.wishes:
        if wish.settled:
            continue
        order = wish.order
        if not host.script.shared and wish.result is not None and world.cluster.get("jobs", wish.own_job) is None:
            world.settle(wish)  # nothing but the first one's disk knows of it: it must not be asked for again
            continue
        if not host.script.shared and _may_be_unknown(world, wish):
            world.watcher.forgotten.add(order.run)
        # Who does not know what it has takes it from both.
        known = wish.logs.setdefault(host.name, bytearray())
        wish.logs[twin.name] = known if wish.order.blind else bytearray(known)
        wish.holder = twin.name
        twin.wishes.append(wish)
    await supervise(world, twin)


def _may_be_unknown(world: World, wish: Wish) -> bool:
    """Whether a process without the disk of the first may know nothing of the run. The first one may be deleting its
    Job, or have seen the end of a pod that is gone now, or both may be asked for it before there is a Job.
    """
    order = wish.order
    stopped = order.cancel is not None or order.timeout > 0 or order.program.start != "run"
    ends_unseen = stopped or order.program.end in _PODLESS
    return ends_unseen or world.cluster.get("jobs", wish.own_job) is None


def _look_at(world: World, task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, LauncherError):
        raise AssertionError(f"a server ends by {type(error).__name__}: {error}") from error
    world.say(f"a life ends: {error or 'in order'}")


def _begin_life(world: World, host: Host, death: Death | None) -> asyncio.Task[None]:
    world.lives += 1
    process = Process(f"{host.script.identity}/{world.lives}")
    host.process = process
    hooks = []
    if death is not None and death.call:
        hooks.append(_killer(world, host, process, death))
    hooks += [_freezer(world, host, freeze) for freeze in host.freezes if freeze.call]
    hook = (lambda *what: [one(*what) for one in hooks]) if hooks else None
    host.transport = InProcessTransport(
        world.cluster,
        world.script.faults,
        seed=world.script.seed + world.lives,
        user=process.name,
        process=process,
        hook=hook,
    )
    world.say(f"server {process.name} starts")
    if death is not None and not death.call:
        world.loop.call_later(death.at, _leave if death.orderly else _kill, host, process)
    return world.loop.spawn(_life(world, host, process), process)


def _killer(world: World, host: Host, process: Process, death: Death) -> Callable[[str, Request], None]:
    count = 0

    def hook(moment: str, request: Request) -> None:
        nonlocal count
        count += moment == "before"
        if count == death.call and moment == death.moment:
            world.say(f"{process.name} is killed {moment} {request.method} {request.path}")
            _kill(host, process)

    return hook


def _freezer(world: World, host: Host, freeze: Freeze) -> Callable[[str, Request], None]:
    count = 0

    def hook(moment: str, request: Request) -> None:
        nonlocal count
        if request.method == freeze.method and "/leases/paperclip-" not in request.path and freeze in host.freezes:
            count += moment == "before"
            if count == freeze.call and moment == freeze.moment:
                host.freezes.remove(freeze)
                world.say(f"{host.name} stands still {moment} {request.method} {request.path}")
                stand_still(world, host, freeze.seconds)

    return hook


def stand_still(world: World, host: Host, seconds: float) -> None:
    process = host.process
    if process is None or not process.alive or process.frozen:
        return
    world.say(f"{host.name} stands still for {seconds:.1f} s")
    process.freeze()

    def thaw() -> None:
        world.say(f"{host.name} goes on")
        world.loop.thaw(process)

    world.cluster.later("test", seconds, thaw)
    if world.script.takeover and host is world.hosts[0]:
        world.cluster.later(
            "test", 0.0, lambda: asyncio.ensure_future(inheriting.second_server(world), loop=world.loop)
        )


def _kill(host: Host, process: Process) -> None:
    if process.alive and host.process is process and host.transport is not None:
        host.transport.kill()
        host.died.set()


def _leave(host: Host, process: Process) -> None:
    if host.process is process:
        host.quits = process
        host.bell.set()


async def _life(world: World, host: Host, process: Process) -> None:
    rng = random.Random(f"{world.script.seed} {process.name}")
    settings = Settings(NAMESPACE, host.script.identity, lease_seconds=LEASE_SECONDS)
    skew = host.script.skew
    transport = host.transport
    assert transport is not None
    cluster = Cluster(transport, NAMESPACE, rng=rng)
    launcher = Launcher(
        cluster, settings, world.templates, journal=host.journal, clock=Clock(world.cluster, skew), rng=rng
    )
    launcher.judge = None
    begun: set[str] = set()
    tasks: list[asyncio.Task[None]] = []
    async with launcher:
        host.launcher = launcher
        tasks.append(asyncio.create_task(_clear_now_and_then(launcher)))
        while not (host.leaving or host.quits is process or launcher.lost.is_set()):
            for wish in host.wishes:
                if wish.order.run not in begun and not wish.settled:
                    begun.add(wish.order.run)
                    tasks.append(asyncio.create_task(asking.want(world, host, launcher, wish, process)))
                    tasks[-1].add_done_callback(partial(_watch_reader, world))
            host.bell.clear()
            await host.bell.wait()
        if all(wish.settled for wish in host.wishes):
            await _let_end(world, launcher)
    for task in tasks:
        task.cancel()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(error, Exception):
            world.watcher.wrong(f"a reader ends by {type(error).__name__}: {error}")


async def _clear_now_and_then(launcher: Launcher) -> None:
    """As `serve` does it."""
    await sweep.sweep(launcher, begun=False)
    while True:
        await asyncio.sleep(_SWEEPS)
        await sweep.sweep(launcher)


async def _let_end(world: World, launcher: Launcher) -> None:
    for _ in range(800):
        await asyncio.sleep(1.0)
        if not launcher.runs:
            return
    world.watcher.wrong(f"these do not end: {dict(launcher.describe_runs())}")


def _watch_reader(world: World, task: asyncio.Task[None]) -> None:
    """A reader that fails would leave its run unsettled for ever."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        world.watcher.wrong(f"a reader ends by {type(error).__name__}: {error}")
        for wish in world.wishes.values():
            world.settle(wish)
