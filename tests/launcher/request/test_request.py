"""The request: Paperclip's context in the shape that the real server gives it."""

from __future__ import annotations

import pytest

from paperclip_launcher.errors import AgentIdInvalid, ConfigInvalid
from paperclip_launcher.request import RunRequest


def problems(tree):
    with pytest.raises(ConfigInvalid) as caught:
        RunRequest.of(tree)
    return caught.value.problems


def test_the_servers_context_is_read(tree):
    request = RunRequest.of({**tree, "somethingNew": object()})
    assert (request.run_id, request.agent_id) == (tree["runId"], tree["agent"]["id"])
    assert (request.agent_name, request.agent_role, request.adapter_type) == (
        "Ada the reviewer",
        "engineer",
        "claude_k8s",
    )
    assert (request.company_id, request.task_id, request.auth_token) == (
        tree["agent"]["companyId"],
        "i-1",
        "canary-token",
    )
    assert (request.session_id, request.session_params) == ("", None)
    assert request.context["wakeReason"] == "issue_assigned"


def test_the_least_that_makes_a_run():
    request = RunRequest.of({"runId": "r", "agent": {"id": "a"}})
    assert request == RunRequest("r", "a")


@pytest.mark.parametrize(
    ("context", "wanted"),
    [({"taskId": "t", "issueId": "i"}, "t"), ({"taskId": "", "issueId": "i"}, "i"), ({"issueId": "i"}, "i"), ({}, "")],
)
def test_the_task_is_the_issue_where_no_task_is_named(context, wanted):
    assert RunRequest.of({"runId": "r", "agent": {"id": "a"}, "context": context}).task_id == wanted


@pytest.mark.parametrize(
    ("context", "runtime", "key"),
    [
        ({}, {"taskKey": "__heartbeat__"}, "__heartbeat__"),
        ({"taskKey": "k"}, {"taskKey": "__heartbeat__"}, "k"),
        ({"taskKey": " "}, {"taskKey": 5}, ""),
        ({"taskKey": "x" * 513}, {"taskKey": "a\0b"}, ""),
    ],
)
def test_a_key_that_cannot_be_kept_is_none_and_no_problem(context, runtime, key):
    tree = {"runId": "r", "agent": {"id": "a"}, "context": context, "runtime": runtime}
    request = RunRequest.of(tree)
    assert (request.task_id, request.task_key) == ("", key)


def test_connection_tools_without_a_token_are_none(tree):
    assert RunRequest.of({**tree, "runtimeTools": {"mcpEndpoint": "http://s/mcp"}}).tools == {}
    assert problems({**tree, "runtimeTools": {"bearerToken": 5}}) == (
        "/runtimeTools/bearerToken is a number, not a text",
    )


@pytest.mark.parametrize("agent_id", [None, "", "  ", 5, ["a"], "a\0b", "x" * 513, "\ud800"])
def test_an_agent_without_a_usable_id_has_its_own_code(tree, agent_id):
    tree["agent"]["id"] = agent_id
    if agent_id == "\ud800":
        assert "lone surrogate" in problems(tree)[0]
        return
    with pytest.raises(AgentIdInvalid) as caught:
        RunRequest.of(tree)
    assert caught.value.code == "k8s_agent_id_invalid"


def test_every_problem_is_told_at_once(tree):
    tree |= {"runId": 5, "config": [], "context": "x", "authToken": "a\nb"}
    tree["agent"]["name"] = {"a": 1}
    tree["runtime"]["sessionParams"] = "s"
    told = problems(tree)
    assert [one.split()[0] for one in told] == [
        *("/context", "/runtime/sessionParams", "/runId", "/agent/name", "/config", "/authToken")
    ]  # fmt: skip


@pytest.mark.parametrize("request_", [None, [], "run", 5])
def test_what_is_no_context_is_refused(request_):
    assert "not a map" in problems(request_)[0]


def test_a_lone_surrogate_is_refused_with_its_place(tree):
    tree["context"]["paperclipWake"]["comments"][1]["body"] = "ab\udc80c"
    assert problems(tree) == ("/context/paperclipWake/comments/1/body holds a lone surrogate (U+DC80) at character 3",)
    tree["context"] = {"k\ud800": {"a": 1}}
    assert problems(tree) == (r"/context/k\ud800/a has a key with a lone surrogate (U+D800)",)


def test_what_is_no_json_is_refused(tree):
    tree["context"]["when"] = {1, 2}
    assert problems(tree) == ("the request is no JSON: Object of type set is not JSON serializable",)


def test_a_tree_without_end_is_no_crash(tree):
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    tree["context"]["deep"] = deep
    assert problems(tree)
    loop: dict[str, object] = {}
    loop["self"] = loop
    tree["context"] = loop
    assert problems(tree)


def test_nothing_secret_shows(tree):
    tree["context"]["x"] = "canary-context"
    tree["runtime"]["sessionParams"] = {"x": "canary-session"}
    assert "canary" not in repr(RunRequest.of(tree))
    tree["authToken"] = "canary\n"
    assert "canary" not in str(problems(tree))
