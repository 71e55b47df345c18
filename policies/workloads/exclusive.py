"""Claims that only one node can have: two pods that want one wait for each other, or write over each other.

kubernetes.io/docs/concepts/storage/persistent-volumes (access modes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.cel import Cel
from policies.model import Fault, Scope, Severity
from policies.registry import policy
from policies.workloads import claims
from policies.workloads.autoscaling import autoscaler
from policies.workloads.claims import ONCE_POD, Mount
from policies.workloads.subjects import SERVER_CEL, is_agent, is_owned
from policies.world import RUNNING, Entry, World, mapping

_MODES = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes"
_HOSTNAME = "kubernetes.io/hostname"
_SERVER_WITH_CLAIM = {
    "serverWithClaim": f"{SERVER_CEL} && variables.volumes.exists(v, has(v.persistentVolumeClaim))",
}
_PARTLY = "It cannot see the mode of a claim, so it judges the server alone, whose claims are ReadWriteOnce."


@policy(
    "rwo-recreate",
    title="A Deployment with a claim for one node ends the old pod before it starts the new one",
    rationale=(
        "A rolling update starts the new pod first: it waits for a volume that the old pod holds, and the old one waits"
        " for the new one to be ready. On one node both write at once."
    ),
    remedy="set spec.strategy to {type: Recreate}; two pods need a claim that is ReadWriteMany",
    scope=Scope.SET,
    kinds=("Deployment",),
    links=("https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#recreate-deployment", _MODES),
    cel=Cel(
        "!variables.serverWithClaim || object.spec.?strategy.?type.orValue('RollingUpdate') == 'Recreate'"
        " || string(object.spec.?strategy.?rollingUpdate.?maxSurge.orValue('25%')) in ['0', '0%']",
        variables=_SERVER_WITH_CLAIM,
        message="the server has a claim for one node: spec.strategy.type must be Recreate",
        partly=_PARTLY + " A rolling update without a surge passes.",
    ),
)
def rwo_recreate(entry: Entry, world: World) -> Iterator[Fault]:
    strategy = mapping(entry.spec.get("strategy"))
    kind = strategy.get("type", "RollingUpdate")
    if kind == "Recreate":
        return
    surge = mapping(strategy.get("rollingUpdate")).get("maxSurge")
    for one in claims.of(world).exclusive(entry):
        told = f"claim {one.claim!r} is {one.mode}, so spec.strategy.type must be Recreate (is {kind})"
        # Without a surge nothing deadlocks: the new pod only meets the old one while that ends.
        yield Fault("/spec/strategy", told, Severity.WARNING if surge in (0, "0", "0%") else None)
        return


@policy(
    "rwo-single-replica",
    title="A workload with a claim for one node runs one pod",
    rationale=(
        "The second pod waits for ever for a volume that the first one's node holds, or writes to the same files from"
        " the same node. Advice to run two or three replicas does not hold here."
    ),
    remedy="set spec.replicas to 1; more pods need a claim that is ReadWriteMany, or one claim each (StatefulSet)",
    scope=Scope.SET,
    kinds=("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job"),
    links=(_MODES,),
    cel=Cel(
        "!variables.serverWithClaim || object.spec.?replicas.orValue(1) <= 1",
        kinds=frozenset({"Deployment"}),
        variables=_SERVER_WITH_CLAIM,
        message="the server has a claim for one node: spec.replicas must be 1",
        partly=_PARTLY,
    ),
)
def rwo_single_replica(entry: Entry, world: World) -> Iterator[Fault]:
    found = claims.of(world).exclusive(entry)
    if not found:
        return
    told = f"claim {found[0].claim!r} is {found[0].mode}"
    if entry.id.kind == "DaemonSet":
        if _node(entry) is None:
            yield Fault("/spec", f"{told}, and a DaemonSet starts a pod on every node; one node may have it")
        return
    name = "parallelism" if entry.id.kind == "Job" else "replicas"
    number = entry.spec.get(name, 1)
    if isinstance(number, int) and number > 1:
        yield Fault(f"/spec/{name}", f"{told}, so spec.{name} must be 1 (is {number})")


@policy(
    "rwo-single-consumer",
    title="A claim for one node has one workload",
    rationale=(
        "The pod of a second workload on another node never starts (Multi-Attach), and on the same node two programs"
        " write to the same files. Containers of one pod may share it."
    ),
    remedy="give the second workload a claim of its own, make it a container of the same pod, or use ReadWriteMany",
    scope=Scope.SET,
    kinds=(*RUNNING, "Job", "CronJob"),
    links=(_MODES,),
)
def rwo_single_consumer(entry: Entry, world: World) -> Iterator[Fault]:
    for one in () if is_owned(entry) else claims.of(world).exclusive(entry):
        if world.facts.single_node and one.mode != ONCE_POD:
            continue
        first = world.index(_first_users)[entry.id.namespace, one.claim]
        if first.entry.id.identity == entry.id.identity:
            continue
        mild = one.mode != ONCE_POD and (_together(first.entry, entry) or (is_agent(first.entry) and is_agent(entry)))
        yield Fault(
            one.pointer,
            f"claim {one.claim!r} is {one.mode}, and must have one workload: {first.entry.id} mounts it too",
            Severity.WARNING if mild else None,
        )
        return


@policy(
    "no-rollout-on-rwo",
    title="No Rollout runs over a claim for one node",
    rationale=(
        "Canary and blue-green run the old and the new pods side by side, and Argo Rollouts has no Recreate: over such"
        " a claim the new pod never starts."
    ),
    remedy="use a Deployment with {type: Recreate}",
    scope=Scope.SET,
    kinds=("Rollout",),
    links=("https://argo-rollouts.readthedocs.io/en/stable/features/specification/", _MODES),
    cel=Cel(
        "!(has(object.spec.template) && variables.serverWithClaim)",
        variables=_SERVER_WITH_CLAIM,
        message="the server has a claim for one node: it must be a Deployment with strategy Recreate, not a Rollout",
        partly=_PARTLY + " It does not see the template that a workloadRef leads to.",
    ),
)
def no_rollout_on_rwo(entry: Entry, world: World) -> Iterator[Fault]:
    known = claims.of(world)
    for one in known.exclusive(entry):
        yield Fault(one.pointer, f"claim {one.claim!r} is {one.mode}, and a Rollout runs two sets of pods at once")
        return
    reference = mapping(entry.spec.get("workloadRef"))
    kind, name = reference.get("kind"), reference.get("name")
    if isinstance(kind, str) and isinstance(name, str):
        for one in known.exclusive(world.find(kind, entry.id.namespace, name)):
            told = f"{kind} {name!r} mounts claim {one.claim!r}, which is {one.mode}; a Rollout runs two sets of pods"
            yield Fault("/spec/workloadRef", told)
            return


@policy(
    "no-hpa-on-rwo",
    title="No autoscaler multiplies a workload with a claim for one node",
    rationale="The pods that it adds wait for a volume that the first pod's node holds, and never start.",
    remedy="take the autoscaler away, or let it scale between 0 and 1; more pods need a claim that is ReadWriteMany",
    scope=Scope.SET,
    kinds=("HorizontalPodAutoscaler", "ScaledObject"),
    links=("https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/", _MODES),
)
def no_hpa_on_rwo(entry: Entry, world: World) -> Iterator[Fault]:
    scaler = autoscaler(entry)
    if scaler is None or scaler.most <= 1:
        return
    kind, namespace, name = scaler.target
    for one in claims.of(world).exclusive(world.find(kind, namespace, name)):
        yield Fault(
            "/spec/scaleTargetRef",
            f"{kind} {name!r} mounts claim {one.claim!r}, which is {one.mode}: it must stay at one pod"
            f" (goes up to {scaler.most})",
        )
        return


def _first_users(world: World) -> Mapping[tuple[str, str], Mount]:
    """Who has each claim by right, for World.index."""
    found: dict[tuple[str, str], Mount] = {}
    for place, users in claims.of(world).users.items():
        if exclusive := [one for one in users if one.exclusive and not is_owned(one.entry)]:
            found[place] = min(exclusive, key=_precedence)
    return found


def _precedence(one: Mount) -> tuple[int, tuple[str, ...]]:
    """What runs for ever before what comes and goes."""
    kind = one.entry.id.kind
    return (RUNNING.index(kind) if kind in RUNNING and kind != "Pod" else len(RUNNING), one.entry.id.identity)


def _node(entry: Entry) -> str | None:
    """The one node that its pods can run on."""
    if entry.pod is None:
        return None
    name = mapping(entry.pod.spec.get("nodeSelector")).get(_HOSTNAME) or entry.pod.spec.get("nodeName")
    return name if isinstance(name, str) and name else None


def _together(first: Entry, second: Entry) -> bool:
    """Whether the pods of both are pinned to one node: then the volume is there, and only the writing is in doubt."""
    return _node(first) is not None and _node(first) == _node(second)
