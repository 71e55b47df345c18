"""What becomes of the runs of a server that is dead, or is given up for dead."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from paperclip_launcher import marks
from tests.launcher.sim.host import Host
from tests.launcher.sim.wish import Wish

if TYPE_CHECKING:
    from tests.launcher.sim.world import World


def forget_begun(world: World, host: Host) -> None:
    """Nobody can know of a run whose Job went unread and whose record is lost: it must not be asked for again."""
    world.watcher.forgotten |= {wish.order.run for wish in host.wishes if not wish.settled}
    for wish in host.wishes:
        job = world.cluster.get("jobs", wish.own_job)
        begun = world.watcher.started.get(wish.order.run) or wish.result is not None
        if begun and (job is None or marks.deleting(job)):
            world.settle(wish)


async def take_over(world: World, dead: Host) -> None:
    """What becomes of the runs of a server that does not come back."""
    others = [host for host in world.hosts if not host.gone]
    forget_begun(world, dead)
    left = [wish for wish in dead.wishes if not wish.settled]
    for wish in left:
        if not dead.gone_for_good and world.cluster.get("jobs", wish.own_job) is None:
            continue  # its server may still make the Job, however late
        wanted = wish
        if not others or not world.script.takeover or wish.result is not None:
            world.settle(wish)
            continue
        await asyncio.sleep(world.random.choice((0.5, 20.0, 60.0)) * world.random.random())
        others = [host for host in others if not host.gone]
        if not others:
            world.settle(wish)
            continue
        other = world.random.choice(others)
        if world.script.takeover == "same":
            world.say(f"{wish.order.run} is sent to {other.script.identity}")
            wish.logs[other.name] = bytearray(wish.logs.get(dead.name, b""))
        else:
            world.settle(wish)
            wanted = _next_wake(world, wish)
        wanted.holder = other.name
        other.wishes.append(wanted)
        other.bell.set()


def _next_wake(world: World, wish: Wish) -> Wish:
    run = f"{wish.order.run}-wake"
    world.say(f"{run} is wanted")
    order = replace(wish.order, run=run, policy="reattach", cancel=None, at=0.0, retain=False, rival=None)
    world.wishes[run] = Wish(order)
    return world.wishes[run]


async def second_server(world: World) -> None:
    """Paperclip gives the cut-off server up and sends its runs to the next one."""
    first = world.hosts[0]
    if first.given_up:
        return
    first.given_up = True
    await asyncio.sleep(world.random.choice((1.0, 40.0)) * world.random.random())
    first.gone, first.gone_for_good = True, False
    await take_over(world, first)
    first.gone = False
