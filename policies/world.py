"""The whole set of objects, indexed once, and what is known of the cluster. Policies read it and change nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kubekit.identity import Manifest, ObjectId
from policies.model import Source


@dataclass(frozen=True)
class Facts:
    """What manifests do not say.

    `storage_classes`: class name to the access modes it supports; empty: not known, so not judged.
    `address_pools`: (first, last) address of pools that exist but are not in the set.
    """

    storage_classes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    address_pools: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Entry:
    """One object of the set."""

    manifest: Manifest
    id: ObjectId
    source: Source | None = None


class World:
    """Read-only. Building it costs one pass; every index is made when it is first asked for."""

    def __init__(self, objects: Iterable[tuple[Manifest, Source | None]], facts: Facts | None = None) -> None:
        self.entries = tuple(Entry(manifest, ObjectId.of(manifest), source) for manifest, source in objects)
        self.facts = facts or Facts()

    @cached_property
    def by_kind(self) -> Mapping[str, tuple[Entry, ...]]:
        found: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            found[entry.id.kind].append(entry)
        return {kind: tuple(entries) for kind, entries in found.items()}

    @cached_property
    def by_identity(self) -> Mapping[tuple[str, str, str, str], tuple[Entry, ...]]:
        found: dict[tuple[str, str, str, str], list[Entry]] = defaultdict(list)
        for entry in self.entries:
            found[entry.id.identity].append(entry)
        return {identity: tuple(entries) for identity, entries in found.items()}
