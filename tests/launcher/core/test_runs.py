"""Whole runs before a simulated cluster: what their reader gets, and what is left behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kubekit.names import job_name
from paperclip_launcher import marks
from paperclip_launcher.errors import ConfigInvalid, NotFoundRun
from paperclip_launcher.journal import MemoryJournal
from paperclip_launcher.lifecycle import Phase
from tests.fakeapi.cluster import NAMESPACE
from tests.fakeapi.model import Program, Refusal
from tests.launcher.core.stage import Reader, Stage, event, request, spoken

LONG = Program(spoken(*[f"line {n}" for n in range(40)], gap=5.0))


async def whole(stage, run_request, reader=None, **settings):
    """One run, to its end."""
    reader = reader or Reader()
    async with stage.launcher(**settings) as launcher:
        run = await launcher.begin(run_request, reader)
        result = await run.result
        run.acknowledge()
        await asyncio.sleep(10)
    return result, reader


def printed(stage, job):
    return b"".join(line + b"\n" for line in stage.cluster.printed(job))


def test_a_run_brings_its_log_its_session_and_its_cost_and_leaves_nothing():
    stage = Stage()
    result, reader = stage.play(lambda: whole(stage, request()))
    assert (result.exit_code, result.error_code, result.summary) == (0, None, "done")
    assert (result.session_id, result.cost_usd) == ("s-1", 0.02)
    assert result.usage == {"inputTokens": 10, "outputTokens": 20, "cachedInputTokens": 5}
    assert reader.data == printed(stage, job_name("agent-1", "run-1"))
    assert [stage.names(one) for one in ("jobs", "pods", "leases", "events")] == [[], [], [], []]
    assert stage.names("secrets") == ["paperclip-agent-keys"]


def test_an_exit_code_is_the_programs_own():
    stage = Stage(Program([(0.1, b"no key"), (0.1, event("system", subtype="init", model="m"))], exit_code=3))
    result, _ = stage.play(lambda: whole(stage, request()))
    assert (result.exit_code, result.error_code) == (3, "agent_exit_nonzero")
    assert result.execution_recovery is None


@pytest.mark.parametrize(
    ("program", "code"),
    [
        (Program(spoken("a")[:2], end="oom"), "k8s_oom_killed"),
        (Program(spoken("a")[:2], end="evicted"), "k8s_pod_evicted"),
        (Program(start="image-invalid"), "k8s_image_invalid"),
        (Program(start="unschedulable"), "k8s_unschedulable"),
        (Program(start="image-error"), "k8s_image_pull_failed"),
    ],
)
def test_each_bad_end_has_its_own_code(program, code):
    stage = Stage(program)
    result, _ = stage.play(lambda: whole(stage, request()))
    assert result.code == code
    assert stage.names("jobs") == []


def test_what_mends_itself_in_time_is_waited_for():
    stage = Stage(Program(spoken("a"), start="unschedulable", start_trouble=120))
    result, reader = stage.play(lambda: whole(stage, request()))
    assert result.code == ""
    assert len(reader.told("warning")) == 1


def test_a_cancel_ends_the_pod_and_keeps_what_was_said():
    stage = Stage(LONG)

    async def scene():
        reader = Reader()
        async with stage.launcher() as launcher:
            run = await launcher.begin(request(), reader)
            await asyncio.sleep(60)
            asked = stage.loop.time()
            assert await launcher.cancel("run-1")
            result = await run.result
            took = stage.loop.time() - asked
            pods = stage.names("pods")
            run.acknowledge()
            return result, took, pods

    result, took, pods = stage.play(scene)
    assert (result.code, result.session_id, pods) == ("cancelled", "s-1", [])
    assert took < 10


@pytest.mark.parametrize("after", [0.0, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0])
def test_a_cancel_wins_at_any_moment(after):
    stage = Stage(LONG, seed=int(after * 100))

    async def scene():
        async with stage.launcher() as launcher:
            run = await launcher.begin(request(), Reader())
            await asyncio.sleep(after)
            await launcher.cancel("run-1")
            result = await run.result
            run.acknowledge()
            await asyncio.sleep(10)
            return result

    assert stage.play(scene).code == "cancelled"
    assert stage.names("jobs") + stage.names("pods") == []


def test_somebody_elses_cancel_reaches_the_owner():
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher("one") as one, stage.launcher("two", journal=MemoryJournal()) as two:
            run = await one.begin(request(), Reader())
            await asyncio.sleep(20)
            assert await two.cancel("run-1")
            assert not await two.cancel("run-9")
            return await run.result

    assert stage.play(scene).code == "cancelled"


def test_a_run_whose_time_is_over_is_ended():
    stage = Stage(LONG)
    result, _ = stage.play(lambda: whole(stage, request(timeoutSec=30)))
    assert (result.timed_out, result.code, result.session_id) == (True, "timeout", "s-1")


def test_a_job_that_somebody_deletes_is_told_as_that():
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher() as launcher:
            run = await launcher.begin(request(), Reader())
            await asyncio.sleep(20)
            [name] = stage.names("jobs")
            stage.cluster.remove("jobs", name)
            return await run.result

    result = stage.play(scene)
    assert (result.code, result.session_id) == ("k8s_job_deleted_externally", "s-1")


@pytest.mark.parametrize("propagation", ["Background", "Orphan"])
def test_a_run_whose_job_is_deleted_is_listened_to_until_its_pod_has_ended(propagation):
    """The agent takes its time to end, and writes on; an orphan for so long that nobody can wait for it."""
    stage, reader = Stage(replace(LONG, term_delay=20.0)), Reader()

    async def scene():
        async with stage.launcher() as launcher:
            run = await launcher.begin(request(), reader)
            await asyncio.sleep(20)
            name = run.record.job_name
            stage.cluster.delete(stage.cluster.store.find("jobs", NAMESPACE, name), propagation=propagation)
            code = (await run.result).code
            await asyncio.sleep(60)
            return code, run.log.complete, reader.data == printed(stage, name)

    code, complete, whole_log = stage.play(scene)
    assert code == "k8s_job_deleted_externally"
    assert not complete  # or proven to be
    assert whole_log is (propagation == "Background")


def test_a_kept_job_gets_its_short_life_only_after_its_result_was_read():
    stage = Stage()

    async def scene():
        async with stage.launcher() as launcher:
            run = await launcher.begin(request(retainJobs=True, ttlSecondsAfterFinished=120), Reader())
            await run.result
            before = stage.cluster.objects("jobs")[0]
            run.acknowledge()
            await asyncio.sleep(5)
            after = stage.cluster.objects("jobs")[0]
            return before, after

    before, after = stage.play(scene)
    assert before["spec"]["ttlSecondsAfterFinished"] >= 3600
    assert after["spec"]["ttlSecondsAfterFinished"] == 120
    assert marks.annotation(after, marks.HARVESTED)


def test_the_same_request_twice_is_one_run():
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher() as launcher:
            first = await launcher.begin(request(), Reader())
            again = await launcher.begin(request(), Reader())
            await asyncio.sleep(10)
            return first is again, stage.names("jobs")

    same, jobs = stage.play(scene)
    assert same
    assert len(jobs) == 1


def test_a_config_with_mistakes_creates_nothing_and_lists_all_of_them():
    stage = Stage()

    async def scene():
        async with stage.launcher() as launcher:
            with pytest.raises(ConfigInvalid) as caught:
                await launcher.begin(
                    request(timeoutSec=-1, imagePullPolicy="Sometimes", **{"resources.limits.cpu": "x"}), Reader()
                )
            return caught.value

    error = stage.play(scene)
    assert len(error.problems) == 3
    assert stage.names("jobs") == []


def test_a_policy_that_forbids_the_job_is_named_before_it_is_sent():
    stage = Stage()

    async def scene():
        async with stage.launcher() as launcher:
            with pytest.raises(ConfigInvalid, match=r"image-digest|image-tag|latest") as caught:
                await launcher.begin(request(image="example.com/agent:latest"), Reader())
            return caught.value.code

    assert stage.play(scene) == "k8s_policy_refused"
    assert stage.names("jobs") == []


def test_a_second_run_of_an_agent_is_refused_or_waits_as_it_is_told():
    stage = Stage(Program(spoken("a", gap=20.0)))

    async def scene():
        async with stage.launcher() as launcher:
            first = await launcher.begin(request("run-1"), Reader())
            await asyncio.sleep(5)
            refused = await launcher.begin(request("run-2", concurrency="fail"), Reader())
            waiting = await launcher.begin(request("run-3", concurrency="wait"), Reader())
            free = await launcher.begin(request("run-4", concurrency="allow"), Reader())
            refusal = await refused.result
            await asyncio.sleep(5)
            early = waiting.phase
            (await first.result, first.acknowledge())
            return refusal, early, await waiting.result, await free.result

    refusal, early, waited, free = stage.play(scene)
    assert refusal.code == "k8s_concurrent_run_blocked"
    assert refusal.execution_recovery == {"kind": "bootstrap", "providerWorkStarted": False}
    assert early is Phase.PLANNED
    assert (waited.code, free.code) == ("", "")


def test_room_that_comes_back_is_waited_for():
    stage = Stage()
    full = Refusal(
        403, "Forbidden", 'jobs.batch "x" is forbidden: exceeded quota: agents, requested: count/jobs.batch=1'
    )
    stage.cluster.knobs.admit = lambda resource, _tree: full if resource == "jobs" and stage.loop.time() < 100 else None
    result, reader = stage.play(lambda: whole(stage, request()))
    assert result.code == ""
    assert any("waiting for room" in text for text in reader.told("progress"))


def test_a_refusal_of_the_job_says_what_the_api_server_said():
    stage = Stage()
    denied = Refusal(403, "Forbidden", 'admission webhook "no.example.com" denied the request: not today')
    stage.cluster.knobs.admit = lambda resource, _tree: denied if resource == "jobs" else None
    result, _ = stage.play(lambda: whole(stage, request()))
    assert result.code == "k8s_admission_refused"
    assert "not today" in result.error_message


def test_a_run_that_is_nowhere_cannot_be_attached_to():
    stage = Stage()

    async def scene():
        async with stage.launcher() as launcher:
            with pytest.raises(NotFoundRun):
                await launcher.attach("run-9", Reader())

    stage.play(scene)


def test_a_silent_agent_is_said_to_live():
    stage = Stage(Program([(100.0, b"{}"), *spoken("a")]))
    _, reader = stage.play(lambda: whole(stage, request()))
    assert len(reader.told("keepalive")) >= 5


def test_nothing_secret_is_in_the_job_or_in_what_is_said():
    stage = Stage(Program([(0.1, b"my token is token-of-the-run-0123456789"), *spoken("a")]))
    seen = []

    def watch(resource, tree):
        seen.append((resource, str(tree)))

    stage.cluster.knobs.admit = watch
    _, reader = stage.play(lambda: whole(stage, request()))
    assert b"token-of-the-run" not in reader.data
    assert all("token-of-the-run" not in text for resource, text in seen if resource != "secrets")
