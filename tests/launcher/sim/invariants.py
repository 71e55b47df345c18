"""What must hold in every history: looked at while it happens, and at its end.

1. Of a run, and of a Job, at most one container is ever started; but for a run that nobody can know of any more: its
   Job is gone with its result unread, and its record is on a lost disk, or on that of another process of the same name.
2. Of an agent, at most one container runs at a time, those of runs with the policy `allow` aside; and those whose Job
   was deleted by hand, while the watch of another launcher is behind.
3. A run has one result: what is handed over again is the same. Two exceptions: a server whose run was taken from it by
   another one may find its Job deleted as it asks for it again, and can say no more than that; and one that has not the
   disk of the server that saw the end of a pod which is gone now tells that end with less of it, or ends the run anew.
4. A result tells the truth: a success needs a container; a run that nobody disturbs has its program's own end, whatever
   befell launchers and network, though a server that has not the disk of the one that began the run may find the
   Job deleted by that one and not know why; only a run whose container never starts may be started anew by the server.
5. The reader gets the log of its Job in order, each byte once: all of it where the launcher says so, and it must say
   so where nothing stood in the way. A reader that does not know how much it has gets each byte at least once, without
   a gap, and what comes again is the same.
6. A cancelled run is told as cancelled, unless a later run has taken its Job over.
7. Nobody changes or deletes what a living launcher owns, but to ask for a cancel. A takeover that was begun while its
   owner counted as dead may arrive late; so may the deletion of a Secret by an owner that was stopping the run.
8. A Job that ended well is deleted only after somebody has read its result.
9. In the end nothing is left: no Secret, no lock, no Lease of a launcher, no Job without a time to live. Until that is
   over a Job may be left whose acknowledgement was lost with the disk that held it.
10. A container that starts finds all skills of one request, where they travel in Secrets, and no others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from paperclip_launcher import marks, podstate
from paperclip_launcher.ownership import lease_name
from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.store import Change

_ADMIN = frozenset({"admin", "test"})
_LATE, _PROMPT = 200.0, 0.5
"""Seconds that a takeover may be on its way, its tries and a slow network together; and where nothing is in its way."""
_SAME = ("exitCode", "signal", "timedOut", "errorCode", "summary", "sessionId", "costUsd", "executionRecovery")


class Watcher:
    """Listens to the cluster. `problems` is empty as long as all is well."""

    def __init__(
        self,
        cluster: FakeCluster,
        policy_of: Callable[[str], str],
        stoppable: Callable[[str], bool],
        lease_seconds: float,
        longest_freeze: float,
        *,
        prompt: bool = False,
        watched: bool = True,
    ) -> None:
        """`prompt`: each request takes its effect at once. `watched`: each change is seen by all at once."""
        self._cluster = cluster
        self._stoppable = stoppable
        self._policy_of = policy_of
        self._watched = watched
        self._lease_seconds = lease_seconds
        self._late = (_PROMPT if prompt else _LATE) + longest_freeze
        self.problems: list[str] = []
        self.started: dict[str, list[str]] = defaultdict(list)
        """Run to uids of its Jobs, one for each container that started."""
        self.owners: dict[str, str] = {}
        """uid of a Job to the launcher that owned it last."""
        self._taken: dict[str, tuple[str, float]] = {}
        """uid of a Job to the launcher that it was taken from last, and when."""
        self.disturbed: set[str] = set()
        """Runs whose Job or pod was deleted by hand."""
        self.succeeded: set[str] = set()
        """Runs whose Job was taken over for a later run."""
        self._renewed: dict[str, float] = {}
        self._expired: dict[str, float] = {}
        self.forgotten: set[str] = set()
        """Runs of a server whose disk was lost: nobody can know whether their result was read elsewhere."""
        self.told: set[str] = set()
        """Names of Jobs whose result was acknowledged."""
        self.untold: set[str] = set()
        """Those whose acknowledgement went with its disk."""
        self._by_agent: dict[str, list[tuple[str, str]]] = defaultdict(list)
        cluster.store.listeners.append(self.heard)

    def wrong(self, text: str) -> None:
        self.problems.append(f"{self._cluster.loop.time():.3f} s: {text}")

    # 1 and 2.

    def container_starts(self, pod: Mapping[str, Any]) -> None:
        run, agent = marks.annotation(dict(pod), marks.RUN_ID), marks.annotation(dict(pod), marks.AGENT_ID)
        uid = str(pod["metadata"]["uid"])
        self.started[run].append(_owner_uid(pod))
        if len(self.started[run]) > 1 and run not in self.forgotten:
            self.wrong(f"{run}: a second container starts")
        if self._policy_of(run) != "allow":
            for other, its_run in self._by_agent[agent]:
                one = self._cluster.kubelet.container(other)
                by_hand = its_run in self.disturbed and not self._watched
                if one is not None and one.state in ("running", "lost") and not by_hand:
                    self.wrong(f"{run} starts while another run of {agent} runs in the pod of {one.job}")
            self._by_agent[agent].append((uid, run))

    # 7 and 8.

    def heard(self, change: Change) -> None:
        resource, _, name = change.item.key
        if resource == "jobs":
            self._job(change)
        elif resource == "leases":
            self._lease(name, change)
        elif resource in ("pods", "secrets") and self._taken_away(change):
            self._touched(change, _owner_uid(change.item.obj))

    def _job(self, change: Change) -> None:
        job = change.item.obj
        uid = marks.uid(job)
        if change.kind != "ADDED" and not _only_cancel(change):
            self._touched(change, uid)
        if change.kind != "DELETED":
            owner = marks.annotation(job, marks.OWNER)
            before = self.owners.get(uid, owner)
            if before != owner:
                self._taken[uid] = (before, change.time)
            self.owners[uid] = owner
            if marks.annotation(job, marks.ADOPTED_BY):
                self.succeeded.add(marks.annotation(job, marks.RUN_ID))

    def _lease(self, name: str, change: Change) -> None:
        now = change.time
        before = self._renewed.get(name)
        if change.kind == "DELETED":
            self._renewed.pop(name, None)
            self._expired[name] = now
        elif name.startswith("paperclip-launcher-"):
            made_again = before is None and name in self._expired
            if made_again or (before is not None and now - before > self._lease_seconds):
                self._expired[name] = now
            self._renewed[name] = now

    def _taken_away(self, change: Change) -> bool:
        """Whether this change began the end of the object."""
        if change.kind == "DELETED":
            return change.old is None or not marks.deleting(change.old.obj)
        return change.old is not None and marks.deleting(change.item.obj) and not marks.deleting(change.old.obj)

    def _touched(self, change: Change, job_uid: str) -> None:
        actor, now = change.actor, change.time
        if actor in _ADMIN and self._taken_away(change):
            self.disturbed.add(marks.annotation(change.item.obj, marks.RUN_ID))
        identity, _, life = actor.partition("/")
        if life and life != "0" and change.item.key[0] == "jobs" and self._taken_away(change):
            self._cleared(change)
        owner = self.owners.get(job_uid, "")
        if not life or not owner or identity == owner:
            return
        name = lease_name(owner)
        renewed = self._renewed.get(name)
        if renewed is None or now - renewed > self._lease_seconds:
            return
        if now - self._expired.get(name, -1e9) < self._late and _takes_over(change, identity):
            return
        kind, _, target = change.item.key
        if kind != "jobs" and self._going(job_uid):
            return  # its end was begun before
        former, taken = self._taken.get(job_uid, ("", 0.0))
        if kind == "secrets" and identity == former and now - taken < self._late:
            return  # it was on its way
        self.wrong(f"{identity} changes {kind} {target}, which {owner} owns, who lives ({change.kind})")

    def _going(self, job_uid: str) -> bool:
        key = self._cluster.store.uids.get(job_uid)
        job = None if key is None else self._cluster.store.find(*key)
        return job is None or marks.deleting(job.obj)

    def _cleared(self, change: Change) -> None:
        """A launcher deletes a Job. One that ended well by itself may only go once somebody has its result."""
        name = change.item.key[2]
        well = podstate.terminal(change.item.obj).startswith("Complete")
        runs = (marks.annotation(change.item.obj, key) for key in (marks.RUN_ID, marks.ADOPTED_BY))
        if well and name not in self.told and not any(run and self._stoppable(run) for run in runs):
            self.wrong(f"Job {name} is deleted, and nobody has its result")

    # 3, 4 and 6.

    def check_again(self, run: str, first: Mapping[str, Any], again: Mapping[str, Any], *, taken: bool) -> None:
        """`taken`: the run was taken from the server that says it `again`."""
        if taken and again.get("errorCode") == "k8s_job_deleted_externally":
            return
        if run in self.forgotten and self._excused(run, str(again.get("errorCode") or "")):
            return
        for key in _SAME:
            if run in self.forgotten and key != "errorCode" and again.get(key) is None:
                continue
            if first.get(key) != again.get(key):
                self.wrong(f"{run}: {key} was {first.get(key)!r} and is now {again.get(key)!r}")

    def _excused(self, run: str, code: str) -> bool:
        """Of what a server without the disk says: it is of another container, its pod was deleted by hand, or the run,
        which had ended, was told to end once more.
        """
        another = len(self.started[run]) > 1
        return another or run in self.disturbed or (code in ("cancelled", "timeout") and self._stoppable(run))

    # 9.

    def check_end(self, allowed_jobs: set[str]) -> None:
        """`allowed_jobs`: Jobs that may be left, since nobody asked for their result."""
        cluster = self._cluster
        kept: set[str] = set()
        for job in cluster.objects("jobs"):
            name = marks.name(job)
            over = podstate.terminal(job)
            started = self.started.get(marks.annotation(job, marks.RUN_ID))
            has_end = job["spec"].get("ttlSecondsAfterFinished") is not None and (over or started)
            if marks.deleting(job):
                self.wrong(f"Job {name} is being deleted, and stays")
            elif (
                name not in allowed_jobs | self.untold
                and not marks.annotation(job, marks.HARVESTED)
                and not self._is_late(job)
            ):
                self.wrong(f"Job {name} ({over or 'not over'}) is left, though its result was read")
            elif not has_end:
                self.wrong(f"Job {name} is left, and nothing will ever clear it away")
            kept.add(marks.uid(job))
        for resource in ("secrets", "leases", "pods"):
            for one in cluster.objects(resource):
                if _owner_uid(one) not in kept and marks.name(one) not in cluster.knobs.present_secrets:
                    self.wrong(f"{resource} {marks.name(one)} is left")

    def _is_late(self, job: Mapping[str, Any]) -> bool:
        """Made by a request that arrived when its run was over: without Secrets it never starts, and its time ends it.
        Or by a server that began the run anew after its Job was deleted by hand, while another one told that.
        """
        over = podstate.terminal(dict(job))
        by_hand = bool(over) and marks.annotation(job, marks.RUN_ID) in self.disturbed
        return by_hand or over.startswith("Failed(DeadlineExceeded)")


def _owner_uid(tree: Mapping[str, Any]) -> str:
    return next((str(one["uid"]) for one in tree["metadata"].get("ownerReferences") or ()), "")


def _takes_over(change: Change, identity: str) -> bool:
    """Whether it does nothing but make this launcher the owner."""
    if change.kind != "MODIFIED" or change.item.key[0] != "jobs" or change.old is None:
        return False
    old, new = (dict(one["metadata"].get("annotations") or {}) for one in (change.old.obj, change.item.obj))
    for key in (marks.OWNER, marks.ADOPTED_BY):
        old.pop(key, None)
    fresh = new.pop(marks.OWNER, "")
    new.pop(marks.ADOPTED_BY, None)
    return fresh == identity and old == new and change.old.obj["spec"] == change.item.obj["spec"]


def _only_cancel(change: Change) -> bool:
    if change.kind != "MODIFIED" or change.old is None:
        return False
    old, new = (dict(one["metadata"].get("annotations") or {}) for one in (change.old.obj, change.item.obj))
    asked = new.pop(marks.CANCEL, None)
    return asked is not None and old.pop(marks.CANCEL, None) != asked and old == new
