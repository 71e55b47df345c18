"""Selectors of workloads and Services: what they pick, and for how long they can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import labels, pointers, selectors, tenants
from policies.cel import Cel
from policies.model import Fault
from policies.registry import policy
from policies.world import Entry, World, mapping, sequence

_WORKLOADS = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
# They change with a release or with who installs it, and a workload's selector can never change.
_MOVING = ("app.kubernetes.io/version", labels.MANAGED_BY, "helm.sh/chart")
_OURS = (labels.NAME, labels.INSTANCE, labels.COMPONENT, labels.PART_OF)
"""What Paperclip's own selectors may use."""


@policy(
    "selector-stable",
    title="Selectors hold on to labels that stay",
    rationale=(
        "A workload's selector cannot be changed: one with a version in it makes the next release fail. A Service's"
        " can, and with a version in it loses its pods in the middle of one."
    ),
    remedy="select by app.kubernetes.io/name, component and instance, and give the pods all of these labels",
    kinds=(*_WORKLOADS, "Service", "NetworkPolicy"),
    links=(
        "https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#label-selector-updates",
        "https://docs.kubelinter.io/#/generated/checks?id=mismatching-selector",
    ),
    cel=Cel(
        "variables.selectorKeys.all(k, !(k in variables.moving)"
        " && (!variables.ours || (object.kind in ['NetworkPolicy'] ? !k.startsWith('paperclip.io/')"
        " || k in variables.lasting : k in variables.allowed)))"
        " && (!variables.workload"
        " || (variables.wanted.all(k, variables.podLabels[?k].orValue('?') == variables.wanted[k])"
        " && variables.expressions.all(e,"
        " e.operator == 'In' ? e.key in variables.podLabels && variables.podLabels[e.key] in e.values"
        " : e.operator == 'NotIn' ? !(e.key in variables.podLabels && variables.podLabels[e.key] in e.values)"
        " : (e.operator == 'Exists') == (e.key in variables.podLabels))))",
        variables={
            "moving": "[" + ", ".join(f"'{key}'" for key in _MOVING) + "]",
            "allowed": "[" + ", ".join(f"'{key}'" for key in _OURS) + "]",
            "lasting": "[" + ", ".join(f"'{key}'" for key in tenants.AGENT) + "]",
            "ours": f"variables.labels[?'{labels.PART_OF}'].orValue('') == '{labels.PART_OF_PAPERCLIP}'",
            "workload": "object.kind in [" + ", ".join(f"'{kind}'" for kind in _WORKLOADS) + "]",
            "selector": (
                "object.kind == 'Service' ? {'matchLabels': object.spec.?selector.orValue({})}"
                " : object.kind == 'NetworkPolicy' ? object.spec.?podSelector.orValue({})"
                " : object.spec.?selector.orValue({})"
            ),
            "wanted": "variables.selector.?matchLabels.orValue({})",
            "expressions": "variables.selector.?matchExpressions.orValue([])",
            "selectorKeys": "variables.wanted.map(k, k) + variables.expressions.map(e, e.key)",
        },
        message="a selector uses labels that stay (name, component, instance), and a workload's pods carry all of them",
    ),
)
def selector_stable(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    pointer, selector = _selector(entry)
    if not selector:
        return
    ours = entry.labels.get(labels.PART_OF) == labels.PART_OF_PAPERCLIP
    for place, key in _keys(entry.id.kind, pointer, selector):
        if key in _MOVING:
            yield Fault(place, f"the selector uses {key}, and must not: it changes with a release")
        elif ours and not _lasting(entry.id.kind, key):
            known = ", ".join(_OURS)
            yield Fault(place, f"the selector uses {key}, and must use labels that stay: {known}")
    if entry.id.kind in _WORKLOADS and entry.pod is not None:
        yield from _unmet(entry, pointer, selector, entry.pod.labels)


def _selector(entry: Entry) -> tuple[str, Mapping[str, Any]]:
    """(pointer, selector) in the form with matchLabels; a Service has a bare map."""
    if entry.id.kind == "Service":
        return "/spec/selector", {"matchLabels": mapping(entry.spec.get("selector"))}
    field = "podSelector" if entry.id.kind == "NetworkPolicy" else "selector"
    return f"/spec/{field}", mapping(entry.spec.get(field))


def _keys(kind: str, pointer: str, selector: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    inner = pointer if kind == "Service" else f"{pointer}/matchLabels"
    for label in mapping(selector.get("matchLabels")):
        yield pointers.join(inner, str(label)), str(label)
    for index, expression in enumerate(sequence(selector.get("matchExpressions"))):
        key = mapping(expression).get("key")
        if isinstance(key, str):
            yield f"{pointer}/matchExpressions/{index}/key", key


def _lasting(kind: str, key: str) -> bool:
    """A NetworkPolicy can change, so any label will do that is not of one run."""
    if kind == "NetworkPolicy":
        return not key.startswith("paperclip.io/") or key in tenants.AGENT
    return key in _OURS


def _unmet(entry: Entry, pointer: str, selector: Mapping[str, Any], pod_labels: Mapping[str, str]) -> Iterator[Fault]:
    try:
        if selectors.matches(selector, pod_labels):
            return
    except (selectors.SelectorError, TypeError):
        return  # the schema says so
    lacking = [str(key) for key, value in mapping(selector.get("matchLabels")).items() if pod_labels.get(key) != value]
    what = f"the label {', '.join(lacking)}" if lacking else "what matchExpressions ask"
    yield Fault(pointer, f"the pods of this {entry.id.kind} must meet its selector, and differ in {what}")
