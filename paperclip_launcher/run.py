"""One run, driven through its life: does the work of each phase and follows the table.

A fresh run and a reattached one are the same code; the latter only begins further on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from kubekit.identity import Manifest
from paperclip_launcher import beginning, closing, marks, podstate, running
from paperclip_launcher.diagnosed import Diagnosis
from paperclip_launcher.dialects.model import Dialect
from paperclip_launcher.filenotes import FileNotes
from paperclip_launcher.journal import Record
from paperclip_launcher.lifecycle import Event, Phase, following
from paperclip_launcher.manifest import Plan
from paperclip_launcher.options import RunOptions
from paperclip_launcher.outcome import RunResult
from paperclip_launcher.runlog import RunLog
from paperclip_launcher.services import Services, Sink
from paperclip_launcher.talk import about

_LOG = logging.getLogger(__name__)
_SHORTEST = 0.001  # seconds

WORK: dict[Phase, Callable[[Run], Awaitable[Event]]] = {}


@dataclass(frozen=True)
class Identity:
    """The ids as Paperclip has them; `task_id` may be the key of what is no task. `session_params`: where it works, and
    the session that it goes on with.
    """

    run_id: str
    agent_id: str
    task_id: str = ""
    session_id: str = ""
    session_params: Mapping[str, str] = field(default_factory=dict)


class Run:
    """`plan` makes its Job and Secrets; a run that is only attached to has none, and `job` instead.

    `result` is done as soon as the outcome is stored; the run then waits for `acknowledge`.
    """

    def __init__(
        self,
        services: Services,
        identity: Identity,
        record: Record,
        *,
        dialect: Dialect,
        options: RunOptions,
        sink: Sink,
        plan: Plan | None = None,
        job: Manifest | None = None,
    ) -> None:
        self.services = services
        self.run_id = identity.run_id
        self.agent_id = identity.agent_id
        self.task_id = identity.task_id
        self.session_id = identity.session_id
        self.record = record
        self.own_key = record.key
        self.dialect = dialect
        self.options = options
        self.plan = plan
        self.target = job
        self.phase = Phase.ADOPTING if plan is None else Phase.PLANNED
        self.session_params = identity.session_params
        self.problem: Diagnosis | None = None
        self.pod: Manifest | None = None
        self.timed_out = False
        self.gone = False
        """Its Job vanished before its end was seen."""
        self.waits_since: float | None = None
        """By the loop's time: for other runs of its agent."""
        self.looked_at = self.lease_since = float("-inf")
        """By the loop's time: when it was last seen that nobody has begun the run, and after when the Lease must have
        been renewed before the Secrets are made.
        """
        self.yields = False
        """It lost the race for the lock, and waits once its Job is gone."""
        self.disarmed = False
        """Its Job was deleted in a way that proves that nothing was started, as long as no pod shows up."""
        self.result: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()
        self._job: Manifest | None = None
        self._wake = asyncio.Event()
        self._acknowledged = asyncio.Event()
        self._seen_in_view = False
        self._locked = False
        self.kept_at = 0.0
        self.file_notes: FileNotes | None = None
        self.log = RunLog(self, sink)

    # What others ask of a run.

    def wake(self) -> None:
        """Something about it has changed: its Job, its pod, a request."""
        self._wake.set()

    def cancel(self) -> None:
        """It shall end. Asked for again after a crash, it still shall."""
        self.wake()
        if not self.record.cancelled and self.record.result is None:
            self.record.cancelled = True
            self.keep(sync=True)

    def cancel_wanted(self) -> bool:
        """Whether its reader, or somebody by a mark on the Job, asked for its end."""
        if not self.record.cancelled and self._job is not None and marks.annotation(self.job, marks.CANCEL):
            self.cancel()
        return self.record.cancelled

    def acknowledge(self) -> None:
        """Its reader has the result; that is on disk when this returns."""
        if self.record.result is not None and not self.record.acknowledged:
            self.record.acknowledged = True
            self.keep(sync=True)
        self._acknowledged.set()
        self.wake()

    def replace_sink(self, sink: Sink) -> None:
        """Another reader, which gets all of the log that it does not have; `result` waits for that, if need be anew."""
        if self.record.result is not None:
            self.log.replace(sink, again=False)
            if self.result.done() and self.log.is_behind:
                self.result = asyncio.get_running_loop().create_future()
            self.wake()
        else:
            self.log.replace(sink, again=not self.result.done())

    # The life.

    async def drive(self) -> None:
        """To the end of its life, or until it is cancelled from outside: then Job and journal stay as they are."""
        with about(run_id=self.run_id, agent_id=self.agent_id, job=self.record.job_name):
            try:
                while self.phase is not Phase.OVER:
                    await self._turn()
            finally:
                self.log.stop()
                self.release_agent()
                if self.phase is not Phase.OVER:
                    self.services.metrics.moved(self.phase.value, "", 0)

    async def _turn(self) -> None:
        phase = self.phase
        begun = asyncio.get_running_loop().time()
        event = await WORK[phase](self)
        self.gone = self.gone or event is Event.GONE
        self.phase = following(phase, event)
        after = "" if self.phase is Phase.OVER else self.phase.value
        self.services.metrics.moved(phase.value, after, asyncio.get_running_loop().time() - begun)
        _LOG.info("%s after %s", event, phase, extra={"phase": self.phase.value})
        if self.phase not in {Phase.OVER, Phase.RELEASED, Phase.STORED, Phase.ABANDONED}:
            self.record.phase = self.phase
            self.keep()

    # What the work of phases uses.

    @property
    def job(self) -> Manifest:
        """The Job as it was seen last."""
        if self._job is None:
            raise AssertionError(f"in {self.phase} there is a Job")
        seen = self.services.view.job(self.record.job_name)
        if seen is not None and marks.uid(seen) == marks.uid(self._job):
            self._job = seen
            self._seen_in_view = True
        return self._job

    @property
    def has_job(self) -> bool:
        return self._job is not None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must show in no output."""
        return tuple(self.plan.secret_values) if self.plan is not None else ()

    @property
    def patience(self) -> float:
        return self.services.settings.api_seconds

    def owns(self, job: Manifest) -> bool:
        return marks.annotation(job, marks.OWNER) == self.services.settings.identity

    def took(self, job: Manifest) -> None:
        """From now on this is the run's Job. For another run's Job, what the journal knows of that one counts."""
        self._job = job
        if marks.name(job) != self.record.key:
            known = self.services.journal.read(marks.name(job))
            cancelled = self.record.cancelled
            name, now = marks.name(job), self.services.clock.now()
            run_id, agent_id = marks.annotation(job, marks.RUN_ID), marks.annotation(job, marks.AGENT_ID)
            self.record = known or Record(name, run_id, agent_id, name, self.record.nonce, made_at=now)
            self.record.cancelled = self.record.cancelled or cancelled
            self.record.result = None
            self.record.armed = True
            self.services.adopted[marks.name(job)] = self.own_key
        self.record.job_uid = marks.uid(job)
        self.record.started_at = self.record.started_at or self.services.clock.now()
        self.services.agents[self.agent_id] = marks.name(job)
        self.keep()

    def keep_to_lease(self, seconds: float) -> None:
        """Its Job was made; where that took longer, the Lease has to be renewed before it may start."""
        now = asyncio.get_running_loop().time()
        if now - self.looked_at > seconds:
            self.lease_since = now

    def has_time_to_wait(self) -> bool:
        """For other runs of its agent."""
        since, now = self.waits_since, asyncio.get_running_loop().time()
        return since is not None and now - since < self.options.wait_seconds

    def step_back(self) -> None:
        """It is as if it had never had a Job."""
        self.release_agent()
        self.problem = self.pod = self._job = None
        self.yields = self._seen_in_view = False
        self.record = replace(self.record, sent=False, job_uid="", stopping="", started_at=0)

    def claim_agent(self) -> None:
        self.services.agents.setdefault(self.agent_id, self.record.job_name)

    def hold_lock(self, *, held: bool) -> None:
        """Counts the Lease of its agent, which its Job holds."""
        self.services.metrics.leases["agent"] += held - self._locked
        self._locked = held

    def release_agent(self) -> None:
        if self.services.agents.get(self.agent_id) in {self.record.job_name, self.own_key}:
            del self.services.agents[self.agent_id]

    async def wait(self, seconds: float) -> None:
        """Until something changes, but not longer."""
        try:
            # What is left of a wait may be too small to move the clock at all.
            async with asyncio.timeout(max(seconds, _SHORTEST)):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def acknowledged(self) -> None:
        await self._acknowledged.wait()

    def look_for_pod(self) -> Manifest | None:
        """The pod of a run that an earlier life of the launcher has ended."""
        self._job = self._job or self.services.view.job(self.record.job_name)
        return self.look_at_pod()

    def look_at_pod(self) -> Manifest | None:
        """The pod as it was seen last; it may be gone since."""
        seen = self.services.view.pod(self.job) if self._job is not None else None
        if seen is not None:
            self.pod = seen
        return self.pod

    @property
    def seen_in_view(self) -> bool:
        """Whether the watch has shown the Job at all, so that its absence there says something."""
        return self._seen_in_view

    def ever_started(self) -> bool:
        """Whether there may be a log."""
        pod = self.look_at_pod()
        return (
            self.log.position.offset > 0
            or self.record.position.offset > 0
            or (pod is not None and podstate.started(pod))
        )

    def may_have_started(self) -> bool:
        """Whether its container has started, or may have unseen: only then nothing can have happened twice."""
        pod = self.look_at_pod()
        surely_not = podstate.never_started(pod) or (pod is None and self.disarmed)
        return self.ever_started() or (self.record.armed and not surely_not)

    def seconds_left(self) -> float:
        """Until the run's own time is over; the Job's deadline lies behind it, for when nobody looks after the run."""
        allowed = self.options.timeout_seconds
        if allowed <= 0:
            return float("inf")
        return self.record.running_since + allowed - self.services.clock.now()

    async def note(self, kind: str, text: str) -> None:
        """Tells its reader, if it still hears."""
        await self.log.note(kind, text)

    def keep(self, *, sync: bool = False) -> None:
        """Writes the journal."""
        self.kept_at = asyncio.get_running_loop().time()
        self.services.journal.write(self.record, sync=sync)
        if self.own_key != self.record.key:
            # Of a Job that it took over, too: its reader has some of that log, and must get no other one.
            self.services.journal.write(replace(self.record, key=self.own_key), sync=sync)


WORK.update(
    {
        Phase.PLANNED: beginning.admit,
        Phase.ADOPTING: beginning.adopt,
        Phase.ADMITTED: beginning.create,
        Phase.CREATED: beginning.lock,
        Phase.LOCKED: beginning.make_secrets,
        Phase.STARTING: running.await_start,
        Phase.RUNNING: running.await_end,
        Phase.STOPPING: closing.stop,
        Phase.DRAINING: closing.drain,
        Phase.FINISHED: closing.finish,
        Phase.STORED: closing.report,
        Phase.RELEASED: closing.release,
        Phase.ABANDONED: closing.abandon,
    }
)
