"""Every call that the launcher makes to the API server: its Role is generated from this table, and checked by it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One resource with the verbs used on it, and why."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    reason: str


LAUNCHER_CALLS = (
    Call("batch", "jobs", ("create", "get", "list", "watch", "patch", "delete"), "a run is a Job"),
    Call("", "pods", ("get", "list", "watch", "delete"), "state of the run; a cancelled pod is proven gone"),
    Call("", "pods/log", ("get",), "the log of the run"),
    Call("", "events", ("create", "list", "watch"), "why a pod does not start; what the launcher did to a Job"),
    # No get and no list: the launcher writes the prompt and the token of a run and never reads one back.
    Call("", "secrets", ("create", "delete"), "the prompt and the token of one run"),
    Call("", "persistentvolumeclaims", ("get",), "whether the workspace is bound, and its mode"),
    Call("", "resourcequotas", ("get", "list"), "why a Job's pod was refused"),
    Call("", "limitranges", ("get", "list"), "why a Job's pod was refused"),
    Call(
        "coordination.k8s.io",
        "leases",
        ("create", "get", "list", "watch", "update", "delete"),
        "who owns a run",
    ),
)


def rules(calls: tuple[Call, ...] = LAUNCHER_CALLS) -> list[dict[str, list[str]]]:
    """The rules of the Role: one a call, so that a diff shows which right came or went."""
    return [{"apiGroups": [call.group], "resources": [call.resource], "verbs": list(call.verbs)} for call in calls]
