"""API versions that a Kubernetes release no longer serves, or is about to drop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from policies.facts import minor
from policies.model import Fault, Severity
from policies.registry import policy
from policies.world import Entry, World

_GUIDE = "https://kubernetes.io/docs/reference/using-api/deprecation-guide/"


class Retirement(NamedTuple):
    """Minor versions of Kubernetes: deprecated from `deprecated` on, not served from `removed` on."""

    deprecated: int
    removed: int
    successor: str


def _all(kinds: str, api_version: str, retired: Retirement) -> dict[tuple[str, str], Retirement]:
    return {(api_version, kind): retired for kind in kinds.split()}


# From the deprecation guide, and from the life cycles that the API types declare (prerelease-lifecycle-gen).
RETIRED: Mapping[tuple[str, str], Retirement] = {
    **_all("DaemonSet Deployment ReplicaSet", "extensions/v1beta1", Retirement(9, 16, "apps/v1")),
    **_all("NetworkPolicy", "extensions/v1beta1", Retirement(9, 16, "networking.k8s.io/v1")),
    **_all("PodSecurityPolicy", "extensions/v1beta1", Retirement(10, 16, "Pod Security Admission")),
    **_all("Ingress", "extensions/v1beta1", Retirement(14, 22, "networking.k8s.io/v1")),
    **_all("Deployment StatefulSet", "apps/v1beta1", Retirement(9, 16, "apps/v1")),
    **_all("DaemonSet Deployment ReplicaSet StatefulSet", "apps/v1beta2", Retirement(9, 16, "apps/v1")),
    **_all(
        "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1beta1",
        Retirement(16, 22, "admissionregistration.k8s.io/v1"),
    ),
    **_all(
        "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io/v1beta1",
        Retirement(31, 34, "admissionregistration.k8s.io/v1"),
    ),
    **_all("CustomResourceDefinition", "apiextensions.k8s.io/v1beta1", Retirement(16, 22, "apiextensions.k8s.io/v1")),
    **_all("APIService", "apiregistration.k8s.io/v1beta1", Retirement(19, 22, "apiregistration.k8s.io/v1")),
    **_all("TokenReview", "authentication.k8s.io/v1beta1", Retirement(19, 22, "authentication.k8s.io/v1")),
    **_all(
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
        "authorization.k8s.io/v1beta1",
        Retirement(19, 22, "authorization.k8s.io/v1"),
    ),
    **_all("CertificateSigningRequest", "certificates.k8s.io/v1beta1", Retirement(19, 22, "certificates.k8s.io/v1")),
    **_all("Lease", "coordination.k8s.io/v1beta1", Retirement(19, 22, "coordination.k8s.io/v1")),
    **_all("Ingress IngressClass", "networking.k8s.io/v1beta1", Retirement(19, 22, "networking.k8s.io/v1")),
    **_all(
        "ClusterRole ClusterRoleBinding Role RoleBinding",
        "rbac.authorization.k8s.io/v1beta1",
        Retirement(17, 22, "rbac.authorization.k8s.io/v1"),
    ),
    **_all("PriorityClass", "scheduling.k8s.io/v1beta1", Retirement(14, 22, "scheduling.k8s.io/v1")),
    **_all(
        "CSIDriver CSINode StorageClass VolumeAttachment",
        "storage.k8s.io/v1beta1",
        Retirement(19, 22, "storage.k8s.io/v1"),
    ),
    **_all("CronJob", "batch/v1beta1", Retirement(21, 25, "batch/v1")),
    **_all("EndpointSlice", "discovery.k8s.io/v1beta1", Retirement(21, 25, "discovery.k8s.io/v1")),
    **_all("Event", "events.k8s.io/v1beta1", Retirement(19, 25, "events.k8s.io/v1")),
    **_all("HorizontalPodAutoscaler", "autoscaling/v2beta1", Retirement(22, 25, "autoscaling/v2")),
    **_all("HorizontalPodAutoscaler", "autoscaling/v2beta2", Retirement(23, 26, "autoscaling/v2")),
    **_all("PodDisruptionBudget", "policy/v1beta1", Retirement(21, 25, "policy/v1")),
    **_all("PodSecurityPolicy", "policy/v1beta1", Retirement(21, 25, "Pod Security Admission")),
    **_all("RuntimeClass", "node.k8s.io/v1beta1", Retirement(20, 25, "node.k8s.io/v1")),
    **_all("SelfSubjectReview", "authentication.k8s.io/v1beta1", Retirement(30, 33, "authentication.k8s.io/v1")),
    **_all("IPAddress ServiceCIDR", "networking.k8s.io/v1beta1", Retirement(34, 37, "networking.k8s.io/v1")),
    **_all("VolumeAttributesClass", "storage.k8s.io/v1beta1", Retirement(34, 37, "storage.k8s.io/v1")),
    **_all("CSIStorageCapacity", "storage.k8s.io/v1beta1", Retirement(24, 27, "storage.k8s.io/v1")),
    **_all(
        "FlowSchema PriorityLevelConfiguration",
        "flowcontrol.apiserver.k8s.io/v1beta1",
        Retirement(23, 26, "flowcontrol.apiserver.k8s.io/v1"),
    ),
    **_all(
        "FlowSchema PriorityLevelConfiguration",
        "flowcontrol.apiserver.k8s.io/v1beta2",
        Retirement(26, 29, "flowcontrol.apiserver.k8s.io/v1"),
    ),
    **_all(
        "FlowSchema PriorityLevelConfiguration",
        "flowcontrol.apiserver.k8s.io/v1beta3",
        Retirement(29, 32, "flowcontrol.apiserver.k8s.io/v1"),
    ),
}


@policy(
    "api-version-served",
    title="The cluster serves the API version of every object",
    rationale="A removed version is refused at the first sync after an upgrade, and the objects that are there can no "
    "longer be changed; a deprecated one is removed by an upgrade that is already dated.",
    remedy="write the version that the finding names; `kubectl convert` rewrites the fields that changed",
    links=(_GUIDE, "https://kubernetes.io/docs/reference/using-api/deprecation-policy/"),
)
def api_version_served(entry: Entry, world: World) -> Iterator[Fault]:
    retired = RETIRED.get((entry.id.api_version, entry.id.kind))
    if retired is None:
        return
    now = minor(world.facts.kubernetes_version)
    one = f"{entry.id.api_version} {entry.id.kind}"
    if now >= retired.removed:
        message = f"{one} is not served since Kubernetes 1.{retired.removed}, and must be of {retired.successor}"
        yield Fault("/apiVersion", message)
    elif now >= retired.deprecated:
        message = f"{one} is served until Kubernetes 1.{retired.removed}, and must then be of {retired.successor}"
        yield Fault("/apiVersion", message, Severity.WARNING)
