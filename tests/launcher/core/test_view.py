"""What the shared view keeps, and for how long."""

from __future__ import annotations

import asyncio

from tests.fakeapi.model import Program
from tests.launcher.core.stage import Reader, Stage, request, spoken

_LATE = Program(spoken("done"), start="unschedulable", start_trouble=5.0)
"""The scheduler says so, and then there is room."""


def test_what_the_cluster_said_of_a_run_is_forgotten_with_it():
    """The API server keeps each event for an hour."""
    stage = Stage(_LATE)

    async def scene():
        async with stage.launcher() as launcher:
            seen = []
            for number in range(12):
                run = await launcher.begin(request(f"run-{number}"), Reader())
                await run.result
                seen.append(len(launcher.view.warnings(run.job, run.pod)))
                run.acknowledge()
                while run.own_key in launcher.runs or stage.names("pods"):  # noqa: ASYNC110  nobody tells
                    await asyncio.sleep(1)
            await asyncio.sleep(5)
            return seen, dict(launcher.view.events.store)

    seen, left = stage.play(scene)
    assert min(seen) >= 1
    assert len(stage.names("events")) >= 12
    assert left == {}


def test_an_event_is_kept_in_short_and_still_says_all_that_is_asked_for():
    stage = Stage(_LATE)

    async def scene():
        async with stage.launcher() as launcher:
            run = await launcher.begin(request(), Reader())
            found = []
            while not found:
                await asyncio.sleep(0.1)
                found = launcher.view.warnings(run.job, run.look_at_pod()) if run.has_job else []
            return found[0], run.look_at_pod()

    event, pod = stage.play(scene)
    assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
    assert event["reason"]
    assert event["message"]
    assert event["lastTimestamp"]
    assert not event.keys() & {"source", "reportingComponent", "type"}
