"""A cluster without machines: API server, controllers, scheduler, kubelet, garbage collector, on one event loop.

Deterministic for a seed on a VirtualLoop; on a real loop it keeps real time. Facts are those of Kubernetes 1.35.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from kubekit.calls import LAUNCHER_CALLS
from tests.fakeapi.api import Api
from tests.fakeapi.garbage import Collector
from tests.fakeapi.jobs import JobController
from tests.fakeapi.kubelet import Kubelet
from tests.fakeapi.loop import PROCESS
from tests.fakeapi.model import Knobs, Program, Range, simple
from tests.fakeapi.quotas import check_quota
from tests.fakeapi.statuses import Refused, refused
from tests.fakeapi.store import RESOURCES, Item, Store, Tree, rfc3339, with_meta

NAMESPACE = "paperclip-agents"
EPOCH = 1_790_000_000.0
RIGHTS = frozenset((verb, call.resource) for call in LAUNCHER_CALLS for verb in call.verbs)
"""What the launcher's Role holds: the cluster refuses all else."""

ProgramFor = Callable[[Mapping[str, Any]], Program]


class FakeCluster:
    """`program_for` gets the Job's tree and says what its container does.

    `epoch` is the time of day at the loop's time 0. `calls` counts (verb, resource) of all users; `trail` is every
    call as (loop seconds, user, verb, resource, name, status) where `keep_trail`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seed: int = 0,
        *,
        program_for: ProgramFor = lambda job: simple(),
        knobs: Knobs | None = None,
        epoch: float = EPOCH,
        keep_trail: bool = False,
    ) -> None:
        self.loop = loop
        self.random = Random(seed)
        self.knobs = knobs or Knobs()
        self.program_for = program_for
        self.store = Store(loop.time, epoch, self.random, self.knobs.history)
        self.serving = True
        self.kubelet_reachable = True
        self.calls: Counter[tuple[str, str]] = Counter()
        self.keep_trail = keep_trail
        self.trail: list[tuple[float, str, str, str, str, int]] = []
        self.outage_listeners: list[Callable[[], None]] = []
        # What the cluster does must go on when the launcher whose call caused it is killed.
        self._context = contextvars.copy_context()
        self._context.run(PROCESS.set, None)
        self._events = 0
        self.api = Api(self)
        self.jobs = JobController(self)
        self.kubelet = Kubelet(self)
        self.collector = Collector(self)
        self.store.listeners += [self.jobs.heard, self.kubelet.heard, self.collector.heard]

    # For tests.

    def objects(self, resource: str, namespace: str = NAMESPACE) -> list[Tree]:
        return [item.obj for item in self.store.shelf(resource, namespace).values()]

    def get(self, resource: str, name: str, namespace: str = NAMESPACE) -> Tree | None:
        item = self.store.find(resource, namespace, name)
        return None if item is None else item.obj

    def put(self, resource: str, tree: Mapping[str, Any], namespace: str = NAMESPACE) -> Tree:
        """Makes or replaces an object as an administrator would, without any check."""
        self.store.actor = "admin"
        name = tree["metadata"]["name"]
        old = self.store.find(resource, namespace, name)
        if old is None:
            return self.store.add((resource, namespace, name), dict(tree)).obj
        meta = {**old.obj["metadata"], **tree["metadata"]}
        return self.store.put(old, {**old.obj, **tree, "metadata": meta}).obj

    def remove(self, resource: str, name: str, namespace: str = NAMESPACE, *, grace: int | None = None) -> None:
        """As `kubectl delete` does it: in the background."""
        self.store.actor = "admin"
        item = self.store.find(resource, namespace, name)
        assert item is not None, f"no {resource} {name}"
        self.delete(item, propagation="Background", grace=grace)

    def printed(self, job_name: str) -> list[bytes]:
        """All lines that the containers of the Job have printed so far, deleted ones too."""
        return [line for log in self.kubelet.logs_of(job_name) for line in log.lines()]

    def restart(self, seconds: float = 0.0, *, compact: bool = False) -> None:
        """The API server is away: calls find nobody, streams break. The nodes go on."""
        self.serving = False
        for source in (*self.store.watches(), *self.kubelet.followers()):
            source.broken = True
            source.detach()
            source.notify()
        for listener in tuple(self.outage_listeners):
            listener()

        def back() -> None:
            self.serving = True
            if compact:
                self.store.compact()

        self.later("test", seconds, back)

    # For controllers.

    def later(self, actor: str, delay: float, act: Callable[..., None], *args: Any) -> Any:
        return self.loop.call_later(delay, self._act, actor, act, args, context=self._context)

    def _act(self, actor: str, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.store.actor = actor
        act(*args)

    def draw(self, span: Range) -> float:
        low, high = span
        return low + (high - low) * self.random.random()

    def check_new(self, resource: str, tree: Mapping[str, Any], namespace: str) -> None:
        """Admission, then quota. Refused."""
        if self.knobs.admit is not None:
            no = self.knobs.admit(resource, tree)
            if no is not None:
                raise refused(no.status, no.reason, no.message, {"kind": resource})
        quotas = self.store.shelf("resourcequotas", namespace)
        if quotas:
            check_quota(resource, str(tree["metadata"].get("name", "")), namespace, self.store)

    def delete(self, item: Item, *, propagation: str = "Background", grace: int | None = None) -> Item | None:
        """What is left of it, None if it went at once."""
        meta = item.obj["metadata"]
        grace = self._grace(item, grace)
        finalizers = [one for one in meta.get("finalizers") or () if one not in ("orphan", "foregroundDeletion")]
        if propagation == "Orphan":
            finalizers.append("orphan")
        elif propagation == "Foreground":
            finalizers.append("foregroundDeletion")
        if not grace and not finalizers:
            self.store.drop(item)
            return None
        if "deletionTimestamp" in meta and grace >= meta.get("deletionGracePeriodSeconds", 0):
            same = finalizers == list(meta.get("finalizers") or ())
            return item if same else self.store.put(item, with_meta(item.obj, finalizers=finalizers))
        from_now = self.store.epoch + self.loop.time() + grace
        changes = {"deletionTimestamp": rfc3339(from_now), "deletionGracePeriodSeconds": grace}
        return self.store.put(item, with_meta(item.obj, **changes, finalizers=finalizers or None))

    def _grace(self, item: Item, grace: int | None) -> int:
        """Of a pod that a node may still run; 0 for all else."""
        if item.key[0] != "pods":
            return 0
        spec, phase = item.obj["spec"], item.obj.get("status", {}).get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        return int(spec.get("terminationGracePeriodSeconds", 30) if grace is None else grace)

    def event(self, of: Tree, reason: str, message: str, component: str, *, kind: str = "Warning") -> None:
        """About an object, by a component of the cluster; a repeated one counts up."""
        if kind == "Normal" and not self.knobs.normal_events:
            return
        meta = of["metadata"]
        namespace = meta["namespace"]
        now = self.store.stamp()
        for item in self.store.shelf("events", namespace).values():
            old = item.obj
            if old["involvedObject"]["uid"] == meta["uid"] and (old["reason"], old["message"]) == (reason, message):
                self.store.put(item, {**old, "count": old["count"] + 1, "lastTimestamp": now})
                return
        self._events += 1
        name = f"{meta['name']}.{self._events:016x}"
        involved = {"kind": of["kind"], "namespace": namespace, "name": meta["name"], "uid": meta["uid"]}
        involved |= {"apiVersion": of["apiVersion"], "resourceVersion": meta["resourceVersion"]}
        tree = {
            "metadata": {"name": name},
            "involvedObject": involved,
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": kind,
            "eventTime": None,
            "reportingComponent": component,
            "reportingInstance": "",
        }
        self.store.add(("events", namespace, name), tree)

    def owner_of(self, tree: Mapping[str, Any]) -> Item | None:
        """The Job that controls a pod, while it is there."""
        for owner in tree["metadata"].get("ownerReferences") or ():
            if owner.get("controller") and owner["kind"] in RESOURCES:
                key = self.store.uids.get(owner["uid"])
                return None if key is None else self.store.find(*key)
        return None

    def count(self, user: str, verb: str, resource: str, name: str, status: int) -> None:
        self.calls[verb, resource] += 1
        if self.keep_trail:
            self.trail.append((self.loop.time(), user, verb, resource, name, status))

    def live_jobs(self, namespace: str = NAMESPACE) -> Iterator[Tree]:
        """Jobs that are neither finished nor being deleted."""
        for job in self.objects("jobs", namespace):
            ended = {one["type"] for one in job.get("status", {}).get("conditions", ()) if one["status"] == "True"}
            if "deletionTimestamp" not in job["metadata"] and not ended & {"Complete", "Failed"}:
                yield job


__all__ = ["EPOCH", "NAMESPACE", "RIGHTS", "FakeCluster", "Knobs", "Program", "Refused", "simple"]
