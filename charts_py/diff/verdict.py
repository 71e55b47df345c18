"""What is said of a dangerous change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kubekit.identity import Manifest, ObjectId

RISKS = ("", "rolls pod", "traffic", "access widened", "recreates", "data loss")
"""From harmless to worst."""


@dataclass(frozen=True)
class Verdict:
    """`risk` is one of RISKS; `pointer` is the place it is about, "" for the whole object."""

    risk: str
    why: str
    pointer: str = ""


def worst(risks: Iterable[str]) -> str:
    return max(risks, key=RISKS.index, default="")


def kind_key(manifest: Manifest) -> str:
    """group/Kind, Kind alone for the core group, File for what is no object."""
    identity = ObjectId.of(manifest)
    if not identity.kind or not identity.api_version:
        return "File"
    return f"{identity.group}/{identity.kind}" if identity.group else identity.kind


def at(manifest: Any, *path: str) -> Any:
    """What lies at `path`, None if nothing does."""
    for token in path:
        if not isinstance(manifest, dict):
            return None
        manifest = manifest.get(token)
    return manifest


def items_at(manifest: Any, *path: str) -> list[Any]:
    """The list at `path`; an empty one if there is no list."""
    found = at(manifest, *path)
    return found if isinstance(found, list) else []
