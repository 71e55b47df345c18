"""LimitRanges as the API server applies them: what they put into a pod, and what they refuse.

Facts from k8s.io/kubernetes v1.35: plugin/pkg/admission/limitranger, pkg/apis/core/v1/defaults.go (SetDefaults_Pod,
SetDefaults_LimitRangeItem), pkg/apis/core/validation (ValidateLimitRange, validateResourceRequirements).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from kubekit import pointers
from kubekit.identity import Manifest, ObjectId
from policies.admission import amounts
from policies.admission.amounts import Amounts, named, shown
from policies.world import mapping, sequence


class Refusal(NamedTuple):
    """Why the API server would say no; `pointer` leads from the thing that was judged (a pod's spec, an object)."""

    pointer: str
    message: str


class Item(NamedTuple):
    """One entry of a LimitRange. `source` is the name of the LimitRange; quantities of the defaults are as written."""

    source: str
    type: str
    min: Amounts
    max: Amounts
    ratio: Amounts
    default_limits: Mapping[str, Any]
    default_requests: Mapping[str, Any]


Ranges: TypeAlias = "Sequence[Manifest] | tuple[Item, ...]"
"""LimitRanges as they are, or read before (`items`), which saves time where many pods meet them."""


def with_defaults(spec: Mapping[str, Any], ranges: Ranges) -> dict[str, Any]:
    """The pod spec as it is admitted: `spec` is not changed, and what it says of resources stays.

    First, with LimitRanges or without: a limit without a request is the request too. Then, LimitRange by LimitRange,
    what is still missing. With several LimitRanges the API server has no order; here they come by name.
    """
    result = dict(spec)
    for name in ("containers", "initContainers"):
        if isinstance(spec.get(name), list):
            result[name] = [_requests_from_limits(one) if isinstance(one, Mapping) else one for one in spec[name]]
    if isinstance(spec.get("resources"), Mapping):
        result["resources"] = _of_pod_level(result)
    for item in items(ranges):
        if item.type == "Container" and (item.default_limits or item.default_requests):
            for name in ("containers", "initContainers"):
                if isinstance(result.get(name), list):
                    result[name] = [_filled(one, item) if isinstance(one, Mapping) else one for one in result[name]]
    return result


def limit_range_refusals(spec: Mapping[str, Any], ranges: Ranges) -> list[Refusal]:
    """What LimitRanges of its namespace have against a pod; `spec` is as it was written, before any default."""
    ranges = items(ranges)
    admitted = with_defaults(spec, ranges)
    found = [*_made_invalid(spec, admitted), *_beyond_the_pod(spec, admitted)]
    totals: tuple[Amounts, Amounts] | None = None
    for item in items(ranges):
        if item.type == "Container":
            for pointer, container in amounts.containers(admitted):
                who = _named(pointer, container)
                own = (amounts.of_container(container, "requests"), amounts.of_container(container, "limits"))
                found += [Refusal(f"{pointer}{where}", message) for where, message in _against(item, who, *own)]
        elif item.type == "Pod":
            if totals is None:
                totals = (_of_pod(admitted, "requests"), _of_pod(admitted, "limits"))
            found += [Refusal("", message) for _, message in _against(item, "the pod", *totals)]
    return found


def claim_refusals(claim_spec: Mapping[str, Any], ranges: Ranges) -> list[Refusal]:
    """The same of a PersistentVolumeClaim: its requests must lie between min and max."""
    requests = amounts.of_container(claim_spec, "requests")
    found: list[tuple[str, str]] = []
    for item in items(ranges):
        if item.type == "PersistentVolumeClaim":
            for name, bound in item.min.items():
                found += _outside(item, "the claim", name, bound, requests, {}, least=True)
            for name, bound in item.max.items():
                found += _most_of_claim(item, name, bound, requests)
    return [Refusal(pointer, message) for pointer, message in found]


def items(ranges: Ranges) -> tuple[Item, ...]:
    """All entries of LimitRanges, by the names of these."""
    if all(isinstance(one, Item) for one in ranges):
        return tuple(one for one in ranges if isinstance(one, Item))
    manifests = [one for one in ranges if not isinstance(one, Item)]
    return tuple(
        _item(ObjectId.of(one).name, entry)
        for one in sorted(manifests, key=lambda one: ObjectId.of(one).name)
        for entry in sequence(mapping(one.get("spec")).get("limits"))
        if isinstance(entry, Mapping)
    )


def _item(source: str, entry: Mapping[str, Any]) -> Item:
    low, high, ratio = (amounts.read(entry.get(key)) for key in ("min", "max", "maxLimitRequestRatio"))
    return Item(source, str(entry.get("type", "")), low, high, ratio, *defaults_of(entry))


def defaults_of(entry: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(limits, requests) that an entry gives, as the API server completes it.

    `max` is the default limit where none is written, the default limit the default request, and `min` where none of
    them is.
    """
    limits, requests = dict(mapping(entry.get("default"))), dict(mapping(entry.get("defaultRequest")))
    if entry.get("type") == "Container":
        limits = {**mapping(entry.get("max")), **limits}
        requests = {**mapping(entry.get("min")), **limits, **requests}
    return limits, requests


def _requests_from_limits(container: Mapping[str, Any]) -> Mapping[str, Any]:
    resources = mapping(container.get("resources"))
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    if not limits.keys() - requests.keys():
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _filled(container: Mapping[str, Any], item: Item) -> Mapping[str, Any]:
    resources = mapping(container.get("resources"))
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    if limits.keys() >= item.default_limits.keys() and requests.keys() >= item.default_requests.keys():
        return container
    filled = {
        **resources,
        "limits": {**item.default_limits, **limits},
        "requests": {**item.default_requests, **requests},
    }
    return {**container, "resources": {part: value for part, value in filled.items() if value}}


def _of_pod_level(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """`resources` of the pod itself, completed: huge pages from the containers' limits, requests from what there is."""
    resources = mapping(spec.get("resources"))
    limits, requests = dict(mapping(resources.get("limits"))), dict(mapping(resources.get("requests")))
    bare = {key: value for key, value in spec.items() if key not in {"resources", "overhead"}}
    if limits or requests:
        for name, number in amounts.of_pod(bare, "limits", overhead=False).items():
            if name.startswith("hugepages-") and name not in requests:
                limits.setdefault(name, shown(number, name))
    if limits:
        for name, number in amounts.of_pod(bare, "requests", overhead=False).items():
            if name in {"cpu", "memory"}:
                requests.setdefault(name, shown(number, name))
        for name, text in limits.items():
            if name.startswith(amounts.POD_LEVEL):
                requests.setdefault(name, text)
    return {**resources, **{part: value for part, value in (("limits", limits), ("requests", requests)) if value}}


def _of_pod(spec: Mapping[str, Any], part: str) -> Amounts:
    """As LimitRanger adds a pod up: no overhead, and no huge pages of the pod's own level."""
    level = mapping(mapping(spec.get("resources")).get(part))
    kept = {name: value for name, value in level.items() if name in {"cpu", "memory"}}
    return amounts.of_pod({**spec, "resources": {part: kept}}, part, overhead=False)


def _against(item: Item, who: str, requests: Amounts, limits: Amounts) -> Iterator[tuple[str, str]]:
    """(pointer into the container, message) for each bound that does not hold; one a bound, as the API server."""
    for name, bound in item.min.items():
        yield from _outside(item, who, name, bound, requests, limits, least=True)
    for name, bound in item.max.items():
        yield from _outside(item, who, name, bound, requests, limits, least=False)
    for name, bound in item.ratio.items():
        yield from _out_of_ratio(item, who, name, bound, requests, limits)


def _outside(
    item: Item, who: str, name: str, bound: Fraction, requests: Amounts, limits: Amounts, *, least: bool
) -> Iterator[tuple[str, str]]:
    """`min` needs a request, `max` a limit; both parts must keep to it where they are there."""
    parts = (("requests", requests), ("limits", limits)) if least else (("limits", limits), ("requests", requests))
    word, end = ("minimum", "under") if least else ("maximum", "over")
    rule = f"the LimitRange {word} of {shown(bound, name)} (LimitRange {item.source})"
    if name not in parts[0][1]:
        lacking = "request" if least else "limit"
        yield "/resources", f"{who} has no {lacking} of {named(name)}, and must have one for {rule}"
        return
    both = [part.get(name, Fraction()) for _, part in parts]
    *values, edge = amounts.level(*both, bound)
    for (part, found), value in zip(parts, values, strict=True):
        if name in found and (value < edge if least else value > edge):
            verb = "asks for" if part == "requests" else "may take"
            said = f"{who} {verb} {shown(found[name], name)} {named(name)}, {end} {rule}"
            yield pointers.join(f"/resources/{part}", name), said
            return


def _most_of_claim(item: Item, name: str, bound: Fraction, requests: Amounts) -> Iterator[tuple[str, str]]:
    rule = f"the LimitRange maximum of {shown(bound, name)} (LimitRange {item.source})"
    if name not in requests:
        yield "/resources", f"the claim has no request of {name}, and must have one for {rule}"
        return
    value, edge = amounts.level(requests[name], bound)
    if value > edge:
        said = f"the claim asks for {shown(requests[name], name)} {name}, over {rule}"
        yield pointers.join("/resources/requests", name), said


def _out_of_ratio(
    item: Item, who: str, name: str, bound: Fraction, requests: Amounts, limits: Amounts
) -> Iterator[tuple[str, str]]:
    source = f"(LimitRange {item.source})"
    request, limit, _ = amounts.level(requests.get(name, Fraction()), limits.get(name, Fraction()), bound)
    if not request or not limit:
        lacking = "request" if not request else "limit"
        said = f"{who} has no {lacking} of {named(name)} above 0, and the LimitRange bounds limit to request {source}"
        yield "/resources", said
        return
    # In floating point there, and so here: what is equal to the bound must come out alike.
    if float(limit * 1000) / float(request * 1000) * 1000 > float(bound * 1000):
        said = (
            f"{who} has a limit of {named(name)} {float(limit / request):.4g} times its request "
            f"({shown(limits[name], name)} to {shown(requests[name], name)}), over the LimitRange ratio of "
            f"{shown(bound, 'ratio')} {source}"
        )
        yield "/resources", said


def _made_invalid(written: Mapping[str, Any], admitted: Mapping[str, Any]) -> Iterator[Refusal]:
    """Requests above limits that no one wrote: one of the two is a default, and the pod is refused as invalid."""
    before = dict(amounts.containers(written))
    for pointer, container in amounts.containers(admitted):
        if container is before[pointer]:
            continue
        requests, limits = amounts.of_container(container, "requests"), amounts.of_container(container, "limits")
        own_requests, own_limits = (amounts.of_container(before[pointer], part) for part in ("requests", "limits"))
        for name, request in requests.items():
            limit = limits.get(name)
            if name in own_requests and (name in own_limits or limit is None):
                continue
            if limit is None and not amounts.may_overcommit(name):
                said = f"a request of {shown(request, name)} {named(name)} by a LimitRange and no limit; write both"
            elif limit is None or request == limit or (request < limit and amounts.may_overcommit(name)):
                continue
            elif name in own_requests:
                said = (
                    f"a request of {shown(request, name)} {named(name)}, which does not fit the limit of "
                    f"{shown(limit, name)} that a LimitRange gives it; write both"
                )
            else:
                said = (
                    f"a limit of {shown(limit, name)} {named(name)}, which does not fit the request of "
                    f"{shown(request, name)} that a LimitRange gives it; write both"
                )
            yield Refusal(f"{pointer}/resources", f"{_named(pointer, container)} has {said}")


def _beyond_the_pod(written: Mapping[str, Any], admitted: Mapping[str, Any]) -> Iterator[Refusal]:
    """The same between containers and what the pod itself says: what it has, its containers' defaults must fit into."""
    level = mapping(admitted.get("resources"))
    if not level:
        return
    limits, requests = amounts.read(level.get("limits")), amounts.read(level.get("requests"))
    before = dict(amounts.containers(written))
    for pointer, container in amounts.containers(admitted):
        own = amounts.of_container(before[pointer], "limits")
        for name, limit in amounts.of_container(container, "limits").items():
            if pointer.startswith("/containers") and name not in own and limit > limits.get(name, limit):
                yield Refusal(
                    f"{pointer}/resources",
                    f"{_named(pointer, container)} has a limit of {shown(limit, name)} {named(name)} by a LimitRange, "
                    f"more than the {shown(limits[name], name)} of its pod; write both",
                )
    sums = [
        {key: value for key, value in spec.items() if key != "resources"}
        for spec in (with_defaults(written, ()), admitted)
    ]
    alone, together = (amounts.of_pod(spec, "requests", overhead=False) for spec in sums)
    for name, total in together.items():
        if total > requests.get(name, total) >= alone.get(name, Fraction()):
            yield Refusal(
                "/resources",
                f"the containers ask for {shown(total, name)} {named(name)}, with what LimitRanges give them, more "
                f"than the {shown(requests[name], name)} of the pod; write both",
            )


def _named(pointer: str, container: Mapping[str, Any]) -> str:
    kind = "init container" if pointer.startswith("/init") else "container"
    return f'{kind} "{container.get("name", "")}"'
