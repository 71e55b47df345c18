"""Which object is which: the identity of a Kubernetes object, its scope, and its place in the order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Manifest: TypeAlias = dict[str, Any]
"""One Kubernetes object as a plain tree."""

CLUSTER_SCOPED = frozenset(
    {
        ("", "Namespace"),
        ("", "Node"),
        ("", "PersistentVolume"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("storage.k8s.io", "StorageClass"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("cilium.io", "CiliumLoadBalancerIPPool"),
        ("cilium.io", "CiliumL2AnnouncementPolicy"),
        ("cilium.io", "CiliumClusterwideNetworkPolicy"),
        ("external-secrets.io", "ClusterSecretStore"),
        ("external-secrets.io", "ClusterExternalSecret"),
        ("kueue.x-k8s.io", "ClusterQueue"),
        ("kueue.x-k8s.io", "ResourceFlavor"),
    },
)

# What must exist before what, as kubectl and Argo CD sort it; kinds that are not named come after these.
_KIND_ORDER = (
    "Namespace",
    "PriorityClass",
    "AppProject",
    "ServiceAccount",
    "SecretStore",
    "ClusterSecretStore",
    "ExternalSecret",
    "Secret",
    "ConfigMap",
    "PersistentVolumeClaim",
    "ResourceQuota",
    "LimitRange",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "NetworkPolicy",
    "CiliumNetworkPolicy",
    "CiliumLoadBalancerIPPool",
    "CiliumL2AnnouncementPolicy",
    "Service",
    "Cluster",
    "ScheduledBackup",
    "Deployment",
    "StatefulSet",
    "Job",
    "CronJob",
    "Application",
    "ApplicationSet",
)
_RANK = {kind: rank for rank, kind in enumerate(_KIND_ORDER)}


@dataclass(frozen=True, order=True)
class ObjectId:
    """(apiVersion, kind, namespace, name). `namespace` is "" for an object of the cluster."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> ObjectId:
        """The identity written in `manifest`; what is missing or not text is ""."""
        metadata = manifest.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        return cls(
            _text(manifest.get("apiVersion")),
            _text(manifest.get("kind")),
            _text(metadata.get("namespace")),
            _text(metadata.get("name")),
        )

    @property
    def group(self) -> str:
        """The API group: "" for core objects."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What the cluster holds only once: the version is a view of the object, not part of it."""
        return (self.group, self.kind, self.namespace, self.name)

    @property
    def cluster_scoped(self) -> bool:
        return (self.group, self.kind) in CLUSTER_SCOPED

    @property
    def rank(self) -> int:
        return _RANK.get(self.kind, len(_RANK))

    @property
    def file_name(self) -> str:
        return f"{self.kind.lower()}-{self.name}.yaml"

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
