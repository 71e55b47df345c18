"""The namespace as the shared watches show it: four streams for any number of runs, and who is told of what."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

from kubekit.identity import Manifest
from paperclip_launcher import marks, podstate
from paperclip_launcher.clock import Clock
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.watch import Change, Reflector
from paperclip_launcher.neighbours import Alive
from paperclip_launcher.ownership import Others, lease_name

_REMEMBERED = 500
"""Pods that are gone: their runs look at them within moments."""

_LEASES_IDLE = 30.0
"""Seconds: the renewals of our own are heard three times as often."""

_SAID = ("reason", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime", "series")
_NAMED = ("name", "uid", "resourceVersion", "creationTimestamp")
"""What of an event, and of its metadata, somebody asks for."""

_PROGRAM = ("args", "command", "env", "lifecycle", "securityContext", "volumeMounts")


class ClusterView:
    """`wake` is called with the name of a Job that something happened to. Implements services.View."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        identity: str,
        clock: Clock,
        rng: random.Random,
        active: Callable[[str], bool],
        wake: Callable[[str], None],
    ) -> None:
        self._identity = identity
        self._active = active
        self._wake = wake
        self._others = Others(clock, asyncio.get_running_loop().time)
        self._warnings: dict[str, dict[str, Manifest]] = {}
        self._last: dict[str, Manifest] = {}
        runs = marks.RUN_SELECTOR
        self.jobs = Reflector(
            cluster, "jobs", label_selector=runs, on_change=self._job_changed, rng=rng, trim=_without_program
        )
        self.pods = Reflector(
            cluster, "pods", label_selector=runs, on_change=self._pod_changed, rng=rng, trim=_without_program
        )
        self.events = Reflector(
            cluster, "events", field_selector="type=Warning", on_change=self._event_changed, rng=rng, trim=_in_short
        )
        self.leases = Reflector(
            cluster,
            "leases",
            label_selector=marks.LEASE_SELECTOR,
            on_change=self._lease_changed,
            rng=rng,
            idle=_LEASES_IDLE,
        )

    def reflectors(self) -> Iterator[Reflector]:
        yield from (self.jobs, self.pods, self.events, self.leases)

    def job(self, name: str) -> Manifest | None:
        return self.jobs.store.get(name)

    def pod(self, job: Manifest) -> Manifest | None:
        pods = self.pods.store.by_label(marks.JOB_NAME, marks.name(job))
        found = podstate.pod_of(job, [pod for pod in pods if marks.controlled_by(pod, marks.uid(job))])
        return found or self._last.get(marks.uid(job))

    def warnings(self, job: Manifest, pod: Manifest | None) -> list[Manifest]:
        found = list(self._warnings.get(marks.uid(job), {}).values())
        return found + list(self._warnings.get(marks.uid(pod), {}).values()) if pod is not None else found

    def jobs_of(self, agent_id: str) -> list[Manifest]:
        found = self.jobs.store.by_label(marks.AGENT_ID, marks.agent_label(agent_id))
        return [job for job in found if marks.annotation(job, marks.AGENT_ID) == agent_id]

    def stray_pod(self, agent_id: str, *, but: str = "") -> Manifest | None:
        for pod in self.pods.store.by_label(marks.AGENT_ID, marks.agent_label(agent_id)):
            name = str((pod["metadata"].get("labels") or {}).get(marks.JOB_NAME))
            job = self.jobs.store.get(name)
            owned = job is not None and marks.controlled_by(pod, marks.uid(job))
            ours = marks.annotation(pod, marks.AGENT_ID) == agent_id
            may_run = podstate.started(pod) or not marks.deleting(pod)
            if ours and not owned and name != but and may_run and not podstate.terminated(pod):
                return pod
        return None

    def job_of_run(self, run_id: str) -> Manifest | None:
        """The newest Job that does the run, its own or an adopted one."""
        found = [
            job
            for job in self.jobs.store.values()
            if run_id in {marks.annotation(job, marks.RUN_ID), marks.annotation(job, marks.ADOPTED_BY), marks.name(job)}
        ]
        return max(found, key=lambda job: str(job["metadata"].get("creationTimestamp")), default=None)

    def lease(self, identity: str) -> Manifest | None:
        return self.leases.store.get(lease_name(identity))

    def alive(self, job: Manifest) -> Alive:
        owner = marks.annotation(job, marks.OWNER)
        if owner == self._identity:
            return Alive.YES if self._active(marks.name(job)) else Alive.NO
        return self._others.alive(owner, self.leases.store.get(lease_name(owner)))

    def _job_changed(self, change: Change) -> None:
        self._wake(change.name)
        if change.kind == "DELETED" and (job := change.new or change.old) is not None:
            self._forget_warnings(marks.uid(job))
            if (pod := self._last.get(marks.uid(job))) is not None:
                self._forget_warnings(marks.uid(pod))

    def _pod_changed(self, change: Change) -> None:
        pod = change.new or change.old
        if pod is None:
            return
        if change.kind == "DELETED":
            self._remember(pod)
        job = (pod["metadata"].get("labels") or {}).get(marks.JOB_NAME)
        if job:
            self._wake(str(job))

    def _remember(self, pod: Manifest) -> None:
        """How a pod ended is told once: as it is deleted."""
        job = self.jobs.store.get(str((pod["metadata"].get("labels") or {}).get(marks.JOB_NAME)))
        for owner in pod["metadata"].get("ownerReferences") or ():
            if job is None or marks.uid(job) != owner["uid"]:
                self._forget_warnings(marks.uid(pod))
            self._last[str(owner["uid"])] = pod
        while len(self._last) > _REMEMBERED:
            self._forget_warnings(marks.uid(self._last.pop(next(iter(self._last)))))

    def _forget_warnings(self, uid: str) -> None:
        """About what is gone. The API server keeps them for an hour, which may be thousands of runs."""
        for name in self._warnings.pop(uid, ()):
            self.events.forget(name)

    def _event_changed(self, change: Change) -> None:
        event = change.new or change.old
        if event is None:
            return
        about = event.get("involvedObject") or {}
        uid, name = str(about.get("uid") or ""), str(about.get("name") or "")
        if change.new is None or change.kind == "DELETED":
            self._warnings.get(uid, {}).pop(change.name, None)
            if not self._warnings.get(uid):
                self._warnings.pop(uid, None)
            return
        self._warnings.setdefault(uid, {})[change.name] = event
        pod = self.pods.store.get(name)
        job = (pod["metadata"].get("labels") or {}).get(marks.JOB_NAME) if pod else name
        if job:
            self._wake(str(job))

    def _lease_changed(self, change: Change) -> None:
        self._others.changed(change.name, None if change.kind == "DELETED" else change.new)


def _without_program(one: Manifest) -> None:
    """What containers run is two thirds of a Job and of a pod, and no question of ours."""
    spec = one.get("spec") or {}
    template = spec.get("template")
    if template:
        template.pop("metadata", None)
        spec.pop("podFailurePolicy", None)
        spec = template.get("spec") or {}
    spec.pop("securityContext", None)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for key in _PROGRAM:
            container.pop(key, None)


def _in_short(event: Manifest) -> None:
    """Each run has one: its pod waits for its Secrets."""
    about, meta = event.get("involvedObject") or {}, event["metadata"]
    kept = {key: event[key] for key in _SAID if event.get(key) is not None}
    kept["involvedObject"] = {key: about.get(key) for key in ("kind", "name", "uid")}
    kept["metadata"] = {key: meta[key] for key in _NAMED if key in meta}
    event.clear()
    event.update(kept)
