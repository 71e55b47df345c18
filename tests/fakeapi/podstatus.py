"""The status of a pod at each step, as the kubelet writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Tree = dict[str, Any]
_READY = ("Ready", "ContainersReady")


def condition(kind: str, now: str, *, status: str = "True", reason: str = "", message: str = "") -> Tree:
    tree = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": now}
    return tree | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def unschedulable(now: str, message: str) -> Tree:
    return condition("PodScheduled", now, status="False", reason="Unschedulable", message=message)


def waiting(pod: Mapping[str, Any], reason: Mapping[str, str], now: str) -> Tree:
    return {
        "phase": "Pending",
        "hostIP": "192.0.2.1",
        "startTime": pod["status"].get("startTime", now),
        "conditions": _conditions(pod, now, ready=False, reason="ContainersNotReady"),
        "containerStatuses": _containers(pod, {"waiting": dict(reason)}, started=False),
    }


def running(pod: Mapping[str, Any], now: str) -> Tree:
    return {
        "phase": "Running",
        "podIP": "10.244.0.7",
        "conditions": _conditions(pod, now, ready=True),
        "containerStatuses": _containers(pod, {"running": {"startedAt": now}}, started=True),
    }


def ended(pod: Mapping[str, Any], terminated: Mapping[str, Any], now: str) -> Tree:
    well = terminated["exitCode"] == 0
    reason = "PodCompleted" if well else "PodFailed"
    return {
        "phase": "Succeeded" if well else "Failed",
        "conditions": _conditions(pod, now, ready=False, reason=reason),
        "containerStatuses": _containers(pod, {"terminated": dict(terminated)}, started=False),
    }


def not_ready(pod: Mapping[str, Any], now: str) -> Tree:
    """As the node controller has it: only Ready, and nothing else changes."""
    lost = condition("Ready", now, status="False", reason="NodeNotReady")
    return {"conditions": [lost if one["type"] == "Ready" else one for one in pod["status"].get("conditions", ())]}


def _conditions(pod: Mapping[str, Any], now: str, *, ready: bool, reason: str = "") -> list[Tree]:
    kept = [one for one in pod["status"].get("conditions", ()) if one["type"] in ("PodScheduled", "DisruptionTarget")]
    status = "True" if ready else "False"
    return [
        condition("Initialized", now),
        *(condition(kind, now, status=status, reason=reason) for kind in _READY),
        *kept,
    ]


def _containers(pod: Mapping[str, Any], state: Tree, *, started: bool) -> list[Tree]:
    first = pod["spec"]["containers"][0]
    tree = {"name": first["name"], "image": first.get("image", ""), "imageID": "", "ready": started}
    tree |= {"restartCount": 0, "started": started, "state": state, "lastState": {}}
    if "running" in state or "containerID" in state.get("terminated", ()):
        tree["containerID"] = f"containerd://{pod['metadata']['uid'].replace('-', '')}"
    return [tree]
