"""May a run begin, looking at the other runs of its agent? A pure decision over the Jobs that are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from kubekit.identity import Manifest
from kubekit.names import label_value
from paperclip_launcher import marks, podstate

Policy = Literal["fail", "wait", "reattach", "allow"]


class Alive(StrEnum):
    """Whether a launcher looks after a Job."""

    YES = "yes"
    NO = "no"
    UNSURE = "unsure"
    """Not watched for long enough to say."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`go`: begin. `adopt`: take over this Job. Else `code` says why not; `unsure` that waiting will tell."""

    go: bool = False
    adopt: Manifest | None = None
    unsure: bool = False
    code: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The run that would begin. `task_id` may be the key of what is no task."""

    run_id: str
    agent_id: str
    task_id: str = ""
    session_id: str = ""
    policy: Policy = "reattach"


_BLOCKS = {
    "block_task_unknown": ("k8s_orphan_task_unknown", "has no task to compare, or this run has none"),
    "block_task_mismatch": ("k8s_concurrent_run_blocked", "works on another task"),
    "block_session_mismatch": ("k8s_orphan_session_mismatch", "has another session"),
}


def classify_orphan(job_labels: Mapping[str, str], expected: Mapping[str, str | None]) -> str:
    """Whether a left-over Job does what this run would: "reattach", or "block_…" with the reason.

    `expected` holds taskId and sessionId as they are; labels hold them as label values.
    """
    task, session = job_labels.get(marks.TASK_ID), job_labels.get(marks.SESSION_ID)
    wanted_task, wanted_session = (expected.get(key) or "" for key in ("taskId", "sessionId"))
    if not task or not wanted_task:
        return "block_task_unknown"
    if task != label_value(wanted_task):
        return "block_task_mismatch"
    if session and wanted_session and session != label_value(wanted_session):
        return "block_session_mismatch"
    return "reattach"


def judge(jobs: Iterable[Manifest], wanted: Wanted, alive: Callable[[Manifest], Alive]) -> Verdict:
    """`jobs` are those of the agent. The Job of this very run is no neighbour: creating it answers 409, mine."""
    if wanted.policy == "allow":
        return Verdict(go=True)
    others = [job for job in jobs if _counts(job, wanted)]
    others.sort(key=lambda job: str(job["metadata"].get("creationTimestamp", "")), reverse=True)
    adopted: Manifest | None = None
    for job in others:
        over = bool(podstate.terminal(job))
        state = alive(job)
        if state is Alive.UNSURE and not (over and wanted.policy != "reattach"):
            return Verdict(unsure=True, detail=f"who looks after {marks.name(job)} may be dead")
        if state is Alive.YES:
            if over:
                continue
            return _busy(job, "is still running")
        if over and wanted.policy != "reattach":
            continue
        if wanted.policy != "reattach":
            return _busy(job, "was left by a launcher that is gone, and may not be reattached to")
        labels = {**(job["metadata"].get("labels") or {})}
        if key := marks.annotation(job, marks.TASK_KEY):
            labels.setdefault(marks.TASK_ID, label_value(key))
        verdict = classify_orphan(labels, {"taskId": wanted.task_id, "sessionId": wanted.session_id})
        if verdict == "reattach":
            adopted = adopted or job
        elif not over:
            code, why = _BLOCKS[verdict]
            return Verdict(code=code, detail=f"Job {marks.name(job)} was left over and {why}")
    return Verdict(adopt=adopted) if adopted else Verdict(go=True)


def _counts(job: Manifest, wanted: Wanted) -> bool:
    """Other runs of this agent that are alive, or whose result nobody has read."""
    if marks.annotation(job, marks.AGENT_ID) != wanted.agent_id or marks.annotation(job, marks.RUN_ID) == wanted.run_id:
        return False
    return not marks.deleting(job) and not marks.annotation(job, marks.HARVESTED)


def _busy(job: Manifest, why: str) -> Verdict:
    run = marks.annotation(job, marks.RUN_ID)
    return Verdict(code="k8s_concurrent_run_blocked", detail=f"Job {marks.name(job)} of run {run} {why}")
