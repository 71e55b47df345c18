"""A launcher that stood still, was cut off, or came back after a takeover: it must not act on what it knew before."""

from __future__ import annotations

import asyncio

import pytest

from kubekit.names import job_name
from paperclip_launcher import beginning, marks
from paperclip_launcher.cluster.errors import Invalid, NotFound
from paperclip_launcher.errors import Detached
from paperclip_launcher.journal import MemoryJournal
from paperclip_launcher.neighbours import Alive
from paperclip_launcher.ownership import Others, lease_name
from tests.fakeapi.loop import PROCESS
from tests.fakeapi.model import Program
from tests.launcher.core.stage import Reader, Stage, request, spoken
from tests.launcher.core.test_ownership import Disk, one_life

LONG = Program(spoken(*[f"line {n}" for n in range(30)], gap=2.0))
KEY = job_name("agent-1", "run-1")


@pytest.mark.parametrize("seed", [8, 9, 17])
def test_a_job_that_is_made_late_never_starts_when_another_process_has_the_identity(seed):
    """This one stood still as it was about to make the Job; the other one did the run, and cleared it away."""
    stage, results = Stage(seed=seed), []

    def stop_before_the_job(phase, asked):
        if phase == "before" and asked.method == "POST" and asked.path.endswith("/jobs"):
            PROCESS.get().freeze()

    async def first():
        async with stage.launcher(hook=stop_before_the_job) as launcher:
            run = await launcher.begin(request(), Reader())
            with pytest.raises(Detached):
                await run.result

    async def scene():
        process, task = stage.life("first", first)
        await asyncio.sleep(50)
        await one_life(stage, Reader(), found=results)()
        stage.loop.thaw(process)
        await task

    stage.play(scene)
    assert [one.code for one in results] == [""]
    assert stage.cluster.calls["create", "jobs"] == 2
    assert stage.cluster.calls["create", "secrets"] == 2


def test_a_run_that_had_taken_over_a_job_does_not_begin_a_second_one_when_that_is_gone():
    """Its reader has some of that Job's log: another Job's log would go on in the middle of it."""
    stage, results, journal = Stage(LONG), [], MemoryJournal()
    wake, reader = request("run-2"), Disk()

    async def scene():
        process, _ = stage.life("one", one_life(stage, Disk()))
        await asyncio.sleep(10)
        process.kill()
        process, _ = stage.life("two", one_life(stage, reader, identity="two", journal=journal, run_request=wake))
        await asyncio.sleep(45)
        process.kill()
        [job] = stage.cluster.objects("jobs")
        stage.cluster.remove("jobs", KEY)
        await asyncio.sleep(45)
        again = reader.follow_on()
        await one_life(stage, again, identity="two", journal=journal, run_request=wake, found=results)()
        return job

    assert marks.annotation(stage.play(scene), marks.ADOPTED_BY) == "run-2"
    assert [one.code for one in results] == ["k8s_job_deleted_externally"]
    assert stage.cluster.calls["create", "jobs"] == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Invalid(422, "Invalid", "the test failed"), "k8s_run_owned_elsewhere"),
        (NotFound(404, "NotFound", "no such Job"), "k8s_job_deleted_externally"),
    ],
)
def test_who_attaches_to_a_run_and_comes_too_late_is_told_so(error, code, monkeypatch):
    stage = Stage(LONG)

    async def lost(*_):
        raise error

    async def scene():
        process, _ = stage.life("one", one_life(stage, Disk()))
        await asyncio.sleep(10)
        process.kill()
        async with stage.launcher("two", journal=MemoryJournal()) as launcher:
            monkeypatch.setattr(beginning, "take_over", lost)
            run = await launcher.attach("run-1", Reader())
            result = await run.result
            run.acknowledge()
            return result

    assert stage.play(scene).code == code


class Time:
    """Of day, and of the machine."""

    def __init__(self):
        self.at = 0.0

    def now(self):
        return 1_790_000_000.0 + self.at


def lease(identity, version):
    spec = {"holderIdentity": identity, "leaseDurationSeconds": 30}
    return {"metadata": {"name": lease_name(identity), "resourceVersion": str(version)}, "spec": spec}


def test_a_launcher_counts_as_dead_only_after_it_was_watched_in_vain_without_a_break():
    time, version = Time(), 0
    others = Others(time, lambda: time.at)
    said = []

    def hears(at, *identities):
        nonlocal version
        time.at = at
        for identity in identities:
            version += 1
            found[identity] = lease(identity, version)
            others.changed(lease_name(identity), found[identity])
        said.append(others.alive("two", found.get("two")))

    found = {}
    hears(0.0, "one", "two")
    hears(10.0, "one", "two")
    hears(50.0)  # a watch that has fallen silent, or a process that stood still
    hears(50.0, "one")
    hears(60.0, "one", "two")
    for at in (70.0, 80.0, 89.0):
        hears(at, "one")
    hears(91.0, "one")
    hears(125.0)
    U, Y = Alive.UNSURE, Alive.YES  # noqa: N806  columns
    assert said == [U, Y, U, U, Y, Y, Y, Y, Alive.NO, U]


@pytest.mark.parametrize("caught_up", [False, True])
def test_a_launcher_whose_lease_only_seemed_to_be_gone_keeps_its_job(caught_up):
    """The watch of the Leases lags behind that of the Jobs; it may catch up while the API server is asked."""
    stage, name = Stage(LONG), lease_name("one")

    def catch_up(phase, asked):
        if caught_up and (phase, asked.method) == ("before", "GET") and asked.path.endswith(name):
            launcher.view.leases.store.put(name, stage.cluster.get("leases", name))

    launcher = None

    async def scene():
        nonlocal launcher
        stage.life("one", one_life(stage, Disk()))
        await asyncio.sleep(10)
        async with stage.launcher("two", journal=MemoryJournal(), hook=catch_up) as launcher:
            launcher.view.leases.store.drop(name)
            run = await launcher.attach("run-1", Reader())
            result = await run.result
            run.acknowledge()
            return result, stage.cluster.objects("jobs")

    result, [job] = stage.play(scene)
    assert result.code == "k8s_run_owned_elsewhere"
    assert marks.annotation(job, marks.OWNER) == "one"
