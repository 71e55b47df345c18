"""LimitRanges and ResourceQuotas that the API server refuses for what they say themselves.

Facts from k8s.io/kubernetes v1.35: pkg/apis/core/validation (ValidateLimitRange, ValidateResourceQuotaSpec),
pkg/apis/core/helper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubekit import pointers
from policies.admission import amounts
from policies.admission.amounts import Amounts, shown
from policies.admission.limits import Refusal, defaults_of
from policies.world import mapping, sequence

_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_PARTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
# (lesser, greater): each pair that must stand in this order, as one says it.
_ORDER = (
    ("min", "max"),
    ("min", "defaultRequest"),
    ("defaultRequest", "max"),
    ("defaultRequest", "default"),
    ("min", "default"),
    ("default", "max"),
)
_INTEGERS = frozenset(
    {"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims"}
) | {"services.nodeports", "services.loadbalancers"}
_STORAGE = frozenset(
    {"requests.storage", "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"}
)
_COMPUTE = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
_STANDARD = _INTEGERS | _STORAGE | _COMPUTE
_POD_SCOPES = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_SCOPES = {
    **dict.fromkeys(_POD_SCOPES, frozenset({"pods", *_COMPUTE})),
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_OPPOSITE = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_WITH_VALUES = ("PriorityClass", "VolumeAttributesClass")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def limit_range_defects(spec: Mapping[str, Any]) -> Iterator[Refusal]:
    """Why a LimitRange would be refused; pointers are those of the whole object."""
    seen: set[str] = set()
    for index, entry in enumerate(sequence(spec.get("limits"))):
        if not isinstance(entry, Mapping):
            continue
        here, kind = f"/spec/limits/{index}", str(entry.get("type", ""))
        if kind in seen:
            yield Refusal(f"{here}/type", f"the type {kind} stands twice, and must stand in one entry")
        seen.add(kind)
        if kind not in _TYPES and "/" not in kind:
            yield Refusal(f"{here}/type", f"the type is {kind!r}, and must be one of {', '.join(_TYPES)}")
        yield from _of_type(here, kind, entry)
        yield from _out_of_order(here, kind, entry)


def _of_type(here: str, kind: str, entry: Mapping[str, Any]) -> Iterator[Refusal]:
    if kind == "Pod":
        for part in ("default", "defaultRequest"):
            if mapping(entry.get(part)):
                yield Refusal(f"{here}/{part}", f"{part} stands in an entry of type Pod; only Container may have it")
    if kind == "PersistentVolumeClaim" and not any("storage" in mapping(entry.get(part)) for part in ("min", "max")):
        yield Refusal(here, "an entry of type PersistentVolumeClaim has no storage in min and max; it must have one")
    for part in _PARTS if kind in {"Pod", "Container"} else ():
        for name in map(str, mapping(entry.get(part))):
            if "/" not in name and name not in _OF_CONTAINERS and not name.startswith("hugepages-"):
                where = pointers.join(f"{here}/{part}", name)
                yield Refusal(where, f"{part} names {name!r}, which no container can ask for")


def _out_of_order(here: str, kind: str, entry: Mapping[str, Any]) -> Iterator[Refusal]:
    found: dict[str, Amounts] = {part: amounts.read(entry.get(part)) for part in _PARTS}
    if kind == "Pod":
        found["default"] = found["defaultRequest"] = {}
    else:
        limits, requests = defaults_of(entry)
        found["default"], found["defaultRequest"] = amounts.read(limits), amounts.read(requests)
    for name in dict.fromkeys(name for part in _PARTS for name in found[part]):
        for low, high in _ORDER:
            if name in found[low] and name in found[high] and found[low][name] > found[high][name]:
                written = [part for part in (low, high) if name in mapping(entry.get(part))]
                where = pointers.join(f"{here}/{written[0]}", name) if written else here
                yield Refusal(
                    where,
                    f"{low} of {name} is {shown(found[low][name], name)}, and must not exceed {high}, which is "
                    f"{shown(found[high][name], name)}{_unwritten(entry, name, low, high)}",
                )
        yield from _of_ratio(here, name, found)
        limit, request = found["default"].get(name), found["defaultRequest"].get(name)
        if not amounts.may_overcommit(name) and None not in (limit, request) and limit != request:
            where = pointers.join(f"{here}/defaultRequest", name)
            yield Refusal(
                where, f"default and defaultRequest of {name} differ, and must be equal: it has no overcommit"
            )


def _unwritten(entry: Mapping[str, Any], name: str, *parts: str) -> str:
    """What the API server has filled in of the two."""
    filled = [part for part in parts if name not in mapping(entry.get(part))]
    return f" ({filled[0]} is not written: the API server takes it from the others)" if filled else ""


def _of_ratio(here: str, name: str, found: Mapping[str, Amounts]) -> Iterator[Refusal]:
    ratio = found["maxLimitRequestRatio"].get(name)
    if ratio is None:
        return
    where = pointers.join(f"{here}/maxLimitRequestRatio", name)
    if ratio < 1:
        yield Refusal(where, f"the ratio of {name} is {shown(ratio, 'ratio')}, and must be at least 1")
    low, high = found["min"].get(name), found["max"].get(name)
    if low and high is not None and float(ratio) > float(high * 1000) / float(low * 1000):
        said = f"the ratio of {name} is {shown(ratio, 'ratio')}, more than max/min, which is {float(high / low):.4g}"
        yield Refusal(where, f"{said}; it must not exceed it")


def quota_defects(spec: Mapping[str, Any]) -> Iterator[Refusal]:
    """Why a ResourceQuota would be refused; pointers are those of the whole object."""
    hard = mapping(spec.get("hard"))
    numbers = amounts.read(hard)
    for name in map(str, hard):
        where = pointers.join("/spec/hard", name)
        if "/" not in name and name not in _STANDARD and not name.startswith(("hugepages-", "requests.hugepages-")):
            yield Refusal(where, f"{name!r} is nothing that a quota counts; write count/<resource>.<group> for a kind")
        number = numbers.get(name)
        if number is not None and number < 0:
            yield Refusal(where, f"{name} is {shown(number, name)}, and must not be negative")
        if number is not None and name in _INTEGERS and number.denominator != 1:
            yield Refusal(where, f"{name} is {shown(number, name)}, and must be a whole number")
    scopes = [one for one in sequence(spec.get("scopes")) if isinstance(one, str)]
    yield from _of_scopes("/spec/scopes", scopes, hard)
    selector = sequence(mapping(spec.get("scopeSelector")).get("matchExpressions"))
    here = "/spec/scopeSelector/matchExpressions"
    chosen = [mapping(one) for one in selector]
    yield from _of_scopes(here, [str(one.get("scopeName", "")) for one in chosen], hard)
    for index, one in enumerate(chosen):
        yield from _of_operator(f"{here}/{index}", one)


def _of_scopes(here: str, scopes: Sequence[str], hard: Mapping[str, Any]) -> Iterator[Refusal]:
    for index, scope in enumerate(scopes):
        counted = _SCOPES.get(scope)
        if counted is None:
            known = ", ".join(sorted(_SCOPES))
            yield Refusal(f"{here}/{index}", f"the scope is {scope!r}, and must be one of {known}")
            continue
        outside = [name for name in map(str, hard) if name in _STANDARD and name not in counted]
        if outside:
            said = f"the scope {scope} cannot count {', '.join(outside)}; it counts {', '.join(sorted(counted))}"
            yield Refusal(f"{here}/{index}", said)
    for one, other in _OPPOSITE:
        if one in scopes and other in scopes:
            yield Refusal(here, f"the scopes {one} and {other} exclude each other, and must not stand together")


def _of_operator(here: str, one: Mapping[str, Any]) -> Iterator[Refusal]:
    scope, operator, values = one.get("scopeName"), one.get("operator"), sequence(one.get("values"))
    if operator not in _OPERATORS:
        yield Refusal(f"{here}/operator", f"the operator is {operator!r}, and must be one of {', '.join(_OPERATORS)}")
    elif scope not in _WITH_VALUES and operator != "Exists":
        yield Refusal(f"{here}/operator", f"the operator is {operator}, and must be Exists for the scope {scope}")
    elif operator in {"In", "NotIn"} and not values:
        yield Refusal(here, f"{operator} has no values, and must have at least one")
    elif operator in {"Exists", "DoesNotExist"} and values:
        yield Refusal(f"{here}/values", f"{operator} has values, and must have none")
