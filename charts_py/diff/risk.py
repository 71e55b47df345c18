"""How dangerous a change is: the table. What needs more than the place of a change is judged in `judges`.

Immutable fields are those that the validation of Kubernetes refuses to update (pkg/apis/*/validation).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from charts_py.diff import judges
from charts_py.diff.compare import FieldChange
from charts_py.diff.verdict import Verdict, kind_key
from kubekit import pointers
from kubekit.identity import Manifest

IMMUTABLE = "immutable: the API server refuses this change; delete and re-create"
_ROLLS = "the pod template changed: its pods are replaced"
_TRAFFIC = "decides where traffic goes"
_STATEFULSET_FREE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "minReadySeconds",
    "persistentVolumeClaimRetentionPolicy",
)
_POD_FREE = (
    "containers",
    "initContainers",
    "activeDeadlineSeconds",
    "tolerations",
    "terminationGracePeriodSeconds",
)
_CLAIM_FREE = ("resources", "storageClassName", "volumeAttributesClassName")


@dataclass(frozen=True)
class Rule:
    """`kinds` as "group/Kind", "Kind" for the core group; `pattern` is a pointer, `*` in it any one token.

    It fits a change at, below or above that place. `free`: tokens for `*` that the rule does not mean.
    """

    kinds: tuple[str, ...]
    pattern: str
    risk: str
    why: str
    free: tuple[str, ...] = ()


def _immutable(kind: str, *patterns: str) -> list[Rule]:
    return [Rule((kind,), pattern, "recreates", IMMUTABLE) for pattern in patterns]


def _traffic(kind: str, *patterns: str) -> list[Rule]:
    return [Rule((kind,), pattern, "traffic", _TRAFFIC) for pattern in patterns]


RULES: tuple[Rule, ...] = (
    Rule(("apps/Deployment", "apps/StatefulSet", "apps/DaemonSet"), "/spec/template", "rolls pod", _ROLLS),
    Rule(("postgresql.cnpg.io/Cluster",), "/spec/imageName", "rolls pod", "the database restarts with it"),
    Rule(("postgresql.cnpg.io/Cluster",), "/spec/resources", "rolls pod", "the database restarts with it"),
    *_immutable("apps/Deployment", "/spec/selector"),
    *_immutable("apps/DaemonSet", "/spec/selector"),
    *_immutable("apps/ReplicaSet", "/spec/selector"),
    Rule(("apps/StatefulSet",), "/spec/*", "recreates", IMMUTABLE, free=_STATEFULSET_FREE),
    *_immutable(
        "batch/Job",
        "/spec/template",
        "/spec/selector",
        "/spec/completions",
        "/spec/completionMode",
        "/spec/podFailurePolicy",
        "/spec/successPolicy",
        "/spec/backoffLimitPerIndex",
        "/spec/managedBy",
    ),
    Rule(("Pod",), "/spec/*", "recreates", IMMUTABLE, free=_POD_FREE),
    *_immutable("Service", "/spec/clusterIP", "/spec/clusterIPs", "/spec/loadBalancerClass"),
    Rule(
        ("PersistentVolumeClaim",),
        "/spec/*",
        "recreates",
        f"{IMMUTABLE}, which loses the data",
        free=_CLAIM_FREE,
    ),
    *_immutable("rbac.authorization.k8s.io/RoleBinding", "/roleRef"),
    *_immutable("rbac.authorization.k8s.io/ClusterRoleBinding", "/roleRef"),
    *_immutable("storage.k8s.io/StorageClass", "/provisioner", "/parameters", "/reclaimPolicy", "/volumeBindingMode"),
    *_immutable("scheduling.k8s.io/PriorityClass", "/value", "/preemptionPolicy"),
    *_immutable("Secret", "/type"),
    Rule(
        ("PersistentVolumeClaim",),
        "/spec/storageClassName",
        "data loss",
        "another storage class is another, empty volume",
    ),
    Rule(
        ("apps/StatefulSet",),
        "/spec/volumeClaimTemplates/*/spec/storageClassName",
        "data loss",
        f"{IMMUTABLE}; another storage class is another, empty volume",
    ),
    Rule(
        ("postgresql.cnpg.io/Cluster",),
        "/spec/storage/storageClass",
        "data loss",
        "another storage class is another, empty volume",
    ),
    Rule(
        ("File",),
        "/primary/persistence/storageClass",
        "data loss",
        "another storage class is another, empty volume",
    ),
    Rule(("File",), "/primary/persistence/existingClaim", "data loss", "the database starts on another volume"),
    *_traffic(
        "Service",
        "/spec/selector",
        "/spec/ports",
        "/spec/loadBalancerIP",
        "/spec/type",
        "/spec/externalIPs",
        "/spec/externalTrafficPolicy",
        "/spec/internalTrafficPolicy",
        "/spec/sessionAffinity",
        "/spec/loadBalancerSourceRanges",
        "/metadata/annotations/lbipam.cilium.io~1ips",
        "/metadata/annotations/io.cilium~1lb-ipam-ips",
        "/metadata/annotations/lbipam.cilium.io~1sharing-key",
    ),
    *_traffic("cilium.io/CiliumLoadBalancerIPPool", "/spec"),
    *_traffic("cilium.io/CiliumL2AnnouncementPolicy", "/spec"),
    *_traffic("networking.k8s.io/Ingress", "/spec"),
    *_traffic("gateway.networking.k8s.io/HTTPRoute", "/spec"),
    *_traffic("traefik.io/IngressRoute", "/spec"),
)


def verdicts(old: Manifest | None, new: Manifest | None, changes: Iterable[FieldChange] = ()) -> tuple[Verdict, ...]:
    """Every reason for care with one object; `old` is None for a new one, `new` for one that goes away.

    Both without secrets, as `mask.masked` leaves them; `changes` are the fields in which they differ.
    """
    if old is None or new is None:
        lone = old if new is None else new
        if lone is None:
            return ()
        return tuple(judges.removed(lone) if new is None else judges.added(lone))
    kind = kind_key(new)
    found = [] if judges.is_hook(new) else [*_table(kind, changes)]
    return tuple(dict.fromkeys([*found, *judges.changed(old, new)]))


def fits(verdict: Verdict, change: FieldChange) -> bool:
    """Whether the verdict speaks of this change: at its place, above or below it."""
    above, below = sorted((pointers.split(verdict.pointer), pointers.split(change.pointer)), key=len)
    return below[: len(above)] == above


def _table(kind: str, changes: Iterable[FieldChange]) -> Iterator[Verdict]:
    rules = [rule for rule in RULES if kind in rule.kinds]
    for change in changes:
        tokens = pointers.split(change.pointer)
        for rule in rules:
            if _touches(rule, tokens, change):
                yield Verdict(rule.risk, rule.why, change.pointer)


def _touches(rule: Rule, tokens: tuple[str, ...], change: FieldChange) -> bool:
    pattern = pointers.split(rule.pattern)
    for wanted, token in zip(pattern, tokens, strict=False):
        if wanted != token and (wanted != "*" or token in rule.free):
            return False
    rest = pattern[len(tokens) :]
    return any(_holds(value, rest, rule.free) for value in (change.old, change.new))


def _holds(value: Any, rest: tuple[str, ...], free: tuple[str, ...]) -> bool:
    """Whether the subtree that came or went has something at `rest`."""
    if not rest:
        return True
    if isinstance(value, list):
        return rest[0] == "*" and any(_holds(item, rest[1:], free) for item in value)
    if not isinstance(value, dict):
        return False
    keys = [key for key in value if key not in free] if rest[0] == "*" else [rest[0]]
    return any(key in value and _holds(value[key], rest[1:], free) for key in keys)
