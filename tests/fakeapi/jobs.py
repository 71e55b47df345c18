"""The Job controller: level triggered, one status write a look, as kube-controller-manager does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.fakeapi.statuses import Refused
from tests.fakeapi.store import Change, Item, Tree, dumps, with_meta

if TYPE_CHECKING:
    from tests.fakeapi.cluster import FakeCluster

_ACTOR = "job-controller"
_FINALIZER = "batch.kubernetes.io/job-tracking"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_ENDED = ("Succeeded", "Failed")


class JobController:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._due: set[tuple[str, str]] = set()
        self._tries: dict[str, int] = {}
        self._times: dict[str, float] = {}
        self._armed: set[tuple[str, float]] = set()

    def heard(self, change: Change) -> None:
        resource, namespace, name = change.item.key
        if resource == "jobs":
            if change.kind == "DELETED":
                uid = change.item.obj["metadata"]["uid"]
                self._cluster.later(_ACTOR, self._cluster.draw(self._cluster.knobs.control), self._release, uid)
            else:
                self._look(namespace, name)
        elif resource == "pods":
            for owner in change.item.obj["metadata"].get("ownerReferences") or ():
                if owner["kind"] == "Job":
                    self._look(namespace, owner["name"])
                    if owner["uid"] not in self._store.uids:
                        self._release(owner["uid"])

    def _look(self, namespace: str, name: str, delay: float | None = None) -> None:
        if delay is not None:
            self._cluster.later(_ACTOR, delay, self._sync, namespace, name)
        elif (namespace, name) not in self._due:
            self._due.add((namespace, name))
            span = self._cluster.knobs.control
            self._cluster.later(_ACTOR, self._cluster.draw(span), self._sync, namespace, name)

    def _at(self, item: Item, when: float) -> None:
        """Looks again then, once."""
        uid = item.obj["metadata"]["uid"]
        if (uid, when) not in self._armed:
            self._armed.add((uid, when))
            self._look(item.key[1], item.key[2], max(0.0, when - self._store.now()))

    def _release(self, uid: str) -> None:
        """Pods whose Job is gone are held no longer."""
        for pod in tuple(self._store.owned(uid)):
            if pod.key[0] == "pods":
                self._unhold(pod)

    def _unhold(self, pod: Item) -> None:
        finalizers = pod.obj["metadata"].get("finalizers") or ()
        if _FINALIZER in finalizers:
            left = [one for one in finalizers if one != _FINALIZER]
            self._store.put(pod, with_meta(pod.obj, finalizers=left or None))

    def _sync(self, namespace: str, name: str) -> None:
        self._due.discard((namespace, name))
        item = self._store.find("jobs", namespace, name)
        if item is None:
            return
        job = item.obj
        status = job.get("status") or {}
        true = {one["type"]: one for one in status.get("conditions", ()) if one["status"] == "True"}
        pods = [pod for pod in self._store.owned(job["metadata"]["uid"]) if pod.key[0] == "pods"]
        if "Complete" in true or "Failed" in true:
            self._finished(item, pods)
        elif "deletionTimestamp" in job["metadata"]:
            for pod in pods:
                if _ended(pod) or "deletionTimestamp" in pod.obj["metadata"]:
                    self._unhold(pod)
        elif job["spec"].get("suspend"):
            self._suspend(item, pods, status)
        else:
            self._run(item, pods, dict(status), true)

    def _finished(self, item: Item, pods: list[Item]) -> None:
        for pod in pods:
            self._unhold(pod)
        ttl = item.obj["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or "deletionTimestamp" in item.obj["metadata"]:
            return
        ended = self._ended_at(item)
        if self._store.now() >= ended + ttl:
            self._store.actor = "ttl-after-finished-controller"
            self._cluster.delete(item, propagation="Foreground")
        else:
            self._at(item, ended + ttl)

    def _ended_at(self, item: Item) -> float:
        return self._times.setdefault(f"ended {item.obj['metadata']['uid']}", self._store.now())

    def _suspend(self, item: Item, pods: list[Item], status: Tree) -> None:
        for pod in pods:
            if not _ended(pod) and "deletionTimestamp" not in pod.obj["metadata"]:
                self._cluster.delete(pod)
            elif _ended(pod):
                self._unhold(pod)
        self._times.pop(f"start {item.obj['metadata']['uid']}", None)
        said = any(one["type"] == "Suspended" and one["status"] == "True" for one in status.get("conditions", ()))
        if not said:
            new = {key: value for key, value in status.items() if key != "startTime"} | {"active": 0}
            self._condition(new, "Suspended", "JobSuspended", "Job suspended")
            self._store.put(item, {**item.obj, "status": new})

    def _run(self, item: Item, pods: list[Item], status: Tree, true: Mapping[str, Any]) -> None:
        spec, now = item.obj["spec"], self._store.now()
        if "Suspended" in true:
            others = [one for one in status["conditions"] if one["type"] != "Suspended"]
            resumed = {**true["Suspended"], "status": "False", "reason": "JobResumed", "message": "Job resumed"}
            status["conditions"] = [*others, resumed]
        started = self._times.setdefault(f"start {item.obj['metadata']['uid']}", now)
        status.setdefault("startTime", self._store.stamp())
        criterion = true.get("FailureTarget") or true.get("SuccessCriteriaMet")
        counting = self._account(item, pods, status)
        if criterion is None:
            criterion = self._judge(item, pods, status, started)
        living = [pod for pod in pods if not _ended(pod)]
        active = [pod for pod in living if "deletionTimestamp" not in pod.obj["metadata"]]
        if criterion is not None and criterion["type"] == "FailureTarget":
            for pod in active:
                self._cluster.delete(pod)
            active = []
        elif criterion is None and not active:
            active = self._make(item, living, status)
        status["active"] = len(active)
        status["ready"] = sum(_ready(pod) for pod in active)
        if criterion is not None and not living and not counting:
            self._close(item, status, criterion)
        elif (deadline := spec.get("activeDeadlineSeconds")) is not None:
            self._at(item, started + deadline)
        if status != item.obj.get("status"):
            current = self._store.find(*item.key)
            if current is not None:
                self._store.put(current, {**current.obj, "status": status})

    def _account(self, item: Item, pods: list[Item], status: Tree) -> bool:
        """Moves each ended pod on by one step: noted, let go, counted. Whether one is still on the way."""
        noted = status.get("uncountedTerminatedPods") or {}
        noted = {kind: list(noted.get(kind, ())) for kind in ("succeeded", "failed")}
        held = {
            pod.obj["metadata"]["uid"]: pod for pod in pods if _FINALIZER in pod.obj["metadata"].get("finalizers", ())
        }
        for kind in noted:
            for uid in tuple(noted[kind]):
                if uid in held:
                    self._unhold(held.pop(uid))
                else:
                    noted[kind].remove(uid)
                    status[kind] = status.get(kind, 0) + 1
        for uid, pod in held.items():
            if _ended(pod):
                noted["succeeded" if pod.obj["status"]["phase"] == "Succeeded" else "failed"].append(uid)
        status["uncountedTerminatedPods"] = {kind: uids for kind, uids in noted.items() if uids}
        return bool(status["uncountedTerminatedPods"])

    def _judge(self, item: Item, pods: list[Item], status: Tree, started: float) -> Tree | None:
        spec = item.obj["spec"]
        deadline = spec.get("activeDeadlineSeconds")
        noted = status["uncountedTerminatedPods"]
        failed = status.get("failed", 0) + len(noted.get("failed", ()))
        succeeded = status.get("succeeded", 0) + len(noted.get("succeeded", ()))
        for pod in pods:
            if _ended(pod) and pod.obj["status"]["phase"] == "Failed":
                match = _policy(spec.get("podFailurePolicy") or {}, pod.obj)
                if match:
                    return self._condition(status, "FailureTarget", "PodFailurePolicy", match)
        if failed > spec.get("backoffLimit", 6):
            text = "Job has reached the specified backoff limit"
            return self._condition(status, "FailureTarget", "BackoffLimitExceeded", text)
        if deadline is not None and self._store.now() >= started + deadline:
            text = "Job was active longer than specified deadline"
            return self._condition(status, "FailureTarget", "DeadlineExceeded", text)
        if succeeded >= spec.get("completions", 1):
            text = "Reached expected number of succeeded pods"
            return self._condition(status, "SuccessCriteriaMet", "CompletionsReached", text)
        return None

    def _close(self, item: Item, status: Tree, criterion: Mapping[str, Any]) -> None:
        failed = criterion["type"] == "FailureTarget"
        self._condition(status, "Failed" if failed else "Complete", criterion["reason"], criterion["message"])
        if failed:
            self._cluster.event(item.obj, criterion["reason"], criterion["message"], _ACTOR)
        else:
            status["completionTime"] = self._store.stamp()
        self._ended_at(item)

    def _condition(self, status: Tree, kind: str, reason: str, message: str) -> Tree:
        now = self._store.stamp()
        new = {"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now}
        new |= {"reason": reason, "message": message}
        others = [one for one in status.get("conditions", ()) if one["type"] != kind]
        status["conditions"] = [*others, new]
        return new

    def _make(self, item: Item, living: list[Item], status: Tree) -> list[Item]:
        """One pod, unless one is going or an earlier failure asks for time."""
        failed = status.get("failed", 0) + len(status["uncountedTerminatedPods"].get("failed", ()))
        uid = item.obj["metadata"]["uid"]
        if living:
            return []
        if failed:
            wait = self._times.setdefault(f"pod {failed} {uid}", self._store.now() + 10 * 2 ** (failed - 1))
            if self._store.now() < wait:
                self._at(item, wait)
                return []
        if self._store.now() < self._times.get(f"create {uid}", 0.0):
            return []
        try:
            return [self._create(item)]
        except Refused as no:
            tries = self._tries[uid] = self._tries.get(uid, 0) + 1
            again = self._store.now() + min(60.0, 2.0 ** min(tries - 1, 10))
            self._times[f"create {uid}"] = again
            self._at(item, again)
            self._cluster.event(item.obj, "FailedCreate", f"Error creating: {no.message}", _ACTOR)
            return []

    def _create(self, item: Item) -> Item:
        job = item.obj
        template = job["spec"]["template"]
        suffix = "".join(self._cluster.random.choices(_LETTERS, k=5))
        base = f"{job['metadata']['name']}-"[:58]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": item.key[2], "uid": job["metadata"]["uid"]}
        meta = {
            **(template.get("metadata") or {}),
            "name": base + suffix,
            "generateName": f"{item.key[2]}-",
            "finalizers": [_FINALIZER],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        pod = {"metadata": meta, "spec": template["spec"], "status": {"phase": "Pending", "qosClass": "Burstable"}}
        self._cluster.check_new("pods", pod, item.key[1])
        spec = template["spec"]
        return self._store.add(("pods", item.key[1], base + suffix), pod, (spec, dumps(spec)))


def _ended(pod: Item) -> bool:
    return pod.obj["status"].get("phase") in _ENDED


def _ready(pod: Item) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod.obj["status"].get("conditions", ()))


def _policy(policy: Mapping[str, Any], pod: Tree) -> str:
    """The message of the first rule that fits and fails the Job."""
    meta = pod["metadata"]
    where = f"{meta['namespace']}/{meta['name']}"
    for index, rule in enumerate(policy.get("rules", ())):
        hit = _exit_code(rule.get("onExitCodes"), pod) or _condition_of(rule.get("onPodConditions") or (), pod)
        if hit and rule["action"] == "FailJob":
            kind, text = hit
            subject = f"Container {text} for pod {where} failed with" if kind == "exit" else f"Pod {where} has"
            code = f" exit code {_code(pod, text)}" if kind == "exit" else f" condition {text}"
            return f"{subject}{code} matching FailJob rule at index {index}"
        if hit:
            return ""
    return ""


def _terminated(pod: Tree) -> dict[str, int]:
    states = pod["status"].get("containerStatuses", ())
    return {one["name"]: one["state"]["terminated"]["exitCode"] for one in states if "terminated" in one["state"]}


def _code(pod: Tree, container: str) -> int:
    return _terminated(pod)[container]


def _exit_code(rule: Mapping[str, Any] | None, pod: Tree) -> tuple[str, str] | None:
    if not rule:
        return None
    for name, code in _terminated(pod).items():
        if code and rule.get("containerName") in (None, name):
            inside = code in rule["values"]
            if inside is (rule["operator"] == "In"):
                return "exit", name
    return None


def _condition_of(rules: Any, pod: Tree) -> tuple[str, str] | None:
    for rule in rules:
        for condition in pod["status"].get("conditions", ()):
            if condition["type"] == rule["type"] and condition["status"] == rule.get("status", "True"):
                return "condition", str(rule["type"])
    return None
