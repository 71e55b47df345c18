"""Claims: a mode that its class cannot do leaves pods waiting for ever."""

from __future__ import annotations

from collections.abc import Iterator

from policies.model import Fault
from policies.registry import policy
from policies.world import Entry, World


@policy(
    "pvc-storageclass",
    title="A claim's class is known and supports its access mode",
    rationale="A claim that its class cannot serve stays Pending, or is bound and then refused on the second node.",
    remedy="choose a class that supports the mode, or add the class with its modes to cluster.storageClasses",
    kinds=("PersistentVolumeClaim",),
)
def pvc_storageclass(entry: Entry, world: World) -> Iterator[Fault]:
    classes = world.facts.storage_classes
    spec = entry.manifest.get("spec")
    if not classes or not isinstance(spec, dict):
        return
    name = spec.get("storageClassName")
    if not isinstance(name, str):
        return
    if name not in classes:
        yield Fault(
            "/spec/storageClassName",
            f"class {name!r} is not among cluster.storageClasses: {', '.join(sorted(classes))}",
        )
        return
    modes = spec.get("accessModes")
    for index, mode in enumerate(modes if isinstance(modes, list) else ()):
        if str(mode) not in classes[name]:
            can = ", ".join(sorted(classes[name]))
            yield Fault(f"/spec/accessModes/{index}", f"class {name!r} supports {can}, and the claim wants {mode}")
