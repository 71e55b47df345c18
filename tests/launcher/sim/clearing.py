"""The end of a history: what only time or a sweep clears away goes."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from paperclip_launcher import marks, sweep
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.settings import Settings
from tests.fakeapi.cluster import NAMESPACE
from tests.fakeapi.inprocess import FINE, InProcessTransport
from tests.launcher.sim.host import LEASE_SECONDS, Clock

if TYPE_CHECKING:
    from tests.launcher.sim.world import World


async def clear_up(world: World) -> None:
    """Time for the garbage collector; then a sweep, if something is there that only a sweep clears away."""
    await asyncio.sleep(30.0)
    if not world.cluster.objects("jobs") and len(world.cluster.objects("leases")) == 0:
        await asyncio.sleep(30.0)  # the last Job may have gone a moment ago
        return
    await asyncio.sleep(90_000.0 if _dead_leases(world) else 1000.0)
    for host in world.hosts:
        name = host.script.identity
        transport = InProcessTransport(world.cluster, FINE, seed=1, user=f"{name}/0")
        rng = random.Random(1)
        cluster, clock = Cluster(transport, NAMESPACE, rng=rng), Clock(world.cluster, 0)
        settings = Settings(NAMESPACE, name, lease_seconds=LEASE_SECONDS)
        async with Launcher(cluster, settings, None, journal=host.journal, clock=clock, rng=rng) as launcher:
            world.say(f"swept by {name}: {await sweep.sweep(launcher)}")
    await asyncio.sleep(30.0)


def _dead_leases(world: World) -> bool:
    return any(marks.name(one).startswith("paperclip-launcher-") for one in world.cluster.objects("leases"))
