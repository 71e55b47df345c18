"""Runs by the protocol: clients come and go, the log is whole, a result waits for its reader."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from kubekit.names import job_name
from paperclip_launcher.provision import Stock
from paperclip_launcher.serve.service import Service
from tests.fakeapi.model import Program
from tests.launcher.core.stage import Stage, event, spoken
from tests.launcher.serve.client import Client, Failure

LONG = Program(spoken(*[f"line {n}" for n in range(40)], gap=5.0))
TOKEN = "token-of-the-run-0123456789"


def context(run="run-1", agent="agent-1", task="T-1", adapter="claude_k8s", **config):
    return {
        "runId": run,
        "agent": {"id": agent, "companyId": "company-1", "name": "Ada", "adapterType": adapter},
        "runtime": {},
        "config": config,
        "context": {"issueId": task},
        "authToken": TOKEN,
    }


@asynccontextmanager
async def serving(stage, **settings):
    async with stage.launcher(**settings) as launcher:
        yield Service(launcher, Stock(), asyncio.Event()), launcher


def printed(stage, run="run-1", agent="agent-1"):
    return b"".join(line + b"\n" for line in stage.cluster.printed(job_name(agent, run)))


def test_a_run_brings_its_log_its_notes_and_its_result_and_leaves_nothing():
    stage = Stage()

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            answer = await client.call("run.execute", context=context())
            assert client.logs["run-1"] == printed(stage)
            assert answer["offset"] == client.offsets["run-1"] == len(printed(stage))
            assert (answer["runId"], answer["jobName"]) == ("run-1", job_name("agent-1", "run-1"))
            assert answer["exit"] == 0
            assert answer["result"]["summary"] == "done"
            assert stage.names("jobs") == [answer["jobName"]]
            assert await client.call("run.acknowledge", runId="run-1") == {"acknowledged": True}
            await asyncio.sleep(10)
            return client

    client = stage.play(scene)
    assert stage.names("jobs") == []
    assert {kind for _, kind, _ in client.notes} == {"progress"}


def test_the_connection_is_lost_and_the_next_client_gets_the_rest_and_the_result():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, launcher):
            first = await Client(service).hello()
            first.ask("run.execute", context=context())
            await asyncio.sleep(60)
            first.leave()
            await first.ended()
            had = first.logs["run-1"]
            await asyncio.sleep(30)
            assert len(launcher.runs) == 1
            second = await Client(service).hello()
            answer = await second.call("run.execute", context=context(), offset=len(had))
            assert had + second.logs["run-1"] == printed(stage)
            assert 0 < len(had) < len(printed(stage))
            assert answer["result"]["exitCode"] == 0

    stage.play(scene)


@pytest.mark.parametrize("method", ["run.execute", "run.attach"])
def test_a_result_waits_for_a_client_and_comes_after_the_rest_of_the_log(method):
    stage = Stage()

    async def scene():
        async with serving(stage) as (service, _):
            first = await Client(service).hello()
            first.ask("run.execute", context=context())
            await asyncio.sleep(1.2)
            first.leave()
            await asyncio.sleep(300)
            asked = {"context": context()} if method == "run.execute" else {"runId": "run-1"}
            had = first.logs.get("run-1", b"")
            for offset in (len(had), 0, len(printed(stage))):
                again = await Client(service).hello()
                answer = await again.call(method, offset=offset, **asked)
                assert printed(stage)[:offset] + again.logs.get("run-1", b"") == printed(stage)
                assert answer["result"]["summary"] == "done"
            await again.call("run.acknowledge", runId="run-1")
            await asyncio.sleep(10)

    stage.play(scene)
    assert stage.names("jobs") == []


def test_a_restarted_launcher_gives_the_log_that_its_client_never_stored():
    stage = Stage()

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            first = await client.call("run.execute", context=context())
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            again = await client.call("run.execute", context=context(), offset=100)
            assert printed(stage)[:100] + client.logs["run-1"] == printed(stage)
            assert again["result"] == first["result"]
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            assert await client.call("run.acknowledge", runId="run-1") == {"acknowledged": True}

    stage.play(scene)


def test_when_the_launcher_ends_its_clients_are_told_that_the_run_goes_on():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            waiting = client.ask("run.execute", context=context())
            await asyncio.sleep(30)
        with pytest.raises(Failure) as caught:
            await waiting
        assert caught.value.data["code"] == "detached"
        assert "result" not in caught.value.data

    stage.play(scene)
    assert len(stage.names("jobs")) == 1


def test_of_two_clients_of_one_run_the_last_one_reads_it():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            first, second = await Client(service).hello(), await Client(service).hello()
            waiting = first.ask("run.execute", context=context())
            await asyncio.sleep(60)
            answer = await second.call("run.attach", runId="run-1", offset=0)
            with pytest.raises(Failure) as caught:
                await waiting
            assert caught.value.data["code"] == "replaced"
            assert second.logs["run-1"] == printed(stage)
            assert answer["result"]["summary"]

    stage.play(scene)


def test_a_client_that_falls_silent_is_let_go_and_the_result_does_not_suffer():
    big = [(0.001, b"x" * 60_000)] * 120  # more than the window
    stage = Stage(Program([*spoken("a")[:1], *big, *spoken("a")[1:]]))

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service, lazy=True).hello()
            with pytest.raises(Failure) as caught:
                await client.call("run.execute", context=context())
            assert caught.value.data["code"] == "reader_too_slow"
            had = client.offsets["run-1"]
            assert 3 << 20 < had <= 4 << 20
            await asyncio.sleep(60)
            client.lazy = False
            answer = await client.call("run.attach", runId="run-1", offset=had)
            assert client.logs["run-1"] == printed(stage)
            assert answer["result"]["exitCode"] == 0
            assert "logComplete" not in (answer["result"].get("errorMeta") or {})

    stage.play(scene)


def test_a_client_that_does_not_read_holds_up_nobody_else():
    stage = Stage(lambda job: Program([*spoken("a")[:1], *[(0.01, b"y" * 50_000)] * 30, *spoken("a")[1:]]))

    async def scene():
        async with serving(stage) as (service, _):
            stuck, other = await Client(service).hello(), await Client(service).hello()
            stuck.down.stuck = True
            waiting = stuck.ask("run.execute", context=context("run-1", "agent-1"))
            await asyncio.sleep(1)
            begun = asyncio.get_running_loop().time()
            answer = await other.call("run.execute", context=context("run-2", "agent-2"))
            assert answer["result"]["exitCode"] == 0
            assert asyncio.get_running_loop().time() - begun < 10
            waiting.cancel()

    stage.play(scene)


def test_cancel_answers_when_the_agent_is_proven_gone():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            waiting = client.ask("run.execute", context=context())
            await asyncio.sleep(30)
            answer = await client.call("run.cancel", runId="run-1")
            assert (answer["state"], answer["forced"]) == ("acknowledged", False)
            assert answer["acknowledgedAt"].endswith("Z")
            assert stage.names("pods") == []
            result = (await waiting)["result"]
            assert result["errorCode"] == "cancelled"

    stage.play(scene)


def test_a_cancel_that_comes_before_the_run_has_begun_wins():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            waiting = client.ask("run.execute", context=context())
            answer = await client.call("run.cancel", runId="run-1")
            assert answer["state"] == "acknowledged"
            assert (await waiting)["result"]["errorCode"] == "cancelled"

    stage.play(scene)
    assert stage.cluster.calls["create", "jobs"] == 0


def test_a_run_that_an_earlier_life_left_is_cancelled_as_well():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            client.ask("run.execute", context=context())
            await asyncio.sleep(30)
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            assert (await client.call("run.cancel", runId="run-1"))["state"] == "acknowledged"
            assert stage.names("pods") == []
            with pytest.raises(Failure) as caught:
                await client.call("run.cancel", runId="run-7")
            assert caught.value.data["code"] == "run_not_found"

    stage.play(scene)


def test_an_agent_that_ignores_sigterm_is_said_to_have_been_forced():
    stage = Stage(Program(LONG.lines, ignore_term=True))

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            client.ask("run.execute", context=context())
            await asyncio.sleep(30)
            answer = await client.call("run.cancel", runId="run-1")
            assert (answer["state"], answer["forced"]) == ("acknowledged", True)

    stage.play(scene)


def test_a_run_without_a_client_makes_way_for_the_next_run_of_its_task():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            first = await Client(service).hello()
            first.ask("run.execute", context=context())
            await asyncio.sleep(20)
            first.leave()
            await asyncio.sleep(5)
            second = await Client(service).hello()
            answer = await second.call("run.execute", context=context("run-2"))
            assert second.logs["run-2"] == printed(stage)
            assert answer["jobName"] == job_name("agent-1", "run-1")
            await second.call("run.acknowledge", runId="run-2")
            await asyncio.sleep(10)

    stage.play(scene)
    assert stage.names("jobs") == []


def test_a_client_that_was_started_anew_need_not_wait_for_its_former_life():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            loop = asyncio.get_running_loop()
            first = await Client(service).hello({"name": "adapter", "instance": "1"})
            first.ask("run.execute", context=context())
            await asyncio.sleep(20)
            first.leave()
            await asyncio.sleep(1)
            begun = loop.time()
            second = await Client(service).hello({"name": "adapter", "instance": "2"})
            waiting = second.ask("run.execute", context=context("run-2"))
            assert (await waiting)["jobName"] == job_name("agent-1", "run-1")
            assert loop.time() - begun < 200

    stage.play(scene)


def test_a_client_that_leaves_a_run_for_good_lets_the_next_one_have_it_at_once():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            stranger = await Client(service).hello()
            first = client.ask("run.execute", context=context())
            await asyncio.sleep(20)
            assert await stranger.call("run.leave", runId="run-1") == {}
            await asyncio.sleep(1)
            assert not first.done()
            assert await client.call("run.leave", runId="run-1") == {}
            with pytest.raises(Failure) as caught:
                await first
            assert caught.value.data["code"] == "left"
            begun = asyncio.get_running_loop().time()
            next_one = client.ask("run.execute", context=context("run-2"))
            await asyncio.sleep(5)
            assert "run-2" in client.logs
            assert (await next_one)["jobName"] == job_name("agent-1", "run-1")
            assert asyncio.get_running_loop().time() - begun < 200
            assert client.logs["run-2"] == printed(stage)

    stage.play(scene)


@pytest.mark.parametrize("client", ["test", {"name": "another", "instance": "2"}, {"name": "adapter", "instance": "1"}])
def test_any_other_client_waits_for_one_that_may_come_back(client):
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            first = await Client(service).hello({"name": "adapter", "instance": "1"})
            first.ask("run.execute", context=context())
            await asyncio.sleep(20)
            first.leave()
            await asyncio.sleep(1)
            second = await Client(service).hello(client)
            second.ask("run.execute", context=context("run-2"))
            await asyncio.sleep(20)
            assert "run-2" not in second.logs
            await asyncio.sleep(20)
            assert "run-2" in second.logs

    stage.play(scene)


def test_a_client_that_comes_back_soon_keeps_its_run_from_the_next_one():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            first = await Client(service).hello()
            first.ask("run.execute", context=context())
            await asyncio.sleep(20)
            first.leave()
            await asyncio.sleep(5)
            second = await Client(service).hello()
            other = second.ask("run.execute", context=context("run-2"))
            await asyncio.sleep(5)
            mine = second.ask("run.execute", context=context(), offset=0)
            answer = await other
            assert answer["result"]["errorCode"] == "k8s_concurrent_run_blocked"
            assert (await mine)["result"]["exitCode"] == 0
            assert second.logs["run-1"] == printed(stage)

    stage.play(scene)


def test_a_config_that_is_wrong_is_an_error_with_every_problem_and_a_result_for_the_server():
    stage = Stage()

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            with pytest.raises(Failure) as caught:
                await client.call("run.execute", context=context(timeoutSec="soon", graceSec=-1))
            data = caught.value.data
            assert data["code"] == "k8s_config_invalid"
            assert [one.split()[0] for one in data["problems"]] == ["timeoutSec", "graceSec"]
            assert data["remedy"]
            assert data["result"]["errorCode"] == "k8s_config_invalid"
            assert data["result"]["errorMessage"]
            assert "executionRecovery" not in data["result"]

    stage.play(scene)
    assert stage.cluster.calls["create", "jobs"] == 0


def test_the_agents_secrets_show_in_no_line_to_a_client():
    secret = "a-value-that-nobody-may-see"
    lines = [(0.1, event("assistant", text=f"{secret} and {TOKEN}")), *spoken("done")]
    stage = Stage(Program(lines))

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            answer = await client.call("run.execute", context=context(env={"MY_KEY": secret}))
            shown = repr(client.notices) + repr(answer)
            assert secret not in shown
            assert TOKEN not in shown
            assert answer["offset"] == len(printed(stage))
            assert len(client.logs["run-1"]) < len(printed(stage))

    stage.play(scene)


def test_log_that_is_no_utf8_arrives_byte_by_byte():
    stage = Stage(Program([(0.1, b"\xff\xfe caf\xc3\xa9 \xe2\x80\xa8"), *spoken("done")]))

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            await client.call("run.execute", context=context())
            assert client.logs["run-1"] == printed(stage)

    stage.play(scene)


def test_list_and_describe_say_how_runs_stand():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            client.ask("run.execute", context=context())
            await asyncio.sleep(30)
            (found,) = (await client.call("run.list"))["runs"]
            assert (found["runId"], found["phase"], found["lookedAfter"], found["owner"]) == (
                "run-1",
                "running",
                "yes",
                "one",
            )
            described = await client.call("run.describe", runId="run-1")
            assert described["progress"].startswith("Pod run-")
            assert described["diagnosis"] is None
            with pytest.raises(Failure) as caught:
                await client.call("run.describe", runId="run-9")
            assert caught.value.data["code"] == "run_not_found"

    stage.play(scene)


def test_a_result_that_nobody_fetches_is_not_driven_for_ever_and_can_still_be_had():
    stage = Stage()

    async def scene():
        async with serving(stage) as (service, launcher):
            first = await Client(service).hello()
            first.ask("run.execute", context=context())
            await asyncio.sleep(1)
            first.leave()
            await asyncio.sleep(600)
            await service.runs.forget_the_left(3600)
            assert len(launcher.runs) == 1
            await asyncio.sleep(3600)
            await service.runs.forget_the_left(3600)
            assert launcher.runs == {}
            second = await Client(service).hello()
            answer = await second.call("run.attach", runId="run-1", offset=0)
            assert second.logs["run-1"] == printed(stage)
            assert answer["result"]["summary"] == "done"

    stage.play(scene)


def test_a_run_of_another_launcher_that_is_alive_is_not_taken_but_can_be_cancelled():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _), serving(stage, identity="two") as (other, _):
            owner, client = await Client(service).hello(), await Client(other).hello()
            waiting = owner.ask("run.execute", context=context())
            await asyncio.sleep(60)
            with pytest.raises(Failure) as caught:
                await client.call("run.attach", runId="run-1", offset=0)
            assert caught.value.data["code"] == "k8s_run_owned_elsewhere"
            assert (await client.call("run.cancel", runId="run-1"))["state"] == "acknowledged"
            assert (await waiting)["result"]["errorCode"] == "cancelled"

    stage.play(scene)


def test_it_is_too_early_to_acknowledge_a_result_that_is_not_there():
    stage = Stage(LONG)

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            client.ask("run.execute", context=context())
            await asyncio.sleep(30)
            with pytest.raises(Failure) as caught:
                await client.call("run.acknowledge", runId="run-1")
            assert caught.value.data["code"] == "no_result"
            assert await client.call("run.acknowledge", runId="run-9") == {"acknowledged": False}

    stage.play(scene)


def test_a_run_that_was_left_half_made_is_made_whole_by_its_request_though_somebody_attached_to_it():
    stage = Stage()

    async def scene():
        async with serving(stage) as (service, _):
            client = await Client(service).hello()
            client.ask("run.execute", context=context())
            while not stage.names("jobs"):  # noqa: ASYNC110  there is nobody to tell it
                await asyncio.sleep(0.0005)
        assert stage.names("secrets") == ["paperclip-agent-keys"]
        async with serving(stage) as (service, _):
            client, other = await Client(service).hello(), await Client(service).hello()
            other.ask("run.attach", runId="run-1")
            await asyncio.sleep(5)
            answer = await client.call("run.execute", context=context())
            assert answer["result"]["summary"] == "done"
            assert client.logs["run-1"] == printed(stage)

    stage.play(scene)
