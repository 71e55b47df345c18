"""Finds runs in the namespace for people, by what they have at hand, with all that is known of one; only reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kubekit.identity import Manifest
from paperclip_launcher import marks, podstate
from paperclip_launcher.cli.usage import UsageError, near
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.errors import ApiError, NotFound
from paperclip_launcher.diagnose import diagnose
from paperclip_launcher.diagnosed import Diagnosis
from paperclip_launcher.errors import NotFoundRun
from paperclip_launcher.ownership import lease_name

_SHORTEST_PREFIX = 4
_SLACK = 5.0
"""Seconds that clocks may differ before a Lease seems late."""


@dataclass(frozen=True)
class Seen:
    """One run as the API server shows it. `lease` is that of its owner, None where there is none."""

    job: Manifest = field(repr=False)
    pod: Manifest | None = field(repr=False)
    lease: Manifest | None = field(default=None, repr=False)
    events: Sequence[Manifest] = field(default=(), repr=False)

    @property
    def run_id(self) -> str:
        return marks.annotation(self.job, marks.RUN_ID)

    @property
    def agent_id(self) -> str:
        return marks.annotation(self.job, marks.AGENT_ID)

    @property
    def owner(self) -> str:
        return marks.annotation(self.job, marks.OWNER)

    @property
    def state(self) -> str:
        """One word, or two: waiting, starting, running, stopping, succeeded, failed, and why."""
        end = podstate.terminal(self.job)
        if end:
            return "succeeded" if end.startswith("Complete") else f"failed {end[len('Failed(') : -1]}".strip()
        if marks.deleting(self.job):
            return "stopping"
        if self.pod is None:
            return "suspended" if (self.job.get("spec") or {}).get("suspend") else "waiting"
        if podstate.terminated(self.pod):
            return "ended"
        if podstate.started(self.pod):
            return "running"
        found = self.diagnosis
        return f"starting {found.code}" if found else "starting"

    @property
    def diagnosis(self) -> Diagnosis | None:
        return diagnose(self.job, self.pod, self.events, time.time())

    @property
    def owner_state(self) -> str:
        """alive, gone, or silent and for how long: by this machine's clock, so it is a hint and no proof."""
        if self.lease is None or (self.lease.get("spec") or {}).get("holderIdentity") != self.owner:
            return "gone"
        spec = self.lease["spec"]
        passed = time.time() - (seconds_of(spec.get("renewTime")) or 0.0)
        allowed = float(spec.get("leaseDurationSeconds") or 30) + _SLACK
        return "alive" if passed <= allowed else f"silent for {duration(passed)}"

    @property
    def age(self) -> str:
        made = seconds_of(self.job["metadata"].get("creationTimestamp"))
        return duration(time.time() - made) if made is not None else ""


async def all_runs(cluster: Cluster) -> list[Seen]:
    """Oldest first."""
    jobs, pods, leases = await asyncio.gather(
        cluster.list("jobs", label_selector=marks.RUN_SELECTOR),
        cluster.list("pods", label_selector=marks.RUN_SELECTOR),
        cluster.list("leases", label_selector=marks.LEASE_SELECTOR),
    )
    known = {marks.name(lease): lease for lease in leases[0]}
    by_job: dict[str, list[Manifest]] = {}
    for pod in pods[0]:
        by_job.setdefault((pod["metadata"].get("labels") or {}).get(marks.JOB_NAME, ""), []).append(pod)
    ordered = sorted(jobs[0], key=lambda job: str(job["metadata"].get("creationTimestamp")))
    return [_seen(job, by_job.get(marks.name(job), []), known) for job in ordered]


async def find(cluster: Cluster, wanted: str, *, events: bool = False) -> Seen:
    """The run that is meant by its id, its Job's name, or the beginning of either. NotFoundRun, UsageError."""
    jobs, _ = await cluster.list("jobs", label_selector=marks.RUN_SELECTOR)
    job = _meant(jobs, wanted)
    selector = f"{marks.JOB_NAME}={marks.name(job)}"
    pods, _ = await cluster.list("pods", label_selector=selector)
    owner = lease_name(marks.annotation(job, marks.OWNER))
    try:
        leases = {owner: await cluster.get("leases", owner)}
    except NotFound:
        leases = {}
    return _seen(job, pods, leases, await _events(cluster, job, pods) if events else ())


def _seen(job: Manifest, pods: list[Manifest], leases: dict[str, Manifest], events: Sequence[Manifest] = ()) -> Seen:
    ours = [pod for pod in pods if marks.controlled_by(pod, marks.uid(job))]
    lease = leases.get(lease_name(marks.annotation(job, marks.OWNER)))
    return Seen(job, podstate.pod_of(job, ours), lease, events)


def _meant(jobs: list[Manifest], wanted: str) -> Manifest:
    names = {id(job): _names(job) for job in jobs}
    exact = [job for job in jobs if wanted in names[id(job)]]
    if exact:
        return max(exact, key=lambda job: str(job["metadata"].get("creationTimestamp")))
    begun = [job for job in jobs if any(name.startswith(wanted) for name in names[id(job)])]
    if len(begun) == 1 and len(wanted) >= _SHORTEST_PREFIX:
        return begun[0]
    if begun:
        shown = ", ".join(marks.annotation(job, marks.RUN_ID) for job in begun[:3])
        raise UsageError(f"{wanted!r} is not one run: {shown}", "write more of it")
    hint = near(wanted, [name for found in names.values() for name in found])
    error = NotFoundRun(f"there is no run {wanted!r}: its Job has ended and gone, or never was")
    error.remedy = hint + error.remedy
    raise error


def _names(job: Manifest) -> list[str]:
    found = [marks.annotation(job, marks.RUN_ID), marks.annotation(job, marks.ADOPTED_BY), marks.name(job)]
    return [name for name in found if name]


async def _events(cluster: Cluster, job: Manifest, pods: list[Manifest]) -> list[Manifest]:
    """Of Job and pods, the oldest first; none where they may not be read."""
    found: list[Manifest] = []
    for one in (job, *pods):
        try:
            items, _ = await cluster.list("events", field_selector=f"involvedObject.uid={marks.uid(one)}")
        except ApiError:
            continue
        found += items
    return sorted(found, key=event_time)


def event_time(event: Manifest) -> str:
    """When it happened last, as RFC 3339."""
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return str(next((one for one in times if one), event["metadata"].get("creationTimestamp") or ""))


def seconds_of(text: object) -> float | None:
    """Seconds since 1970 of a time as Kubernetes writes it."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def duration(seconds: float) -> str:
    """5s, 12m, 3h, 4d: as kubectl shows ages."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"
