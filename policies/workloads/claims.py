"""Which pods mount which claims, and what mode those have: indexed once for all policies that ask."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from policies.world import Entry, World, mapping, sequence

ONCE = "ReadWriteOnce"
ONCE_POD = "ReadWriteOncePod"
MANY = "ReadWriteMany"
READ_MANY = "ReadOnlyMany"

_TEMPLATED = frozenset({"StatefulSet"})


@dataclass(frozen=True)
class Mount:
    """A volume of a pod that is a claim of the namespace. `pointer` leads to the volume.

    Volumes of `ephemeral` and of `volumeClaimTemplates` are not among them: each pod has a claim of its own there.
    `modes` is empty where nobody says what the claim is.
    """

    entry: Entry
    pointer: str
    claim: str
    modes: frozenset[str]
    read_only: bool

    @property
    def exclusive(self) -> bool:
        """Whether only one node, or one pod, can have it."""
        if MANY in self.modes or (self.read_only and READ_MANY in self.modes):
            return False
        return bool(self.modes & {ONCE, ONCE_POD})

    @property
    def mode(self) -> str:
        """The mode that makes it exclusive."""
        return ONCE_POD if ONCE_POD in self.modes else ONCE


@dataclass(frozen=True)
class Claims:
    """`mounts` by the identity of the entry, `users` by (namespace, claim), both in the order of the set."""

    mounts: Mapping[int, tuple[Mount, ...]]
    users: Mapping[tuple[str, str], tuple[Mount, ...]]
    templated: frozenset[tuple[str, str]]
    """(namespace, claim) of those that StatefulSets of the set make."""

    def exclusive(self, entry: Entry | None) -> tuple[Mount, ...]:
        """The volumes of its pods that only one node can have."""
        return () if entry is None else tuple(one for one in self.mounts.get(id(entry), ()) if one.exclusive)


def index(world: World) -> Claims:
    """For World.index."""
    mounts: dict[int, tuple[Mount, ...]] = {}
    users: dict[tuple[str, str], list[Mount]] = defaultdict(list)
    for entry, pod in world.pods:
        found = []
        for pointer, volume in pod.items("volumes"):
            source = mapping(volume.get("persistentVolumeClaim"))
            claim = source.get("claimName")
            if isinstance(claim, str) and claim:
                modes = modes_of(world, entry.id.namespace, claim)
                found.append(Mount(entry, pointer, claim, modes, source.get("readOnly") is True))
        if found:
            mounts[id(entry)] = tuple(found)
        for one in found:
            users[entry.id.namespace, one.claim].append(one)
    return Claims(mounts, {key: tuple(value) for key, value in users.items()}, frozenset(_templated(world)))


def of(world: World) -> Claims:
    return world.index(index)


def modes_of(world: World, namespace: str, claim: str) -> frozenset[str]:
    """The access modes of a claim: of the set, declared to exist, or committed. Empty: nobody knows."""
    known = world.find("PersistentVolumeClaim", namespace, claim)
    if known is not None:
        return _modes(known.spec)
    external = world.facts.external("PersistentVolumeClaim", namespace, claim)
    if external is not None:
        return external.modes
    return _modes(mapping(mapping(world.facts.committed.get(f"{namespace}/{claim}")).get("spec")))


def templates(entry: Entry) -> Iterator[tuple[str, Mapping[str, object]]]:
    """(pointer, template) of the claims that a StatefulSet makes, one for each pod."""
    if entry.id.kind in _TEMPLATED:
        for place, one in enumerate(sequence(entry.spec.get("volumeClaimTemplates"))):
            if isinstance(one, Mapping):
                yield f"/spec/volumeClaimTemplates/{place}", one


def _modes(spec: Mapping[str, object]) -> frozenset[str]:
    return frozenset(one for one in sequence(spec.get("accessModes")) if isinstance(one, str))


def _templated(world: World) -> Iterator[tuple[str, str]]:
    """The controller names them template-set-ordinal; a set that scales up makes more, so a few are known ahead."""
    for entry in world.by_kind.get("StatefulSet", ()):
        replicas = entry.spec.get("replicas", 1)
        ordinals = range(min(replicas, 100) if isinstance(replicas, int) else 1)
        start = mapping(entry.spec.get("ordinals")).get("start", 0)
        first = start if isinstance(start, int) else 0
        for _, template in templates(entry):
            name = mapping(template.get("metadata")).get("name")
            for ordinal in ordinals:
                yield entry.id.namespace, f"{name}-{entry.id.name}-{first + ordinal}"
