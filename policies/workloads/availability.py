"""How many pods there are, and how they come to an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import selectors
from policies.cel import Cel
from policies.model import Fault, Scope, Severity
from policies.registry import policy
from policies.workloads.autoscaling import autoscalers
from policies.workloads.claims import templates
from policies.workloads.subjects import AGENT_CEL, SERVER_CEL, is_agent, is_owned, is_server
from policies.world import Entry, World, mapping

SERVER_STOP_SECONDS = 10
"""What the server needs at least: it waits 5 s for its adapters (5.5 s measured), and then closes what is open."""
AGENT_STOP_SECONDS = 55
"""What an agent may take at most: the server gives a cancellation 60 s, and then reports that it failed."""

_SCALED = ("Deployment", "StatefulSet", "ReplicaSet", "Rollout")
"""What a PodDisruptionBudget counts the pods of by its `scale`."""
_GRACE = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination"
_PDB = "https://kubernetes.io/docs/tasks/run-application/configure-pdb/"


@policy(
    "no-blocking-pdb",
    title="A PodDisruptionBudget lets at least one pod go",
    rationale=(
        "A budget that allows no disruption stops every drain for ever: over a single pod, minAvailable 1 protects"
        " nothing and blocks the upgrade of its node."
    ),
    remedy="take the budget away, or set maxUnavailable to 1",
    scope=Scope.SET,
    kinds=("PodDisruptionBudget",),
    links=(_PDB, "https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/"),
)
def no_blocking_pdb(entry: Entry, world: World) -> Iterator[Fault]:
    selected = _selected(entry, world)
    if not selected:
        return
    total = _total(selected, world)
    field = "maxUnavailable" if entry.spec.get("maxUnavailable") is not None else "minAvailable"
    amount = entry.spec.get(field)
    allowed = _allowed(field, amount, total)
    if allowed is None or allowed > 0 or total == 0:
        return
    names = ", ".join(str(one.id) for one in selected[:3]) + (" and more" if len(selected) > 3 else "")
    pods = "" if total is None else f" of {total} pod{'s' if total > 1 else ''}"
    yield Fault(f"/spec/{field}", f"{field} {amount} lets none{pods} go: no node of {names} can be drained")


def _selected(entry: Entry, world: World) -> list[Entry]:
    """The workloads of the set whose pods the budget counts; {} selects all pods of the namespace."""
    selector = entry.spec.get("selector")
    if not isinstance(selector, Mapping):
        return []
    try:
        return [
            one
            for kind in _SCALED
            for one in world.within(kind, entry.id.namespace)
            if one.pod is not None and not is_owned(one) and selectors.matches(selector, one.pod.labels)
        ]
    except selectors.SelectorError:
        return []


def _total(selected: list[Entry], world: World) -> int | None:
    """How many pods they have; None where an autoscaler decides that."""
    total = 0
    for one in selected:
        scaler = world.index(autoscalers).get((one.id.kind, one.id.namespace, one.id.name))
        replicas = one.spec.get("replicas", 1)
        if (scaler is not None and scaler.most > 1) or not isinstance(replicas, int):
            return None
        total += replicas
    return total


def _allowed(field: str, amount: Any, total: int | None) -> int | None:
    """How many pods may go when all are well; None: not known. Percentages round up, as the controller does it."""
    if isinstance(amount, str):
        digits = amount.removesuffix("%")
        if not amount.endswith("%") or not digits.isdecimal():
            return None
        percent = int(digits)
        if total is None:
            always = percent == 0 if field == "maxUnavailable" else percent >= 100
            return 0 if always else None
        number = -(-percent * total // 100)
    elif isinstance(amount, int):
        number = amount
    else:
        return None
    if field == "maxUnavailable":
        return number
    return None if total is None else max(0, total - number)


@policy(
    "replicas-explicit",
    title="A Deployment says how many pods it has",
    rationale="Without it nobody sees that one pod is meant, and a number set by hand in the cluster stays for ever.",
    remedy="write spec.replicas, or let an autoscaler own it",
    severity=Severity.WARNING,
    scope=Scope.SET,
    kinds=("Deployment",),
    links=("https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#replicas",),
)
def replicas_explicit(entry: Entry, world: World) -> Iterator[Fault]:
    if entry.spec.get("replicas") is not None:
        return
    if (entry.id.kind, entry.id.namespace, entry.id.name) not in world.index(autoscalers):
        yield Fault("/spec/replicas", "spec.replicas must be written out (is absent, which means 1)")


@policy(
    "termination-grace",
    title="Pods have the time that they need to stop, and no more than the server waits for",
    rationale=(
        "The server needs some seconds to hand over its runs; a pod with a claim that is killed at once may still"
        " write while the next one starts; an agent that takes longer than a minute makes each cancellation fail."
    ),
    remedy="leave terminationGracePeriodSeconds at 30, or set it within the bounds of the message",
    severity=Severity.WARNING,
    kinds=("Deployment", "StatefulSet", "Job"),
    links=(
        _GRACE,
        "https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#deployment-and-scaling-guarantees",
    ),
    cel=Cel(
        f"!({SERVER_CEL} && variables.grace < {SERVER_STOP_SECONDS})"
        f" && !({AGENT_CEL} && variables.grace > {AGENT_STOP_SECONDS})"
        " && !(variables.grace == 0 && object.kind != 'Job'"
        " && (variables.volumes.exists(v, has(v.persistentVolumeClaim))"
        " || has(dyn(object).spec.volumeClaimTemplates)))",
        variables={"grace": "variables.podSpec.?terminationGracePeriodSeconds.orValue(30)"},
    ),
)
def termination_grace(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    pod = entry.pod
    grace = None if pod is None else pod.spec.get("terminationGracePeriodSeconds")
    if pod is None or not isinstance(grace, int):
        return
    pointer = f"{pod.pointer}/terminationGracePeriodSeconds"
    if is_server(entry) and grace < SERVER_STOP_SECONDS:
        yield Fault(pointer, f"the server must have at least {SERVER_STOP_SECONDS} s to stop (has {grace} s)")
    elif is_agent(entry) and grace > AGENT_STOP_SECONDS:
        yield Fault(pointer, f"an agent must stop within {AGENT_STOP_SECONDS} s (has {grace} s)")
    elif grace == 0 and entry.id.kind != "Job" and _keeps_data(entry):
        yield Fault(pointer, "a pod with a claim must have time to stop (has 0 s: killed without waiting for its end)")


def _keeps_data(entry: Entry) -> bool:
    claims = entry.pod is not None and any(
        mapping(volume.get("persistentVolumeClaim")) for _, volume in entry.pod.items("volumes")
    )
    return claims or next(templates(entry), None) is not None
