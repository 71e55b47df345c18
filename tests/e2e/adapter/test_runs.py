"""What happens when somebody gives an issue to an agent that lives in Kubernetes, by the server's own records."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest

controlplane, staging = sys.modules["controlplane"], sys.modules["stage"]

pytestmark = pytest.mark.e2e


def said(log: str) -> list[str]:
    """What the agent said, of all its events and lines."""
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [part["text"] for one in events if one["type"] == "assistant" for part in one["message"]["content"]]


@pytest.mark.parametrize("adapter_type", [staging.TYPE, staging.OTHER_TYPE])
def test_the_server_has_taken_the_adapter_from_its_folder(stage, adapter_type):
    found = stage.api.adapters()[adapter_type]
    assert (found["source"], found["loaded"], found["disabled"]) == ("external", True, False)
    assert "kubeconfig" in [one["key"] for one in stage.api.config_schema(adapter_type)["fields"]]


def test_the_models_of_claude_are_there_to_choose_from(stage, company):
    assert any("claude" in one for one in stage.api.models(company, staging.TYPE))


def test_an_issue_is_done_in_a_pod_with_its_whole_log_its_cost_and_the_runs_own_token(stage, company):
    agent = stage.agent(company)
    orders = (
        "@agent say hällo",
        "@agent lines 5000 100",
        "@agent await /workspace/go",
        "@agent usage 100 20 0.5",
        "@agent done all is well",
    )
    issue = stage.api.create_issue(company, "Count", agent.id, "\n".join(orders))
    run = stage.begun(company)
    stage.saying(run, "line 0005000 ")
    kept = stage.keep_log(run)
    stage.open_gate(run, "go")
    run = stage.ended(run)
    assert (run.status, run.exit_code, run.error_code) == ("succeeded", 0, ""), stage.story(run)
    assert stage.api.log_text(run.id, "stdout") == kept.text
    assert kept.text.count("\n") > 5000
    assert "the server says HTTP/1.1 200 OK" in said(kept.text)
    stage.settled(lambda: stage.api.issue(issue.id).status, "done")
    stage.settled(lambda: stage.api.comments(issue.id), ["all is well"])
    assert (run.usage["inputTokens"], run.usage["outputTokens"], run.usage["costUsd"]) == (100, 20, 0.5)
    stage.settled(lambda: stage.api.agent(agent.id).tree["spentMonthlyCents"], 50)
    assert [one.id for one in stage.api.runs(company)] == [run.id]
    assert stage.created(run) == 1
    controlplane.wait_until("its Job to be gone", 60, lambda: not stage.site.objects("jobs"))


def test_the_next_wake_goes_on_with_the_session(stage, company):
    agent = stage.agent(company)
    issue = stage.api.create_issue(company, "Twice", agent.id, "@agent done once")
    first = stage.ended(stage.begun(company))
    assert first.status == "succeeded", stage.story(first)
    (kept,) = sessions(stage, agent.id)
    stage.api.comment(issue.id, "again, please\n@agent say I remember")
    second = stage.ended(stage.begun(company, 2))
    assert second.status == "succeeded", stage.story(second)
    log = stage.api.log_text(second.id)
    assert session_of(log) == session_of(stage.api.log_text(first.id)) == kept["sessionId"]
    assert "I remember" in said(log)
    assert sessions(stage, agent.id)[0]["sessionId"] == kept["sessionId"]


def session_of(log: str) -> str:
    """As the agent itself says at its start; it refuses one that it does not know."""
    begins = [json.loads(line) for line in log.splitlines() if '"subtype":"init"' in line]
    assert len(begins) == 1, log
    return str(begins[0]["session_id"])


def sessions(stage: Any, agent: str) -> list[Any]:
    controlplane.wait_until("the session in the books", 20, lambda: stage.api.task_sessions(agent))
    return [one["sessionParamsJson"] for one in stage.api.task_sessions(agent)]


def test_a_cancelled_run_has_no_pod_any_more_when_the_server_says_so(stage, company):
    agent = stage.agent(company)
    stage.api.create_issue(company, "Endless", agent.id, "@agent lines 3\n@agent await /workspace/never")
    run = stage.begun(company)
    stage.saying(run, "line 0000003 ")
    begun = time.monotonic()
    cancelled = stage.api.cancel(run.id)
    took = time.monotonic() - begun
    assert stage.site.pod(stage.job_of(run)) is None
    assert cancelled.status == "cancelled", stage.story(run)
    found = stage.api.run(run.id)
    assert found.result["executionCancellation"]["state"] == "acknowledged", stage.story(run)
    assert found.result["executionCancellation"]["forced"] is False
    assert "line 0000003 " in stage.api.log_text(run.id)
    assert took <= 10  # what issue and README promise; the agent itself stops at once
    controlplane.wait_until("its Job to be gone", 60, lambda: not stage.site.objects("jobs"))


def test_a_run_whose_agent_does_not_heed_the_stop_is_ended_by_force(stage, company):
    agent = stage.agent(company)
    orders = "@agent ignore-term\n@agent lines 3\n@agent await /workspace/never"
    stage.api.create_issue(company, "Stubborn", agent.id, orders)
    run = stage.begun(company)
    stage.saying(run, "line 0000003 ")
    assert stage.api.cancel(run.id).status == "cancelled"
    assert stage.site.pod(stage.job_of(run)) is None
    cancellation = stage.api.run(run.id).result["executionCancellation"]
    assert (cancellation["state"], cancellation["forced"]) == ("acknowledged", True), stage.story(run)
