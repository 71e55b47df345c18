"""What a person sees in the web UI, in a real browser: the form, the Test button, the log while it is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import needed

browser, staging = sys.modules["browser"], sys.modules["stage"]

pytestmark = pytest.mark.e2e

ARTEFACTS = Path(os.environ.get("PAPERCLIP_ARTEFACTS") or Path(__file__).parents[1] / ".artefacts")


@pytest.fixture(scope="module")
def page(whole_stage: Any) -> Iterator[Any]:
    program = needed.program("chromium", "the web UI with our adapter in it")
    with browser.running(program, whole_stage.site.cluster.state / "browser") as found:
        yield found


def address(stage: Any, company: str) -> str:
    """Of the company's pages."""
    (found,) = [one for one in stage.api.call("GET", "/companies") if one["id"] == company]
    return f"{stage.server.url}/{found['issuePrefix']}"


def test_the_form_shows_our_fields_with_their_hints_and_tests_the_environment(stage, company, page):
    agent = stage.agent(company)
    fields = stage.api.config_schema(staging.TYPE)["fields"]
    page.open(f"{address(stage, company)}/agents/{agent.id}/runtime")
    page.shows("Kubeconfig Path")
    # What is about times the UI puts under Run Policy, folded.
    page.press("Advanced Run Policy")
    page.shows(*(one["label"] for one in fields))
    for one in fields:
        page.point_at_hint(one["label"])
        page.shows(one["hint"])
    page.picture(ARTEFACTS / "form.png", 3600)
    page.press("Run test")
    page.shows("Connection successful")
    page.picture(ARTEFACTS / "form-tested.png", 3600)


def test_what_is_filled_into_the_form_is_what_the_agent_runs_with(stage, company, page):
    agent = stage.agent(company)
    page.open(f"{address(stage, company)}/agents/{agent.id}/runtime")
    page.shows("Memory Limit")
    page.fill("Memory Limit", "96Mi")
    page.press("Save changes")
    stage.settled(lambda: stage.api.agent(agent.id).tree["adapterConfig"].get("resources.limits.memory"), "96Mi")
    stage.api.create_issue(company, "Small", agent.id, "@agent lines 1\n@agent await /workspace/go\n@agent done yes")
    run = stage.begun(company)
    stage.saying(run, "line 0000001 ")
    (container,) = stage.pod_of(run)["spec"]["containers"]
    stage.open_gate(run, "go")
    assert container["resources"]["limits"]["memory"] == "96Mi"
    assert stage.ended(run).status == "succeeded"


def test_a_new_agent_can_have_our_adapter(stage, company, page):
    page.open(f"{address(stage, company)}/agents/new")
    page.shows("Agent name")
    page.fill("Agent name", "Grace")
    page.press("Choose adapter")
    page.shows("How should Grace work?", "Claude K8s")
    page.picture(ARTEFACTS / "new-agent.png")


def test_the_log_is_seen_while_the_agent_works(stage, company, page):
    agent = stage.agent(company)
    orders = "@agent lines 3\n@agent await /workspace/go\n@agent lines 3 80 4\n@agent done seen"
    stage.api.create_issue(company, "Watched", agent.id, orders)
    run = stage.begun(company)
    stage.saying(run, "line 0000003 ")
    page.open(f"{address(stage, company)}/agents/{agent.id}/runs/{run.id}")
    page.shows("line 0000003 ", "running")
    assert "line 0000004 " not in page.text
    stage.open_gate(run, "go")
    page.shows("line 0000006 ", "succeeded")
    page.picture(ARTEFACTS / "log.png", 1600)
    assert stage.ended(run).status == "succeeded"
