"""The first half of a run: may it begin, its Job, its agent's lock, its Secrets. Each step finds what is there."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from kubekit import podspec
from kubekit.identity import Manifest
from paperclip_launcher import marks, podstate
from paperclip_launcher.announce import announce
from paperclip_launcher.cluster.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    QuotaExceeded,
    ServerFault,
    TooManyRequests,
)
from paperclip_launcher.diagnosed import Diagnosis
from paperclip_launcher.errors import LauncherError, Unreachable
from paperclip_launcher.lifecycle import Event
from paperclip_launcher.neighbours import Alive, Wanted, judge
from paperclip_launcher.ownership import AgentLock
from paperclip_launcher.refused import blocked, elsewhere, left_over, refused, unknown
from paperclip_launcher.running import live_pod
from paperclip_launcher.takeover import take_over

if TYPE_CHECKING:
    from paperclip_launcher.run import Run

_LOG = logging.getLogger(__name__)
_STRAY = 60.0  # seconds in which a pod ends whose Job was deleted by somebody
_POLL = 1.0  # seconds between two looks at neighbours that only time can change
_AT_ONCE = 2.0  # seconds in which no other process can have taken this identity and done the run


async def admit(run: Run) -> Event:
    """Looks at the agent's other runs, and waits for them where the policy says so."""
    if run.record.result is not None:
        return Event.STORED_BEFORE
    if run.record.job_uid or run.record.sent:
        return Event.CLEAR
    services, loop = run.services, asyncio.get_running_loop()
    run.looked_at = loop.time()
    wanted = Wanted(run.run_id, run.agent_id, run.task_id, run.session_id, run.options.concurrency)
    run.waits_since = loop.time() if run.waits_since is None else run.waits_since
    told = False
    while not run.record.cancelled:
        run.looked_at = loop.time()
        own = services.view.job(run.record.job_name)
        if own is not None and run.run_id in marks.runs(own):
            return Event.CLEAR  # an earlier life, or another launcher, has begun it
        waited = loop.time() - run.waits_since
        patience: float = run.options.wait_seconds if wanted.policy == "wait" else 0
        mine = services.agents.get(run.agent_id) if wanted.policy != "allow" else None
        verdict = judge(_neighbours(run), wanted, services.view.alive)
        if mine is not None and mine != run.record.job_name:
            code, detail = "k8s_concurrent_run_blocked", f"Job {mine} of the same agent is run by this launcher"
        elif verdict.go and wanted.policy != "allow" and (stray := services.view.stray_pod(run.agent_id)):
            code, detail = "k8s_concurrent_run_blocked", left_over(stray)
            patience = max(patience, _STRAY)
        elif verdict.go:
            run.claim_agent()
            return Event.CLEAR
        elif verdict.adopt is not None:
            run.target = verdict.adopt
            run.claim_agent()
            return Event.ORPHAN
        else:
            code, detail = verdict.code, verdict.detail
        if not verdict.unsure and waited >= patience:
            if await _is_begun(run):
                return Event.CLEAR
            run.problem = blocked(detail, code)
            return Event.BLOCKED
        if not told:
            told = True
            await run.note("progress", f"waiting: {detail}")
        await run.wait(_POLL)
    return Event.CLEAR if await _is_begun(run) else Event.CANCEL


async def _is_begun(run: Run) -> bool:
    """Asked live, since the watch of Jobs may have stalled: who tells that a run was refused, or ended before it began,
    must know.
    """
    try:
        found = await _find(run)
    except LauncherError:
        return False
    return found is not None and run.run_id in marks.runs(found)


def _neighbours(run: Run) -> list[Manifest]:
    """The agent's Jobs, but for those whose result this launcher has handed over: they only wait to be cleared away."""
    found = []
    for job in run.services.view.jobs_of(run.agent_id):
        known = run.services.journal.read(marks.name(job))
        if known is None or not known.acknowledged or known.job_uid != marks.uid(job):
            found.append(job)
    return found


async def adopt(run: Run) -> Event:
    """Makes this launcher the owner of the orphan `run.target`; of several launchers one wins."""
    job = run.target
    if job is None:
        raise AssertionError("adopting needs a Job")
    try:
        taken = await take_over(run, job)
    except (NotFound, Conflict, Invalid) as error:
        run.release_agent()
        if run.plan is not None:
            await run.wait(_POLL)  # the watch will show who was faster, or that the owner lives
            return Event.LOST_RACE
        # Who only attaches to it cannot begin it anew.
        if isinstance(error, NotFound):
            run.record.job_uid = run.record.job_uid or marks.uid(job)
            return Event.GONE
        run.problem = replace(elsewhere(job), detail=f"Job {marks.name(job)} has just been taken over")
        return Event.OWNED_ELSEWHERE
    except (ApiError, Unreachable) as error:
        run.release_agent()
        run.problem = unknown(f"whether Job {marks.name(job)} was taken over is not known: {error}")
        return Event.UNKNOWN
    run.took(taken)
    await _taken_over(run)
    await run.note("progress", f"reattached to Job {marks.name(taken)} of run {marks.annotation(taken, marks.RUN_ID)}")
    return Event.ADOPTED


async def _taken_over(run: Run) -> None:
    """Its time runs on, by the node's clock where nobody here knows better; and the cluster is told."""
    state = podstate.container(run.look_at_pod()).get("state") or {}
    stamp = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    if stamp and not run.record.running_since:
        run.record.running_since = min(datetime.fromisoformat(stamp).timestamp(), run.services.clock.now())
    text = f"launcher {run.services.settings.identity} goes on with the run, for run {run.run_id}"
    await announce(run.services, run.job, "Adopted", text)


async def create(run: Run) -> Event:
    """The Job: made, or found where an earlier life of this launcher made it."""
    try:
        return await _create(run)
    except (ApiError, Unreachable) as error:
        run.problem = unknown(f"whether Job {run.record.job_name} is there is not known: {error}")
        return Event.UNKNOWN


async def _create(run: Run) -> Event:
    if run.plan is None:
        raise AssertionError("a run without a plan is attached, never created")
    if run.record.job_uid:
        found = await _find(run)
        if found is None or marks.uid(found) != run.record.job_uid:
            return Event.GONE
        return await _found(run, found)
    if run.record.cancelled and (found := await _find(run)) is not None:
        return await _found(run, found)
    first, run.record.sent = not run.record.sent, True
    run.keep()
    plan, tried = run.plan, list[tuple[str, ...]]()

    def another() -> Manifest:
        # A try that went unanswered may take effect when the run is over, and find Secrets of its names.
        job = plan.job if not tried else plan.renamed(f"{run.services.rng.getrandbits(40):010x}")
        tried.append(podspec.run_secrets(job))
        return job

    begun = asyncio.get_running_loop().time()
    while not run.record.cancelled:
        try:
            made = await run.services.cluster.create("jobs", another, retry_seconds=run.patience)
        except AlreadyExists:
            existing = await _find(run)
            if existing is None:
                run.record.armed = True  # whoever made it, here or elsewhere: the run is not begun a second time
                return Event.GONE
            # Asked for only now, and with names of ours: a try whose answer was lost.
            ours = first and podspec.run_secrets(existing) in tried
            return await _found(run, existing, armed=not ours)
        except QuotaExceeded as error:
            if asyncio.get_running_loop().time() - begun >= run.options.schedule_timeout_seconds:
                run.problem = refused(error)
                return Event.REFUSED
            await run.note("progress", f"waiting for room: {error.message}")
            await run.wait(run.services.settings.quota_seconds * run.services.rng.uniform(0.8, 1.2))
        except (ServerFault, TooManyRequests):
            raise  # no refusal: one of the tries may have made it
        except ApiError as error:
            run.problem = refused(error)
            return Event.REFUSED
        else:
            run.took(made)
            run.keep_to_lease(_AT_ONCE)
            return Event.CREATED
    return Event.CANCEL


async def _find(run: Run) -> Manifest | None:
    try:
        return await run.services.cluster.get("jobs", run.record.job_name, retry_seconds=run.patience)
    except NotFound:
        return None


async def _found(run: Run, job: Manifest, *, armed: bool = True) -> Event:
    """A Job of the run's name is there: ours, that of a launcher that is dead or alive, or of another run. `armed`: an
    earlier life may have made its Secrets.
    """
    if run.run_id not in marks.runs(job) or marks.annotation(job, marks.AGENT_ID) != run.agent_id:
        detail = f"Job {marks.name(job)} is of run {marks.annotation(job, marks.RUN_ID)!r}"
        run.problem = Diagnosis("k8s_job_create_failed", hard=True, summary="The Job's name is taken", detail=detail)
        return Event.REFUSED
    if marks.annotation(job, marks.HARVESTED):
        run.problem = unknown(
            f"the result of Job {marks.name(job)} was read at {marks.annotation(job, marks.HARVESTED)}"
        )
        return Event.OWNED_ELSEWHERE
    mine = run.owns(job)
    if not mine:
        while (alive := run.services.view.alive(job)) is Alive.UNSURE:
            await run.wait(_POLL)
        if alive is Alive.YES:
            run.problem = elsewhere(job)
            return Event.OWNED_ELSEWHERE
        try:
            job = await take_over(run, job)
        except (NotFound, Conflict, Invalid):
            run.problem = elsewhere(job)
            return Event.OWNED_ELSEWHERE
    run.record.armed = run.record.armed or armed or not mine
    run.took(job)
    if not mine:
        await _taken_over(run)
    return Event.CREATED


async def lock(run: Run) -> Event:
    """The agent is locked by the Job, unless its runs may overlap."""
    if run.record.cancelled:
        return Event.CANCEL
    if run.options.concurrency == "allow":
        return Event.LOCK_WON
    services = run.services
    try:
        holder = await AgentLock(services.cluster, services.settings.namespace, run.patience).take(
            run.agent_id, run.job, lambda job: bool(podstate.terminal(job))
        )
    except Unreachable as error:
        run.problem = unknown(f"whether the agent is locked is not known: {error}")
        return Event.UNKNOWN
    except ApiError as error:
        run.problem = Diagnosis(
            "k8s_concurrency_guard_unreachable", hard=True, summary="The agent cannot be locked", detail=str(error)
        )
        return Event.BROKEN
    if holder and not await _is_over(run):
        run.problem = Diagnosis(
            "k8s_concurrent_run_blocked",
            hard=True,
            summary="Another launcher has just begun a run of the agent",
            detail=f"Job {holder} holds its lock",
        )
        # Asked for again by somebody, or adopted, it may have its Secrets.
        run.yields = run.options.concurrency == "wait" and run.has_time_to_wait() and not run.record.armed
        return Event.LOCK_BUSY
    run.hold_lock(held=True)
    return Event.LOCK_WON if await _is_alone(run) else Event.LOCK_BUSY


async def _is_alone(run: Run) -> bool:
    """Waits for what is left of a Job that was deleted by hand since this run was admitted, its lock with it. It does
    not stand in the way of a run that has begun: to end that one would keep nothing apart, and lose its result.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + _STRAY
    while (stray := run.services.view.stray_pod(run.agent_id, but=run.record.job_name)) is not None:
        if run.record.cancelled or run.ever_started() or podstate.terminal(run.job):
            return True  # a cancelled one is ended as the next thing
        if loop.time() >= end:
            try:
                # The watch that shows the stray may have stalled, and not show the run's own pod.
                if podstate.terminal(await _find(run)) or podstate.started(await live_pod(run)):
                    return True
            except LauncherError:
                pass  # no answer is no reason to end a run
            else:
                run.problem = blocked(left_over(stray))
                return False
        await run.wait(_POLL)
    return True


async def _is_over(run: Run) -> bool:
    """Whether the Job has ended before: it needs no lock any more, and its log and its end are still to be read."""
    if podstate.terminal(run.job):
        return True
    try:
        return bool(podstate.terminal(await _find(run)))
    except LauncherError:
        return False


async def make_secrets(run: Run) -> Event:
    """The prompt and the token; from here on the container can start."""
    if run.record.cancelled:
        return Event.CANCEL
    if run.plan is None:
        raise AssertionError("a run without a plan makes no Secrets")
    if run.ever_started() or podstate.terminal(run.job) or run.record.key != run.own_key:
        return Event.SECRETS_MADE  # or its Job was made for another run
    while not run.services.holds_lease(run.lease_since):
        # This process has stood still, or may have. Another one may have its identity by now, and have done this run:
        # its Job is a second one then, and must not start.
        await run.wait(_POLL)
        if run.record.cancelled:
            return Event.CANCEL
    try:
        secrets = run.plan.secrets_for(run.job)
    except LauncherError as error:
        if await _has_started(run):
            return Event.SECRETS_MADE  # an earlier life made them all, and the watch lags behind
        run.problem = Diagnosis(
            "k8s_launch_incomplete", hard=True, summary="The Job was made from another request", detail=str(error)
        )
        return Event.BROKEN
    # On disk for certain: from here on its container may start, and it must never start a second time.
    run.record.armed = True
    run.keep(sync=True)
    # All at once: each would otherwise wait for the one before.
    found = await asyncio.gather(*(_make_secret(run, secret) for secret in secrets))
    problems = dict(one for one in found if one is not None)
    # One that was refused is enough: without it the container never starts.
    for event in (Event.BROKEN, Event.UNKNOWN):
        if event in problems:
            run.problem = problems[event]
            return event
    return Event.SECRETS_MADE


async def _has_started(run: Run) -> bool:
    try:
        return podstate.started(await live_pod(run))
    except LauncherError:
        return False


async def _make_secret(run: Run, secret: Manifest) -> tuple[Event, Diagnosis] | None:
    try:
        await run.services.cluster.create("secrets", secret, retry_seconds=run.patience)
    except AlreadyExists:
        return None  # its name holds this Job's nonce: an earlier try, or an earlier life, made it
    except Unreachable as error:
        return Event.UNKNOWN, unknown(f"whether Secret {marks.name(secret)} was made is not known: {error}")
    except ApiError as error:
        detail = f"Secret {marks.name(secret)}: {error}"
        problem = Diagnosis(
            "k8s_prompt_secret_create_failed", hard=True, summary="A Secret of the run was refused", detail=detail
        )
        return Event.BROKEN, problem
    return None
