from __future__ import annotations

import copy
from typing import Any

import pytest

from charts_py.diff import judges, risk
from charts_py.diff.compare import field_changes
from charts_py.diff.verdict import RISKS, worst
from kubekit import pointers

_KEEP = {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}
_GONE = object()


def make(kind: str, **fields: Any) -> dict[str, Any]:
    group_kind = kind.rpartition("/")
    version = f"{group_kind[0]}/v1" if group_kind[0] else "v1"
    return {
        "apiVersion": version,
        "kind": group_kind[2],
        "metadata": {"name": "x", "namespace": "n"},
        **fields,
    }


def judged(old: dict[str, Any] | None, new: dict[str, Any] | None) -> str:
    changes = field_changes(old, new) if old is not None and new is not None else []
    return worst(verdict.risk for verdict in risk.verdicts(old, new, changes))


def edited(manifest: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    result = copy.deepcopy(manifest)
    *path, last = pointers.split(pointer)
    here: Any = result
    for token in path:
        here = here[int(token)] if isinstance(here, list) else here.setdefault(token, {})
    if value is _GONE:
        del here[last]
    else:
        here[int(last) if isinstance(here, list) else last] = value
    return result


DEPLOYMENT = make(
    "apps/Deployment",
    spec={
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"spec": {"containers": [{"name": "server", "image": "a"}]}},
    },
)
STATEFUL = make(
    "apps/StatefulSet",
    spec={
        "replicas": 1,
        "serviceName": "x",
        "template": {"spec": {}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "longhorn"}}],
    },
)
JOB = make("batch/Job", spec={"template": {"spec": {"image": "a"}}, "backoffLimit": 1, "parallelism": 1})
SERVICE = make("Service", spec={"selector": {"a": "b"}, "ports": [{"port": 1}], "type": "ClusterIP"})
CLAIM = make(
    "PersistentVolumeClaim",
    spec={
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "longhorn",
        "resources": {"requests": {"storage": "10Gi"}},
    },
)
CLAIM["metadata"]["annotations"] = dict(_KEEP)
NAMESPACE = make("Namespace")
NAMESPACE["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "baseline"}
ROLE = make(
    "rbac.authorization.k8s.io/Role",
    rules=[
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"], "resourceNames": ["a", "b"]},
    ],
)
BINDING = make(
    "rbac.authorization.k8s.io/RoleBinding",
    roleRef={"name": "r"},
    subjects=[{"kind": "ServiceAccount", "name": "s"}],
)
POLICY = make(
    "networking.k8s.io/NetworkPolicy",
    spec={
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [],
        "egress": [
            {"to": [{"podSelector": {"a": "dns"}}, {"podSelector": {"a": "api"}}], "ports": [{"port": 53}]},
            {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        ],
    },
)
CILIUM = make(
    "cilium.io/CiliumNetworkPolicy",
    spec={
        "endpointSelector": {},
        "egress": [{"toFQDNs": [{"matchName": "github.com"}]}],
        "egressDeny": [{"toCIDR": ["169.254.169.254/32"]}],
    },
)
CLUSTER = make("postgresql.cnpg.io/Cluster", spec={"storage": {"size": "5Gi"}, "imageName": "a", "backup": {"x": 1}})
APPLICATION = make(
    "argoproj.io/Application",
    spec={
        "syncPolicy": {"automated": {"selfHeal": True}, "syncOptions": ["RespectIgnoreDifferences=true"]},
        "ignoreDifferences": [{"kind": "Secret", "jsonPointers": ["/data"]}],
    },
)
VALUES = {
    "primary": {"persistence": {"size": "5Gi", "storageClass": "longhorn"}},
    "metrics": {"enabled": True},
}

CHANGES: list[tuple[dict[str, Any], str, Any, str]] = [
    (DEPLOYMENT, "/spec/template/spec/containers/0/image", "b", "rolls pod"),
    (DEPLOYMENT, "/spec/replicas", 2, ""),
    (DEPLOYMENT, "/spec/replicas", 0, "traffic"),
    (DEPLOYMENT, "/spec/selector/matchLabels/a", "c", "recreates"),
    (DEPLOYMENT, "/spec/selector", _GONE, "recreates"),
    (DEPLOYMENT, "/metadata/labels", {"a": "b"}, ""),
    (DEPLOYMENT, "/spec/template/spec/hostNetwork", True, "access widened"),
    (STATEFUL, "/spec/template/spec/x", 1, "rolls pod"),
    (STATEFUL, "/spec/replicas", 3, ""),
    (STATEFUL, "/spec/minReadySeconds", 3, ""),
    (STATEFUL, "/spec/serviceName", "y", "recreates"),
    (STATEFUL, "/spec/podManagementPolicy", "Parallel", "recreates"),
    (STATEFUL, "/spec/volumeClaimTemplates/0/spec/accessModes", ["ReadWriteMany"], "recreates"),
    (STATEFUL, "/spec/volumeClaimTemplates/0/spec/storageClassName", "other", "data loss"),
    (STATEFUL, "/spec/persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Delete"}, "data loss"),
    (JOB, "/spec/template/spec/image", "b", "recreates"),
    (JOB, "/spec/completions", 2, "recreates"),
    (JOB, "/spec/parallelism", 2, ""),
    (JOB, "/spec/backoffLimit", 2, ""),
    (SERVICE, "/spec/clusterIP", "None", "recreates"),
    (SERVICE, "/spec/selector/a", "c", "traffic"),
    (SERVICE, "/spec/ports/0/port", 2, "traffic"),
    (SERVICE, "/spec/loadBalancerIP", "192.0.2.1", "traffic"),
    (SERVICE, "/spec/type", "LoadBalancer", "access widened"),
    (SERVICE, "/metadata/annotations", {"lbipam.cilium.io/ips": "192.0.2.1"}, "traffic"),
    (SERVICE, "/metadata/annotations", {"other": "x"}, ""),
    (CLAIM, "/spec/resources/requests/storage", "20Gi", ""),
    (CLAIM, "/spec/resources/requests/storage", "10240Mi", ""),
    (CLAIM, "/spec/resources/requests/storage", "9Gi", "data loss"),
    (CLAIM, "/spec/accessModes", ["ReadWriteMany"], "recreates"),
    (CLAIM, "/spec/volumeName", "pv", "recreates"),
    (CLAIM, "/spec/storageClassName", "other", "data loss"),
    (CLAIM, "/metadata/annotations", {}, "data loss"),
    (CLAIM, "/metadata/annotations", {"argocd.argoproj.io/sync-options": "Prune=false"}, "data loss"),
    (CLAIM, "/metadata/annotations", {"argocd.argoproj.io/sync-options": "Delete=false, Prune=confirm"}, ""),
    (
        CLAIM,
        "/metadata/annotations/argocd.argoproj.io~1sync-options",
        "Prune=false,Delete=false,Force=true",
        "data loss",
    ),
    (NAMESPACE, "/metadata/labels/pod-security.kubernetes.io~1enforce", "privileged", "access widened"),
    (NAMESPACE, "/metadata/labels/pod-security.kubernetes.io~1enforce", _GONE, "access widened"),
    (NAMESPACE, "/metadata/labels/pod-security.kubernetes.io~1enforce", "restricted", ""),
    (ROLE, "/rules/0/verbs", ["get"], ""),
    (ROLE, "/rules/0/resources", ["pods"], ""),
    (ROLE, "/rules/0/verbs", ["get", "list", "delete"], "access widened"),
    (ROLE, "/rules/0/apiGroups", ["", "apps"], "access widened"),
    (ROLE, "/rules/1/verbs", ["create"], ""),
    (ROLE, "/rules/1/resourceNames", ["a"], ""),
    (ROLE, "/rules/1/resourceNames", _GONE, "access widened"),
    (ROLE, "/rules/1", {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}, "access widened"),
    (BINDING, "/roleRef/name", "admin", "recreates"),
    (BINDING, "/subjects/0/name", "other", "access widened"),
    (BINDING, "/subjects", [], ""),
    (POLICY, "/spec/egress/0/to", [{"podSelector": {"a": "dns"}}], ""),
    (POLICY, "/spec/egress/1/ports", [{"port": 443}], ""),
    (POLICY, "/spec/egress", [], ""),
    (POLICY, "/spec/egress/0/to", [], "access widened"),
    (POLICY, "/spec/egress/0/ports", _GONE, "access widened"),
    (POLICY, "/spec/egress/0/to/0/podSelector/a", "all", "access widened"),
    (POLICY, "/spec/ingress", [{}], "access widened"),
    (POLICY, "/spec/policyTypes", ["Ingress"], "access widened"),
    (POLICY, "/spec/podSelector", {"matchLabels": {"a": "b"}}, "access widened"),
    (CILIUM, "/spec/egress/0/toPorts", [{"port": 443}], ""),
    (CILIUM, "/spec/egress/0/toCIDR", ["0.0.0.0/0"], "access widened"),
    (CILIUM, "/spec/egress", [], ""),
    (CILIUM, "/spec/egressDeny", [], "access widened"),
    (CLUSTER, "/spec/storage/size", "4Gi", "data loss"),
    (CLUSTER, "/spec/storage/size", "6Gi", ""),
    (CLUSTER, "/spec/storage/storageClass", "other", "data loss"),
    (CLUSTER, "/spec/imageName", "b", "rolls pod"),
    (CLUSTER, "/spec/backup", _GONE, "data loss"),
    (APPLICATION, "/metadata/finalizers", ["resources-finalizer.argocd.argoproj.io"], "data loss"),
    (APPLICATION, "/spec/syncPolicy/automated/prune", True, "data loss"),
    (APPLICATION, "/spec/syncPolicy/syncOptions", [], "data loss"),
    (APPLICATION, "/spec/ignoreDifferences", [], "data loss"),
    (APPLICATION, "/spec/project", "other", ""),
    (VALUES, "/primary/persistence/size", "4Gi", "data loss"),
    (VALUES, "/primary/persistence/size", "6Gi", ""),
    (VALUES, "/primary/persistence/storageClass", "other", "data loss"),
    (VALUES, "/primary/persistence/enabled", False, "data loss"),
    (VALUES, "/metrics/enabled", False, ""),
    (make("storage.k8s.io/StorageClass", reclaimPolicy="Retain"), "/reclaimPolicy", "Delete", "data loss"),
    (make("storage.k8s.io/StorageClass", provisioner="a"), "/provisioner", "b", "recreates"),
    (make("ConfigMap", immutable=True, data={"a": "b"}), "/data/a", "c", "recreates"),
    (make("ConfigMap", data={"a": "b"}), "/data/a", "c", ""),
    (make("Secret", type="Opaque"), "/type", "kubernetes.io/tls", "recreates"),
    (
        make("external-secrets.io/ExternalSecret", spec={"target": {}}),
        "/spec/target/deletionPolicy",
        "Delete",
        "data loss",
    ),
    (
        make("argoproj.io/AppProject", spec={"sourceRepos": ["a"]}),
        "/spec/sourceRepos",
        ["*"],
        "access widened",
    ),
    (make("ServiceAccount"), "/automountServiceAccountToken", True, "access widened"),
]


@pytest.mark.parametrize(("manifest", "pointer", "value", "expected"), CHANGES)
def test_the_risk_of_one_change(manifest: dict[str, Any], pointer: str, value: Any, expected: str) -> None:
    assert judged(manifest, edited(manifest, pointer, value)) == expected


@pytest.mark.parametrize("manifest", [item[0] for item in CHANGES])
def test_no_change_is_no_risk(manifest: dict[str, Any]) -> None:
    assert judged(manifest, copy.deepcopy(manifest)) == ""


REMOVED = [
    (CLAIM, "data loss"),
    (NAMESPACE, "data loss"),
    (CLUSTER, "data loss"),
    (make("apiextensions.k8s.io/CustomResourceDefinition"), "data loss"),
    (POLICY, "access widened"),
    (CILIUM, "access widened"),
    (SERVICE, "traffic"),
    (DEPLOYMENT, "traffic"),
    (ROLE, ""),
    (make("argoproj.io/Application", spec={"source": {"path": "apps/paperclip"}}), ""),
    (make("argoproj.io/Application", spec={"sources": [{"chart": "postgresql"}]}), "data loss"),
    (make("argoproj.io/Application", spec={"source": {"path": "dist/prod/paperclip-db"}}), "data loss"),
    (
        make(
            "argoproj.io/Application",
            metadata={"name": "a", "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
        ),
        "data loss",
    ),
]


@pytest.mark.parametrize(("manifest", "expected"), REMOVED)
def test_the_risk_of_a_removal(manifest: dict[str, Any], expected: str) -> None:
    assert judged(manifest, None) == expected


ADDED = [
    (ROLE, "access widened"),
    (BINDING, "access widened"),
    (POLICY, "access widened"),
    (make("networking.k8s.io/NetworkPolicy", spec={"podSelector": {}, "policyTypes": ["Ingress"]}), ""),
    (DEPLOYMENT, ""),
    (CLAIM, ""),
]


@pytest.mark.parametrize(("manifest", "expected"), ADDED)
def test_the_risk_of_an_addition(manifest: dict[str, Any], expected: str) -> None:
    assert judged(None, manifest) == expected


def test_a_hook_is_made_anew_anyway() -> None:
    hook = edited(JOB, "/metadata/annotations", {"argocd.argoproj.io/hook": "PreSync"})

    assert judged(hook, edited(hook, "/spec/template/spec/image", "b")) == ""


def test_broken_objects_are_judged_without_error() -> None:
    for kind in {*(kind for rule in risk.RULES for kind in rule.kinds), *judges._REMOVED, *judges._CHANGED}:
        for junk in (None, 7, "text", [], [7], {"a": [None]}):
            old = make(kind, spec=junk, rules=junk, subjects=junk)
            new = make(kind, spec={"template": junk, "syncPolicy": junk, "storage": junk}, rules=[junk])
            assert judged(old, new) in RISKS
            assert judged(new, old) in RISKS


@pytest.mark.parametrize("manifest", [item[0] for item in CHANGES])
@pytest.mark.parametrize("junk", [None, 7, "text", [], [7], {}, {"a": [None]}])
def test_a_broken_field_is_judged_without_error(manifest: dict[str, Any], junk: Any) -> None:
    for pointer, _ in pointers.walk(manifest):
        path = pointers.split(pointer)
        for depth in range(1, len(path) + 1):
            broken = edited(manifest, pointers.join("", *path[:depth]), junk)
            assert {judged(manifest, broken), judged(broken, manifest), judged(broken, None)} <= set(RISKS)


def test_a_verdict_is_tied_to_the_change_it_speaks_of() -> None:
    new = edited(edited(DEPLOYMENT, "/spec/selector/matchLabels/a", "c"), "/metadata/labels", {"x": "y"})
    changes = field_changes(DEPLOYMENT, new)
    (verdict,) = risk.verdicts(DEPLOYMENT, new, changes)

    assert {change.pointer: risk.fits(verdict, change) for change in changes} == {
        "/metadata/labels": False,
        "/spec/selector/matchLabels/a": True,
    }
