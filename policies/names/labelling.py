"""Labels: legal wherever they stand, and the same on an object and on its pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from kubekit import labels, names, pointers
from kubekit.resources import group_of
from policies.cel import Cel
from policies.model import Fault, Severity
from policies.registry import policy
from policies.world import PODS, Entry, World, mapping, sequence

_COMMON = (labels.NAME, labels.INSTANCE, labels.COMPONENT, labels.PART_OF, labels.MANAGED_BY)
_CILIUM = "cilium.io"
# Where selectors stand in a spec: the fields to look through; None: all of it.
_SELECTORS: Mapping[str, tuple[str, ...] | None] = {
    "CiliumClusterwideNetworkPolicy": None,
    "CiliumL2AnnouncementPolicy": None,
    "CiliumLoadBalancerIPPool": None,
    "CiliumNetworkPolicy": None,
    "DaemonSet": ("selector",),
    "Deployment": ("selector",),
    "Job": ("selector",),
    "NetworkPolicy": None,
    "PersistentVolumeClaim": ("selector",),
    "PodDisruptionBudget": ("selector",),
    "ReplicaSet": ("selector",),
    "Rollout": ("selector",),
    "StatefulSet": ("selector",),
}
_OF_PODS = ("affinity", "topologySpreadConstraints")
_KEY = (
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_VALUE = "^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$"
_STARTS_PODS = ", ".join(f"'{kind}'" for kind in PODS)
_LABELLED = frozenset(
    {*PODS, *_SELECTORS, "ConfigMap", "ExternalSecret", "Namespace", "Secret", "Service", "ServiceAccount"},
) - {kind for kind in _SELECTORS if kind.startswith("Cilium")}


@policy(
    "label-syntax",
    title="Labels and selectors are legal",
    rationale="The API server refuses an object with a single illegal label, wherever in it the label stands.",
    remedy="use at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
    waivable=False,
    links=(
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set",
        "https://github.com/argoproj/argo-cd/issues/18237",
    ),
    cel=Cel(
        "variables.labelMaps.all(m, m.all(k, k.indexOf('/') <= 253"
        f" && k.matches('{_KEY}') && m[k].matches('{_VALUE}')))",
        kinds=_LABELLED,
        variables={
            "podMaps": (
                f"object.kind in [{_STARTS_PODS}]"
                " ? [variables.podLabels, variables.podSpec.?nodeSelector.orValue({})] : []"
            ),
            "ownSelector": (
                "object.kind == 'Service' ? [object.spec.?selector.orValue({})] : object.kind == 'NetworkPolicy'"
                " ? [object.spec.?podSelector.?matchLabels.orValue({})]"
                " : [object.?spec.?selector.?matchLabels.orValue({})]"
            ),
            "labelMaps": "[variables.labels] + variables.podMaps + variables.ownSelector",
        },
        message="a label or selector holds what no label may: at most 63 letters, digits, -, _ and . with a letter or"
        " digit at both ends",
        partly="matchExpressions, affinities, spread constraints, peers of NetworkPolicies, selectors of Cilium",
    ),
)
def label_syntax(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for pointer, found in _label_maps(entry):
        for key, value in found.items():
            if _key_problem(str(key)) or not isinstance(value, str) or _value_problem(value):
                yield from _label_faults(pointers.join(pointer, str(key)), str(key), value)
    for pointer, tree in _selector_trees(entry):
        yield from _selector_faults(pointer, tree, cilium=entry.id.group == _CILIUM)


def _label_maps(entry: Entry) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(pointer, labels) of the object, of its pods and of what else it makes."""
    yield "/metadata/labels", entry.labels
    if entry.pod is not None:
        place = entry.pod.pointer.removesuffix("/spec") if entry.id.kind != "Pod" else ""
        if place:
            yield f"{place}/metadata/labels", entry.pod.labels
        yield f"{entry.pod.pointer}/nodeSelector", mapping(entry.pod.spec.get("nodeSelector"))
    if entry.id.kind == "CronJob":
        metadata = mapping(mapping(entry.spec.get("jobTemplate")).get("metadata"))
        yield "/spec/jobTemplate/metadata/labels", mapping(metadata.get("labels"))
    if entry.id.kind == "StatefulSet":
        for index, claim in enumerate(sequence(entry.spec.get("volumeClaimTemplates"))):
            metadata = mapping(mapping(claim).get("metadata"))
            yield f"/spec/volumeClaimTemplates/{index}/metadata/labels", mapping(metadata.get("labels"))
    if entry.id.kind == "Service" and not entry.id.group:
        yield "/spec/selector", mapping(entry.spec.get("selector"))


def _label_faults(pointer: str, key: str, value: object) -> Iterator[Fault]:
    if problem := _key_problem(key):
        yield Fault(pointer, f"label key {key!r} {problem}")
    if not isinstance(value, str):
        yield Fault(pointer, f"label value must be text, and is {value!r}")
    elif problem := _value_problem(value):
        yield Fault(pointer, f"label value {value!r} {problem}")


# A set has thousands of labels, and few different ones. A launcher judges two new values a run, which must not fill
# the memory of a process that lives for months.
_key_problem = lru_cache(maxsize=512)(names.explain_label_key)
_value_problem = lru_cache(maxsize=512)(names.explain_label_value)


def _selector_trees(entry: Entry) -> Iterator[tuple[str, object]]:
    kind = entry.id.kind
    if kind in _SELECTORS and group_of(kind) == entry.id.group:
        for field in _SELECTORS[kind] or entry.spec:
            yield pointers.join("/spec", str(field)), entry.spec.get(field)
    if entry.pod is not None:
        for field in _OF_PODS:
            yield f"{entry.pod.pointer}/{field}", entry.pod.spec.get(field)


def _selector_faults(pointer: str, tree: object, *, cilium: bool) -> Iterator[Fault]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            here = pointers.join(pointer, str(key))
            if key == "matchLabels" and isinstance(value, Mapping):
                for name, text in value.items():
                    yield from _label_faults(pointers.join(here, str(name)), _bare(str(name), cilium=cilium), text)
            elif key == "matchExpressions" and isinstance(value, list):
                yield from _expression_faults(here, value, cilium=cilium)
            else:
                yield from _selector_faults(here, value, cilium=cilium)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _selector_faults(f"{pointer}/{index}", value, cilium=cilium)


def _expression_faults(pointer: str, expressions: list[Any], *, cilium: bool) -> Iterator[Fault]:
    for index, expression in enumerate(expressions):
        key = mapping(expression).get("key")
        if isinstance(key, str) and (problem := _key_problem(_bare(key, cilium=cilium))):
            yield Fault(f"{pointer}/{index}/key", f"label key {key!r} {problem}")
        for place, value in enumerate(sequence(mapping(expression).get("values"))):
            if isinstance(value, str) and (problem := _value_problem(value)):
                yield Fault(f"{pointer}/{index}/values/{place}", f"label value {value!r} {problem}")


def _bare(key: str, *, cilium: bool) -> str:
    """Cilium writes the source of a label before its key: k8s:app."""
    source, colon, rest = key.partition(":")
    return rest if cilium and colon and source.isalnum() else key


_MANAGERS = (labels.MANAGED_BY_GENERATOR, "paperclip-launcher")
_IN_CEL = "[" + ", ".join(f"'{key}'" for key in _COMMON) + "]"


@policy(
    "common-labels",
    title="What is Paperclip's says so, and its pods say the same",
    rationale=(
        "Network policies, Services, dashboards and people find objects by these labels: one that lacks them is"
        " forgotten, and a pod that differs from its workload is found by the wrong ones."
    ),
    remedy="set app.kubernetes.io/name, instance, component, part-of and managed-by on the object and on its pods",
    severity=Severity.WARNING,
    links=("https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/",),
    cel=Cel(
        "!variables.ours"
        " || variables.common.all(k, variables.labels[?k].orValue('') != ''"
        " && (!variables.startsPods || variables.podLabels[?k].orValue('') == variables.labels[k]))",
        kinds=_LABELLED,
        variables={
            "common": _IN_CEL,
            "startsPods": f"object.kind in [{_STARTS_PODS}]",
            "ours": (
                f"variables.labels[?'{labels.PART_OF}'].orValue('') == '{labels.PART_OF_PAPERCLIP}'"
                f" || variables.labels[?'{labels.MANAGED_BY}'].orValue('')"
                f" in [{', '.join(repr(one) for one in _MANAGERS)}]"
            ),
        },
        message="what is Paperclip's carries app.kubernetes.io/name, instance, component, part-of and managed-by, and"
        " so do its pods",
    ),
)
def common_labels(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    own = entry.labels
    if own.get(labels.PART_OF) != labels.PART_OF_PAPERCLIP and own.get(labels.MANAGED_BY) not in _MANAGERS:
        return
    missing = [key for key in _COMMON if not own.get(key)]
    if missing:
        yield Fault("/metadata/labels", f"the labels lack {_and(missing)}, and must have all five")
    if entry.pod is None or entry.id.kind == "Pod":
        return
    place = f"{entry.pod.pointer.removesuffix('/spec')}/metadata/labels"
    for key in _COMMON:
        wanted, found = own.get(key), entry.pod.labels.get(key)
        if not wanted or found == wanted:
            continue
        if found is None:
            yield Fault(place, f"the pods lack the label {key}, and must have {wanted!r} as their {entry.id.kind} has")
        else:
            yield Fault(
                pointers.join(place, key),
                f"the label {key} of the pods is {found!r}, and must be {wanted!r} as on their {entry.id.kind}",
            )


def _and(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
