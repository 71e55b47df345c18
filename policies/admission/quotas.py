"""ResourceQuotas as the API server charges them: what an object costs, whom a quota concerns, what does not fit.

Facts from k8s.io/kubernetes v1.35: pkg/quota/v1/evaluator/core; k8s.io/apiserver: pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from kubekit import pointers
from kubekit.identity import Manifest, ObjectId
from kubekit.resources import group_of, resource_of
from policies.admission import amounts
from policies.admission.amounts import Amounts, shown
from policies.admission.limits import Refusal
from policies.world import mapping, sequence

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_DEMANDED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""Where a quota counts one of these, every container must say how much of it: a design fault that stays."""
_OF_PODS = frozenset({"pods", *_COMPUTE, *(f"{part}.{name}" for part in ("requests", "limits") for name in _COMPUTE)})
_OF_CLAIMS = ("persistentvolumeclaims", "requests.storage")
_OF_SERVICES = frozenset({"services", "services.nodeports", "services.loadbalancers"})
_BY_CLASS = ".storageclass.storage.k8s.io/"
_ALIASES = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})
_ONE = Fraction(1)


def usage(manifest: Mapping[str, Any]) -> Amounts:
    """What one new object costs, by the names that quotas use; {} for a kind that we do not know.

    A Pod must have its defaults already (policies.admission.limits.with_defaults).
    """
    kind, spec = str(manifest.get("kind")), mapping(manifest.get("spec"))
    counted = dict.fromkeys(_counters(kind, str(manifest.get("apiVersion"))), _ONE)
    if not counted:
        return {}
    if kind == "Pod":
        return counted | _of_pod(spec)
    if kind == "PersistentVolumeClaim":
        return counted | _of_claim(manifest, spec)
    return counted | _of_service(spec) if kind == "Service" else counted


@lru_cache(maxsize=512)
def _counters(kind: str, api_version: str) -> tuple[str, ...]:
    """The names under which quotas count objects of a kind as such; () for a kind that we do not know."""
    resource, group = resource_of(kind), api_version.rpartition("/")[0]
    if resource is None or group_of(kind) != group:
        return ()
    if group:
        return (f"count/{resource}.{group}",)
    return (f"count/{resource}", resource) if resource in _ALIASES else (f"count/{resource}",)


def concerns(quota: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    """Whether the quota counts the object at all: by its resources, and by its scopes."""
    kind, spec = str(manifest.get("kind")), mapping(quota.get("spec"))
    counters = _counters(kind, str(manifest.get("apiVersion")))
    if not counters or not any(name in counters or _measures(kind, str(name)) for name in mapping(spec.get("hard"))):
        return False
    return all(_in_scope(scope, kind, mapping(manifest.get("spec"))) for scope in _scopes(spec))


def quota_refusals(manifest: Mapping[str, Any], quotas: Sequence[Manifest], times: int = 1) -> list[Refusal]:
    """What quotas have against `times` such objects in a namespace that is empty; pointers are those of a Pod's spec.

    A Pod must have its defaults already (policies.admission.limits.with_defaults).
    """
    concerned = [quota for quota in quotas if concerns(quota, manifest)]
    if not concerned:
        return []
    cost = usage(manifest)
    found: list[Refusal] = []
    for quota in sorted(concerned, key=lambda one: ObjectId.of(one).name):
        if manifest.get("kind") == "Pod":
            found += _undeclared(quota, mapping(manifest.get("spec")))
        found += _exceeded(quota, manifest, cost, times)
    return found


def room(manifest: Mapping[str, Any], quotas: Sequence[Manifest]) -> int | None:
    """How many such objects fit into the namespace while it holds nothing else; None for any number."""
    cost = usage(manifest)
    fits = [
        math.floor(bound / cost[name])
        for quota in quotas
        if concerns(quota, manifest)
        for name, bound in hard(quota).items()
        if cost.get(name)
    ]
    return min(fits, default=None)


def hard(quota: Mapping[str, Any]) -> Amounts:
    """Its bounds."""
    return amounts.read(mapping(quota.get("spec")).get("hard"))


def _of_pod(spec: Mapping[str, Any]) -> Amounts:
    requests = amounts.of_pod(spec, "requests", overhead=True)
    limits = amounts.of_pod(spec, "limits", overhead=True)
    cost: Amounts = {"pods": _ONE}
    for name, number in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            cost[name] = cost[f"requests.{name}"] = number
        elif not amounts.may_overcommit(name) or name.startswith("deviceclass.resource.kubernetes.io/"):
            cost[f"requests.{name}"] = number
    for name in _COMPUTE:
        if name in limits:
            cost[f"limits.{name}"] = limits[name]
    return cost


def _of_claim(manifest: Mapping[str, Any], spec: Mapping[str, Any]) -> Amounts:
    cost: Amounts = {"persistentvolumeclaims": _ONE}
    storage = amounts.of_container(spec, "requests").get("storage")
    if storage is not None:
        cost["requests.storage"] = Fraction(math.ceil(storage))
    # The annotation is older than the field and stands above it, still.
    annotations = mapping(mapping(manifest.get("metadata")).get("annotations"))
    name = annotations.get("volume.beta.kubernetes.io/storage-class", spec.get("storageClassName"))
    if name and isinstance(name, str):
        cost |= {f"{name}{_BY_CLASS}{key}": number for key, number in cost.items()}
    return cost


def _of_service(spec: Mapping[str, Any]) -> Amounts:
    ports = [port for port in sequence(spec.get("ports")) if isinstance(port, Mapping)]
    cost: Amounts = {"services": _ONE}
    if spec.get("type") == "LoadBalancer":
        cost["services.loadbalancers"] = _ONE
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
    if spec.get("type") in ("LoadBalancer", "NodePort"):
        cost["services.nodeports"] = Fraction(len(ports))
    return cost


def _measures(kind: str, name: str) -> bool:
    """Whether the resource `name` of a quota measures something in objects of `kind`."""
    if kind == "Pod":
        extended = name.startswith("requests.") and not amounts.may_overcommit(name.removeprefix("requests."))
        device = name.startswith("requests.deviceclass.resource.kubernetes.io/")
        return name in _OF_PODS or name.startswith(("hugepages-", "requests.hugepages-")) or extended or device
    if kind == "PersistentVolumeClaim":
        return name in _OF_CLAIMS or name.endswith(tuple(f"{_BY_CLASS}{one}" for one in _OF_CLAIMS))
    return kind == "Service" and name in _OF_SERVICES


def _scopes(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for scope in sequence(spec.get("scopes")):
        yield {"scopeName": scope, "operator": "Exists"}
    for one in sequence(mapping(spec.get("scopeSelector")).get("matchExpressions")):
        if isinstance(one, Mapping):
            yield one


def _in_scope(scope: Mapping[str, Any], kind: str, spec: Mapping[str, Any]) -> bool:
    name = scope.get("scopeName")
    if kind == "PersistentVolumeClaim":
        return name == "VolumeAttributesClass" and _selected(scope, spec.get("volumeAttributesClassName"))
    if kind != "Pod":
        return False
    # The deadline of a Job is the Job's own: its pods are not Terminating.
    deadline = spec.get("activeDeadlineSeconds")
    terminating = isinstance(deadline, int) and deadline >= 0
    answers = {
        "Terminating": terminating,
        "NotTerminating": not terminating,
        "BestEffort": name == "BestEffort" and _is_best_effort(spec),
        "NotBestEffort": name == "NotBestEffort" and not _is_best_effort(spec),
        "CrossNamespacePodAffinity": name == "CrossNamespacePodAffinity" and _looks_elsewhere(spec),
        "PriorityClass": name == "PriorityClass" and _selected(scope, spec.get("priorityClassName")),
    }
    return isinstance(name, str) and answers.get(name, False)


def _selected(scope: Mapping[str, Any], value: object) -> bool:
    operator, values = scope.get("operator"), sequence(scope.get("values"))
    if operator == "Exists":
        return bool(value)
    if operator == "DoesNotExist":
        return not value
    return (bool(value) and value in values) is (operator == "In")


def _is_best_effort(spec: Mapping[str, Any]) -> bool:
    """No container, and not the pod itself, asks for CPU or memory or bounds it."""
    if isinstance(spec.get("resources"), Mapping):
        askers: list[Mapping[str, Any]] = [spec]
    else:
        askers = [container for _, container in amounts.containers(spec)]
    found = (amounts.of_container(one, part) for one in askers for part in ("requests", "limits"))
    return not any(one.get("cpu") or one.get("memory") for one in found)


def _looks_elsewhere(spec: Mapping[str, Any]) -> bool:
    """Whether an affinity to pods names other namespaces."""
    affinity = mapping(spec.get("affinity"))
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = mapping(affinity.get(kind))
        wanted = sequence(terms.get("requiredDuringSchedulingIgnoredDuringExecution"))
        liked = sequence(terms.get("preferredDuringSchedulingIgnoredDuringExecution"))
        for term in (*wanted, *(mapping(one).get("podAffinityTerm") for one in liked)):
            if mapping(term).get("namespaces") or mapping(term).get("namespaceSelector") is not None:
                return True
    return False


def _undeclared(quota: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Refusal]:
    """Containers that do not say how much they take of what the quota counts."""
    level = mapping(spec.get("resources"))
    if any(str(name).startswith(amounts.POD_LEVEL) for part in level.values() for name in mapping(part)):
        return
    demanded = sorted(_DEMANDED & mapping(mapping(quota.get("spec")).get("hard")).keys())
    for pointer, container in amounts.containers(spec):
        said = {f"limits.{name}" for name in amounts.of_container(container, "limits")}
        for name in amounts.of_container(container, "requests"):
            said |= {name, f"requests.{name}"}
        lacking = {name if "." in name else f"requests.{name}" for name in demanded if name not in said}
        if lacking:
            yield Refusal(
                f"{pointer}/resources",
                f'container "{container.get("name", "")}" has no {" and no ".join(sorted(lacking))}, and must say how '
                f"much, since ResourceQuota {ObjectId.of(quota).name} counts it",
            )


def _exceeded(quota: Mapping[str, Any], manifest: Mapping[str, Any], cost: Amounts, times: int) -> Iterator[Refusal]:
    what = "pod" if manifest.get("kind") == "Pod" else "object"
    who = f"the {what} takes" if times == 1 else f"{times} such {what}s take"
    for name, bound in hard(quota).items():
        total = cost.get(name, Fraction()) * times
        if total > bound:
            rule = f"more than the {shown(bound, name)} of ResourceQuota {ObjectId.of(quota).name}"
            yield Refusal("", f"{who} {shown(total, name)} of {name}, {rule}")


def pointer_of(name: str) -> str:
    """Where a quota holds the bound of a resource."""
    return pointers.join("/spec/hard", name)
