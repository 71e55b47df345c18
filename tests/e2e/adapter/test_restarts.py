"""Server and launcher end in the middle of a run: it stays one Job, with a whole log and one result."""

from __future__ import annotations

import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

controlplane = sys.modules["controlplane"]

pytestmark = pytest.mark.e2e

ORDERS = """\
@agent lines 500 100
@agent await /workspace/half
@agent lines 500 100 501
@agent await /workspace/whole
@agent usage 100 20 0.5"""
HEARD = "interrupted running heartbeat runs for graceful shutdown"
LEASE_SECONDS = 60
"""For so long a new server takes the run of a killed one for alive; the run of one that was told to end is over."""


class Work:
    """A run in its middle: half of its log is written, and `kept` is all that its pod writes."""

    def __init__(self, stage: Any, company: str) -> None:
        self.stage, self.company = stage, company
        self.agent = stage.agent(company)
        self.issue = stage.api.create_issue(company, "Long", self.agent.id, ORDERS)
        self.first = stage.begun(company)
        stage.saying(self.first, "line 0000500 ")
        self.kept = stage.keep_log(self.first)
        self.said = len(stage.server.output)

    def go_on(self) -> None:
        self.stage.open_gate(self.first, "half")

    def end(self) -> None:
        self.stage.open_gate(self.first, "whole")

    def taken_up(self) -> Any:
        """The next run of the task. The server wants the word of a person before it makes one."""
        api = self.stage.api
        hold = controlplane.wait_until(
            "the issue to be held", 60, lambda: api.issue(self.issue.id).tree["executionBlocker"]
        )
        assert hold["runId"] == self.first.id
        api.restore_issue(self.issue.id, hold["recoveryActionId"], hold["runId"], "Its Job goes on, and is taken over.")
        return self.stage.begun(self.company, 2)

    def is_one(self, run: Any, *runs: Any) -> None:
        """One Job, the whole log and the one result, and these in `run`."""
        found = self.stage.ended(run)
        assert (found.status, found.exit_code, found.error_code) == ("succeeded", 0, ""), self.stage.story(run)
        assert self.stage.api.log_text(run.id, "stdout") == self.kept.text
        assert self.kept.text.count("line 0") == 1000
        assert (found.usage["inputTokens"], found.usage["costUsd"]) == (100, 0.5)
        assert self.stage.created(run, *runs) == 1


@pytest.fixture
def work(stage, company):
    return Work(stage, company)


def test_a_run_outlives_a_server_that_is_told_to_end(work, stage):
    stage.server.stop(signal.SIGTERM)
    work.go_on()
    stage.server.start()
    first = stage.api.run(work.first.id)
    assert (first.status, first.error_code) == ("interrupted", "server_shutdown_interrupted")
    second = work.taken_up()
    stage.saying(second, "line 0001000 ")
    work.end()
    work.is_one(second, first)
    assert second.tree["retryOfRunId"] == first.id


def test_a_run_that_ends_while_no_server_is_there_has_its_log_and_its_result_afterwards(work, stage):
    stage.server.stop(signal.SIGTERM)
    work.go_on()
    work.end()
    controlplane.wait_until("the end of the agent", 60, lambda: stage.site.terminated(stage.job_of(work.first)))
    stage.server.start()
    work.is_one(work.taken_up(), work.first)


def test_a_run_that_ends_while_the_server_does_is_not_lost_with_it(work, stage):
    """The server waits some seconds for its adapters, but takes no result any more."""
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(stage.server.stop, signal.SIGTERM)
        controlplane.wait_until("the server to have heard it", 20, lambda: HEARD in stage.server.output[work.said :])
        work.go_on()
        work.end()
        stopping.result()
    controlplane.wait_until("the end of the agent", 60, lambda: stage.site.terminated(stage.job_of(work.first)))
    stage.server.start()
    work.is_one(work.taken_up(), work.first)


def test_a_run_outlives_a_killed_server(work, stage):
    killed = time.monotonic()
    stage.server.stop(signal.SIGKILL)
    work.go_on()
    time.sleep(max(0, killed + LEASE_SECONDS - time.monotonic()))
    stage.server.start()
    first = stage.api.run(work.first.id)
    assert (first.status, first.error_code) == ("failed", "process_lost"), first
    second = work.taken_up()
    stage.saying(second, "line 0001000 ")
    work.end()
    work.is_one(second, first)


def test_a_run_outlives_a_killed_launcher_and_the_server_does_not_notice(work, stage):
    stage.launcher.end(signal.SIGKILL)
    work.go_on()
    stage.launcher.start()
    stage.saying(work.first, "line 0001000 ")
    work.end()
    work.is_one(work.first)
