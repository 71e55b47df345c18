"""Many agents at once, through one server and one launcher."""

from __future__ import annotations

import sys
from typing import Any

import pytest

controlplane = sys.modules["controlplane"]

pytestmark = pytest.mark.e2e

AGENTS = 30
ORDERS = "@agent lines 200 100\n@agent await /workspace/go\n@agent lines 200 100 201\n@agent done here is %d"


def more_room(quota: dict[str, Any]) -> None:
    quota["spec"]["hard"].update({"pods": "40", "requests.cpu": "4"})


def underway(stage: Any) -> int:
    return sum(one["status"].get("phase") == "Running" for one in stage.site.objects("pods"))


def test_thirty_agents_work_at_once_and_nothing_of_them_is_lost_or_mixed_up(stage, company):
    (quota,) = stage.site.objects("resourcequotas")
    with stage.changed("resourcequota", quota["metadata"]["name"], more_room):
        issues = {}
        for number in range(AGENTS):
            agent = stage.agent(company, f"Agent {number}")
            issues[agent.id] = stage.api.create_issue(company, f"Part {number}", agent.id, ORDERS % number)
        controlplane.wait_until("all pods to run", 300, lambda: underway(stage) == AGENTS, lambda: str(underway(stage)))
        runs = stage.api.runs(company)
        assert len(runs) == AGENTS
        kept = {run.id: stage.keep_log(run) for run in runs}
        for run in runs:
            stage.open_gate(run, "go")
        for run in runs:
            found = stage.ended(run, 300)
            assert (found.status, found.error_code) == ("succeeded", ""), stage.story(run)
            assert stage.api.log_text(run.id, "stdout") == kept[run.id].text
            assert kept[run.id].text.count("\nline 0") == 400
        for number, issue in enumerate(issues.values()):
            assert stage.api.comments(issue.id) == [f"here is {number}"]
            assert stage.api.issue(issue.id).status == "done"
        assert stage.created(*runs) == AGENTS
        assert len(stage.api.runs(company)) == AGENTS
        controlplane.wait_until("all Jobs to be gone", 120, lambda: not stage.site.objects("jobs"))
