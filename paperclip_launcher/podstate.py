"""What the status of a Job and its pod says: where it stands, and how it ended. Pure; half a status will do."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kubekit.identity import Manifest
from paperclip_launcher.causes import ends
from paperclip_launcher.causes.cause import diagnosed, tidy
from paperclip_launcher.diagnosed import Diagnosis, Ending

AGENT_CONTAINER = "agent"
"""As the Job templates call it."""

_TERMINAL = {"Complete": "Complete", "Failed": "Failed"}
_EARLY = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
_NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})
_UNKNOWN = "ContainerStatusUnknown"
"""With it the kubelet writes exit code 137, which is no code of the container."""
_POLICY_EXIT = re.compile(r"failed with exit code (-?\d+)")


def condition(manifest: Manifest | None, kind: str) -> Mapping[str, Any]:
    """The condition of this type; empty where there is none."""
    found = _status(manifest).get("conditions") or ()
    return next((one for one in found if one.get("type") == kind), {})


def holds(manifest: Manifest | None, kind: str) -> bool:
    return condition(manifest, kind).get("status") == "True"


def terminal(job: Manifest | None) -> str:
    """How the Job ended, such as Failed(DeadlineExceeded) or Complete; "" while it has not.

    From Kubernetes 1.31 on that is said only after all of its pods have ended.
    """
    return _end(job, _TERMINAL)


def early_end(job: Manifest | None) -> str:
    """How the Job is going to end, in the words of `terminal`: its conditions SuccessCriteriaMet and FailureTarget come
    while a pod may still be stopping. "" where neither is set.
    """
    return _end(job, _EARLY)


def pod_of(job: Manifest, pods: Iterable[Manifest]) -> Manifest | None:
    """The newest pod of the Job that is not being deleted, else the newest; None where it has none."""
    mine = [one for one in pods if _owned(one, job)]
    return max(mine, key=lambda one: (not _deleting(one), _created(one)), default=None)


def container(pod: Manifest | None) -> Mapping[str, Any]:
    """The status of the agent's container; empty before the kubelet has written one."""
    return _container(_status(pod), "containerStatuses", AGENT_CONTAINER)


def started(pod: Manifest | None) -> bool:
    """Whether the agent's container runs or ever ran. What is not known counts as yes: nothing may happen twice."""
    status = container(pod)
    state = status.get("state") or {}
    if state.get("running") is not None or (status.get("lastState") or {}).get("terminated"):
        return True
    ended = state.get("terminated")
    if not ended or ended.get("reason") in _NOT_STARTED:
        return False
    # A container that was never made gets the same end as one that was lost, but it has no id.
    return ended.get("reason") != _UNKNOWN or bool(status.get("containerID"))


def never_started(pod: Manifest | None) -> bool:
    """Whether that is certain: it has ended without, or it is being deleted and no node ever had it."""
    if pod is None or started(pod):
        return False
    placed = bool((pod.get("spec") or {}).get("nodeName"))
    # Of a pod whose node is lost the control plane, not the kubelet, says that it has failed.
    given_up = placed and condition(pod, "DisruptionTarget").get("reason") == "DeletionByPodGC"
    if terminated(pod) is not None or (_status(pod).get("phase") in ("Failed", "Succeeded") and not given_up):
        return True
    return _deleting(pod) and not placed


def terminated(pod: Manifest | None) -> Mapping[str, Any] | None:
    """The end of the agent's container as the kubelet wrote it (exitCode, reason, message …); None before it."""
    return (container(pod).get("state") or {}).get("terminated") or None


def progress(job: Manifest | None, pod: Manifest | None) -> str:
    """Where the run stands, in one line for people; the same line as long as nothing moves."""
    if pod is None:
        name = _name(job) or "the Job"
        if job is None:
            return "The Job is not there"
        if end := terminal(job):
            return f"Job {name}: {end}"
        waits = "suspended, waits to be admitted" if (job.get("spec") or {}).get("suspend") else "waits for its pod"
        return f"Job {name}: {waits}"
    status = _status(pod)
    parts = [f"phase={status.get('phase') or 'Unknown'}"]
    if reason := status.get("reason"):
        parts.append(f"reason={reason}")
    if _deleting(pod):
        parts.append("being deleted")
    if not (pod.get("spec") or {}).get("nodeName"):
        parts.append("no node yet")
    for group, prefix in (("initContainerStatuses", "init/"), ("containerStatuses", "")):
        parts += [f"{prefix}{one.get('name')}: {_state(one)}" for one in status.get(group) or ()]
    return f"Pod {_name(pod)}: {', '.join(parts)}"


def ending(job: Manifest | None, pod: Manifest | None) -> Ending:
    """How it ended, from the container first, then from the Job, whose condition outlives a pod.

    `signal` is what an exit code above 128 stands for, since entry.sh ends with 128 + n. Where only the Job is left to
    tell, the container counts as started.
    """
    condition_text = terminal(job) or early_end(job)
    end = terminated(pod)
    if end is not None:
        reason = str(end.get("reason") or "")
        code = None if reason == _UNKNOWN else _integer(end.get("exitCode"))
        number, message = _signal(end.get("signal"), code), str(end.get("message") or "")
    else:
        reason, message = str(_status(pod).get("reason") or ""), str(_status(pod).get("message") or "")
        code = 0 if condition_text.startswith("Complete") else _exit_told(job)
        number = _signal(None, code)
    return Ending(
        exit_code=code,
        signal=number,
        reason=str(_status(pod).get("reason") or reason) if reason == _UNKNOWN else reason,
        message=message,
        started=started(pod) if pod is not None else bool(condition_text),
        job_condition=condition_text,
        diagnosis=end_cause(job, pod),
        gone=end is None and not condition_text and (job is None or pod is None),
    )


def end_cause(job: Manifest | None, pod: Manifest | None) -> Diagnosis | None:
    """What ended the container, where that was not the agent itself; None also while nothing has ended."""
    end = terminated(pod)
    if pod is not None and end is None and _status(pod).get("phase") != "Failed" and not terminal(job):
        return None
    if "DeadlineExceeded" in (terminal(job) or early_end(job)) or _status(pod).get("reason") == "DeadlineExceeded":
        remedy = "raise `timeoutSec`, or give the agent less to do"
        return Diagnosis("timeout", True, "The time of the run is over", "", remedy)
    if pod is None:
        return _disruption_told(job)
    if terminal(job).startswith("Complete") or (end is not None and end.get("exitCode") == 0):
        return None
    if end is not None and end.get("reason") == "OOMKilled":
        return _out_of_memory(pod, end)
    if found := disruption(pod) or _disruption_told(job):
        # The Job has ended even where the pod is gone and only its last running state is known.
        return replace(found, hard=True)
    return _not_admitted(pod) or _init_failure(pod) or _own_end(pod, end)


def disruption(pod: Manifest) -> Diagnosis | None:
    """Evicted, preempted or lost with its node; soft as long as the container still runs."""
    status = _status(pod)
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    said = condition(pod, "DisruptionTarget")
    hard = terminated(pod) is not None or status.get("phase") in ("Failed", "Succeeded")
    if reason == "NodeLost" or (said.get("status") == "True" and node_silent(pod)):
        return _node_lost(hard=hard, detail=message or str(said.get("message") or ""))
    if said.get("status") == "True" and said.get("reason") in ends.DISRUPTIONS:
        code, summary = ends.DISRUPTIONS[said["reason"]]
        return Diagnosis(code, hard, summary, tidy(said.get("message")), ends.DISRUPTION_REMEDY)
    if said.get("status") == "True" or reason in ("Evicted", "Preempting", "Terminated", "Shutdown"):
        found = diagnosed(ends.EVICTIONS, message or str(said.get("message") or reason))
        return found and replace(found, hard=hard)
    return None


def node_silent(pod: Manifest) -> bool:
    """Whether the node of a running pod does not answer: the node controller then takes the pod's Ready away, and
    nothing else. Only a kubelet writes ContainersReady, and it writes both.
    """
    running = (container(pod).get("state") or {}).get("running") is not None
    return running and condition(pod, "Ready").get("status") == "False" and holds(pod, "ContainersReady")


def silent_node(pod: Manifest) -> Diagnosis | None:
    """The diagnosis for it: soft, since a node may come back and the agent goes on meanwhile."""
    if not node_silent(pod):
        return None
    return _node_lost(hard=False, detail=f"pod {_name(pod)} on node {(pod.get('spec') or {}).get('nodeName') or '?'}")


def describe_pod_terminated(pod: Manifest, name: str = AGENT_CONTAINER) -> str:
    """For a pod that reached its last phase: the phase, and how the container `name` ended if that is known."""
    status = _status(pod)
    text = f"Pod {_name(pod)} reached phase={status.get('phase')}"
    end = (_container(status, "containerStatuses", name).get("state") or {}).get("terminated")
    if not end:
        return text
    code = end.get("exitCode")
    why = end.get("reason") or end.get("message") or "no reason"
    return f"{text}: {name} exited {'unknown' if code is None else code} ({tidy(why)})"


def describe_truncation(end: Mapping[str, Any] | None, *, missing: bool | None = None, phase: str = "") -> str:
    """Why output may have stopped in the middle. `end` as in `terminated`; without it, whether the pod is `missing`
    (None: nobody looked) and its `phase`.
    """
    if end is None:
        if missing is None:
            return "pod state unavailable — exit cause unknown"
        if missing:
            return (
                "pod is gone — Job pod was removed (eviction, preemption, or external delete) before exit could be read"
            )
        seen = f"pod phase={phase}" if phase else "pod present"
        return (
            f"container terminated state not yet observable ({seen}) — "
            "kubelet status update did not land within retry window; exit cause unknown"
        )
    code = end.get("exitCode")
    parts = ["no exit code" if code is None else f"exit code {code}"]
    parts += {137: ["SIGKILL (commonly OOMKilled)"], 143: ["SIGTERM"]}.get(code or 0, [])
    parts += [f"signal {end['signal']}"] if end.get("signal") else []
    parts += [f"reason={end['reason']}"] if end.get("reason") else []
    parts += [f"message={tidy(end['message'])}"] if end.get("message") else []
    return ", ".join(parts)


def _out_of_memory(pod: Manifest, end: Mapping[str, Any]) -> Diagnosis:
    limits = (_spec(pod, AGENT_CONTAINER).get("resources") or {}).get("limits") or {}
    limit = f" of {limits['memory']}" if limits.get("memory") else ""
    remedy = "raise the memory limit in `resources`, or let the agent run fewer things at once"
    summary = f"The agent needed more memory than its limit{limit}"
    return Diagnosis("k8s_oom_killed", True, summary, _code_text(end), remedy)


def _node_lost(*, hard: bool, detail: str) -> Diagnosis:
    remedy = "look at the node; once it is certainly off, start the run again"
    return Diagnosis("k8s_node_lost", hard, "The node of the run does not answer", tidy(detail), remedy)


def _disruption_told(job: Manifest | None) -> Diagnosis | None:
    """What the Job still says of a pod that is gone already."""
    message = str(condition(job, "Failed").get("message") or condition(job, "FailureTarget").get("message") or "")
    if "DisruptionTarget" not in message:
        return None
    summary = "The pod was evicted, preempted or lost with its node"
    return Diagnosis("k8s_pod_evicted", True, summary, tidy(message), ends.DISRUPTION_REMEDY)


def _not_admitted(pod: Manifest) -> Diagnosis | None:
    status = _status(pod)
    reason = str(status.get("reason") or "")
    if started(pod) or not re.match(ends.NOT_ADMITTED, reason):
        return None
    summary, remedy = f"The node turned the pod away ({tidy(reason, 40)})", "start the run again"
    return Diagnosis("k8s_unschedulable", True, summary, tidy(status.get("message")), remedy)


def _init_failure(pod: Manifest) -> Diagnosis | None:
    for one in _status(pod).get("initContainerStatuses") or ():
        end = (one.get("state") or {}).get("terminated") or {}
        if end.get("exitCode"):
            summary = f"The init container {one.get('name')} failed"
            return Diagnosis("k8s_init_failed", True, summary, _code_text(end), "read its log and correct it")
    return None


def _own_end(pod: Manifest, end: Mapping[str, Any] | None) -> Diagnosis | None:
    if end is None:
        return None
    if end.get("reason") in _NOT_STARTED:
        return diagnosed(ends.STARTS, str(end.get("message") or end["reason"]))
    code = _integer(end.get("exitCode"))
    line = _last_line(str(end.get("message") or ""))
    if code is not None and code in ends.ENTRY_REMEDIES and line.startswith(ends.ENTRY_LINE):
        said = tidy(line.removeprefix(ends.ENTRY_LINE))
        summary = "The program of the agent was not started"
        return Diagnosis("agent_entry_failed", True, summary, said, ends.ENTRY_REMEDIES[code])
    if code == 128 + signal.SIGKILL and end.get("reason") != _UNKNOWN:
        why = "it did not stop in its grace time" if _deleting(pod) else "the node does not say why"
        remedy = "most often that is memory of a process the agent has started: raise the memory limit"
        return Diagnosis("agent_exit_nonzero", True, f"The container was killed, and {why}", _code_text(end), remedy)
    return None


def _exit_told(job: Manifest | None) -> int | None:
    """The exit code that the Job's podFailurePolicy has put into its message."""
    message = str(condition(job, "Failed").get("message") or condition(job, "FailureTarget").get("message") or "")
    found = _POLICY_EXIT.search(message)
    return int(found[1]) if found else None


def _end(job: Manifest | None, kinds: Mapping[str, str]) -> str:
    for kind, said in kinds.items():
        found = condition(job, kind)
        if found.get("status") == "True":
            return f"{said}({found['reason']})" if found.get("reason") else said
    return ""


def _signal(written: Any, code: int | None) -> int | None:
    if number := _integer(written):
        return number
    known = code is not None and code - 128 in signal.valid_signals()
    return code - 128 if known and code is not None else None


def _state(status: Mapping[str, Any]) -> str:
    state = status.get("state") or {}
    if (end := state.get("terminated")) is not None:
        return f"terminated ({_code_text(end)})"
    if state.get("running") is not None:
        return "running"
    reason = (state.get("waiting") or {}).get("reason")
    return f"waiting ({reason})" if reason else "waiting"


def _code_text(end: Mapping[str, Any]) -> str:
    code = end.get("exitCode")
    parts = ["no exit code" if code is None else f"exit {code}"]
    parts += [str(end["reason"])] if end.get("reason") else []
    return ", ".join(parts)


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _status(manifest: Manifest | None) -> Mapping[str, Any]:
    return (manifest or {}).get("status") or {}


def _container(status: Mapping[str, Any], group: str, name: str) -> Mapping[str, Any]:
    return next((one for one in status.get(group) or () if one.get("name") == name), {})


def _spec(pod: Manifest, name: str) -> Mapping[str, Any]:
    found = (pod.get("spec") or {}).get("containers") or ()
    return next((one for one in found if one.get("name") == name), {})


def _owned(pod: Manifest, job: Manifest) -> bool:
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    uid = (job.get("metadata") or {}).get("uid")
    return bool(uid) and any(one.get("uid") == uid for one in owners)


def _deleting(manifest: Manifest) -> bool:
    return bool((manifest.get("metadata") or {}).get("deletionTimestamp"))


def _created(manifest: Manifest) -> tuple[str, str]:
    return str((manifest.get("metadata") or {}).get("creationTimestamp") or ""), _name(manifest)


def _name(manifest: Manifest | None) -> str:
    return str(((manifest or {}).get("metadata") or {}).get("name") or "")


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
