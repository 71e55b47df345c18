"""Amounts of resources as the API server adds and compares them.

Facts from k8s.io/kubernetes v1.35: pkg/apis/core/v1/defaults.go, k8s.io/component-helpers/resource.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from kubekit import quantity
from policies.world import mapping, sequence

Amounts: TypeAlias = dict[str, Fraction]
"""Resource to how much of it."""

POD_LEVEL = ("cpu", "memory", "hugepages-")
"""What `resources` of a pod may hold (Kubernetes 1.34 and newer); the last is a prefix."""
_MILLI = 1000
_MAX_MILLI_VALUE = (2**63 - 1) // _MILLI
_NAMES = {"cpu": "CPU"}


@lru_cache(maxsize=4096)
def amount(text: str | float) -> Fraction | None:
    """The number, rounded up to thousandths as the API server stores it; None for what is no quantity."""
    try:
        return Fraction(math.ceil(quantity.parse(text) * _MILLI), _MILLI)
    except ValueError:  # QuantityError, or a number of YAML with more digits than Python writes out
        return None


def read(value: object) -> Amounts:
    """From a map of quantities; what is none is left out, since its schema says so."""
    found = {}
    for name, text in mapping(value).items():
        if isinstance(text, str | int | float) and not isinstance(text, bool):
            number = amount(text)
            if number is not None:
                found[str(name)] = number
    return found


def of_container(container: Mapping[str, Any], part: str) -> Amounts:
    """Its "requests" or "limits"."""
    return read(mapping(container.get("resources")).get(part))


def containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(pointer from the pod spec, container) of those that have resources: ephemeral ones have none."""
    for name in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec.get(name))):
            if isinstance(container, Mapping):
                yield f"/{name}/{index}", container


def of_pod(spec: Mapping[str, Any], part: str, *, overhead: bool) -> Amounts:
    """What a pod takes of each resource at its most: "requests" or "limits".

    Main containers and sidecars (init containers that restart Always) run together; before them each init container
    runs beside the sidecars that stand ahead of it. `resources` of the pod itself replace the sums. Quotas count the
    overhead of the runtime class, LimitRanges do not.
    """
    total = _of_containers(spec, part)
    level = mapping(mapping(spec.get("resources")).get(part))
    total.update({name: number for name, number in read(level).items() if name.startswith(POD_LEVEL)})
    if overhead:
        for name, number in read(spec.get("overhead")).items():
            if part == "requests" or total.get(name):
                total[name] = total.get(name, Fraction()) + number
    return total


def _of_containers(spec: Mapping[str, Any], part: str) -> Amounts:
    total: Amounts = {}
    sidecars: Amounts = {}
    before: Amounts = {}
    for pointer, container in containers(spec):
        own = of_container(container, part)
        if pointer.startswith("/containers"):
            _add(total, own)
        elif container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            _raise(before, sidecars)
        else:
            alone = dict(own)
            _add(alone, sidecars)
            _raise(before, alone)
    _raise(total, before)
    return total


def _add(total: Amounts, more: Amounts) -> None:
    for name, number in more.items():
        total[name] = total.get(name, Fraction()) + number


def _raise(total: Amounts, least: Amounts) -> None:
    for name, number in least.items():
        if name not in total or number > total[name]:
            total[name] = number


def level(*numbers: Fraction) -> tuple[Fraction, ...]:
    """At the precision at which a LimitRange compares them: beyond 2^63 thousandths in whole numbers, rounded up."""
    if all(number <= _MAX_MILLI_VALUE for number in numbers):
        return numbers
    return tuple(Fraction(math.ceil(number)) for number in numbers)


def may_overcommit(name: str) -> bool:
    """Whether the limit of a resource may exceed its request: not for huge pages and extended resources."""
    return not name.startswith("hugepages-") and ("/" not in name or "kubernetes.io/" in name)


def shown(number: Fraction, name: str) -> str:
    """For people: "500m", "4Gi"; `name` is the resource, since memory counts in powers of two."""
    binary = name.endswith(("memory", "storage")) or "hugepages-" in name
    if binary and number.denominator == 1 and number and number % 1024 == 0:
        return quantity.canonical(f"{number / 1024}Ki")
    if number.denominator == 1:
        return quantity.canonical(str(number.numerator))
    return quantity.canonical(f"{math.ceil(number * _MILLI)}m")


def named(name: str) -> str:
    """A resource in a sentence."""
    return _NAMES.get(name, name)
