"""Troubles of the cluster, and of the network to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from paperclip_launcher import marks
from tests.fakeapi.model import Refusal
from tests.launcher.sim import inheriting
from tests.launcher.sim.script import Trouble

if TYPE_CHECKING:
    from tests.launcher.sim.world import World


def strike(world: World, trouble: Trouble) -> None:
    world.say(f"trouble: {trouble}")
    cluster, kind = world.cluster, trouble.kind
    if kind in ("api-restart", "compact"):
        cluster.restart(trouble.seconds, compact=kind == "compact")
    elif kind.startswith("cut-off"):
        for host in world.hosts:
            if host.script.identity == trouble.target and host.transport is not None:
                host.transport.cut_off(trouble.seconds, silently=kind == "cut-off-silently")
        if world.script.takeover and not any(server.deaths for server in world.script.servers[:1]):
            world.loop.call_later(0.0, lambda: asyncio.ensure_future(inheriting.second_server(world), loop=world.loop))
    elif kind == "hush":
        for host in world.hosts:
            if host.transport is not None:
                host.transport.hush(trouble.target)
    elif kind in ("delete-job", "delete-pod"):
        resource = f"{kind.removeprefix('delete-')}s"
        for one in cluster.objects(resource)[:1]:
            cluster.remove(resource, marks.name(one))
    else:
        resource = "secrets" if kind == "refuse-secrets" else trouble.target
        world.full[resource] = world.loop.time() + trouble.seconds
        cluster.knobs.admit = partial(_admit, world)


def _admit(world: World, resource: str, tree: Mapping[str, Any]) -> Refusal | None:
    if world.loop.time() >= world.full.get(resource, 0.0):
        return None
    text = f'{resource} "x" is forbidden: exceeded quota: agents, requested: count/{resource}=1, used: 1, limited: 1'
    return Refusal(403, "Forbidden", text)
