"""The waves in which Argo CD syncs: what a workload needs comes no later than the workload."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kubekit import labels, pointers
from policies.model import Fault, Scope, Severity
from policies.registry import policy
from policies.world import Entry, PodView, World, mapping, sequence

_HOOK = "argocd.argoproj.io/hook"
_PLACE = pointers.join("/metadata/annotations", labels.SYNC_WAVE)
_INTEGER = re.compile(r"[-+]?[0-9]{1,9}")


class Need(NamedTuple):
    """What a pod cannot start without; `pointer` is where it says so."""

    pointer: str
    kind: str
    name: str


def wave_of(entry: Entry) -> int:
    """Its wave; what is no integer counts as 0, as Argo CD has it."""
    said = entry.annotations.get(labels.SYNC_WAVE)
    return int(said) if isinstance(said, str) and _INTEGER.fullmatch(said) else 0


@policy(
    "sync-wave-order",
    title="What a workload needs is synced no later than the workload",
    rationale="Argo CD waits for a wave to be healthy before it begins the next: a workload whose ConfigMap, Secret, "
    "claim or Namespace comes in a later wave never becomes healthy, and the sync hangs. Within a wave it sorts kinds.",
    remedy="give what is needed the same sync wave or an earlier one (the default is 0)",
    severity=Severity.WARNING,
    scope=Scope.SET,
    links=("https://argo-cd.readthedocs.io/en/stable/user-guide/sync-waves/",),
)
def sync_wave_order(entry: Entry, world: World) -> Iterator[Fault]:
    said = entry.annotations.get(labels.SYNC_WAVE)
    if isinstance(said, str) and not _INTEGER.fullmatch(said):
        yield Fault(_PLACE, 'the sync wave is no integer, so Argo CD takes it for 0; it must be one, such as "-1"')
    latest = world.index(_providers)
    # What no wave puts behind the first can be too late for nobody.
    if not latest or _HOOK in entry.annotations:
        return
    own = wave_of(entry)
    for need in _needs(entry):
        for place in (entry.id.namespace, ""):
            found = latest.get((need.kind, place, need.name))
            if found is not None and found[0] > own:
                yield Fault(
                    need.pointer,
                    f"{found[1]} is synced in wave {found[0]}, after this in wave {own}, and must not be later",
                )


def _providers(world: World) -> Mapping[tuple[str, str, str], tuple[int, str]]:
    """(kind, namespace, name) of what others may need to its wave and what makes it; {} if all is of one wave."""
    if len({wave_of(entry) for entry in world.entries}) <= 1:
        return {}
    found: dict[tuple[str, str, str], tuple[int, str]] = {}
    for entry in world.entries:
        if _HOOK in entry.annotations:
            continue
        for kind, name in _provided(entry):
            key = (kind, "" if entry.id.cluster_scoped else entry.id.namespace, name)
            made = (wave_of(entry), str(entry.id))
            # The earliest of several makers is the one that counts.
            found[key] = min(found.get(key, made), made)
    return found


def _provided(entry: Entry) -> Iterator[tuple[str, str]]:
    kind, name = entry.id.kind, entry.id.name
    yield kind, name
    if kind in {"ExternalSecret", "SealedSecret"}:
        target = mapping(entry.spec.get("target")).get("name")
        yield "Secret", target if isinstance(target, str) and target else name
    elif kind == "CustomResourceDefinition":
        names = mapping(entry.spec.get("names"))
        yield f"{entry.spec.get('group')}/{names.get('kind')}", "*"


def _needs(entry: Entry) -> Iterator[Need]:
    if entry.id.namespace:
        yield Need("/metadata/namespace", "Namespace", entry.id.namespace)
    yield Need("/kind", f"{entry.id.group}/{entry.id.kind}", "*")
    if entry.pod is not None:
        yield from _of_pod(entry.pod)


def _of_pod(pod: PodView) -> Iterator[Need]:
    spec = pod.spec
    for field, kind in (("serviceAccountName", "ServiceAccount"), ("priorityClassName", "PriorityClass")):
        if isinstance(spec.get(field), str) and spec[field]:
            yield Need(f"{pod.pointer}/{field}", kind, spec[field])
    for pointer, one in pod.items("imagePullSecrets"):
        yield from _named(f"{pointer}/name", "Secret", one, "name")
    for pointer, one in pod.items("volumes"):
        yield from _of_volume(pointer, one)
    for container in pod.containers:
        for index, one in enumerate(sequence(container.spec.get("envFrom"))):
            for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                there = f"{container.pointer}/envFrom/{index}/{field}/name"
                yield from _named(there, kind, mapping(mapping(one).get(field)), "name")
        for index, one in enumerate(sequence(container.spec.get("env"))):
            source = mapping(mapping(one).get("valueFrom"))
            for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
                there = f"{container.pointer}/env/{index}/valueFrom/{field}/name"
                yield from _named(there, kind, mapping(source.get(field)), "name")


def _of_volume(pointer: str, volume: Mapping[str, Any]) -> Iterator[Need]:
    claim = mapping(volume.get("persistentVolumeClaim"))
    yield from _named(f"{pointer}/persistentVolumeClaim/claimName", "PersistentVolumeClaim", claim, "claimName")
    yield from _named(f"{pointer}/secret/secretName", "Secret", mapping(volume.get("secret")), "secretName")
    yield from _named(f"{pointer}/configMap/name", "ConfigMap", mapping(volume.get("configMap")), "name")
    projected: Iterable[Any] = sequence(mapping(volume.get("projected")).get("sources"))
    for index, one in enumerate(projected):
        for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            there = f"{pointer}/projected/sources/{index}/{field}/name"
            yield from _named(there, kind, mapping(mapping(one).get(field)), "name")


def _named(pointer: str, kind: str, reference: Mapping[str, Any], field: str) -> Iterator[Need]:
    """Nothing for an optional one: the pod starts without it."""
    name = reference.get(field)
    if isinstance(name, str) and name and reference.get("optional") is not True:
        yield Need(pointer, kind, name)
