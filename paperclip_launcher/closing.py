"""The last part of a run: stopped if it must be, read to its end, its outcome stored, reported and cleared away."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kubekit.identity import Manifest
from paperclip_launcher import marks, podstate
from paperclip_launcher.announce import announce
from paperclip_launcher.clock import rfc3339
from paperclip_launcher.cluster.errors import Conflict, Invalid, NotFound, ServerFault, TooManyRequests
from paperclip_launcher.diagnosed import Diagnosis, Ending
from paperclip_launcher.errors import LauncherError, Unreachable
from paperclip_launcher.lifecycle import Event
from paperclip_launcher.outcome import EndFacts, RunResult, outcome
from paperclip_launcher.running import live_pod
from paperclip_launcher.unstarted import disarm

if TYPE_CHECKING:
    from paperclip_launcher.run import Run

_LOG = logging.getLogger(__name__)
_POLL = 5.0
_REPORTED = 3600.0
_LOOK = 0.5  # seconds between two looks for a state that the kubelet has not reported yet
_LAG = 2.0  # seconds after which the API server itself is asked for it


async def stop(run: Run) -> Event:
    """The Job and its pod are deleted, and proven gone. What another launcher owns is left alone."""
    run.record.stopping = run.problem.code if run.problem else "cancelled" if run.record.cancelled else "timeout"
    run.log.checkpoint()
    run.keep(sync=True)  # without its Job nothing else tells that the run was ever begun
    grace = _grace_seconds(run.job)
    end = asyncio.get_running_loop().time() + grace + run.services.settings.stop_seconds
    told = False
    while (left := end - asyncio.get_running_loop().time()) > 0:
        begun = asyncio.get_running_loop().time()
        try:
            job = await _live_job(run)
            if job is not None and not run.owns(job):
                run.problem = Diagnosis(
                    "k8s_run_owned_elsewhere", hard=True, summary="Another launcher has taken over the run"
                )
                return Event.OWNED_ELSEWHERE
            if job is not None and not told:
                told = True
                why = run.problem.text if run.problem else ""
                text = f"the launcher stops the run: {run.record.stopping} {why}"
                await announce(run.services, job, "Stopping", text, warning=bool(why))
            if job is not None and not marks.deleting(job):
                disarmed = await disarm(run, job)
                run.disarmed = await _delete(run, "jobs", job, "Foreground") and disarmed
            if await _no_pod_left(run) and job is None:
                return await _stopped(run)
        except Conflict:
            continue  # it changed meanwhile: looked at anew
        except LauncherError as error:
            _LOG.warning("stopping %s: %s", run.record.job_name, error)
            await asyncio.sleep(min(1.0, left))
            if isinstance(error, Unreachable | ServerFault | TooManyRequests):
                end += asyncio.get_running_loop().time() - begun  # nobody was there to be told
            continue
        await run.wait(min(_POLL, left))
    run.problem = Diagnosis(
        "k8s_job_state_mismatch",
        hard=True,
        summary="The run was told to stop, but its pod is not proven gone",
        detail=podstate.progress(run.job, run.pod),
        remedy="look at the node of the pod; the Job is kept",
    )
    return Event.UNKNOWN


async def _stopped(run: Run) -> Event:
    if not run.yields or run.record.cancelled:
        return Event.STOPPED
    run.step_back()
    await run.wait(_POLL)  # the watch will show the Job that it waits for
    return Event.YIELDED


def _grace_seconds(job: Manifest) -> float:
    return float(job["spec"]["template"]["spec"].get("terminationGracePeriodSeconds") or 30)


async def _live_job(run: Run) -> Manifest | None:
    try:
        found = await run.services.cluster.get(
            "jobs", run.record.job_name, retry_seconds=run.services.settings.stop_seconds
        )
    except NotFound:
        return None
    return found if marks.uid(found) == run.record.job_uid else None


async def _delete(run: Run, resource: str, found: Manifest, propagation: str) -> bool:
    """Whether it was there."""
    try:
        await run.services.cluster.delete(
            resource,
            marks.name(found),
            uid=marks.uid(found),
            resource_version=marks.version(found) if resource == "jobs" else "",
            propagation=propagation,
            retry_seconds=run.services.settings.stop_seconds,
        )
    except NotFound:
        return False
    return True


async def _no_pod_left(run: Run) -> bool:
    """Asks the API server itself. A pod that is still there is told to go: the garbage collector takes its time."""
    items, _ = await run.services.cluster.list("pods", label_selector=f"{marks.JOB_NAME}={run.record.job_name}")
    ours = [pod for pod in items if marks.controlled_by(pod, run.record.job_uid)]
    for pod in ours:
        run.pod = pod
        if podstate.started(pod):
            run.log.follow()  # its last words; its start may not have been seen
        if not marks.deleting(pod):
            await _delete(run, "pods", pod, "Background")
    return not ours


async def drain(run: Run) -> Event:
    """The rest of the log, for a bounded time: how the run ended does not depend on it."""
    if not run.log.followed and run.ever_started():
        run.log.follow()
    if not run.log.followed:
        run.log.complete = not run.may_have_started()
    over = not (run.gone and run.has_job and run.log.followed) or await _pod_ends(run)
    await run.log.finish()
    run.log.complete = run.log.complete and over
    if run.file_notes is not None:
        await run.file_notes.finish()
    run.log.checkpoint()
    return Event.LOG_READ


async def _pod_ends(run: Run) -> bool:
    """Its Job was deleted by others: the agent may go on writing until its pod has ended. False where that takes longer
    than it may.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + _grace_seconds(run.job) + _POLL
    while (pod := run.look_at_pod()) is not None and not podstate.terminated(pod):
        try:
            if not await _is_there(run, pod):
                return True
        except LauncherError as error:
            _LOG.info("whether the pod of %s has ended is not known: %s", run.record.job_name, error)
        left = end - loop.time()
        if left <= 0:
            return False
        await run.wait(min(_POLL, left))
    return True


async def _is_there(run: Run, pod: Manifest) -> bool:
    """Also where it is no longer the Job's: one that was left as an orphan."""
    label = f"{marks.JOB_NAME}={run.record.job_name}"
    items, _ = await run.services.cluster.list("pods", label_selector=label, retry_seconds=5)
    return any(marks.uid(one) == marks.uid(pod) for one in items)


async def finish(run: Run) -> Event:
    """The outcome, on disk before anybody is told."""
    if run.gone:
        _remember_why(run)
    end = await _ending(run) if run.has_job else Ending(gone=run.gone or bool(run.record.job_uid))
    if run.may_have_started():
        end = replace(end, started=True)
    run.release_agent()
    run.record.result = _outcome(run, end, unknown=False).to_json()
    run.keep(sync=True)
    return Event.RESULT_STORED


def _remember_why(run: Run) -> None:
    """An earlier life was stopping the run, and died before it could tell."""
    code = run.record.stopping
    if code == "timeout":
        run.timed_out = True
    elif code and code != "cancelled":
        summary = "The launcher stopped the run, and was started anew before it could say more"
        run.problem = Diagnosis(code, hard=True, summary=summary)


async def _ending(run: Run) -> Ending:
    """What the cluster says of the end. The kubelet's last word may come some moments after the Job's, and its watch
    may lag far behind; while nobody answers there is nothing else to do either.
    """
    if run.gone:
        return replace(podstate.ending(run.job, run.look_at_pod()), gone=True)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:
        pod = run.look_at_pod()
        if pod is None or podstate.terminated(pod) or run.problem or run.record.cancelled:
            return podstate.ending(run.job, pod)
        passed = loop.time() - begun
        if passed >= _LAG:
            try:
                return podstate.ending(run.job, await live_pod(run) or pod)
            except LauncherError as error:
                if passed >= run.patience or not isinstance(error, Unreachable | ServerFault | TooManyRequests):
                    return podstate.ending(run.job, pod)
        await run.wait(_LOOK)


def _outcome(run: Run, end: Ending, *, unknown: bool) -> RunResult:
    """Masked, since it goes into the journal and to other programs; numbers and the shape stay as they are.

    What is cut for it is masked before: a part of a secret would stay.
    """
    mask = run.services.mask
    found = outcome(
        EndFacts(
            dialect=run.dialect,
            run_id=run.run_id,
            job_name=run.record.job_name,
            model=run.options.model,
            session_params=run.session_params,
            parsed=run.log.parser.parsed(),
            ending=replace(end, message=mask.text(end.message)),
            diagnosis=run.problem,
            cancelled=run.record.cancelled,
            timed_out=run.timed_out or "DeadlineExceeded" in end.job_condition,
            timeout_seconds=run.options.timeout_seconds,
            unknown=unknown,
            log_complete=run.log.complete,
            tail=mask.text(run.log.tail),
            started_at=run.record.started_at,
            ended_at=run.services.clock.now(),
        )
    )
    masked = RunResult.from_json(mask.tree(found.to_json()))
    return replace(masked, error_code=found.error_code)  # a variable may be called by one of our words


async def report(run: Run) -> Event:
    """Hands the result over, and waits until its reader has it. A result that was acknowledged stays so."""
    stored = run.record.result
    if stored is None:
        raise AssertionError("what is reported was stored")
    found = RunResult.from_json(stored)
    run.services.metrics.finished(found.code)
    while True:
        await run.log.catch_up()
        if not run.result.done():
            run.result.set_result(found)
        if run.record.acknowledged:
            return Event.ACKNOWLEDGED
        await run.wait(_REPORTED)


async def release(run: Run) -> Event:
    """Only now may the Job go, with its Secrets and its lock; what fails here is swept up later."""
    try:
        job = run.job if run.has_job else await _live_job(run) if run.record.job_uid else None
        while job is not None and run.owns(job) and not marks.deleting(job):
            try:
                if run.options.retain:
                    await _retain(run, job)
                else:
                    await _delete(run, "jobs", job, "Background")
                break
            except Conflict:
                job = await _live_job(run)  # what was watched was not the last word
    except LauncherError as error:
        _LOG.warning("Job %s is left for the next sweep: %s", run.record.job_name, error)
    if run.has_job and run.record.result is not None and not run.record.stopping:
        found = RunResult.from_json(run.record.result)
        if not found.ok:
            # Last, so that nothing waits for it. An Event outlives what it is about.
            await announce(run.services, run.job, "Failed", f"{found.code}: {found.error_message}", warning=True)
    return Event.CLEARED


async def _retain(run: Run, job: Manifest) -> None:
    owner = "/metadata/annotations/" + marks.OWNER.replace("/", "~1")
    harvested = "/metadata/annotations/" + marks.HARVESTED.replace("/", "~1")
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": marks.uid(job)},
        {"op": "test", "path": owner, "value": run.services.settings.identity},
        {"op": "add", "path": harvested, "value": rfc3339(run.services.clock.now())},
        {"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": run.options.ttl_seconds},
    ]
    try:
        await run.services.cluster.patch("jobs", marks.name(job), operations, retry_seconds=run.patience)
    except (NotFound, Invalid) as error:
        _LOG.info("Job %s changed hands or went: %s", marks.name(job), error)


async def abandon(run: Run) -> Event:
    """Says what is known, and touches nothing: the Job goes on, and may be attached to again."""
    run.log.stop()
    end = podstate.ending(run.job, run.pod) if run.has_job else Ending()
    found = _outcome(run, end, unknown=True)
    run.services.metrics.finished(found.code)
    if not run.result.done():
        run.result.set_result(found)
    await run.acknowledged()
    return Event.ACKNOWLEDGED
