"""Scheduler and kubelet in one: a pod is bound, mounted, pulled, started, runs its program, and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tests.fakeapi import podstatus
from tests.fakeapi.logs import ContainerLog, LogSource
from tests.fakeapi.model import Program
from tests.fakeapi.needs import Needs, needs_of
from tests.fakeapi.store import Change, Item, Key, Tree

if TYPE_CHECKING:
    from tests.fakeapi.cluster import FakeCluster

_ACTOR = "kubelet"
NODE = "node-1"
_LONGEST_WAIT = 122.0
_UNSCHEDULABLE = (
    "0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available:"
    " 1 No preemption victims found for incoming pod."
)


class Container:
    """The one container of a pod, and where it stands."""

    __slots__ = ("job", "key", "line", "log", "name", "needs", "program", "started", "state", "term", "tries", "uid")

    def __init__(self, item: Item, program: Program, log: ContainerLog) -> None:
        self.key: Key = item.key
        self.uid: str = item.obj["metadata"]["uid"]
        owners = item.obj["metadata"].get("ownerReferences") or ({"name": ""},)
        self.job: str = owners[0]["name"]
        self.name: str = item.obj["spec"]["containers"][0]["name"]
        self.needs: Needs = needs_of(item.obj["spec"])
        self.program = program
        self.log = log
        self.state = "new"
        """new, bound, starting, running, lost or over."""
        self.started = ""
        self.line = 0
        self.tries = 0
        self.term = False


class Kubelet:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._containers: dict[str, Container] = {}

    def container(self, uid: str) -> Container | None:
        return self._containers.get(uid)

    def logs_of(self, job_name: str) -> list[ContainerLog]:
        return [one.log for one in self._containers.values() if one.job == job_name]

    def followers(self) -> list[LogSource]:
        return [follower for one in self._containers.values() for follower in one.log.followers]

    def heard(self, change: Change) -> None:
        if change.item.key[0] != "pods":
            return
        meta = change.item.obj["metadata"]
        if change.kind == "ADDED":
            owner = self._cluster.owner_of(change.item.obj)
            program = self._cluster.program_for(owner.obj if owner is not None else change.item.obj)
            one = Container(change.item, program, ContainerLog(self._cluster.random))
            self._containers[one.uid] = one
            self._later(one, self._cluster.knobs.schedule, self._schedule)
        elif (one := self._containers.get(meta["uid"])) is None:
            return
        elif change.kind == "DELETED":
            self._gone(one)
        elif "deletionTimestamp" in meta and not one.term:
            one.term = True
            self._later(one, self._cluster.knobs.kubelet, self._terminate)

    def _later(self, one: Container, delay: float | tuple[float, float], act: Callable[..., None], *args: Any) -> None:
        seconds = self._cluster.draw(delay) if isinstance(delay, tuple) else delay
        self._cluster.later(_ACTOR, seconds, act, one, *args)

    def _pod(self, one: Container) -> Item | None:
        item = self._store.find(*one.key)
        return item if item is not None and item.obj["metadata"]["uid"] == one.uid else None

    def _write(self, one: Container, status: Tree) -> None:
        item = self._pod(one)
        if item is not None:
            self._store.put(item, {**item.obj, "status": {**item.obj["status"], **status}})

    def _say(self, one: Container, reason: str, message: str, *, kind: str = "Warning", by: str = "kubelet") -> None:
        item = self._pod(one)
        if item is not None:
            self._cluster.event(item.obj, reason, message, by, kind=kind)

    # From nothing to a running container.

    def _starting(self, one: Container, state: str) -> Item | None:
        """The pod, if it still is to be started and stands where the step expects it."""
        item = self._pod(one)
        return item if item is not None and not one.term and one.state == state else None

    def _trouble(self, one: Container, kind: str) -> bool:
        """Whether the program wants this trouble, and it has not mended itself yet."""
        return one.program.start == kind and not one.started.startswith("mended")

    def _mend(self, one: Container, act: Callable[..., None]) -> None:
        def mended(_: Container) -> None:
            one.started = "mended"
            act(one)

        if one.program.start_trouble != float("inf") and not one.started:
            one.started = "mending"
            self._later(one, one.program.start_trouble, mended)

    def _schedule(self, one: Container) -> None:
        item = self._starting(one, "new")
        if item is None:
            return
        if self._trouble(one, "unschedulable"):
            self._write(one, {"conditions": [podstatus.unschedulable(self._store.stamp(), _UNSCHEDULABLE)]})
            self._say(one, "FailedScheduling", _UNSCHEDULABLE, by="default-scheduler")
            self._mend(one, self._schedule)
            return
        one.state = "bound"
        known = item.known_spec()
        spec = {"nodeName": NODE, **item.obj["spec"]}
        spliced = (spec, b'{"nodeName":"%b",%b' % (NODE.encode(), known[1][1:])) if known else None
        conditions = [podstatus.condition("PodScheduled", self._store.stamp())]
        self._store.put(
            item, {**item.obj, "spec": spec, "status": {**item.obj["status"], "conditions": conditions}}, spliced
        )
        self._later(one, self._cluster.knobs.kubelet, self._admit)

    def _admit(self, one: Container) -> None:
        if self._starting(one, "bound") is not None:
            self._wait(one, "ContainerCreating", "")
            self._mount(one)

    def _wait(self, one: Container, reason: str, message: str) -> None:
        item = self._pod(one)
        if item is None:
            return
        waiting = {"reason": reason, **({"message": message} if message else {})}
        self._write(one, podstatus.waiting(item.obj, waiting, self._store.stamp()))

    def _again(self, one: Container, act: Callable[..., None], first: float, longest: float) -> None:
        one.tries += 1
        self._later(one, min(longest, first * 2.0 ** min(one.tries - 1, 20)), act)

    def _mount(self, one: Container) -> None:
        if self._starting(one, "bound") is None:
            return
        if self._trouble(one, "attach-error"):
            text = 'AttachVolume.Attach failed for volume "pv-1" : rpc error: code = Internal desc = no such disk'
            self._say(one, "FailedAttachVolume", text, by="attachdetach-controller")
            self._mend(one, self._mount)
            return
        missing = one.needs.missing_volume(
            self._store.shelf("secrets", one.key[1]), self._cluster.knobs.present_secrets
        )
        if missing:
            self._say(one, "FailedMount", missing)
            self._again(one, self._mount, 0.5, _LONGEST_WAIT)
            return
        one.tries = 0
        one.state = "starting"
        self._later(one, self._cluster.knobs.start, self._pull)

    def _pull(self, one: Container) -> None:
        item = self._starting(one, "starting")
        if item is None:
            return
        image = item.obj["spec"]["containers"][0].get("image", "")
        if self._trouble(one, "image-error"):
            self._pull_failed(one, image)
            return
        if self._trouble(one, "image-invalid"):
            why = f'couldn\'t parse image name "{image}": invalid reference format'
            text = f'Failed to apply default image tag "{image}": {why}'
            self._wait(one, "InvalidImageName", text)
            self._say(one, "InspectFailed", text)
            return
        if self._trouble(one, "image-never"):
            text = f'Container image "{image}" is not present with pull policy of Never'
            self._wait(one, "ErrImageNeverPull", text)
            self._say(one, "ErrImageNeverPull", text)
            return
        self._start(one)

    def _pull_failed(self, one: Container, image: str) -> None:
        text = f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {image}: not found'
        if one.tries % 2 == 0:
            self._wait(one, "ErrImagePull", text)
            self._say(one, "Failed", f'Failed to pull image "{image}": {text}')
            self._say(one, "Failed", "Error: ErrImagePull")
        else:
            self._wait(one, "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {text}')
            self._say(one, "Failed", "Error: ImagePullBackOff")
        self._mend(one, self._pull)
        self._again(one, self._pull, 10.0, 300.0)

    def _start(self, one: Container) -> None:
        item = self._starting(one, "starting")
        if item is None:
            return
        missing = one.needs.missing_variable(
            self._store.shelf("secrets", one.key[1]), self._cluster.knobs.present_secrets
        )
        if missing:
            self._wait(one, "CreateContainerConfigError", missing)
            self._say(one, "Failed", f"Error: {missing}")
            self._again(one, self._start, 2.0, 15.0)
            return
        if one.program.start == "start-error":
            text = (
                "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create"
                ' failed: unable to start container process: exec: "/bin/sh": no such file or directory: unknown'
            )
            self._say(one, "Failed", f"Error: {text}")
            self._end(one, 128, "StartError", message=text)
            return
        one.state = "running"
        one.started = self._store.stamp()
        if one.program.on_start is not None:
            one.program.on_start(item.obj)
        self._write(one, podstatus.running(item.obj, one.started))
        self._go_on(one)

    # A running container.

    def _go_on(self, one: Container) -> None:
        lines = one.program.lines
        if one.line < len(lines):
            self._later(one, lines[one.line][0], self._print)
        else:
            self._later(one, one.program.end_delay, self._finish)

    def _print(self, one: Container) -> None:
        """The next line, and those that follow it without a pause."""
        if one.state not in ("running", "lost") or one.log.ended:
            return
        lines, start = one.program.lines, one.line
        end = start + 1
        while end < len(lines) and lines[end][0] == 0:
            end += 1
        one.line = end
        self._log(one, [text for _, text in lines[start:end]])
        self._go_on(one)

    def _log(self, one: Container, texts: Iterable[bytes]) -> None:
        stamp = int((self._store.epoch + self._store.now()) * 1e9)
        one.log.write(texts, stamp, equal=self._cluster.knobs.equal_stamps, disorder=one.program.disorder)

    def _finish(self, one: Container) -> None:
        if one.state != "running":
            return
        end = one.program.end
        if end == "exit":
            code = one.program.exit_code
            self._end(one, code, "Completed" if code == 0 else "Error")
        elif end == "oom":
            self._end(one, 137, "OOMKilled")
        elif end == "evicted":
            self._evict(one)
        elif end == "preempted":
            text = f"{NODE}: preempting to accommodate a higher priority pod"
            self._disrupt(one, "PreemptionByScheduler", text)
        elif end == "node-lost":
            self._lose(one)

    def _evict(self, one: Container) -> None:
        text = "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 900Mi. "
        self._say(one, "Evicted", text)
        extra = {"reason": "Evicted", "message": text}
        self._end(one, 137, "Error", disruption="TerminationByKubelet", extra=extra)

    def _disrupt(self, one: Container, reason: str, message: str) -> None:
        item = self._pod(one)
        if item is not None and not one.term:
            disrupted = podstatus.condition("DisruptionTarget", self._store.stamp(), reason=reason, message=message)
            self._write(one, {"conditions": [*item.obj["status"].get("conditions", ()), disrupted]})
            self._cluster.delete(self._pod(one) or item)

    def _lose(self, one: Container) -> None:
        """The node answers no more: its pod stays Running, first ready, then not, and goes on printing unheard."""
        one.state = "lost"
        for follower in tuple(one.log.followers):
            follower.broken = True
            follower.detach()
            follower.notify()

        def not_ready(_: Container) -> None:
            item = self._pod(one)
            if item is not None:
                self._write(one, podstatus.not_ready(item.obj, self._store.stamp()))
                self._say(one, "NodeNotReady", "Node is not ready", by="node-controller")

        def tainted(_: Container) -> None:
            text = "Taint manager: deleting due to NoExecute taint"
            self._disrupt(one, "DeletionByTaintManager", text)
            self._later(one, self._cluster.knobs.deleted_node_pods_vanish, self._collect_lost)

        self._later(one, self._cluster.knobs.node_grace, not_ready)
        if self._cluster.knobs.node_eviction != float("inf"):
            self._later(one, self._cluster.knobs.node_eviction, tainted)

    def _collect_lost(self, one: Container) -> None:
        item = self._pod(one)
        if item is not None:
            self._write(one, {"phase": "Failed"})
            self._cluster.delete(self._pod(one) or item, grace=0)

    def _end(
        self, one: Container, code: int, reason: str, *, message: str = "", disruption: str = "", extra: Any = None
    ) -> None:
        item = self._pod(one)
        ran = one.state in ("running", "lost")
        one.state = "over"
        one.log.ended = True
        self._later(one, self._cluster.knobs.follow_end, self._end_log)
        if item is None:
            return
        now = self._store.stamp()
        terminated = {"exitCode": code, "reason": reason, "startedAt": one.started if ran else None, "finishedAt": now}
        if ran or reason == "StartError":
            # A container that was never made has no id.
            terminated |= {"containerID": f"containerd://{one.uid.replace('-', '')}"}
        if message:
            terminated["message"] = message
        elif code and one.log.offsets:
            terminated["message"] = bytes(one.log.data[-2048:]).decode("utf-8", "replace")
        status = podstatus.ended(item.obj, terminated, now)
        if disruption:
            condition = podstatus.condition("DisruptionTarget", now, reason=disruption, message=extra["message"])
            status["conditions"] = [*status["conditions"], condition]
        self._write(one, {**status, **(extra or {})})
        if one.term:
            self._later(one, self._cluster.knobs.kubelet, self._remove)

    def _end_log(self, one: Container) -> None:
        one.log.end()

    # Deletion.

    def _terminate(self, one: Container) -> None:
        item = self._pod(one)
        if item is None or one.state == "lost":
            return
        if one.state == "over":
            self._remove(one)
        elif one.state != "running":
            if one.state == "new":
                # No kubelet knows it: the pod garbage collector comes by every 20 seconds.
                self._later(one, 20.0 * self._cluster.random.random(), self._never_started)
            else:
                self._never_started(one)
        else:
            grace = item.obj["metadata"].get("deletionGracePeriodSeconds", 30)
            if one.program.ignore_term or one.program.term_delay > grace:
                self._later(one, float(grace), self._killed)
            else:
                self._later(one, one.program.term_delay, self._stopped)

    def _never_started(self, one: Container) -> None:
        if one.state != "over":
            text = "The container could not be located when the pod was terminated"
            self._end(one, 137, "ContainerStatusUnknown", message=text)

    def _stopped(self, one: Container) -> None:
        if one.state == "running":
            self._log(one, one.program.term_lines)
            self._end(one, one.program.term_code, "Completed" if one.program.term_code == 0 else "Error")

    def _killed(self, one: Container) -> None:
        if one.state == "running":
            self._end(one, 137, "Error")

    def _remove(self, one: Container) -> None:
        item = self._pod(one)
        if item is not None:
            self._cluster.delete(item, grace=0)

    def _gone(self, one: Container) -> None:
        """The pod is no more: who still follows its log may see an error of the runtime."""
        one.state = "over"
        if one.log.followers and self._cluster.knobs.log_error_text and self._cluster.random.random() < 0.5:
            name = one.uid.replace("-", "")
            text = f'rpc error: code = NotFound desc = an error occurred when try to find container "{name}": not found'
            one.log.error(text.encode())
        one.log.end()
