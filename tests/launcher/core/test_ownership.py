"""Launchers die, restart and compete: the run goes on, once."""

from __future__ import annotations

import asyncio

import pytest

from kubekit.names import job_name
from paperclip_launcher import marks
from paperclip_launcher.cluster.transport import Broken
from paperclip_launcher.errors import Detached
from paperclip_launcher.journal import MemoryJournal
from paperclip_launcher.lifecycle import Phase
from paperclip_launcher.view import ClusterView
from tests.fakeapi.model import Program
from tests.launcher.core.stage import Reader, Stage, request, spoken

TALK = [f"line {n}" for n in range(30)]
LONG = Program(spoken(*TALK, gap=2.0))


def printed(stage, job):
    return b"".join(line + b"\n" for line in stage.cluster.printed(job))


class Disk(Reader):
    """A reader that keeps what it got when the launcher dies, and knows how much that is."""

    def follow_on(self):
        self.offset = len(self.data)
        return self


def one_life(stage, reader, *, identity="one", journal=None, run_request=None, found=None):
    async def scene():
        async with stage.launcher(identity, journal=journal) as launcher:
            run = await launcher.begin(run_request or request(), reader)
            result = await run.result
            (found if found is not None else []).append(result)
            run.acknowledge()
            await asyncio.sleep(10)

    return scene


@pytest.mark.parametrize("after", [0.003, 0.01, 0.02, 0.04, 0.08, 0.2, 0.5, 1.5, 5.0, 30.0, 62.0, 63.0, 64.0, 70.0])
def test_a_launcher_that_dies_is_followed_by_one_that_goes_on(after):
    stage, reader, results = Stage(LONG, seed=int(after * 1000)), Disk(), []

    async def scene():
        process, _ = stage.life("first", one_life(stage, reader, found=results))
        await asyncio.sleep(after)
        process.kill()
        await asyncio.sleep(3)
        reader.follow_on()
        _, second = stage.life("second", one_life(stage, reader, found=results))
        await second

    stage.play(scene)
    assert {(one.code, one.summary) for one in results} == {("", "line 29")}, results
    assert reader.data == printed(stage, job_name("agent-1", "run-1"))
    assert stage.names("jobs") + stage.names("pods") == []
    assert stage.names("secrets") == ["paperclip-agent-keys"]


def test_a_run_that_has_begun_is_not_ended_for_what_seems_to_be_left_of_another(monkeypatch):
    stage, results = Stage(Program(spoken(*TALK, gap=5.0))), []

    def stalled(_view, _agent, *, but=""):
        return {"metadata": {"name": "long-gone"}} if but else None

    async def scene():
        process, _ = stage.life("first", one_life(stage, Reader()))
        await asyncio.sleep(5)
        process.kill()
        await asyncio.sleep(3)
        monkeypatch.setattr(ClusterView, "stray_pod", stalled)
        _, second = stage.life("second", one_life(stage, Reader(), found=results))
        await second

    stage.play(scene)
    assert [(one.code, one.summary) for one in results] == [("", "line 29")]


def test_a_result_that_was_acknowledged_is_not_run_again():
    stage, results = Stage(), []

    async def scene():
        await one_life(stage, Reader(), found=results)()
        await one_life(stage, Reader(), found=results)()

    stage.play(scene)
    assert results[0] == results[1]
    assert stage.cluster.calls["create", "jobs"] == 1


def test_the_next_wake_of_the_same_task_takes_over_from_a_dead_server():
    stage, first, second, results = Stage(LONG), Disk(), Disk(), []

    async def scene():
        process, _ = stage.life("first", one_life(stage, first))
        await asyncio.sleep(20)
        process.kill()
        wake = request("run-2")
        _, task = stage.life(
            "second",
            one_life(stage, second, identity="two", journal=MemoryJournal(), run_request=wake, found=results),
        )
        await asyncio.sleep(38)
        [job] = stage.cluster.objects("jobs")
        await task
        return job

    job = stage.play(scene)
    assert marks.annotation(job, marks.OWNER) == "two"
    assert (marks.annotation(job, marks.RUN_ID), marks.annotation(job, marks.ADOPTED_BY)) == ("run-1", "run-2")
    assert [one.summary for one in results] == ["line 29"]
    assert second.data == printed(stage, job_name("agent-1", "run-1"))
    assert stage.cluster.calls["create", "jobs"] == 1


def test_a_server_with_the_same_disk_goes_on_in_the_log_of_the_old_run():
    stage, first, second = Stage(LONG), Disk(), Disk()

    async def scene():
        process, _ = stage.life("first", one_life(stage, first))
        await asyncio.sleep(20.9)
        process.kill()
        _, task = stage.life("second", one_life(stage, second, run_request=request("run-2")))
        await task

    stage.play(scene)
    whole = printed(stage, job_name("agent-1", "run-1"))
    assert (first.data + second.data).startswith(first.data)
    assert whole.endswith(second.data)
    assert len(first.data) + len(second.data) >= len(whole)
    assert second.data != whole


def test_a_run_of_another_task_is_blocked_by_the_orphan_and_leaves_it_alone():
    stage, results = Stage(LONG), []

    async def scene():
        process, _ = stage.life("first", one_life(stage, Disk()))
        await asyncio.sleep(20)
        process.kill()
        other = request("run-2", task="T-2")
        await one_life(stage, Disk(), identity="two", journal=MemoryJournal(), run_request=other, found=results)()
        return stage.names("jobs")

    assert stage.play(scene) == [job_name("agent-1", "run-1")]
    assert results[0].code == "k8s_concurrent_run_blocked"


@pytest.mark.parametrize(
    ("key", "code"),
    [("__heartbeat__", ""), ("another", "k8s_concurrent_run_blocked"), ("", "k8s_orphan_task_unknown")],
)
def test_runs_without_a_task_are_told_apart_by_their_key(key, code):
    stage, results = Stage(LONG), []

    async def scene():
        beat = request(task="", task_key="__heartbeat__")
        process, _ = stage.life("first", one_life(stage, Disk(), run_request=beat))
        await asyncio.sleep(20)
        process.kill()
        wake = request("run-2", task="", task_key=key)
        await one_life(stage, Disk(), identity="two", journal=MemoryJournal(), run_request=wake, found=results)()

    stage.play(scene)
    assert results[0].code == code
    assert (results[0].summary == "line 29") == (not code)
    again = {"kind": "bootstrap", "providerWorkStarted": False} if code else None
    assert (results[0].execution_recovery, bool(results[0].error_family)) == (again, bool(code))


def test_a_result_nobody_read_is_harvested():
    stage, reader, results = Stage(), Disk(), []

    async def scene():
        process, _ = stage.life("first", one_life(stage, Disk()))
        await asyncio.sleep(1.2)
        process.kill()
        await asyncio.sleep(60)
        [job] = stage.cluster.objects("jobs")
        await one_life(
            stage, reader, identity="two", journal=MemoryJournal(), run_request=request("run-2"), found=results
        )()
        return job

    job = stage.play(scene)
    assert any(one["type"] == "Complete" for one in job["status"]["conditions"])
    assert results[0].summary == "done"
    assert reader.data == printed(stage, job_name("agent-1", "run-1"))
    assert stage.names("jobs") == []


@pytest.mark.parametrize("seed", range(20))
def test_of_two_launchers_one_acts_and_the_other_leaves(seed):
    stage, results = Stage(seed=seed), []

    async def scene():
        lives = [
            stage.life(name, one_life(stage, Reader(), identity=name, journal=MemoryJournal(), found=results))[1]
            for name in ("one", "two")
        ]
        await asyncio.sleep(30)
        for life in lives:
            life.cancel()

    stage.play(scene)
    assert sorted(one.code for one in results) == ["", "k8s_run_owned_elsewhere"]
    assert [status for (verb, resource), status in stage.cluster.calls.items() if (verb, resource) == ("x", "")] == []


@pytest.mark.parametrize("seed", range(20))
def test_of_two_runs_of_one_agent_on_two_launchers_one_starts(seed):
    started = []
    program = Program(spoken("a", gap=5.0), on_start=lambda pod: started.append(pod["metadata"]["name"]))
    stage, results = Stage(program, seed=seed), []

    async def scene():
        lives = [
            stage.life(
                name,
                one_life(
                    stage, Reader(), identity=name, journal=MemoryJournal(), run_request=request(name), found=results
                ),
            )[1]
            for name in ("one", "two")
        ]
        await asyncio.sleep(4)
        early = list(started)
        await asyncio.sleep(60)
        for life in lives:
            life.cancel()
        return early

    early = stage.play(scene)
    assert len(early) == len(started) == 1
    assert sorted(one.code for one in results) == ["", "k8s_concurrent_run_blocked"]


@pytest.mark.parametrize("seed", range(5))
def test_the_one_that_is_blocked_may_try_again_though_the_answer_with_its_job_was_lost(seed):
    stage, results = Stage(LONG, seed=seed), []
    stage.cluster.knobs.control = stage.cluster.knobs.schedule = (0.0, 0.0)  # its pod has a node by then

    def unheard(lost):
        def hook(phase, call):
            if (phase, call.method, call.path.rpartition("/")[2]) == ("after", "POST", "jobs") and not lost:
                lost.append(call.path)
                raise Broken("the answer is lost")

        return hook

    async def life(name):
        async with stage.launcher(name, journal=MemoryJournal(), hook=unheard([])) as launcher:
            run = await launcher.begin(request(name), Reader())
            await asyncio.sleep(0.1)
            launcher.cluster._transport.hush("pods")  # the last status of its pod is not heard of either
            results.append(await run.result)
            run.acknowledge()

    async def scene():
        await asyncio.gather(life("one"), life("two"))

    stage.play(scene)
    blocked, won = sorted(results, key=lambda one: one.code, reverse=True)
    assert (won.code, blocked.code) == ("", "k8s_concurrent_run_blocked")
    assert blocked.execution_recovery == {"kind": "bootstrap", "providerWorkStarted": False}


@pytest.mark.parametrize("seed", range(20))
def test_a_run_that_waits_also_waits_for_one_that_was_begun_at_the_same_moment(seed):
    started = []
    program = Program(spoken("a", gap=5.0), on_start=lambda pod: started.append(stage.loop.time()))
    stage, results = Stage(program, seed=seed), []

    async def scene():
        waits = {name: request(name, concurrency="wait", waitSec=120) for name in ("one", "two")}
        lives = [
            one_life(stage, Reader(), identity=name, journal=MemoryJournal(), run_request=one, found=results)()
            for name, one in waits.items()
        ]
        await asyncio.gather(*lives)

    stage.play(scene)
    assert [one.code for one in results] == ["", ""]
    assert len(started) == 2
    assert started[1] - started[0] >= 15
    assert stage.cluster.calls["create", "jobs"] == 3
    assert stage.names("jobs") + stage.names("leases") == []


def test_a_run_that_lost_the_race_waits_no_longer_than_it_may():
    stage, results = Stage(LONG), []

    async def scene():
        waits = [request(name, concurrency="wait", waitSec=20) for name in ("one", "two")]
        lives = [
            stage.life(
                one.run_id,
                one_life(stage, Reader(), identity=one.run_id, journal=MemoryJournal(), run_request=one, found=results),
            )[1]
            for one in waits
        ]
        await asyncio.sleep(40)
        for life in lives:
            life.cancel()

    stage.play(scene)
    assert [one.code for one in results] == ["k8s_concurrent_run_blocked"]
    assert results[0].execution_recovery == {"kind": "bootstrap", "providerWorkStarted": False}


def test_a_run_that_steps_back_can_be_cancelled():
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher("one") as one, stage.launcher("two", journal=MemoryJournal()) as two:
            runs = [
                await launcher.begin(request(name, concurrency="wait"), Reader())
                for name, launcher in (("one", one), ("two", two))
            ]
            await asyncio.sleep(15)
            [waiting] = [run for run in runs if run.phase is Phase.PLANNED]
            waiting.cancel()
            result = await waiting.result
            waiting.acknowledge()
            return result.code, [run.phase for run in runs if run is not waiting]

    assert stage.play(scene) == ("cancelled", [Phase.RUNNING])


def test_a_launcher_that_ends_in_order_leaves_its_runs_and_gives_up_its_lease():
    stage, reader, results = Stage(LONG), Disk(), []

    async def scene():
        async with stage.launcher() as launcher:
            await launcher.begin(request(), reader)
            await asyncio.sleep(20)
        assert [one for one in stage.names("leases") if one.startswith("paperclip-launcher")] == []
        assert len(stage.names("jobs")) == 1
        begun = stage.loop.time()
        await one_life(
            stage, Disk(), identity="two", journal=MemoryJournal(), run_request=request("run-2"), found=results
        )()
        return begun

    stage.play(scene)
    assert results[0].summary == "line 29"


def test_clocks_may_differ_by_minutes():
    stage, results = Stage(LONG), []

    class Late:
        def __init__(self, by):
            self.by = by

        def now(self):
            return stage.now() + self.by

    async def scene():
        async with stage.launcher() as one:
            one.clock = Late(-590)
            run = await one.begin(request(), Reader())
            await asyncio.sleep(20)
            await one_life(
                stage, Reader(), identity="two", journal=MemoryJournal(), run_request=request("run-2"), found=results
            )()
            await run.result

    stage.play(scene)
    assert results[0].code == "k8s_concurrent_run_blocked"


def test_an_identity_that_another_process_takes_is_given_up():
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher("same") as one:
            run = await one.begin(request(), Reader())
            await asyncio.sleep(5)
            async with stage.launcher("same") as two:
                await asyncio.sleep(30)
                assert one.lost.is_set()
                assert not two.lost.is_set()
                with pytest.raises(Detached, match="taken this identity"):
                    await run.result
        return stage.names("jobs")

    assert len(stage.play(scene)) == 1
