"""Paperclip asks for its runs and their ends, and takes their results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from paperclip_launcher import marks
from paperclip_launcher.errors import Detached, LauncherError, NotFoundRun, OwnedElsewhere
from paperclip_launcher.handover import Extras
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.outcome import RunResult
from paperclip_launcher.run import Run
from tests.fakeapi.loop import Process
from tests.launcher.sim import bundles, judging
from tests.launcher.sim.host import Host
from tests.launcher.sim.wish import Reader, Wish

if TYPE_CHECKING:
    from tests.launcher.sim.world import World

_OPEN_CODES = frozenset({"k8s_run_owned_elsewhere", "k8s_job_state_mismatch"})
"""Results that say that the run goes on: the reader asks again."""
_MOST_ASKED = 40


async def want(world: World, host: Host, launcher: Launcher, wish: Wish, process: Process) -> None:
    """One reader: asks for the run until it has its result."""
    order, name = wish.order, host.name
    rival = order.rival is not None and host is world.hosts[order.rival]
    await asyncio.sleep(max(0.0, (order.rival_at if rival else order.at) - world.loop.time()))
    while not wish.settled:
        wish.busy[name] = process
        try:
            run = await _ask(world, launcher, wish, Reader(world, wish, name, host.script.reader))
            if run is None:
                del wish.busy[name]
                await _ask_again(world, wish, "k8s_run_owned_elsewhere", "as it is attached to")
                continue
            result = await run.result
        except Detached:
            wish.busy.pop(name, None)
            host.bell.set()
            return
        except LauncherError as error:
            world.watcher.wrong(f"{order.run}: {error}")
            world.settle(wish)
            return
        world.say(f"{order.run}: {result.code or 'success'} {result.error_message or ''}")
        if result.code in _OPEN_CODES:
            del wish.busy[name]
            run.acknowledge()
            if result.code == "k8s_run_owned_elsewhere":
                wish.taken.add(name)
            await _ask_again(world, wish, result.code, result.error_message or "")
            continue
        while wish.holder not in ("", name) and wish.is_busy(name):  # noqa: ASYNC110  virtual time
            await asyncio.sleep(1.0)  # Paperclip takes no word from a server while another one has the run
        if not wish.settled:
            _accept(world, wish, run, result, name)
        await asyncio.sleep(world.random.choice((0.0, 0.0, 0.3)))
        world.watcher.told.add(run.record.job_name)
        run.acknowledge()
        wish.busy.pop(name, None)
        wish.read = True
        world.settle(wish)


async def _ask(world: World, launcher: Launcher, wish: Wish, reader: Reader) -> Run | None:
    """None where another launcher, which is alive, has the run."""
    order = wish.order
    if order.attach and world.watcher.started.get(order.run):
        try:
            return await launcher.attach(order.run, reader)
        except NotFoundRun:
            pass
        except OwnedElsewhere:
            return None
    held = bundles.held(order.skills.at(world.loop.time()))
    return await launcher.begin(wish.request, reader, extras=Extras(held=held))


async def _ask_again(world: World, wish: Wish, code: str, message: str) -> None:
    wish.asked += 1
    adopted = [job for job in world.cluster.objects("jobs") if marks.annotation(job, marks.ADOPTED_BY)]
    mine = {marks.annotation(job, marks.RUN_ID) for job in adopted}
    if code == "k8s_run_owned_elsewhere" and (wish.order.rival is not None or wish.order.run in mine):
        if wish.order.run in mine:
            world.settle(wish)
        await asyncio.sleep(3600.0 if wish.order.run not in mine else 0.0)
    elif wish.asked > _MOST_ASKED:
        world.watcher.wrong(f"{wish.order.run}: still {code} after {wish.asked} times: {message}")
        world.settle(wish)
    else:
        await asyncio.sleep(world.random.uniform(2.0, 20.0))


def _accept(world: World, wish: Wish, run: Run, result: RunResult, server: str) -> None:
    tree = result.to_json()
    if wish.result is not None:
        world.watcher.check_again(wish.order.run, wish.result, tree, taken=server in wish.taken)
        return
    wish.result = tree
    wish.jobs = frozenset(world.watcher.owners)
    wish.job = run.record.job_name
    wish.complete = run.log.complete
    judging.check_log(world, wish, bytes(wish.logs.get(server, b"")))
    if wish.cancelled and result.code != "cancelled" and wish.order.run not in world.watcher.succeeded:
        world.watcher.wrong(f"{wish.order.run} was cancelled, and ends as {result.code or 'success'}")


async def cancel(world: World, wish: Wish) -> None:
    """Until somebody has heard it."""
    order = wish.order
    assert order.cancel is not None
    await asyncio.sleep(max(0.0, order.at + order.cancel.at - world.loop.time()))
    first = world.hosts[order.cancel.by]
    own = first is world.hosts[order.server]
    while not wish.settled and not first.gone:
        host = first.twin if first.twin is not None and not first.twin.leaving else first
        launcher = host.launcher
        if launcher is not None and host.process is not None and not host.process.frozen:
            found = [run for run in launcher.runs.values() if run.run_id == order.run]
            if found or not own:
                open_still = bool(found) and found[0].record.result is None and found[0].plan is not None
                try:
                    told = await launcher.cancel(order.run)
                except LauncherError as error:
                    world.say(f"no cancel: {error}")
                else:
                    world.say(f"{order.run} is cancelled by {host.script.identity}: {told}")
                    wiped = any(death.wiped for death in world.hosts[order.server].script.deaths)
                    # Of two processes of one name either may be the one that goes on.
                    alone = host.script.twin_at is None
                    sure = not wiped and not world.script.takeover and alone
                    wish.cancelled = told and open_still and sure
                    if told:
                        return
        await asyncio.sleep(0.7)
