"""What must not happen to a run when the API server, its reader or another request gets in its way."""

from __future__ import annotations

import asyncio

import pytest

from kubekit.names import job_name
from paperclip_launcher import marks
from paperclip_launcher.cluster.errors import ServerFault, Unauthorized
from paperclip_launcher.cluster.transport import NotSent
from paperclip_launcher.errors import ConfigInvalid, Detached
from paperclip_launcher.handover import Extras
from paperclip_launcher.journal import MemoryJournal
from paperclip_launcher.launcher import dialect_of
from paperclip_launcher.manifest import workspace_of
from paperclip_launcher.options import RunOptions
from tests.fakeapi.model import Program
from tests.launcher.core.stage import Reader, Stage, request, spoken

LONG = Program(spoken(*[f"line {n}" for n in range(40)], gap=5.0))
KEY = job_name("agent-1", "run-1")


ERRORS = {
    NotSent: NotSent("down"),
    ServerFault: ServerFault(503, "ServiceUnavailable", "down"),
    Unauthorized: Unauthorized(401, "Unauthorized", "who are you"),
}


class Outage:
    """A hook: calls that fit `method` and `part` fail from `begin` until `end`."""

    def __init__(self, stage, method="", part="", error=NotSent, begin=0.0, end=float("inf")):
        self.stage, self.method, self.part, self.error = stage, method, part, error
        self.begin, self.end = begin, end

    def __call__(self, phase, asked):
        fits = asked.method.startswith(self.method) and self.part in asked.path
        if phase == "before" and fits and self.begin <= self.stage.loop.time() < self.end:
            raise ERRORS[self.error]


async def to_end(launcher, run):
    result = await run.result
    run.acknowledge()
    await asyncio.sleep(10)
    return result


def events(stage):
    ours = [one for one in stage.cluster.objects("events") if one["source"]["component"] == marks.MANAGER]
    return [(one["reason"], one["message"]) for one in ours]


def reasons(stage):
    return [reason for reason, _ in events(stage)]


def test_the_next_run_waits_for_a_pod_that_may_yet_start_though_its_job_was_deleted():
    stage = Stage()
    second = Reader()

    async def scene():
        async with stage.launcher() as launcher:
            await launcher.begin(request(), Reader())
            while not launcher.view.pods.store:  # noqa: ASYNC110  virtual time
                await asyncio.sleep(0.001)
            stage.cluster.remove("jobs", KEY)
            await asyncio.sleep(0.01)
            return await to_end(launcher, await launcher.begin(request("run-2"), second))

    assert stage.play(scene).ok
    assert [text for text in second.told("progress") if "is there without its Job" in text]


@pytest.mark.parametrize("error", [NotSent, ServerFault])
def test_a_restarted_launcher_that_cannot_ask_for_its_job_keeps_it(error):
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher() as launcher:
            await launcher.begin(request(), Reader())
            await asyncio.sleep(20)
        down = Outage(stage, "GET", f"jobs/{KEY}", error, end=stage.loop.time() + 300)
        async with stage.launcher(hook=down) as launcher:
            unknown = await (await launcher.begin(request(), Reader())).result
        async with stage.launcher() as launcher:
            return unknown, await to_end(launcher, await launcher.begin(request(), Reader()))

    unknown, result = stage.play(scene)
    assert (unknown.code, unknown.exit) == ("k8s_job_state_mismatch", 6)
    assert result.summary == "line 39"
    assert stage.cluster.calls["create", "jobs"] == 1


@pytest.mark.parametrize(("error", "code"), [(ServerFault, "k8s_job_state_mismatch"), (Unauthorized, "k8s_forbidden")])
def test_a_job_that_may_have_been_made_is_not_called_refused(error, code):
    stage = Stage()
    down = Outage(stage, "POST", "jobs", error)

    async def scene():
        async with stage.launcher(hook=down) as launcher:
            return await (await launcher.begin(request(), Reader())).result

    result = stage.play(scene)
    assert (result.code, result.execution_recovery) == (code, None)


def test_an_orphan_that_cannot_be_taken_over_is_kept():
    stage = Stage(LONG)
    down = Outage(stage, "PATCH", "jobs", ServerFault)

    async def scene():
        async with stage.launcher("one") as launcher:
            await launcher.begin(request(), Reader())
            await asyncio.sleep(20)
        async with stage.launcher("two", journal=MemoryJournal(), hook=down) as launcher:
            return await (await launcher.begin(request("run-2"), Reader())).result

    assert stage.play(scene).code == "k8s_job_state_mismatch"
    assert stage.names("jobs") == [KEY]


def test_a_cancel_outlasts_an_outage_of_the_api_server():
    stage = Stage(LONG)
    down = Outage(stage, begin=20, end=420)

    async def scene():
        async with stage.launcher(hook=down) as launcher:
            run = await launcher.begin(request(), Reader())
            await asyncio.sleep(25)
            run.cancel()
            return await to_end(launcher, run)

    assert stage.play(scene).code == "cancelled"
    assert stage.names("jobs") + stage.names("pods") == []


def test_a_start_that_nobody_could_see_is_not_taken_for_none():
    stage = Stage(Program(spoken("a", gap=400.0), start="unschedulable", start_trouble=60))
    down = Outage(stage, begin=20, end=1000)

    async def scene():
        async with stage.launcher(hook=down) as launcher:
            return await to_end(launcher, await launcher.begin(request(scheduleTimeoutSec=120), Reader()))

    assert stage.play(scene).code == ""


@pytest.mark.parametrize(("resumed", "code"), [(1000, ""), (None, "k8s_queue_waiting")])
def test_the_time_to_start_begins_when_the_queue_lets_the_job_go(resumed, code):
    stage = Stage()

    async def scene():
        async with stage.launcher() as launcher:
            wanted = request(queueName="agents", scheduleTimeoutSec=60, waitSec=1800)
            run = await launcher.begin(wanted, Reader())
            if resumed:
                await asyncio.sleep(resumed)
                await launcher.cluster.merge("jobs", KEY, {"spec": {"suspend": False}})
            return await to_end(launcher, run)

    assert stage.play(scene).code == code


def test_a_request_that_comes_twice_while_the_first_is_looked_at_is_one_run():
    stage = Stage()

    class Slow:
        asked = 0

        async def judge(self, _plan):
            self.asked += 1
            if self.asked == 1:
                await asyncio.sleep(60)

    async def scene():
        async with stage.launcher() as launcher:
            launcher.judge = Slow()
            first = asyncio.create_task(launcher.begin(request(), Reader()))
            await asyncio.sleep(0.1)
            second = await to_end(launcher, await launcher.begin(request(), Reader()))
            return second, await to_end(launcher, await first)

    second, first = stage.play(scene)
    assert first == second
    assert stage.cluster.calls["create", "jobs"] == 1


@pytest.mark.parametrize("part", ["log", "note"])
def test_a_reader_that_fails_does_not_decide_how_the_run_ended(part):
    class Broken(Reader):
        async def log(self, data, offset):
            await super().log(data, offset)
            if part == "log":
                raise OSError("no space left")

        async def note(self, kind, text):
            if part == "note":
                raise OSError("no space left")

    stage = Stage(Program(spoken("a", "b"), exit_code=0))

    async def scene():
        reader = Broken()
        async with stage.launcher() as launcher:
            run = await launcher.begin(request(), reader)
            return await to_end(launcher, run), run.log.complete, reader.data

    result, complete, data = stage.play(scene)
    assert (result.code, result.summary, complete) == ("", "b", part == "note")
    whole = b"".join(line + b"\n" for line in stage.cluster.printed(KEY))
    assert whole.startswith(data)


def test_a_result_that_was_read_is_no_left_over_of_another_run():
    stage = Stage()
    down = Outage(stage, "DELETE", "jobs", end=200)

    async def scene():
        async with stage.launcher(hook=down) as launcher:
            first = await launcher.begin(request("run-1"), Reader())
            await first.result
            first.acknowledge()
            await asyncio.sleep(100)
            return await to_end(launcher, await launcher.begin(request("run-2"), Reader()))

    assert stage.play(scene).code == ""
    assert stage.cluster.calls["create", "jobs"] == 2


def test_whoever_attaches_knows_what_the_config_said():
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher() as launcher:
            wanted = request(timeoutSec=60, retainJobs=True, ttlSecondsAfterFinished=77)
            await launcher.begin(wanted, Reader())
            await asyncio.sleep(20)
        async with stage.launcher() as launcher:
            result = await to_end(launcher, await launcher.attach("run-1", Reader()))
            return result, stage.cluster.objects("jobs")

    result, jobs = stage.play(scene)
    assert (result.code, result.error_message) == ("timeout", "Timed out after 60s")
    assert jobs == []


def test_a_run_of_a_plain_program_can_be_attached_to():
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher() as launcher:
            await launcher.begin(request(), Reader())
            await asyncio.sleep(20)
            plain = {"metadata": {"annotations": {marks.ADAPTER_TYPE: "command_k8s"}}}
            await launcher.cluster.merge("jobs", KEY, plain)
        async with stage.launcher(journal=MemoryJournal()) as launcher:
            return await to_end(launcher, await launcher.attach("run-1", Reader()))

    assert stage.play(scene).code == ""


def test_after_its_identity_is_lost_a_launcher_begins_nothing():
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher("same") as one, stage.launcher("same"):
            await one.lost.wait()
            with pytest.raises(Detached):
                await one.begin(request(), Reader())

    stage.play(scene)
    assert stage.names("jobs") == []


def test_leases_and_their_failures_are_counted():
    stage = Stage(LONG)
    down = Outage(stage, "PUT", "leases/paperclip-launcher", begin=20, end=70)

    async def scene():
        async with stage.launcher(hook=down) as launcher:
            run = await launcher.begin(request(), Reader())
            await asyncio.sleep(10)
            held = dict(launcher.metrics.leases)
            await asyncio.sleep(100)
            run.cancel()
            await to_end(launcher, run)
            after = dict(launcher.metrics.leases)
        return held, after, launcher.metrics

    held, after, metrics = stage.play(scene)
    assert held == {"launcher": 1, "agent": 1}
    assert after == {"launcher": 1, "agent": 0}
    assert metrics.leases["launcher"] == 0
    assert metrics.lease_failures >= 1


def test_the_cluster_is_told_of_an_end_that_is_not_good_without_secrets():
    said = b'{"type": "result", "subtype": "error", "is_error": true, "result": "token-of-the-run-0123456789"}'
    stage = Stage(Program([(0.1, said)], exit_code=1))

    async def scene():
        async with stage.launcher() as launcher:
            return await to_end(launcher, await launcher.begin(request(), Reader()))

    result = stage.play(scene)
    [(reason, text)] = events(stage)
    assert (reason, text.partition(":")[0]) == ("Failed", result.code)
    assert "token-of-the-run" not in text + str(result.to_json())


def test_the_cluster_is_told_who_took_a_run_over_and_who_stops_it():
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher("one") as launcher:
            await launcher.begin(request(), Reader())
            await asyncio.sleep(20)
        async with stage.launcher("two", journal=MemoryJournal()) as launcher:
            run = await launcher.attach("run-1", Reader())
            await asyncio.sleep(20)
            await launcher.cancel("run-1")
            await to_end(launcher, run)

    stage.play(scene)
    assert reasons(stage) == ["Adopted", "Stopping"]


def test_a_file_of_the_workspace_is_shown_beside_the_log(tmp_path):
    stage = Stage(LONG)
    folder = tmp_path / workspace_of("agent-1") / "logs"
    folder.mkdir(parents=True)

    async def scene():
        reader, again = Reader(), Reader()
        wanted = request(logFile="logs/a.txt")
        async with stage.launcher() as launcher:
            await launcher.begin(wanted, reader, extras=Extras(claim=tmp_path))
            await asyncio.sleep(10)
            (folder / "a.txt").write_text("one\ntwo\nthr")
            await asyncio.sleep(10)
        (folder / "a.txt").write_text("one\ntwo\nthree token-of-the-run-0123456789\n")
        async with stage.launcher() as launcher:
            run = await launcher.begin(wanted, again, extras=Extras(claim=tmp_path))
            return await to_end(launcher, run), reader.told("file"), again.told("file")

    result, first, second = stage.play(scene)
    assert (result.code, first, second) == ("", ["one\ntwo"], ["three ***"])


@pytest.mark.parametrize("path", ["/etc/passwd", "../other/a", "a//b", "a/./b"])
def test_a_file_outside_of_the_workspace_is_refused(path):
    with pytest.raises(ConfigInvalid, match="logFile"):
        RunOptions.of({"logFile": path}, dialect_of("claude_k8s"))


def test_the_time_of_a_run_that_was_taken_over_runs_on():
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher("one") as launcher:
            await launcher.begin(request(), Reader())
            await asyncio.sleep(60)
        async with stage.launcher("two", journal=MemoryJournal()) as launcher:
            result = await to_end(launcher, await launcher.begin(request("run-2", timeoutSec=100), Reader()))
            return result.code, stage.loop.time()

    code, ended = stage.play(scene)
    assert code == "timeout"
    assert 100 < ended < 130


def test_a_variable_that_is_called_as_one_of_our_words_does_not_hide_the_outcome():
    stage = Stage(LONG)

    async def scene():
        async with stage.launcher() as launcher:
            wanted = request(timeoutSec=30, env={"MODE": "timeout"})
            return await to_end(launcher, await launcher.begin(wanted, Reader()))

    result = stage.play(scene)
    assert (result.code, result.exit) == ("timeout", 1)
