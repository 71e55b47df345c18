"""Who scales what: HorizontalPodAutoscalers, and the ScaledObjects of KEDA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policies.world import Entry, World, mapping

_MOST = {"HorizontalPodAutoscaler": ("maxReplicas", 1), "ScaledObject": ("maxReplicaCount", 100)}
"""Kind to the field that bounds it and the default of that (keda.sh/docs, ScaledObject specification)."""


@dataclass(frozen=True)
class Autoscaler:
    """`target` is (kind, namespace, name); `most` the pods that it may start."""

    target: tuple[str, str, str]
    most: int


def autoscalers(world: World) -> Mapping[tuple[str, str, str], Autoscaler]:
    """By target, for World.index; of two for one target, which never agree, the one that goes higher."""
    found: dict[tuple[str, str, str], Autoscaler] = {}
    for kind in _MOST:
        for entry in world.by_kind.get(kind, ()):
            one = autoscaler(entry)
            if one is not None and (one.target not in found or found[one.target].most < one.most):
                found[one.target] = one
    return found


def autoscaler(entry: Entry) -> Autoscaler | None:
    """What the object scales; None if that is no autoscaler, or one that says it of nothing."""
    if entry.id.kind not in _MOST:
        return None
    field, default = _MOST[entry.id.kind]
    reference = mapping(entry.spec.get("scaleTargetRef"))
    name, kind = reference.get("name"), reference.get("kind", "Deployment")
    most = entry.spec.get(field, default)
    if not isinstance(name, str) or not isinstance(kind, str) or not isinstance(most, int):
        return None
    return Autoscaler((kind, entry.id.namespace, name), most)
