"""`serve`: one launcher for any number of clients, until it is told to end."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from contextlib import AsyncExitStack

from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.network import NetworkTransport
from paperclip_launcher.cluster.transport import Transport
from paperclip_launcher.journal import FolderJournal
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.metrics import Metrics
from paperclip_launcher.serve import listen, upkeep
from paperclip_launcher.serve.health import Health, watch_ages
from paperclip_launcher.serve.options import ServeOptions
from paperclip_launcher.serve.runs import HALF_MADE
from paperclip_launcher.serve.service import Service

_LOG = logging.getLogger(__name__)
FINE, IDENTITY_LOST = 0, 6
"""Exit codes. With the second, another process has the identity, and runs may be in its hands."""
_ENDING_SECONDS = 2.5
_MADE_SECONDS = 1.0
_LOOK_AGAIN = 0.02


def serve(options: ServeOptions) -> int:
    """The exit code. ApiError, Unreachable or SocketTaken where it cannot begin."""

    async def whole() -> int:
        return await serve_on(options, NetworkTransport(options.access))

    return asyncio.run(whole())


async def serve_on(options: ServeOptions, transport: Transport) -> int:
    """As serve, over any transport, which is closed in the end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        return await _serve(options, transport, stop)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        await transport.close()


async def _serve(options: ServeOptions, transport: Transport, stop: asyncio.Event) -> int:
    rng = random.Random()  # noqa: S311  jitter and names, no secrets
    metrics = Metrics()
    cluster = Cluster(transport, options.settings.namespace, rng=rng, on_call=metrics.called)
    launcher = Launcher(
        cluster,
        options.settings,
        options.templates,
        journal=FolderJournal(options.journal),
        rng=rng,
        metrics=metrics,
        mask=options.mask,
    )
    health = Health(launcher)
    async with AsyncExitStack() as stack:
        # Whether we live is to be seen before the API server has answered.
        if options.http is not None:
            await stack.enter_async_context(health.listening(*options.http))
        begun = asyncio.create_task(launcher.__aenter__())
        if not await _first(begun, stop):
            begun.cancel()
            await asyncio.gather(begun, return_exceptions=True)
            return FINE
        health.begun = True
        metrics.watches.update(watch_ages(launcher))
        service = Service(launcher, options.stock, stop)
        doors = listen.Doors(service, stop)
        try:
            await doors.open(stdio=options.stdio, socket=options.socket)
            keeping = asyncio.create_task(upkeep.run(launcher, service.runs, options.stock))
            stack.callback(keeping.cancel)
            _LOG.info("serving as %s in %s", options.settings.identity, options.settings.namespace)
            await _ended(stop, launcher)
        finally:
            health.begun = False
            await _close(doors, launcher)
    return IDENTITY_LOST if launcher.lost.is_set() else FINE


async def _first(begun: asyncio.Task[Launcher], stop: asyncio.Event) -> bool:
    """Whether the launcher has begun before it was told to end."""
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({begun, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if begun.done():
        begun.result()
    return begun.done()


async def _ended(stop: asyncio.Event, launcher: Launcher) -> None:
    waits = {asyncio.create_task(stop.wait()), asyncio.create_task(launcher.lost.wait())}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()


async def _make_whole(launcher: Launcher) -> None:
    """Jobs that have no Secrets yet get them first: without the request nobody else can make them."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _MADE_SECONDS
    while loop.time() < end and not launcher.lost.is_set():
        if not any(run.phase in HALF_MADE for run in launcher.runs.values()):
            return
        await asyncio.sleep(_LOOK_AGAIN)


async def _close(doors: listen.Doors, launcher: Launcher) -> None:
    """No new client, then no run that is driven; the whole within a few seconds, since a pod has not many more."""
    doors.shut()
    await _make_whole(launcher)
    _LOG.info("ending; %d runs go on without this launcher", len(launcher.runs))
    try:
        async with asyncio.timeout(_ENDING_SECONDS):
            await launcher.__aexit__(None, None, None)
    except TimeoutError:
        _LOG.warning("the Lease stays until it expires: the API server takes too long")
    await doors.close()
