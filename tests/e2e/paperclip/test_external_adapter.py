"""What the server does with an adapter from outside: the contract that ours is written against."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

controlplane, paperclipapi = sys.modules["controlplane"], sys.modules["paperclipapi"]

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("tiny")]


@pytest.fixture
def company(paperclip) -> str:
    return paperclip.api.create_company("External")


def agent_of(paperclip: Any, company: str, **config: Any) -> Any:
    return paperclip.api.create_agent(company, "Tiny", "tiny", config)


def test_it_is_there_with_its_form_its_models_and_its_test(paperclip, company):
    found = paperclip.api.adapters()["tiny"]
    assert found["source"] == "external"
    assert [one["key"] for one in paperclip.api.config_schema("tiny")["fields"]] == ["lines"]
    assert paperclip.api.models(company, "tiny") == {"small": "Small"}
    assert paperclip.api.test_environment(company, "tiny", {"lines": 3})["status"] == "pass"
    report = paperclip.api.test_environment(company, "tiny")
    assert (report["status"], report["checks"][0]["code"]) == ("fail", "lines")


def test_a_run_succeeds_with_its_log_its_cost_and_its_result(paperclip, company):
    agent = agent_of(paperclip, company, lines=50)
    run = paperclip.api.ended(paperclip.api.wake(agent.id).id)
    assert (run.status, run.exit_code) == ("succeeded", 0), run
    assert paperclip.api.log_text(run.id) == "".join(f"line {number} ü\n" for number in range(1, 51))
    assert [entry.stream for entry in paperclip.api.log(run.id)][-2:] == ["stdout", "stderr"]
    assert (run.usage["inputTokens"], run.usage["costUsd"], run.result["count"]) == (100, 0.25, 1)
    booked(lambda: paperclip.api.agent(agent.id).tree["spentMonthlyCents"], 25)


def test_a_failure_keeps_the_code_that_the_adapter_gives_it(paperclip, company):
    agent = agent_of(paperclip, company, fail="tiny_broke")
    run = paperclip.api.ended(paperclip.api.wake(agent.id).id)
    assert (run.status, run.exit_code, run.error_code) == ("failed", 1, "tiny_broke"), run


def test_an_issue_is_done_by_the_runs_own_token_and_its_session_goes_on(paperclip, company):
    agent = agent_of(paperclip, company, finish=True)
    issue = paperclip.api.create_issue(company, "Count", agent.id)
    first = settled(paperclip, company, 1)
    assert (first.status, first.result["count"]) == ("succeeded", 1), first
    assert paperclip.api.issue(issue.id).status == "done"
    booked(lambda: paperclip.api.comments(issue.id), ["run 1"])
    paperclip.api.comment(issue.id, "once more")
    second = settled(paperclip, company, 2)
    assert (second.status, second.result["count"]) == ("succeeded", 2), second
    booked(lambda: sessions(paperclip, agent.id), [(issue.id, 2)])


def settled(paperclip: Any, company: str, count: int) -> Any:
    """The last of the runs that the server made by itself, once there are so many and it is over."""
    (last,) = controlplane.wait_until(f"run {count}", 60, lambda: paperclip.api.runs(company)[count - 1 :])
    return paperclip.api.ended(last.id)


def booked(ask: Callable[[], Any], wanted: Any) -> None:
    """The server says that a run is over before it has written down all that came of it."""
    controlplane.wait_until(f"{wanted} in the books", 20, lambda: ask() == wanted, lambda: str(ask()))


def sessions(paperclip: Any, agent: str) -> list[tuple[str, int]]:
    return [(one["taskKey"], one["sessionParamsJson"]["count"]) for one in paperclip.api.task_sessions(agent)]


def test_a_done_issue_is_not_worked_on_again_by_a_plain_wake(paperclip, company):
    agent = agent_of(paperclip, company, finish=True)
    issue = paperclip.api.create_issue(company, "Count", agent.id)
    settled(paperclip, company, 1)
    run = paperclip.api.ended(paperclip.api.wake(agent.id, issue.id).id)
    assert (run.status, run.error_code) == ("cancelled", "issue_terminal_status"), run


def underway(paperclip: Any, company: str, **config: Any) -> Any:
    """A run that stays for a while, and has said so."""
    agent = agent_of(paperclip, company, lines=1, **{"milliseconds": 120_000, **config})
    run = paperclip.api.wake(agent.id)
    paperclip.api.wait_for_log(run.id, "line 1")
    return run


def test_a_cancellation_that_the_adapter_acknowledges_is_one(paperclip, company):
    run = underway(paperclip, company, cancel="acknowledge")
    assert paperclip.api.cancel(run.id).status == "cancelled"
    assert paperclip.api.log_text(run.id) == "line 1 ü\n"


def test_one_that_it_does_not_acknowledge_is_a_conflict(paperclip, company):
    run = underway(paperclip, company, cancel="end")
    with pytest.raises(paperclipapi.Refused) as refused:
        paperclip.api.cancel(run.id)
    assert refused.value.status == 409
    assert paperclip.api.run(run.id).status == "cancelled"


def test_an_adapter_that_does_not_listen_works_on_unseen(paperclip, company):
    trace = paperclip.room(f"traces/{company}") / "trace"
    run = underway(paperclip, company, milliseconds=4000, trace=str(trace))
    assert paperclip.api.cancel(run.id).status == "cancelled"
    assert trace.read_text() == "entered\n"
    controlplane.wait_until("its work to be over", 20, lambda: trace.read_text() == "entered\nover\n")
    assert paperclip.api.run(run.id).status == "cancelled"


def test_changed_code_is_taken_by_a_reload_and_a_deleted_adapter_is_gone(paperclip, tiny, company):
    index = tiny / "index.js"
    before = index.read_text()
    index.write_text(before.replace('"Small"', '"Changed"'))
    try:
        paperclip.api.reload_adapter("tiny")
        assert paperclip.api.models(company, "tiny") == {"small": "Changed"}
    finally:
        index.write_text(before)
        paperclip.api.delete_adapter("tiny")
    assert "tiny" not in paperclip.api.adapters()
    with pytest.raises(paperclipapi.Refused) as refused:
        agent_of(paperclip, company)
    assert refused.value.status == 422
    assert paperclip.api.install_adapter(tiny) == "tiny"
    paperclip.api.reload_adapter("tiny")
    assert paperclip.api.models(company, "tiny") == {"small": "Small"}
