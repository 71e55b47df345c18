"""Who is alive: the Lease of this launcher, and what the Leases of all others say.

One Lease a process: renewals do not grow with runs. Whether another launcher is dead is judged by this process's own
clock from when its Lease last changed, as client-go does, so that clocks may differ; only a Lease whose time lies
further back than any clock is wrong counts as expired at first sight.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from kubekit.identity import Manifest
from kubekit.names import slug_with_hash
from paperclip_launcher import marks
from paperclip_launcher.clock import Clock, rfc3339
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.errors import AlreadyExists, ApiError, Conflict, NotFound
from paperclip_launcher.errors import LauncherError
from paperclip_launcher.metrics import Metrics
from paperclip_launcher.neighbours import Alive
from paperclip_launcher.settings import Settings

_LOG = logging.getLogger(__name__)
_SKEW = 600  # seconds that two clocks may differ
_SILENCE = 20.0
"""Seconds after which the watched Leases may be out of date: the renewals of our own are heard twice as often."""
_LAST_SECONDS = 5.0  # for the end of a Lease that is given up: it expires in any case
_PREFIX = "paperclip-launcher-"


def lease_name(identity: str) -> str:
    """Of the Lease of a launcher."""
    return _PREFIX + slug_with_hash(identity, 63 - len(_PREFIX))


class Others:
    """What the watched Leases say of other launchers.

    Only what was watched counts: after a silence, be it of the watch or of this process, all are watched anew.
    """

    def __init__(self, clock: Clock, monotonic: Callable[[], float]) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._seen: dict[str, tuple[str, float, bool]] = {}
        self._heard = float("-inf")

    def changed(self, lease_object_name: str, lease: Manifest | None) -> None:
        """A Lease came, was renewed, or (None) went."""
        now = self._monotonic()
        if now - self._heard > _SILENCE:
            self._seen = {name: (version, now, False) for name, (version, _, _) in self._seen.items()}
        self._heard = now
        if lease is None:
            self._seen.pop(lease_object_name, None)
            return
        version = marks.version(lease)
        before = self._seen.get(lease_object_name)
        if before is None or before[0] != version:
            self._seen[lease_object_name] = (version, now, before is not None)

    def alive(self, identity: str, lease: Manifest | None) -> Alive:
        """Of the launcher `identity`, whose Lease is `lease`; without one it has gone in an orderly way."""
        now = self._monotonic()
        if now - self._heard > _SILENCE:
            return Alive.UNSURE
        if lease is None:
            return Alive.NO
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") != identity:
            return Alive.NO
        seconds = float(spec.get("leaseDurationSeconds") or 30)
        renewed = _time(str(spec.get("renewTime") or ""))
        if renewed is not None and self._clock.now() - renewed > seconds + _SKEW:
            return Alive.NO
        _, since, renewal_seen = self._seen.get(marks.name(lease), ("", now, False))
        if now - since > seconds:
            return Alive.NO
        return Alive.YES if renewal_seen else Alive.UNSURE


class LeaseKeeper:
    """Holds the Lease of this process. `lost` is told once when another process has taken the identity."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        clock: Clock,
        rng: random.Random,
        lost: Callable[[], None],
        metrics: Metrics,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._rng = rng
        self._lost = lost
        self._lease: Manifest | None = None
        self.name = lease_name(settings.identity)
        self.renewed = 0.0
        """Time of day of the last renewal."""
        self._sent = float("-inf")
        self._hurry = asyncio.Event()

    def is_fresh(self, since: float = float("-inf")) -> bool:
        """Whether the last renewal was sent so lately that nobody else can count this process as dead, and after
        `since`, of the loop's time; else it is renewed at once. It is not fresh after the process has stood still: by
        the time that goes on with the machine, not by that of day.
        """
        if self._sent < since:
            self._hurry.set()
            return False
        return asyncio.get_running_loop().time() - self._sent <= self._settings.lease_seconds

    async def take(self) -> None:
        """Makes the Lease, or takes over that of an earlier life of this identity. ApiError, Unreachable."""
        while True:
            sent = asyncio.get_running_loop().time()
            try:
                self._lease = await self._cluster.create("leases", lambda: self._manifest(0))
            except AlreadyExists:
                try:
                    found = await self._cluster.get("leases", self.name)
                    transitions = int((found.get("spec") or {}).get("leaseTransitions") or 0)
                    fresh = self._manifest(transitions + 1, marks.version(found))
                    self._lease = await self._cluster.replace("leases", self.name, fresh)
                except (Conflict, NotFound):
                    continue
            self.renewed, self._sent = self._clock.now(), sent
            self._metrics.leases["launcher"] = 1
            if asyncio.get_running_loop().time() - sent > self._settings.renew_seconds:
                self._hurry.set()  # its renewTime is as old, and others may take that for a dead one's
            return

    async def run(self) -> None:
        """Renews for ever; a failure is tried again at the next turn."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.renew_seconds * self._rng.uniform(0.8, 1.0)):
                    await self._hurry.wait()
            self._hurry.clear()
            try:
                await self._renew()
            except (Conflict, NotFound):
                _LOG.warning("the Lease %s is no longer ours: another launcher runs as %s", self.name, self._identity)
                self._metrics.leases["launcher"] = 0
                self._lost()
                return
            except LauncherError as error:
                self._metrics.lease_failures += 1
                self._cluster.complaints.tell(f"renewing the Lease {self.name}", error)
            except Exception:  # noqa: BLE001  without its Lease this launcher would seem dead to all others
                self._metrics.lease_failures += 1
                _LOG.exception("renewing the Lease %s failed", self.name)

    async def give_up(self) -> None:
        """At an orderly end: others need not wait for it to expire."""
        if self._lease is None:
            return
        lease, self._lease = self._lease, None
        self._metrics.leases["launcher"] = 0
        try:
            try:
                await self._delete(lease)
            except Conflict:
                # A renewal that was under way when it was cancelled has arrived.
                await self._delete(await self._changed(lease, _LAST_SECONDS))
        except (NotFound, Conflict):
            return
        except LauncherError as error:
            _LOG.info("the Lease %s stays until it expires: %s", self.name, error)

    async def _delete(self, lease: Manifest) -> None:
        version = marks.version(lease)
        await self._cluster.delete(
            "leases", self.name, uid=marks.uid(lease), resource_version=version, retry_seconds=_LAST_SECONDS
        )

    async def _changed(self, held: Manifest, seconds: float) -> Manifest:
        """The Lease as it is by now, where only a renewal of our own changed it. Conflict where it is another's."""
        found = await self._cluster.get("leases", self.name, retry_seconds=seconds)
        ours = found["spec"].get("holderIdentity") == self._identity and marks.uid(found) == marks.uid(held)
        if not ours or found["spec"].get("leaseTransitions") != held["spec"].get("leaseTransitions"):
            raise Conflict(409, "Conflict", f"the Lease {self.name} is another's")
        return found

    @property
    def _identity(self) -> str:
        return self._settings.identity

    async def _renew(self) -> None:
        held = self._lease
        if held is None:
            return
        sent = asyncio.get_running_loop().time()
        spec = {**held["spec"], "renewTime": rfc3339(self._clock.now(), micro=True)}
        seconds = self._settings.lease_seconds
        try:
            self._lease = await self._cluster.replace(
                "leases", self.name, {**held, "spec": spec}, retry_seconds=seconds
            )
        except Conflict:
            # Our own renewal may have arrived with its answer lost.
            self._lease = await self._changed(held, seconds)
        self.renewed, self._sent = self._clock.now(), sent

    def _manifest(self, transitions: int, version: str = "") -> Manifest:
        now = rfc3339(self._clock.now(), micro=True)
        metadata = {
            "name": self.name,
            "namespace": self._settings.namespace,
            "labels": marks.labels(marks.LAUNCHER),
            **({"resourceVersion": version} if version else {}),
        }
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._settings.lease_seconds,
            "leaseTransitions": transitions,
            "acquireTime": now,
            "renewTime": now,
        }
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _time(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


class AgentLock:
    """Mutual exclusion of the runs of one agent: a Lease that is owned by the Job which holds it, and goes with it.

    It is taken after the Job and before its Secrets: so a Job that loses never starts its container.
    """

    def __init__(self, cluster: Cluster, namespace: str, retry_seconds: float) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._seconds = retry_seconds

    async def take(self, agent_id: str, job: Manifest, dead: Callable[[Manifest], bool]) -> str:
        """The name of the Job that holds the lock, "" where it is ours now. `dead` says whether a Job is over.

        ApiError, Unreachable.
        """
        name = "agent-" + slug_with_hash(agent_id, 63 - len("agent-"))
        while True:
            try:
                await self._cluster.create("leases", self._manifest(name, job), retry_seconds=self._seconds)
            except AlreadyExists:
                try:
                    holder = await self._cluster.get("leases", name, retry_seconds=self._seconds)
                    if _held_by(holder, job):
                        return ""
                    if await self._alive(holder, dead):
                        return str(holder["spec"].get("holderIdentity") or "")
                    fresh = self._manifest(name, job, marks.version(holder))
                    await self._cluster.replace("leases", name, fresh, retry_seconds=self._seconds)
                except (Conflict, NotFound):
                    continue
            return ""

    async def _alive(self, holder: Manifest, dead: Callable[[Manifest], bool]) -> bool:
        """Whether the Job that holds the lock may still run its agent."""
        try:
            job = await self._cluster.get(
                "jobs", str(holder["spec"].get("holderIdentity") or "none"), retry_seconds=self._seconds
            )
        except NotFound:
            return False
        except ApiError:
            return True
        return _held_by(holder, job) and not dead(job)

    def _manifest(self, name: str, job: Manifest, version: str = "") -> Manifest:
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": marks.name(job),
            "uid": marks.uid(job),
            "blockOwnerDeletion": False,
        }
        metadata = {
            "name": name,
            "namespace": self._namespace,
            "labels": marks.labels(marks.AGENT_LOCK),
            "annotations": {marks.AGENT_ID: marks.annotation(job, marks.AGENT_ID)},
            "ownerReferences": [owner],
            **({"resourceVersion": version} if version else {}),
        }
        spec = {"holderIdentity": marks.name(job), "leaseDurationSeconds": 1}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _held_by(lease: Manifest, job: Manifest) -> bool:
    return marks.controlled_by(lease, marks.uid(job))
