"""What does not work: what the server's run and issue say of it, and whether it is tried again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

controlplane, staging = sys.modules["controlplane"], sys.modules["stage"]

pytestmark = pytest.mark.e2e

HOLD = "legacy_execution_requires_reconciliation"
"""The server tries nothing again by itself: a person is to look at what was done."""
CLAIM = "paperclip-agent-workspace"


def failed(stage: Any, company: str, orders: str, **config: Any) -> tuple[Any, Any]:
    """The issue, and the run that came to nothing."""
    agent = stage.agent(company, **config)
    issue = stage.api.create_issue(company, "Fails", agent.id, orders)
    return issue, stage.ended(stage.begun(company))


def held(stage: Any, issue: Any, run: Any, code: str) -> None:
    """Until the issue waits for a person, because of this run's code."""
    api = stage.api
    controlplane.wait_until("the hold", 20, lambda: api.issue(issue.id).tree["activeRecoveryAction"])
    tree = api.issue(issue.id).tree
    assert tree["executionBlocker"]["cause"] == HOLD
    assert tree["executionBlocker"]["runId"] == run.id
    assert tree["activeRecoveryAction"]["evidence"]["originalFailureCode"] == code
    assert tree["scheduledRetry"] is None


@pytest.mark.parametrize(
    ("orders", "exit_code", "code", "said"),
    [
        ("@agent fail 3 out of luck", 3, "agent_failed", "out of luck"),
        ("@agent say something\n@agent exit 3", 3, "claude_truncated", "exit code 3"),
        ("@agent say something\n@agent eat", 137, "k8s_oom_killed", "raise the memory limit"),
    ],
    ids=["exit 3 with a result", "exit 3 without one", "out of memory"],
)
def test_an_agent_that_failed_is_told_as_what_it_was_and_never_run_again(stage, company, orders, exit_code, code, said):
    issue, run = failed(stage, company, orders)
    assert (run.status, run.exit_code, run.error_code) == ("failed", exit_code, code), stage.story(run)
    assert said in run.error
    assert "errorFamily" not in run.result
    held(stage, issue, run, code)


def no_pods(quota: dict[str, Any]) -> None:
    quota["spec"]["hard"]["pods"] = "0"


def test_a_run_for_which_the_quota_has_no_room_is_tried_again_by_the_server(stage, company):
    (quota,) = stage.site.objects("resourcequotas")
    with stage.changed("resourcequota", quota["metadata"]["name"], no_pods):
        issue, run = failed(stage, company, "@agent done at last", scheduleTimeoutSec=5)
    assert (run.status, run.error_code) == ("failed", "k8s_quota_exceeded"), stage.story(run)
    assert "has no room for pods=1" in run.error
    assert run.result["errorFamily"] == "transient_upstream"
    assert run.result["executionRecovery"] == {"kind": "bootstrap", "providerWorkStarted": False}
    again = stage.begun(company, 2)
    assert (again.tree["retryOfRunId"], again.tree["scheduledRetryReason"]) == (run.id, "transient_failure")
    again = stage.ended(again)
    assert again.status == "succeeded", stage.story(again)
    controlplane.wait_until("the issue to be done", 20, lambda: stage.api.issue(issue.id).status == "done")


def no_more_secrets(role: dict[str, Any]) -> None:
    for rule in role["rules"]:
        if rule["resources"] == ["secrets"]:
            rule["verbs"].remove("create")


def test_the_test_button_names_a_right_that_is_missing(stage, company):
    good = stage.api.test_environment(company, staging.TYPE)
    assert good["status"] == "pass", good
    (role,) = stage.site.objects("roles")
    with stage.changed("role", role["metadata"]["name"], no_more_secrets):
        found = problems(stage, company)
    assert list(found) == ["k8s_rbac_secrets"]
    assert "create" in found["k8s_rbac_secrets"]["message"]
    assert found["k8s_rbac_secrets"]["hint"]


@pytest.fixture
def without_claim(stage) -> Iterator[Any]:
    """The stage, with templates that name a claim that nobody made."""
    launcher = stage.launcher
    launcher.end()
    launcher.start(launcher.changed_templates("no-claim", launcher.templates, CLAIM, "nobody-made-this"))
    yield stage
    launcher.end()
    launcher.start()


def test_the_test_button_names_a_claim_that_is_missing(without_claim, company):
    found = problems(without_claim, company)
    assert "nobody-made-this" in found["k8s_pvc_missing"]["message"], found


def test_the_test_button_says_that_the_launcher_is_away_and_what_to_do(stage, company):
    stage.launcher.end()
    found = problems(stage, company)
    assert list(found) == ["launcher_unreachable"]
    assert "sidecar" in found["launcher_unreachable"]["hint"]


def problems(stage: Any, company: str) -> dict[str, Any]:
    """The checks that say why no run can be had, by code."""
    report = stage.api.test_environment(company, staging.TYPE)
    assert report["status"] == "fail", report
    return {one["code"]: one for one in report["checks"] if one["level"] == "error"}
