"""May a run begin beside the other runs of its agent?"""

from __future__ import annotations

import pytest

from kubekit.names import label_value
from paperclip_launcher import marks
from paperclip_launcher.neighbours import Alive, Wanted, classify_orphan, judge


def job(name, run, *, agent="agent-1", task="T-1", session="", over=False, owner="other", created="06:00", **marked):
    labels = {marks.TASK_ID: label_value(task)} if task else {}
    if session:
        labels[marks.SESSION_ID] = label_value(session)
    annotations = {marks.RUN_ID: run, marks.AGENT_ID: agent, marks.OWNER: owner}
    annotations |= {marks.HARVESTED: "now"} if marked.get("harvested") else {}
    annotations |= {marks.TASK_KEY: marked["key"]} if "key" in marked else {}
    metadata = {"name": name, "uid": name, "labels": labels, "annotations": annotations}
    metadata["creationTimestamp"] = f"2026-11-21T{created}:00Z"
    if marked.get("deleting"):
        metadata["deletionTimestamp"] = "2026-11-21T07:00:00Z"
    conditions = [{"type": "Complete", "status": "True"}] if over else []
    return {"metadata": metadata, "status": {"conditions": conditions}}


def wanted(policy="reattach", task="T-1", session=""):
    return Wanted("run-2", "agent-1", task, session, policy)


def dead(_job):
    return Alive.NO


def living(_job):
    return Alive.YES


def test_an_agent_without_other_runs_may_begin():
    assert judge([], wanted(), dead).go
    assert judge([job("a", "run-2"), job("b", "run-3", agent="agent-2")], wanted(), living).go


@pytest.mark.parametrize("policy", ["fail", "wait", "reattach"])
def test_a_run_that_a_living_launcher_looks_after_blocks(policy):
    verdict = judge([job("a", "run-1")], wanted(policy), living)
    assert (verdict.go, verdict.adopt, verdict.code) == (False, None, "k8s_concurrent_run_blocked")
    assert "Job a of run run-1" in verdict.detail


def test_runs_may_overlap_where_that_is_allowed():
    assert judge([job("a", "run-1")], wanted("allow"), living).go


def test_an_orphan_of_the_same_task_is_taken_over_newest_first():
    jobs = [job("old", "run-0", created="05:00"), job("new", "run-1", created="06:00")]
    verdict = judge(jobs, wanted(), dead)
    assert verdict.adopt is jobs[1]


@pytest.mark.parametrize(
    ("left", "code"),
    [
        ({"task": "T-9"}, "k8s_concurrent_run_blocked"),
        ({"task": ""}, "k8s_orphan_task_unknown"),
        ({"session": "s-9"}, "k8s_orphan_session_mismatch"),
    ],
)
def test_an_orphan_that_does_something_else_blocks_and_is_not_deleted(left, code):
    verdict = judge([job("a", "run-1", **left)], wanted(session="s-1"), dead)
    assert (verdict.adopt, verdict.code) == (None, code)


@pytest.mark.parametrize(
    ("left", "task", "code"),
    [
        ({"key": "__heartbeat__"}, "__heartbeat__", ""),
        ({"key": "__heartbeat__"}, "T-1", "k8s_concurrent_run_blocked"),
        ({"key": "__heartbeat__"}, "", "k8s_orphan_task_unknown"),
        ({"key": "T-1"}, "T-1", ""),
        ({"key": "T-9", "task": "T-1"}, "T-1", ""),
    ],
)
def test_an_orphan_without_a_task_is_known_by_its_key(left, task, code):
    verdict = judge([job("a", "run-1", **({"task": ""} | left))], wanted(task=task), dead)
    assert (verdict.code, verdict.adopt is None) == (code, bool(code))


def test_a_finished_run_whose_result_nobody_read_is_harvested():
    verdict = judge([job("a", "run-1", over=True)], wanted(), dead)
    assert verdict.adopt is not None


@pytest.mark.parametrize("left", [{"harvested": True}, {"deleting": True}])
def test_what_was_read_or_is_going_is_no_neighbour(left):
    assert judge([job("a", "run-1", **left)], wanted(), dead).go


def test_a_finished_run_of_another_task_does_not_block():
    assert judge([job("a", "run-1", over=True, task="T-9")], wanted(), dead).go
    assert judge([job("a", "run-1", over=True)], wanted("fail"), dead).go


def test_where_the_owner_may_be_dead_waiting_will_tell():
    verdict = judge([job("a", "run-1")], wanted(), lambda _job: Alive.UNSURE)
    assert verdict.unsure
    assert not verdict.go


def test_without_reattaching_an_orphan_blocks():
    assert judge([job("a", "run-1")], wanted("fail"), dead).code == "k8s_concurrent_run_blocked"


def test_tasks_are_compared_by_their_full_ids():
    labels = {marks.TASK_ID: label_value("a/b")}
    assert classify_orphan(labels, {"taskId": "a/b", "sessionId": None}) == "reattach"
    assert classify_orphan(labels, {"taskId": "a-b", "sessionId": None}) == "block_task_mismatch"
