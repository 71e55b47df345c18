"""What a container asks for and may take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from kubekit import quantity
from policies.cel import Cel
from policies.model import Fault, Scope, Severity
from policies.registry import policy
from policies.workloads.subjects import AGENT_CEL, is_agent, is_server
from policies.world import PODS, Entry, World, mapping

_MANAGE = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"
_PRIORITY = "https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/"
LARGEST_RATIO = 24
"""Limit to request of memory. The server ran at 12Gi to 512Mi for months; beyond that a node is full of promises."""
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The classes of every cluster and their values (the page on priority and preemption)."""
_NEEDED = (("requests", "cpu"), ("requests", "memory"), ("limits", "memory"))
_LISTS = "(variables.mainContainers + variables.podSpec.?initContainers.orValue([]))"


def _has(kind: str, resource: str, *, of_pod: bool = True) -> str:
    named = f"c.?resources.?{kind}[?'{resource}'].hasValue()"
    return f"({named} || variables.podSpec.?resources.?{kind}[?'{resource}'].hasValue())" if of_pod else named


@policy(
    "resources-set",
    title="Containers say what they need of CPU and memory, and how much memory they may take",
    rationale=(
        "Without requests the scheduler puts pods where there is no room, and the kubelet evicts them first; without a"
        " memory limit one process takes the node down. A CPU limit is not asked for: it only slows down."
    ),
    remedy="set resources.requests.cpu, resources.requests.memory and resources.limits.memory, of init containers too",
    kinds=PODS,
    links=(_MANAGE,),
    cel=Cel(f"{_LISTS}.all(c, {' && '.join(_has(*one) for one in _NEEDED)})"),
)
def resources_set(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.pod is None:
        return
    whole = mapping(entry.pod.spec.get("resources"))
    for container in entry.pod.containers:
        if container.list_name == "ephemeralContainers":
            continue
        missing = _missing(mapping(container.spec.get("resources")), whole, _NEEDED)
        if missing:
            yield Fault(
                f"{container.pointer}/resources",
                f"container {container.name!r} must have {_listed(missing)} (has none)",
            )


@policy(
    "ephemeral-storage-set",
    title="Agents say how much of the node's disk they need and may take",
    rationale="An agent writes freely; without a limit it fills the node's disk, and every pod there is evicted.",
    remedy="set resources.requests.ephemeral-storage and resources.limits.ephemeral-storage",
    severity=Severity.WARNING,
    kinds=PODS,
    links=("https://kubernetes.io/docs/concepts/storage/ephemeral-storage/",),
    cel=Cel(
        f"!({AGENT_CEL}) || {_LISTS}.all(c,"
        f" {' && '.join(_has(kind, 'ephemeral-storage', of_pod=False) for kind in ('requests', 'limits'))})"
    ),
)
def ephemeral_storage_set(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.pod is None or not is_agent(entry):
        return
    needed = (("requests", "ephemeral-storage"), ("limits", "ephemeral-storage"))
    for container in entry.pod.containers:
        if container.list_name == "ephemeralContainers":
            continue
        missing = _missing(mapping(container.spec.get("resources")), {}, needed)
        if missing:
            told = f"container {container.name!r} must have {_listed(missing)} (has none)"
            yield Fault(f"{container.pointer}/resources", told)


@policy(
    "memory-ratio",
    title="A container may not take far more memory than it asked for",
    rationale=(
        "The scheduler counts requests: where limits are many times as high, the node runs out of memory long before"
        " anybody reaches a limit, and the kernel kills whom it likes."
    ),
    remedy=f"raise the memory request, or lower the limit to at most {LARGEST_RATIO} times it",
    severity=Severity.INFO,
    kinds=PODS,
    links=(_MANAGE,),
    cel=Cel(
        f"{_LISTS}.all(c, !({_has('requests', 'memory', of_pod=False)} && {_has('limits', 'memory', of_pod=False)})"
        " || quantity(string(c.resources.limits.memory)).asApproximateFloat()"
        f" <= quantity(string(c.resources.requests.memory)).asApproximateFloat() * {LARGEST_RATIO}.0)"
    ),
)
def memory_ratio(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for container in entry.pod.containers if entry.pod else ():
        resources = mapping(container.spec.get("resources"))
        request, limit = (_amount(mapping(resources.get(kind)).get("memory")) for kind in ("requests", "limits"))
        if request is not None and limit is not None and limit > request * LARGEST_RATIO:
            found = f"is {float(limit / request):.0f} times" if request else "the request is 0"
            told = f"container {container.name!r}: the memory limit must be at most {LARGEST_RATIO} times the request"
            yield Fault(f"{container.pointer}/resources/limits/memory", f"{told} ({found})")


@policy(
    "priority-class",
    title="Agents never come before the server",
    rationale=(
        "When a node is full, pods of higher priority push out those of lower: agents above the server stop the one who"
        " started them."
    ),
    remedy="give the server a PriorityClass above that of the agents, and agents none of the system's",
    severity=Severity.INFO,
    scope=Scope.SET,
    kinds=PODS,
    links=(_PRIORITY,),
    cel=Cel(
        f"!({AGENT_CEL}) || !variables.podSpec.?priorityClassName.orValue('').startsWith('system-')",
        partly="It sees that an agent has a class of the system; it does not see what other classes are worth.",
    ),
)
def priority_class(entry: Entry, world: World) -> Iterator[Fault]:
    pod = entry.pod
    if pod is None:
        return
    pointer = f"{pod.pointer}/priorityClassName"
    name = pod.spec.get("priorityClassName")
    if is_agent(entry) and isinstance(name, str) and name.startswith("system-"):
        yield Fault(pointer, f"an agent must not have the priority of the system (is {name})", Severity.WARNING)
    elif is_server(entry):
        own, highest = _priority(name, world), world.index(_highest_of_agents)
        if own is not None and highest is not None and highest[0] >= own and highest[0] > 0:
            agents = f"class {highest[1]!r} with {highest[0]}"
            yield Fault(
                pointer, f"the server's priority must be above that of the agents (is {own}; they have {agents})"
            )


def _highest_of_agents(world: World) -> tuple[int, str] | None:
    """(priority, class) of the agents that come first, for World.index; None where no agent's is known."""
    found = (pod.spec.get("priorityClassName") for entry, pod in world.pods if is_agent(entry))
    names = {name for name in found if isinstance(name, str) and name}
    known = [(value, name) for name in names if (value := _priority(name, world)) is not None]
    return max(known, default=None)


def _priority(name: object, world: World) -> int | None:
    """What a class is worth; without one it is the set's global default, else 0. None: the set does not say."""
    if name is None or name == "":
        defaults = [one for one in world.by_kind.get("PriorityClass", ()) if one.manifest.get("globalDefault") is True]
        value: object = defaults[0].manifest.get("value") if defaults else 0
    elif isinstance(name, str):
        known = world.find("PriorityClass", "", name)
        value = known.manifest.get("value") if known else _SYSTEM.get(name)
    else:
        value = None
    return value if isinstance(value, int) else None


def _missing(
    own: Mapping[str, Any], whole: Mapping[str, Any], needed: tuple[tuple[str, str], ...]
) -> list[tuple[str, str]]:
    """What neither the container nor its pod says (pod-level resources, Kubernetes 1.34)."""
    return [
        (kind, resource)
        for kind, resource in needed
        if mapping(own.get(kind)).get(resource) is None and mapping(whole.get(kind)).get(resource) is None
    ]


def _listed(missing: list[tuple[str, str]]) -> str:
    return ", ".join(f"resources.{kind}.{resource}" for kind, resource in missing)


def _amount(value: object) -> Fraction | None:
    try:
        return quantity.parse(value) if isinstance(value, str | int | float) else None
    except quantity.QuantityError:
        return None
