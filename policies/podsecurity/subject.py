"""What the Pod Security Standards judge: a pod, seen as its pieces. Places are JSON pointers from the pod itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from kubekit import pointers
from policies.world import mapping, sequence

_LISTS = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)
_LONGEST_SHOWN = 80
_LARGEST_SHOWN = 1 << 63


class Level(StrEnum):
    """The levels of the standards, from the loosest to the strictest."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


@dataclass(frozen=True)
class Part:
    """A container of the pod, or the pod as a whole; `security` is its securityContext, {} where it has none."""

    title: str
    pointer: str
    spec: Mapping[str, Any]
    security: Mapping[str, Any]


@dataclass(frozen=True)
class Pod:
    """A pod or the template of one. `setters` are the whole of it and its containers: most fields stand in both."""

    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]
    whole: Part
    containers: tuple[Part, ...]

    @property
    def setters(self) -> tuple[Part, ...]:
        return (self.whole, *self.containers)

    @property
    def windows(self) -> bool:
        return mapping(self.spec.get("os")).get("name") == "windows"

    @property
    def user_namespace(self) -> bool:
        """Whether its root is nobody on the node (hostUsers: false)."""
        return self.spec.get("hostUsers") is False


class Place(NamedTuple):
    """Where something is wrong, and what: the pointer starts at the pod ("/spec/hostPID")."""

    pointer: str
    message: str


Judge: TypeAlias = Callable[[Pod], Iterator[Place]]


def pod_of(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Pod:
    """From the metadata and the spec of a pod. What is no mapping is left out: the schema says so."""
    parts = [
        Part(_title(kind, index, one), f"/spec/{field}/{index}", one, mapping(one.get("securityContext")))
        for field, kind in _LISTS
        for index, one in enumerate(sequence(spec.get(field)))
        if isinstance(one, Mapping)
    ]
    whole = Part("the pod", "/spec", spec, mapping(spec.get("securityContext")))
    return Pod(mapping(metadata.get("annotations")), spec, whole, tuple(parts))


def _title(kind: str, index: int, container: Mapping[str, Any]) -> str:
    name = container.get("name")
    return f'{kind} "{name}"' if isinstance(name, str) and name else f"{kind} {index}"


def nearest(part: Part, *path: str) -> str:
    """Where `path` stands in the part; where it does not, the innermost of its parents that does."""
    here: Any = part.spec
    pointer = part.pointer
    for step in path:
        if not isinstance(here, Mapping) or here.get(step) is None:
            break
        here, pointer = here[step], pointers.join(pointer, step)
    return pointer


def shown(value: object) -> str:
    """A value that stands for itself in a message; anything bigger is only named."""
    if value is None or value == "":
        return "unset"
    small = (isinstance(value, int) and abs(value) <= _LARGEST_SHOWN) or (
        isinstance(value, str) and len(value) <= _LONGEST_SHOWN
    )
    return json.dumps(value) if small else f"a {type(value).__name__}"
