"""What a launcher that runs for months clears away now and then."""

from __future__ import annotations

import asyncio
import logging

from paperclip_launcher.launcher import Launcher
from paperclip_launcher.provision import Stock
from paperclip_launcher.serve.runs import Runs
from paperclip_launcher.skills.collect import collect
from paperclip_launcher.sweep import sweep

_LOG = logging.getLogger(__name__)
_EVERY = 300.0
_LEFT_SECONDS = 3600.0
"""For so long a run with a result waits for its client to come back, before it is no longer driven."""
_BUNDLES_EVERY = 86_400.0
_OLD_BUNDLE = 30 * 86_400.0


async def run(launcher: Launcher, runs: Runs, stock: Stock) -> None:
    """At once what an earlier life had no time for, then all; until it is cancelled. What fails is logged and done the
    next time.
    """
    loop = asyncio.get_running_loop()
    bundles_at = loop.time()
    begun = False
    while True:
        try:
            await runs.forget_the_left(_LEFT_SECONDS)
            for one in await sweep(launcher, begun=begun):
                _LOG.info("cleared away %s %s: %s", one.kind, one.name, one.reason)
            if stock.claim is not None and loop.time() - bundles_at >= _BUNDLES_EVERY:
                bundles_at = loop.time()
                await asyncio.to_thread(
                    collect, str(stock.claim), older_than_seconds=_OLD_BUNDLE, now=launcher.clock.now()
                )
        except Exception:  # noqa: BLE001  a launcher that cannot clean up can still run agents
            _LOG.exception("clearing away failed")
        begun = True
        await asyncio.sleep(_EVERY * launcher.rng.uniform(0.8, 1.2))
