"""The methods beside runs: the handshake, and what Paperclip asks of an adapter."""

from __future__ import annotations

import asyncio

import pytest

from paperclip_launcher.provision import Stock
from paperclip_launcher.serve.service import Service
from tests.launcher.core.stage import Stage
from tests.launcher.serve.client import Client, Failure


def asked(method, params=None, *, hello=True):
    """The answer, or the Failure."""
    stage = Stage()

    async def scene():
        stop = asyncio.Event()
        async with stage.launcher() as launcher:
            client = Client(Service(launcher, Stock(), stop))
            if hello:
                await client.hello()
            try:
                found = await client.call(method, **(params or {}))
            except Failure as error:
                return error
            return {**found, "stopped": stop.is_set()} if method == "shutdown" else found

    return stage.play(scene)


def test_the_handshake_says_who_is_there():
    found = asked("initialize", {"protocolVersion": 1, "client": {"name": "test"}}, hello=False)
    assert (found["protocolVersion"], found["identity"], found["namespace"]) == (1, "one", "paperclip-agents")
    assert found["adapterTypes"] == ["claude_k8s", "opencode_k8s", "command_k8s"]
    assert found["launcher"]["name"] == "paperclip-launcher"


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("run.list", {}, "not_initialized"),
        ("initialize", {"protocolVersion": 2}, "protocol_version"),
        ("initialize", {}, "invalid_params"),
        ("run.exekute", {}, "unknown_method"),
    ],
)
def test_a_client_that_goes_wrong_is_told_how(method, params, code):
    found = asked(method, params, hello=False)
    assert found.data["code"] == code
    assert found.data["remedy"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("run.execute", {"context": []}),
        ("run.execute", {"context": {}, "offset": -1}),
        ("run.execute", {"context": {}, "offset": True}),
        ("run.attach", {}),
        ("run.attach", {"runId": ""}),
        ("run.ack", {"runId": "r", "offset": "7"}),
        ("run.cancel", {"runId": 7}),
        ("skills.list", {"config": None}),
        ("models.list", {"environment": "x"}),
        ("environment.test", {"config": []}),
    ],
)
def test_wrong_parameters_are_named(method, params):
    found = asked(method, params)
    assert found.code == -32602
    assert found.data["problems"]


def test_the_form_has_no_key_that_the_server_would_run():
    keys = [one["key"] for one in asked("config.schema", {"adapterType": "claude_k8s"})["fields"]]
    assert not {"command", "args", "env", "mode", "program", "model"} & {*keys}
    assert "program" in [one["key"] for one in asked("config.schema", {"adapterType": "command_k8s"})["fields"]]


def test_models_are_those_of_the_agents_environment():
    direct = asked("models.list", {"adapterType": "claude_k8s", "environment": {}})["models"]
    bedrock = asked("models.list", {"environment": {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}})[
        "models"
    ]
    assert direct[0] == {"id": "claude-opus-4-7", "label": "Claude Opus 4.7"}
    assert all(one["id"].startswith("eu.anthropic.") for one in bedrock)


def test_sessions_are_read_in_any_spelling_and_written_in_one():
    raw = {"session_id": " s-1 ", "workdir": "/w", "other": 7}
    assert asked("session.deserialize", {"raw": raw})["params"] == {"sessionId": "s-1", "cwd": "/w"}
    assert asked("session.deserialize", {"raw": None})["params"] is None
    assert asked("session.serialize", {"params": {"sessionId": "s-1"}})["params"] == {"sessionId": "s-1"}
    assert asked("session.displayId", {"params": {"sessionId": "s-1"}})["displayId"] == "s-1"


def test_skills_are_listed_and_syncing_changes_nothing():
    config = {
        "paperclipRuntimeSkills": [{"key": "a/one", "runtimeName": "one", "source": "/s/one"}],
        "paperclipSkillSync": {"desiredSkills": ["a/one"]},
    }
    found = asked("skills.list", {"config": config, "adapterType": "claude_k8s"})
    assert found["entries"][0]["state"] == "configured"
    assert asked("skills.sync", {"config": config, "desiredSkills": []}) == found
    none = asked("skills.list", {"config": config, "adapterType": "command_k8s"})
    assert (none["supported"], none["mode"], none["entries"]) == (False, "unsupported", [])


def test_an_adapter_is_described_as_the_server_wants_its_module():
    found = asked("adapter.describe", {"adapterType": "claude_k8s"})
    assert found["label"] == "Claude (Kubernetes)"
    assert found["sessionManagement"]["supportsSessionResume"] is True
    assert found["instructionsPathKey"] == "instructionsFilePath"
    assert "| `timeoutSec` |" in found["agentConfigurationDoc"]
    assert found["models"]
    assert (
        asked("adapter.describe", {"adapterType": "command_k8s"})["sessionManagement"]["supportsSessionResume"] is False
    )
    assert asked("adapter.describe", {"adapterType": "claude_local"}).data["code"] == "k8s_config_invalid"


def test_the_environment_is_tested_with_the_config_of_the_agent():
    good = asked("environment.test", {"config": {}, "adapterType": "claude_k8s"})
    assert good["adapterType"] == "claude_k8s"
    codes = {one["code"] for one in good["checks"]}
    assert {"k8s_api_reachable", "k8s_dry_run_passed", "k8s_policies_passed"} <= codes
    bad = asked("environment.test", {"config": {"timeoutSec": "soon", "env": {"KEY": "very-secret-value"}}})
    assert bad["status"] == "fail"
    assert [one["detail"] for one in bad["checks"] if one["code"] == "k8s_template_invalid"]
    assert "very-secret-value" not in str(bad)


def test_metrics_are_had_as_text():
    found = asked("metrics")
    assert "paperclip_launcher_api_calls_total" in found["text"]


def test_a_client_may_end_the_launcher():
    assert asked("shutdown") == {"stopped": True}
