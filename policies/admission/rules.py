"""The policies of admission: what a LimitRange or a ResourceQuota of the set would refuse of the set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from kubekit.identity import Manifest
from policies.admission import quotas
from policies.admission.amounts import Amounts, shown
from policies.admission.limits import Item, Refusal, claim_refusals, items, limit_range_refusals, with_defaults
from policies.admission.quotas import quota_refusals
from policies.admission.soundness import limit_range_defects, quota_defects
from policies.model import Fault, Scope
from policies.registry import policy
from policies.world import PODS, Entry, World, mapping, sequence

_LIMIT_RANGES = "https://kubernetes.io/docs/concepts/policy/limit-range/"
_QUOTAS = "https://kubernetes.io/docs/concepts/policy/resource-quotas/"
_STANDING = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "Rollout", "Pod"})


class _Claim(NamedTuple):
    """A claim that an object asks for; `pointer` leads to its spec."""

    pointer: str
    manifest: Manifest


def _ranges(world: World, namespace: str) -> tuple[Item, ...]:
    return world.index(_items_by_namespace).get(namespace, ())


def _items_by_namespace(world: World) -> dict[str, tuple[Item, ...]]:
    found: dict[str, list[Manifest]] = {}
    for one in world.by_kind.get("LimitRange", ()):
        found.setdefault(one.id.namespace, []).append(one.manifest)
    return {namespace: items(manifests) for namespace, manifests in found.items()}


def _bounds(world: World, namespace: str) -> list[Manifest]:
    return [one.manifest for one in world.within("ResourceQuota", namespace)]


def _faults(pointer: str, refusals: Iterator[Refusal] | list[Refusal]) -> Iterator[Fault]:
    for one in refusals:
        yield Fault(f"{pointer}{one.pointer}", one.message)


def _claims(entry: Entry) -> Iterator[_Claim]:
    """The claim that the object is, or those that a controller makes of its templates."""
    if entry.id.kind == "PersistentVolumeClaim":
        yield _Claim("/spec", entry.manifest)
    for index, one in enumerate(sequence(entry.spec.get("volumeClaimTemplates"))):
        yield _claim(entry, f"/spec/volumeClaimTemplates/{index}", one)
    for pointer, volume in entry.pod.items("volumes") if entry.pod else ():
        if isinstance(volume.get("ephemeral"), Mapping):
            template = volume["ephemeral"].get("volumeClaimTemplate")
            yield _claim(entry, f"{pointer}/ephemeral/volumeClaimTemplate", template)


def _claim(entry: Entry, pointer: str, template: object) -> _Claim:
    found = mapping(template)
    metadata = {**mapping(found.get("metadata")), "namespace": entry.id.namespace}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": found.get("spec")}
    return _Claim(f"{pointer}/spec", claim)


def _pod(entry: Entry, world: World) -> Manifest | None:
    """The Pod that the object starts, as it is admitted."""
    if entry.pod is None:
        return None
    known = world.index(_admitted)
    if id(entry) not in known:
        spec = with_defaults(entry.pod.spec, _ranges(world, entry.id.namespace))
        metadata = {"name": entry.id.name, "namespace": entry.id.namespace}
        known[id(entry)] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return known[id(entry)]


def _admitted(world: World) -> dict[int, Manifest]:  # noqa: ARG001  an index that fills as it is asked
    return {}


def _times(entry: Entry) -> int:
    """How many of its pods run at once; 1 where that is decided elsewhere."""
    if entry.id.kind == "Job":
        wanted = [entry.spec.get(key, 1) for key in ("parallelism", "completions")]
        return min((one for one in wanted if _is_count(one)), default=1)
    replicas = entry.spec.get("replicas", 1) if entry.id.kind in _STANDING else 1
    return replicas if _is_count(replicas) else 1


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@policy(
    "limitrange-admits",
    title="LimitRanges of its namespace admit every pod and claim",
    rationale="The API server refuses the pod, not the Deployment or Job that wants it: that one looks sound and never "
    "runs. Defaults that a LimitRange fills in count as well.",
    remedy="write requests and limits that keep to the LimitRange, or widen it",
    scope=Scope.SET,
    kinds=(*PODS, "PersistentVolumeClaim"),
    links=(_LIMIT_RANGES,),
)
def limitrange_admits(entry: Entry, world: World) -> Iterator[Fault]:
    ranges = _ranges(world, entry.id.namespace)
    if not ranges:
        return
    if entry.pod is not None:
        yield from _faults(entry.pod.pointer, limit_range_refusals(entry.pod.spec, ranges))
    for claim in _claims(entry):
        yield from _faults(claim.pointer, claim_refusals(mapping(claim.manifest.get("spec")), ranges))


@policy(
    "quota-admits",
    title="ResourceQuotas of its namespace have room for what the set puts there",
    rationale="A pod beyond the quota, or one that does not say how much it takes of what the quota counts, is refused "
    "again and again while its owner looks sound.",
    remedy="raise the quota, ask for less, or write the requests and limits that the quota counts",
    scope=Scope.SET,
    links=(_QUOTAS,),
)
def quota_admits(entry: Entry, world: World) -> Iterator[Fault]:
    bounds = _bounds(world, entry.id.namespace) if entry.id.namespace else []
    if not bounds:
        return
    if entry.id.kind == "ResourceQuota" and not entry.id.group:
        yield from _too_much_together(entry, world)
        return
    # What every quota says of one more object of this kind: that there is room for none.
    yield from _faults("", quota_refusals(entry.manifest, bounds) if entry.id.kind != "Pod" else [])
    pod = _pod(entry, world)
    if pod is not None and entry.pod is not None:
        yield from _faults(entry.pod.pointer, quota_refusals(pod, bounds, _times(entry)))
    for claim in _claims(entry):
        if claim.manifest is not entry.manifest:
            yield from _faults(claim.pointer, quota_refusals(claim.manifest, bounds))


def _too_much_together(quota: Entry, world: World) -> Iterator[Fault]:
    """What stands in the namespace for good, all together; Jobs come and go and are left out."""
    total: Amounts = {}
    alone: Amounts = {}
    for cost in _costs(quota, world):
        for name, number in cost.items():
            total[name] = total.get(name, Fraction()) + number
            alone[name] = max(alone.get(name, number), number)
    for name, bound in quotas.hard(quota.manifest).items():
        # What one object alone exceeds is said there.
        if name in total and total[name] > bound >= alone[name]:
            said = f"the set takes {shown(total[name], name)} of {name} in this namespace, Jobs not counted; "
            yield Fault(quotas.pointer_of(name), f"{said}the quota must be at least that, and is {shown(bound, name)}")


def _costs(quota: Entry, world: World) -> Iterator[Amounts]:
    """Of each object in its namespace, and of the pods and claims that the object brings along."""
    for entry in world.index(_by_namespace).get(quota.id.namespace, ()):
        if entry.id.kind in {"Job", "CronJob"}:
            continue
        times = _times(entry)
        brought: list[tuple[Mapping[str, Any], int]] = [(entry.manifest, 1)] if entry.id.kind != "Pod" else []
        pod = _pod(entry, world)
        if pod is not None:
            brought.append((pod, times))
        brought += [(one.manifest, times) for one in _claims(entry) if one.manifest is not entry.manifest]
        for manifest, count in brought:
            if quotas.concerns(quota.manifest, manifest):
                yield {name: number * count for name, number in quotas.usage(manifest).items()}


def _by_namespace(world: World) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in world.entries:
        found.setdefault(entry.id.namespace, []).append(entry)
    return found


@policy(
    "limitrange-sound",
    title="A LimitRange does not contradict itself",
    rationale="The API server refuses a LimitRange whose bounds and defaults are out of order; the namespace is then "
    "without any, and pods come in unbounded.",
    remedy="order them: min, defaultRequest, default, max; leave out what need not be written",
    kinds=("LimitRange",),
    links=(_LIMIT_RANGES,),
)
def limitrange_sound(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    yield from _faults("", limit_range_defects(entry.spec))


@policy(
    "quota-sound",
    title="A ResourceQuota counts what can be counted",
    rationale="The API server refuses a ResourceQuota with an unknown resource, or with a scope that cannot count its "
    "resources; the namespace is then without any.",
    remedy="write resources that quotas know, and scopes that fit them",
    kinds=("ResourceQuota",),
    links=(_QUOTAS,),
)
def quota_sound(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    yield from _faults("", quota_defects(entry.spec))
