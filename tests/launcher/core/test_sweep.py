"""What is cleared away after launchers that are gone."""

from __future__ import annotations

import asyncio

import pytest

from kubekit.names import job_name
from paperclip_launcher.clock import rfc3339
from paperclip_launcher.journal import MemoryJournal
from paperclip_launcher.ownership import lease_name
from paperclip_launcher.sweep import leftovers, sweep
from tests.fakeapi.model import Program
from tests.launcher.core.stage import Reader, Stage, request

LEASE = lease_name("one")


@pytest.mark.parametrize("lives", [True, False])
def test_the_owner_of_a_job_that_never_started_is_asked_for_before_it_is_deleted(lives):
    stage = Stage(Program(start="unschedulable"))

    def renewed(phase, asked):
        """The watch has not shown it yet."""
        if lives and phase == "before" and asked.method == "GET" and asked.path.endswith(LEASE):
            lease = stage.cluster.get("leases", LEASE)
            spec = {**lease["spec"], "renewTime": rfc3339(stage.now(), micro=True)}
            stage.cluster.put("leases", {**lease, "spec": spec})

    async def first():
        async with stage.launcher("one") as launcher:
            await (await launcher.begin(request(scheduleTimeoutSec=3600), Reader())).result

    async def scene():
        process, _ = stage.life("first", first)
        await asyncio.sleep(1000)
        process.kill()
        await asyncio.sleep(60)
        async with stage.launcher("two", journal=MemoryJournal(), hook=renewed) as launcher:
            await asyncio.sleep(60)
            return len(leftovers(launcher)), len(await sweep(launcher))

    found, cleared = stage.play(scene)
    assert (found, cleared) == (1, 0 if lives else 1)
    assert stage.names("jobs") == ([job_name("agent-1", "run-1")] if lives else [])
