"""Which level of the standards holds for an object, and what it finds there: once for all policies of the family."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kubekit import labels
from policies.facts import minor
from policies.model import Check, Fault
from policies.podsecurity.standard import Violation, violations_of
from policies.podsecurity.subject import Level, Pod, pod_of
from policies.world import Entry, World

ENFORCE = f"{labels.POD_SECURITY}/enforce"
ENFORCE_VERSION = f"{labels.POD_SECURITY}/enforce-version"
_LEVELS = {level.value: level for level in Level}
VERSION = re.compile(r"v1\.(?:[0-9]|[1-9][0-9]{1,3})")
"""A pinned version (api/helpers.go); the other legal value is "latest"."""


def level_of(world: World, namespace: str) -> Level | None:
    """What the Namespace object in the set enforces; None where there is no such object, or it does not say.

    A level that does not exist counts as restricted, as it does for the API server (PolicyToEvaluate).
    """
    found = world.find("Namespace", "", namespace)
    value = found.labels.get(ENFORCE) if found else None
    if not isinstance(value, str):
        return None
    return _LEVELS.get(value, Level.RESTRICTED)


def version_of(world: World, namespace: str) -> int:
    """The minor version as of which the level holds: the namespace's pin, and never more than the cluster knows."""
    found = world.find("Namespace", "", namespace)
    value = found.labels.get(ENFORCE_VERSION) if found else None
    server = minor(world.facts.kubernetes_version)
    return min(minor(value), server) if isinstance(value, str) and VERSION.fullmatch(value) else server


def hardened(world: World, namespace: str) -> bool:
    """Whether pods of the namespace must keep to restricted: it says so, or nothing says otherwise."""
    return level_of(world, namespace) in {None, Level.RESTRICTED}


@dataclass(frozen=True)
class Judged:
    """The pods of one object. `outside` is what stands before their own pointers: "/spec/template" in a Deployment."""

    pod: Pod
    outside: str
    hardened: bool
    violations: tuple[Violation, ...]


def judged(entry: Entry, world: World) -> Judged | None:
    """The pods of the object at the level of its namespace, restricted where that is not known; None for no pods."""
    known = world.index(_all_judged)
    return known[id(entry)] if id(entry) in known else _judged(entry, world)


def faults(entry: Entry, world: World, *check_ids: str) -> Iterator[Fault]:
    """What the checks of these names find in the object, with pointers from the object."""
    found = judged(entry, world)
    if found is None or not found.violations:
        return
    for one in found.violations:
        if one.check_id in check_ids:
            yield Fault(f"{found.outside}{one.pointer}", one.message)


def finds(*check_ids: str) -> Check:
    """A policy's function: the faults of these checks."""

    def check(entry: Entry, world: World) -> Iterator[Fault]:
        return faults(entry, world, *check_ids)

    return check


def _all_judged(world: World) -> Mapping[int, Judged | None]:
    """By the identity of the entry, which lives as long as the world does."""
    return {id(entry): _judged(entry, world) for entry, _ in world.pods}


def _judged(entry: Entry, world: World) -> Judged | None:
    if entry.pod is None:
        return None
    namespace = entry.id.namespace
    pod = pod_of({"annotations": entry.pod.annotations}, entry.pod.spec)
    found = violations_of(pod, level_of(world, namespace) or Level.RESTRICTED, version_of(world, namespace))
    return Judged(pod, entry.pod.pointer.removesuffix("/spec"), hardened(world, namespace), tuple(found))
