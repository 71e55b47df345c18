"""run.list and run.describe: what the watches show of the namespace, without a call to the API server."""

from __future__ import annotations

from typing import Any

from kubekit.identity import Manifest
from paperclip_launcher import marks, podstate
from paperclip_launcher.diagnose import diagnose
from paperclip_launcher.errors import NotFoundRun
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.run import Run


def list_runs(launcher: Launcher) -> list[dict[str, Any]]:
    """Every run that has a Job, the newest first, and those driven here that have none yet."""
    jobs = sorted(launcher.view.jobs.store.values(), key=_made, reverse=True)
    found = [_of_job(launcher, job) for job in jobs]
    known = {one["jobName"] for one in found}
    waiting = [run for run in launcher.runs.values() if run.record.job_name not in known]
    return [_of_run(run) for run in waiting] + found


def describe_run(launcher: Launcher, run_id: str) -> dict[str, Any]:
    """One run, with what hinders it and the warnings of the cluster. NotFoundRun."""
    job = launcher.view.job_of_run(run_id)
    run = next((one for one in launcher.runs.values() if run_id in {one.run_id, one.record.job_name}), None)
    if job is None:
        if run is None:
            raise NotFoundRun(f"no run {run_id} in {launcher.settings.namespace}")
        return {**_of_run(run), "progress": "", "diagnosis": None, "warnings": [], "result": run.record.result}
    pod = launcher.view.pod(job)
    events = launcher.view.warnings(job, pod)
    found = diagnose(job, pod, events, launcher.clock.now())
    record = launcher.journal.read(marks.name(job))
    tree = {
        **_of_job(launcher, job),
        "progress": podstate.progress(job, pod),
        "diagnosis": None
        if found is None
        else {"code": found.code, "summary": found.summary, "detail": found.detail, "remedy": found.remedy},
        "warnings": [{"reason": one.get("reason"), "message": one.get("message")} for one in events],
        "result": record.result if record is not None else None,
    }
    masked: dict[str, Any] = launcher.mask.tree(tree)
    return masked


def _of_job(launcher: Launcher, job: Manifest) -> dict[str, Any]:
    pod = launcher.view.pod(job)
    run = launcher.runs.get(marks.name(job))
    return {
        "runId": marks.annotation(job, marks.RUN_ID),
        "agentId": marks.annotation(job, marks.AGENT_ID),
        "jobName": marks.name(job),
        "podName": marks.name(pod) if pod is not None else None,
        "owner": marks.annotation(job, marks.OWNER),
        "lookedAfter": launcher.view.alive(job).value,
        "phase": run.phase.value if run is not None else None,
        "ended": podstate.terminal(job) or None,
        "createdAt": _made(job) or None,
        "offset": run.record.position.offset if run is not None else None,
    }


def _of_run(run: Run) -> dict[str, Any]:
    return {
        "runId": run.run_id,
        "agentId": run.agent_id,
        "jobName": run.record.job_name,
        "podName": None,
        "owner": run.services.settings.identity,
        "lookedAfter": "yes",
        "phase": run.phase.value,
        "ended": None,
        "createdAt": None,
        "offset": run.record.position.offset,
    }


def _made(job: Manifest) -> str:
    return str(job["metadata"].get("creationTimestamp") or "")
