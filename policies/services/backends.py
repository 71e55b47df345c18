"""What a Service leads to. One that leads nowhere refuses connections, and nothing else says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.model import Fault, Scope, Severity
from policies.network.reach import Reach, declared_ports, named_ports, reach_of
from policies.network.terms import Subject, picks, selector_text
from policies.registry import policy
from policies.world import PODS, Entry, World, mapping, sequence


def _selector(entry: Entry) -> Mapping[str, Any]:
    """{} for a Service whose endpoints somebody else makes."""
    return {} if entry.spec.get("type") == "ExternalName" else mapping(entry.spec.get("selector"))


def _backends(entry: Entry, reach: Reach) -> list[Subject]:
    selector = {"matchLabels": _selector(entry)}
    return [one for one in reach.by_namespace.get(entry.id.namespace, ()) if picks(selector, one.labels)]


@policy(
    "svc-selects-pods",
    title="A Service's selector finds pods",
    rationale="A Service whose selector finds nothing has no endpoints: every connection to it is refused, and no "
    "event says why.",
    remedy="mend the selector, or declare the pods that are made elsewhere under externals, with their labels",
    scope=Scope.SET,
    kinds=("Service",),
    links=(
        "https://kubernetes.io/docs/tasks/debug/debug-application/debug-service/",
        "https://docs.kubelinter.io/#/generated/checks?id=dangling-service",
    ),
)
def svc_selects_pods(entry: Entry, world: World) -> Iterator[Fault]:
    # A headless Service may be there for its name alone; a set without pods is but a part of what runs.
    if not _selector(entry) or entry.spec.get("clusterIP") == "None" or not world.pods:
        return
    reach, namespace = reach_of(world), entry.id.namespace
    hidden = any(one.kind in PODS and one.namespace == namespace and not one.labels for one in world.facts.externals)
    # Without a namespace it goes into whichever is chosen when it is applied.
    unplaced = not namespace and namespace not in reach.by_namespace
    if not hidden and not unplaced and not _backends(entry, reach):
        said = selector_text({"matchLabels": _selector(entry)})
        yield Fault("/spec/selector", f"the selector ({said}) finds no pod of the namespace {namespace or 'it is in'}")


@policy(
    "svc-target-port-exists",
    title="A Service's ports lead to ports of its pods",
    rationale="A name that no container declares gives no endpoints, and a number that none declares is most often a "
    "typing error: connections are refused by a Service that looks sound.",
    remedy="name a port that each selected pod declares, by the same protocol",
    scope=Scope.SET,
    kinds=("Service",),
    links=(
        "https://kubernetes.io/docs/concepts/services-networking/service/#field-spec-ports",
        "https://docs.kubelinter.io/#/generated/checks?id=invalid-target-ports",
    ),
)
def svc_target_port_exists(entry: Entry, world: World) -> Iterator[Fault]:
    if not _selector(entry):
        return
    for subject in _backends(entry, reach_of(world)):
        if subject.pod is None:  # declared to be elsewhere: its containers are not known
            continue
        for index, port in enumerate(map(mapping, sequence(entry.spec.get("ports")))):
            target, protocol = port.get("targetPort", port.get("port")), str(port.get("protocol") or "TCP")
            fault = _missing(target, protocol, subject, f"/spec/ports/{index}")
            if fault is not None:
                yield fault


def _missing(target: object, protocol: str, subject: Subject, pointer: str) -> Fault | None:
    if subject.pod is None or isinstance(target, bool):
        return None
    declared = list(declared_ports(subject.pod))
    known = ", ".join(
        f"{one.get('name') or 'unnamed'}={one.get('containerPort')}/{one.get('protocol') or 'TCP'}" for one in declared
    )
    if isinstance(target, str):
        if (target, protocol) in named_ports(subject.pod):
            return None
        return Fault(
            pointer, f'{subject.name} must declare a port "{target}" of {protocol} (declares {known or "no port"})'
        )
    if not isinstance(target, int):
        return None
    if any((one.get("containerPort"), one.get("protocol") or "TCP") == (target, protocol) for one in declared):
        return None
    message = f"{subject.name} must declare port {target} of {protocol} (declares {known or 'no port'})"
    # Containers that declare nothing at all may listen anywhere.
    return Fault(pointer, message, None if declared else Severity.WARNING)
