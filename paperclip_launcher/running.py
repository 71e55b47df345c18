"""The middle of a run: its pod has to start, and then to end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kubekit.identity import Manifest
from paperclip_launcher import marks, podstate
from paperclip_launcher.cluster.errors import NotFound
from paperclip_launcher.cluster.transport import Stream
from paperclip_launcher.diagnose import diagnose, hard_after, start_timeout
from paperclip_launcher.diagnosed import Diagnosis
from paperclip_launcher.errors import LauncherError
from paperclip_launcher.lifecycle import Event
from paperclip_launcher.log.follow import LogFollower
from paperclip_launcher.log.position import LogPosition

if TYPE_CHECKING:
    from paperclip_launcher.run import Run

_LOG = logging.getLogger(__name__)
CONTAINER = "agent"
_LOOK = 10.0  # seconds after which a Job that the watch does not show is asked for
_ASK_AGAIN = 1.0  # seconds between two questions to an API server that does not answer
_LOG_IDLE = 3600.0  # seconds; the follower has its own, finer watch over silence


class Watchfulness:
    """Keeps an eye on one run: since when a diagnosis stands, what was said already, whether the Job is there."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._clock = asyncio.get_running_loop().time
        self.begun = self._admitted = self._clock()
        self.answered = False
        """Whether the API server said something to the last live look."""
        self._looked = self.begun
        self._diagnosis: Diagnosis | None = None
        self._since = self.begun
        self._progress = ""

    async def taken(self) -> bool:
        """Whether another launcher has taken the run over, since it took this one for dead; asked live, since the watch
        may not yet show that this launcher took it over itself.
        """
        run = self._run
        if run.owns(run.job):
            return False
        try:
            found = await run.services.cluster.get("jobs", run.record.job_name, retry_seconds=5)
        except LauncherError:
            return False
        if run.owns(found) or marks.uid(found) != run.record.job_uid:
            return False
        detail = f"Job {run.record.job_name} is owned by {marks.annotation(found, marks.OWNER)} now"
        run.problem = Diagnosis(
            "k8s_run_owned_elsewhere", hard=True, summary="Another launcher has taken over the run", detail=detail
        )
        return True

    async def gone(self) -> bool:
        """Whether the Job is away, asked live before it is believed; a Job that is being deleted by others is going."""
        run = self._run
        seen = run.services.view.job(run.record.job_name)
        if seen is not None and marks.uid(seen) == run.record.job_uid:
            self._looked = self._clock()
            return False
        if self._clock() - self._looked < _LOOK and seen is None and not run.seen_in_view:
            return False
        self._looked = self._clock()
        try:
            found = await run.services.cluster.get("jobs", run.record.job_name, retry_seconds=5)
        except NotFound:
            return True
        except LauncherError:
            return False
        return marks.uid(found) != run.record.job_uid

    async def look_live(self) -> Manifest | None:
        """The pod as the API server knows it; None also where it does not answer."""
        self.answered = False
        try:
            found = await live_pod(self._run)
        except LauncherError:
            return None
        self.answered = True
        return found

    async def stands(self, found: Diagnosis) -> bool:
        """Whether what was seen for so long is still so. A watch may have been silent all the while, so a soft one is
        asked about live; without an answer it gets its whole time again.
        """
        if found.hard:
            return True
        run, pod = self._run, await self.look_live()
        if pod is not None:
            again = diagnose(run.job, pod, run.services.view.warnings(run.job, pod), run.services.clock.now())
            if again is not None and again.code == found.code:
                return True
        self._since = self._clock()
        return False

    async def look(self) -> Diagnosis | None:
        """What keeps the run from starting, told to its reader where it is new; hard once its time is over."""
        run = self._run
        job, pod = run.job, run.pod
        await self._tell(podstate.progress(job, pod))
        found = diagnose(job, pod, run.services.view.warnings(job, pod), run.services.clock.now())
        if found is None:
            self._diagnosis = None
            return None
        if self._diagnosis is None or found.code != self._diagnosis.code:
            self._since = self._clock()
            await run.note("warning", found.text)
        self._diagnosis = found
        return found

    def seconds_to_start(self) -> float:
        """Left for the container to start. While Kueue holds the Job back, that time has not begun, and what is left is
        of the wait.
        """
        options, now = self._run.options, self._clock()
        if self._run.job["spec"].get("suspend"):
            self._admitted = now
            return self.begun + options.wait_seconds - now
        return self._admitted + options.schedule_timeout_seconds - now

    def too_late(self, pod: Manifest | None) -> Diagnosis:
        """Why it has not started in its time."""
        run = self._run
        waited = self._clock() - self._admitted or self._clock() - self.begun
        return start_timeout(run.job, pod, run.services.view.warnings(run.job, pod), round(waited))

    def overdue(self, found: Diagnosis) -> bool:
        return found.hard or self._clock() - self._since >= self._patience(found)

    def next_look(self, found: Diagnosis | None) -> float:
        """Seconds until time alone may change the answer."""
        if found is None:
            return self._run.services.settings.keepalive_seconds
        left = self._patience(found) - (self._clock() - self._since)
        return min(max(left, 0.05), self._run.services.settings.keepalive_seconds)

    async def keep_alive(self) -> float:
        """Tells the reader of a silent run that it lives; seconds until the next time."""
        run, every = self._run, self._run.services.settings.keepalive_seconds
        silent = self._clock() - run.log.heard_at
        if silent < every:
            return every - silent
        run.log.heard_at = self._clock()
        name = run.record.job_name
        await run.note("keepalive", f"Job {name} runs; nothing was written for {silent:.0f} s")
        return every

    def _patience(self, found: Diagnosis) -> float:
        own = hard_after(found.code)
        return min(own, self._run.options.schedule_timeout_seconds) if own is not None else float("inf")

    async def _tell(self, progress: str) -> None:
        if progress and progress != self._progress:
            self._progress = progress
            await self._run.note("progress", progress)


async def await_start(run: Run) -> Event:
    """Until the agent's container has started, or never will."""
    if run.plan is not None:
        run.plan = run.plan.spent()
    watched = Watchfulness(run)
    while True:
        if run.cancel_wanted():
            return Event.CANCEL
        if await watched.taken():
            return Event.OWNED_ELSEWHERE
        if await watched.gone():
            return Event.GONE
        pod = run.look_at_pod()
        if pod is not None and podstate.started(pod):
            run.log.follow()
            return Event.STARTED
        left = watched.seconds_to_start()
        over = podstate.terminal(run.job) or podstate.early_end(run.job)
        if over or left <= 0:
            # Its start may not have been seen: of two watches one may lag behind.
            found_pod = await watched.look_live()
            if podstate.started(found_pod):
                run.pod = found_pod
                run.log.follow()
                return Event.STARTED
            if podstate.terminal(run.job) and (watched.answered or left <= 0):
                run.timed_out = "DeadlineExceeded" in podstate.terminal(run.job)
                return Event.ENDED
        if left <= 0 and watched.answered:
            run.problem = watched.too_late(pod)
            return Event.BROKEN
        found = None if over else await watched.look()
        if found is not None and watched.overdue(found) and await watched.stands(found):
            run.problem = found
            return Event.BROKEN
        await run.wait(min(watched.next_look(found), max(left, _ASK_AGAIN) + 0.01, _LOOK))


async def await_end(run: Run) -> Event:
    """Until the agent's container has ended, or the run must be stopped."""
    watched = Watchfulness(run)
    run.record.running_since = run.record.running_since or run.services.clock.now()
    run.log.follow()
    if run.file_notes is not None:
        run.file_notes.begin()
    while True:
        if run.cancel_wanted():
            return Event.CANCEL
        if await watched.taken():
            return Event.OWNED_ELSEWHERE
        if await watched.gone():
            return Event.GONE
        pod = run.look_at_pod()
        if podstate.terminal(run.job) or (pod is not None and podstate.terminated(pod)):
            return Event.ENDED
        left = run.seconds_left()
        if left <= 0:
            run.timed_out = True
            return Event.DEADLINE
        found = await watched.look()
        if found is not None and watched.overdue(found) and await watched.stands(found):
            run.problem = found
            return Event.BROKEN
        alive = await watched.keep_alive()
        await run.wait(min(left, alive, watched.next_look(found)))


async def live_pod(run: Run) -> Manifest | None:
    """The pod of the run as the API server itself knows it. LauncherError where it does not answer."""
    pods, _ = await run.services.cluster.list(
        "pods", label_selector=f"{marks.JOB_NAME}={run.record.job_name}", retry_seconds=5
    )
    return podstate.pod_of(run.job, pods)


def follower(run: Run, position: LogPosition) -> LogFollower:
    """Of the log of the run's container, from `position` on."""

    async def open_log(since: str, follow: bool) -> Stream:  # noqa: FBT001  the follower's seam has two positions
        pod = run.look_at_pod()
        if pod is None:
            raise NotFound(404, "NotFound", f"no pod of Job {run.record.job_name} was seen")
        return await run.services.cluster.open_log(
            marks.name(pod), container=CONTAINER, follow=follow, since=since, idle=_LOG_IDLE
        )

    def note(text: str) -> None:
        _LOG.info("log of %s: %s", run.record.job_name, text)

    return LogFollower(open_log, run.log.deliver, position=position, note=note, rng=run.services.rng)
