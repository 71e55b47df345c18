"""The whole set of objects, indexed once, and what is known of the cluster. Policies read it and change nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

from kubekit.identity import Manifest, ObjectId
from kubekit.podspec import ContainerView, containers, pod_metadata, pod_pointer, pod_spec
from kubekit.resources import group_of
from policies.facts import Facts
from policies.model import Source

T = TypeVar("T")

PODS = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Rollout")
"""The kinds that start pods."""
RUNNING = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Rollout")
"""Those whose pods are to run for ever."""


@dataclass(frozen=True)
class PodView:
    """The pod template of an object. `pointer` leads to its spec, `labels` are those of its pods."""

    pointer: str
    spec: Mapping[str, Any]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    containers: tuple[ContainerView, ...]

    def items(self, field: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """(pointer, item) of a list of the pod spec, such as "volumes"; what is no mapping is left out."""
        found = self.spec.get(field)
        for index, item in enumerate(found if isinstance(found, list) else ()):
            if isinstance(item, Mapping):
                yield f"{self.pointer}/{field}/{index}", item


@dataclass(frozen=True)
class Entry:
    """One object of the set."""

    manifest: Manifest
    id: ObjectId
    source: Source | None = None

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """Its spec; {} where there is none, or it is no mapping."""
        return mapping(self.manifest.get("spec"))

    @cached_property
    def labels(self) -> Mapping[str, Any]:
        return mapping(mapping(self.manifest.get("metadata")).get("labels"))

    @cached_property
    def annotations(self) -> Mapping[str, Any]:
        return mapping(mapping(self.manifest.get("metadata")).get("annotations"))

    @cached_property
    def pod(self) -> PodView | None:
        """The pods that it starts; None if it starts none."""
        spec, pointer = pod_spec(self.manifest), pod_pointer(self.id.kind)
        if spec is None or pointer is None or self.id.kind not in PODS:
            return None
        found = pod_metadata(self.manifest)
        metadata = found[1] if found else {}
        views = tuple(containers(self.manifest))
        return PodView(pointer, spec, mapping(metadata.get("labels")), mapping(metadata.get("annotations")), views)

    def container_at(self, pointer: str) -> str:
        """The name of the container that `pointer` leads into, "" for none."""
        if self.pod is None or not pointer.startswith(self.pod.pointer):
            return ""
        for one in self.pod.containers:
            if pointer == one.pointer or pointer.startswith(f"{one.pointer}/"):
                return one.name
        return ""


class World:
    """Read-only. Building it costs one pass; every index is made when it is first asked for."""

    def __init__(self, objects: Iterable[tuple[Manifest, Source | None]], facts: Facts | None = None) -> None:
        self.entries = tuple(Entry(manifest, ObjectId.of(manifest), source) for manifest, source in objects)
        self.facts = facts or Facts()
        self._indexes: dict[object, object] = {}

    def index(self, build: Callable[[World], T]) -> T:
        """What `build` makes of this world; made once. A family keeps its own index this way."""
        if build not in self._indexes:
            self._indexes[build] = build(self)
        return cast("T", self._indexes[build])

    @cached_property
    def by_kind(self) -> Mapping[str, tuple[Entry, ...]]:
        """By kind; a kind of that name in another API group (a Service of Knative) is not among them."""
        found: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            group = group_of(entry.id.kind)
            if group is None or group == entry.id.group:
                found[entry.id.kind].append(entry)
        return {kind: tuple(entries) for kind, entries in found.items()}

    @cached_property
    def by_identity(self) -> Mapping[tuple[str, str, str, str], tuple[Entry, ...]]:
        found: dict[tuple[str, str, str, str], list[Entry]] = defaultdict(list)
        for entry in self.entries:
            found[entry.id.identity].append(entry)
        return {identity: tuple(entries) for identity, entries in found.items()}

    @cached_property
    def _by_place(self) -> Mapping[tuple[str, str], tuple[Entry, ...]]:
        found: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for kind, entries in self.by_kind.items():
            for entry in entries:
                found[kind, entry.id.namespace].append(entry)
        return {place: tuple(entries) for place, entries in found.items()}

    def within(self, kind: str, namespace: str) -> tuple[Entry, ...]:
        """All of a kind in a namespace."""
        return self._by_place.get((kind, namespace), ())

    def find(self, kind: str, namespace: str, name: str) -> Entry | None:
        """The object of that name; "" is the namespace of what belongs to the cluster."""
        known = self.by_identity.get((group_of(kind) or "", kind, namespace, name))
        return known[0] if known else None

    def exists(self, kind: str, namespace: str, name: str) -> bool:
        """Whether it is in the set, or declared to be in the cluster."""
        return self.find(kind, namespace, name) is not None or self.facts.external(kind, namespace, name) is not None

    @cached_property
    def pods(self) -> tuple[tuple[Entry, PodView], ...]:
        """Every object that starts pods."""
        return tuple(
            (entry, entry.pod) for kind in PODS for entry in self.by_kind.get(kind, ()) if entry.pod is not None
        )


def mapping(value: object) -> Mapping[str, Any]:
    """`value` if it is a mapping, else {}: what is no mapping is the schema's finding, not a policy's crash."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: object) -> list[Any]:
    """`value` if it is a list, else []."""
    return value if isinstance(value, list) else []
