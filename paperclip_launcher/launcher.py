"""One launcher: its Lease, its watches, and the runs it looks after. The public face of this package.

async with Launcher(cluster, settings, templates, journal=...) as launcher:
    run = await launcher.begin(RunRequest.of(context), sink)
    result = await run.result
    run.acknowledge()
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from kubekit.identity import Manifest
from kubekit.names import job_name
from paperclip_launcher import dialects, marks
from paperclip_launcher.clock import Clock, SystemClock
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.errors import Conflict, NotFound
from paperclip_launcher.dialects.model import Dialect
from paperclip_launcher.errors import (
    ConfigInvalid,
    Detached,
    LauncherError,
    NotFoundRun,
    OwnedElsewhere,
    Unreachable,
)
from paperclip_launcher.filenotes import FileNotes
from paperclip_launcher.handover import NOTHING_EXTRA, Extras
from paperclip_launcher.journal import Journal, MemoryJournal, Record
from paperclip_launcher.judging import Judge
from paperclip_launcher.lifecycle import Phase
from paperclip_launcher.manifest import Plan, plan
from paperclip_launcher.masking import Mask
from paperclip_launcher.metrics import Metrics
from paperclip_launcher.neighbours import Alive
from paperclip_launcher.options import RunOptions
from paperclip_launcher.ownership import LeaseKeeper
from paperclip_launcher.request import RunRequest
from paperclip_launcher.run import Identity, Run
from paperclip_launcher.services import Services, Sink
from paperclip_launcher.settings import Settings
from paperclip_launcher.templates import Templates
from paperclip_launcher.view import ClusterView

_LOG = logging.getLogger(__name__)
_SYNC_SECONDS = 150.0  # longer than one list may take, of which some fail
_LOOK_AGAIN = 1.0
_NONCE_BITS = 40
_KEPT_OPTIONS = ("model", "timeout_seconds", "schedule_timeout_seconds", "wait_seconds", "retain", "ttl_seconds")
"""What of its config a run still needs once it has its Job, so that it can be attached to."""


class Launcher:
    """Everything in one namespace, under one identity. Use it as an async context: leaving it detaches from all runs
    and stops none of them.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        templates: Templates | None,
        *,
        journal: Journal | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        metrics: Metrics | None = None,
        mask: Mask | None = None,
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.templates = templates
        self.clock = clock or SystemClock()
        self.rng = rng or random.Random()  # noqa: S311  jitter and names, no secrets
        self.metrics = metrics or Metrics()
        self.mask = mask or Mask()
        self.journal: Journal = journal if journal is not None else MemoryJournal()
        self.runs: dict[str, Run] = {}
        """By the name of the Job: what this process drives now."""
        self.lost = asyncio.Event()
        """Another process has taken this identity: nothing may be written any more."""
        self._ended = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._adopted: dict[str, str] = {}
        self.judge = Judge(templates, cluster) if templates is not None else None

    async def __aenter__(self) -> Self:
        """ApiError where a right is missing, Unreachable where nobody answers."""
        self._keeper = LeaseKeeper(self.cluster, self.settings, self.clock, self.rng, self._lose, self.metrics)
        self.view = ClusterView(
            self.cluster,
            identity=self.settings.identity,
            clock=self.clock,
            rng=self.rng,
            active=self._active,
            wake=self._wake,
        )
        self._services = Services(
            cluster=self.cluster,
            settings=self.settings,
            clock=self.clock,
            rng=self.rng,
            journal=self.journal,
            view=self.view,
            agents={},
            adopted=self._adopted,
            mask=self.mask,
            metrics=self.metrics,
            holds_lease=self._keeper.is_fresh,
        )
        await self._keeper.take()
        self._background = [asyncio.create_task(self._keeper.run())]
        self._background += [asyncio.create_task(reflector.run()) for reflector in self.view.reflectors()]
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                for reflector in self.view.reflectors():
                    await reflector.synced.wait()
        except BaseException as error:
            await self._end()
            if isinstance(error, TimeoutError):
                raise Unreachable("jobs, pods, events or leases cannot be listed; see the log") from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for run in self.runs.values():
            if run.record.result is None and run.has_job:
                try:
                    run.log.checkpoint()
                except OSError as problem:
                    _LOG.error("run %s is not kept as it stands: %s", run.run_id, problem)
        await self._end()
        if not self.lost.is_set():
            await self._keeper.give_up()

    # Runs.

    async def begin(self, request: RunRequest, sink: Sink, *, bundle: str = "", extras: Extras = NOTHING_EXTRA) -> Run:
        """A run, begun, or found where this process drives it already. ConfigInvalid lists all that is wrong with it;
        nothing has been created then.
        """
        key = job_name(request.agent_id, request.run_id)
        if (found := self._driven(key, sink)) is not None:
            return found
        dialect = dialect_of(request.adapter_type)
        options = RunOptions.of(request.config, dialect)
        record = self._begun(key, request.run_id) or self._record(key, request.run_id, request.agent_id)
        planned = self.plan(request, options, record.nonce, bundle=bundle, extras=extras)
        if self.judge is not None:
            await self.judge.judge(planned)
            if (found := self._driven(key, sink)) is not None:
                return found  # the same request came a second time meanwhile
            record = self._begun(key, request.run_id) or record  # or came, and is over
        record.options = {name: getattr(options, name) for name in _KEPT_OPTIONS}
        params = _session_params(request, planned)
        task = request.task_id or request.task_key
        identity = Identity(request.run_id, request.agent_id, task, planned.session_id, params)
        run = Run(
            self._services,
            identity,
            record,
            dialect=dialect,
            options=options,
            sink=sink,
            plan=planned,
        )
        if extras.claim is not None and options.log_file:
            run.file_notes = FileNotes(run, extras.claim, options.log_file)
        self._drive(run)
        for text in planned.notes:
            await run.note("warning", text)
        return run

    def _begun(self, key: str, run_id: str) -> Record | None:
        """What an earlier life did for the run. A Job that it took over may have gone to yet another run since."""
        record = self.journal.read(key)
        if record is not None and record.job_name != key and record.result is None:
            job = self.view.job(record.job_name)
            if job is not None and run_id not in marks.runs(job):
                return None
        return record

    def _driven(self, key: str, sink: Sink) -> Run | None:
        """The run where it is driven here already; its reader is `sink` from now on."""
        run = self.runs.get(key)
        if run is not None:
            run.replace_sink(sink)
        return run

    def plan(
        self, request: RunRequest, options: RunOptions, nonce: str, *, bundle: str = "", extras: Extras = NOTHING_EXTRA
    ) -> Plan:
        """What `begin` would create. ConfigInvalid."""
        if self.templates is None:
            raise ConfigInvalid(["no Job templates were given"])
        dialect = dialect_of(request.adapter_type)
        owner = self.settings.identity
        return plan(request, options, dialect, self.templates, owner=owner, nonce=nonce, bundle=bundle, extras=extras)

    async def attach(self, run_id: str, sink: Sink) -> Run:
        """A run that is alive, or whose result nobody has read. NotFoundRun; OwnedElsewhere where another launcher,
        which is alive, looks after it.
        """
        while True:
            job = self.view.job_of_run(run_id)
            if job is None:
                raise NotFoundRun(f"no Job of run {run_id} in {self.settings.namespace}")
            key = marks.name(job)
            if key in self.runs:
                self.runs[key].replace_sink(sink)
                return self.runs[key]
            alive = self.view.alive(job)
            if alive is Alive.YES:
                raise OwnedElsewhere(f"Job {key} is owned by {marks.annotation(job, marks.OWNER)}, which is alive")
            if alive is Alive.NO:
                break
            await asyncio.sleep(_LOOK_AGAIN)
        dialect = _dialect_of_job(job)
        run_of_job, agent = marks.annotation(job, marks.RUN_ID), marks.annotation(job, marks.AGENT_ID)
        record = self.journal.read(key) or self._record(key, run_of_job, agent)
        session = marks.annotation(job, marks.SESSION_ID)
        params = {"sessionId": session} if session else {}
        identity = Identity(run_of_job, agent, marks.task(job), session_params=params)
        options = RunOptions(**record.options)
        run = Run(
            self._services,
            identity,
            record,
            dialect=dialect,
            options=options,
            sink=sink,
            job=job,
        )
        if record.result is not None and record.job_uid == marks.uid(job):
            run.phase = Phase.STORED  # a result never changes
        self._drive(run)
        return run

    async def cancel(self, run_id: str) -> bool:
        """Asks for the end of a run, wherever it is driven; False where there is none that is alive."""
        for run in self.runs.values():
            if run_id in {run.run_id, run.record.run_id, run.record.job_name}:
                run.cancel()
                return True
        job = self.view.job_of_run(run_id)
        if job is None:
            return False
        asked = {"metadata": {"uid": marks.uid(job), "annotations": {marks.CANCEL: f"{self.clock.now():.0f}"}}}
        try:
            await self.cluster.merge("jobs", marks.name(job), asked)
        except (NotFound, Conflict):
            return False  # it has just gone
        return True

    async def let_go(self, run: Run) -> None:
        """Stops driving a run. Its Job and its record stay, and whoever asks for it next goes on with it."""
        if self.runs.get(run.own_key) is not run:
            return
        if run.record.result is None and run.has_job:
            run.log.checkpoint()
        task = self._tasks[run.own_key]
        task.cancel()
        await asyncio.wait({task})

    def _drive(self, run: Run) -> None:
        if self.lost.is_set() or self._ended:
            why = "another process has taken this identity" if self.lost.is_set() else "the launcher has ended"
            raise Detached(f"{why}: no run may be begun here")
        key = run.own_key
        self.runs[key] = run
        self.mask.add(*run.secrets)
        self.metrics.moved("", run.phase.value, 0)
        task = asyncio.create_task(self._guarded(run))
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._forget(key))

    async def _guarded(self, run: Run) -> None:
        """A defect of ours ends in the result of one run, never in silence, and never touches its Job."""
        try:
            await run.drive()
        except asyncio.CancelledError:
            if not run.result.done():
                text = "another process has taken this identity" if self.lost.is_set() else "the launcher has ended"
                run.result.set_exception(Detached(f"{text}; run {run.run_id} goes on"))
                run.result.exception()  # nobody need ask for it
            raise
        except Exception as error:  # noqa: BLE001  the one place where a defect is turned into a result
            _LOG.exception("run %s failed in %s", run.run_id, run.phase)
            if not run.result.done():
                run.result.set_exception(LauncherError(f"internal error in {run.phase}: {type(error).__name__}"))

    def _forget(self, key: str) -> None:
        run = self.runs.pop(key, None)
        if run is not None:
            run.hold_lock(held=False)
            if run.file_notes is not None:
                run.file_notes.stop()
            self.mask.forget(*run.secrets)
            self._adopted.pop(run.record.job_name, None)
        self._tasks.pop(key, None)

    def _active(self, job: str) -> bool:
        return job in self.runs or self._adopted.get(job) in self.runs

    def _wake(self, job: str) -> None:
        run = self.runs.get(job) or self.runs.get(self._adopted.get(job, ""))
        if run is not None:
            run.wake()

    def _record(self, key: str, run_id: str, agent_id: str) -> Record:
        nonce = f"{self.rng.getrandbits(_NONCE_BITS):010x}"
        return Record(key, run_id, agent_id, key, nonce, made_at=self.clock.now())

    # The end.

    def _lose(self) -> None:
        self.lost.set()
        for task in self._tasks.values():
            task.cancel()

    async def _end(self) -> None:
        self._ended = True
        tasks = [*self._tasks.values(), *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def lease_age(self) -> float:
        """Seconds since this launcher's Lease was last renewed."""
        return self.clock.now() - self._keeper.renewed

    def describe_runs(self) -> Mapping[str, str]:
        """Job name to phase, of what is driven here."""
        return {key: run.phase.value for key, run in self.runs.items()}


def dialect_of(adapter_type: str) -> Dialect:
    """By Paperclip's word for it, or by its own name. ConfigInvalid where there is none."""
    found = dialects.BY_ADAPTER.get(adapter_type) or dialects.DIALECTS.get(adapter_type)
    if found is None:
        known = ", ".join(dialects.BY_ADAPTER)
        raise ConfigInvalid([f"adapterType {adapter_type!r} is none of {known}"])
    return found


def _dialect_of_job(job: Manifest) -> Dialect:
    """A Job without the mark is of no version of ours that still runs; its log is read as plain lines."""
    return dialects.BY_ADAPTER.get(marks.annotation(job, marks.ADAPTER_TYPE), dialects.DIALECTS["command"])


def _session_params(request: RunRequest, planned: Plan) -> dict[str, str]:
    """Of the session that is gone on with, and where the run works: a later run resumes only where they agree."""
    workspace = request.context.get("paperclipWorkspace")
    told = workspace if isinstance(workspace, Mapping) else {}
    found = {
        "sessionId": planned.session_id,
        "cwd": planned.cwd,
        "workspaceId": told.get("workspaceId"),
        "repoUrl": told.get("repoUrl"),
        "repoRef": told.get("repoRef"),
        "promptBundleKey": planned.bundle_key,
    }
    return {key: value for key, value in found.items() if isinstance(value, str) and value}
