"""Kinds and the resources that the API serves them as."""

from __future__ import annotations

# Kind to (API group, resource): of Kubernetes 1.25 to 1.37, and of the operators that Paperclip runs with.
_RESOURCES = {
    "ConfigMap": ("", "configmaps"),
    "Endpoints": ("", "endpoints"),
    "Event": ("", "events"),
    "LimitRange": ("", "limitranges"),
    "Namespace": ("", "namespaces"),
    "Node": ("", "nodes"),
    "PersistentVolume": ("", "persistentvolumes"),
    "PersistentVolumeClaim": ("", "persistentvolumeclaims"),
    "Pod": ("", "pods"),
    "ReplicationController": ("", "replicationcontrollers"),
    "ResourceQuota": ("", "resourcequotas"),
    "Secret": ("", "secrets"),
    "Service": ("", "services"),
    "ServiceAccount": ("", "serviceaccounts"),
    "DaemonSet": ("apps", "daemonsets"),
    "Deployment": ("apps", "deployments"),
    "ReplicaSet": ("apps", "replicasets"),
    "StatefulSet": ("apps", "statefulsets"),
    "HorizontalPodAutoscaler": ("autoscaling", "horizontalpodautoscalers"),
    "CronJob": ("batch", "cronjobs"),
    "Job": ("batch", "jobs"),
    "Lease": ("coordination.k8s.io", "leases"),
    "Ingress": ("networking.k8s.io", "ingresses"),
    "NetworkPolicy": ("networking.k8s.io", "networkpolicies"),
    "PodDisruptionBudget": ("policy", "poddisruptionbudgets"),
    "ClusterRole": ("rbac.authorization.k8s.io", "clusterroles"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io", "clusterrolebindings"),
    "Role": ("rbac.authorization.k8s.io", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io", "rolebindings"),
    "PriorityClass": ("scheduling.k8s.io", "priorityclasses"),
    "StorageClass": ("storage.k8s.io", "storageclasses"),
    "CustomResourceDefinition": ("apiextensions.k8s.io", "customresourcedefinitions"),
    "ValidatingAdmissionPolicy": ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    "ValidatingAdmissionPolicyBinding": ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    "Application": ("argoproj.io", "applications"),
    "ApplicationSet": ("argoproj.io", "applicationsets"),
    "AppProject": ("argoproj.io", "appprojects"),
    "Rollout": ("argoproj.io", "rollouts"),
    "CiliumNetworkPolicy": ("cilium.io", "ciliumnetworkpolicies"),
    "CiliumClusterwideNetworkPolicy": ("cilium.io", "ciliumclusterwidenetworkpolicies"),
    "CiliumLoadBalancerIPPool": ("cilium.io", "ciliumloadbalancerippools"),
    "CiliumL2AnnouncementPolicy": ("cilium.io", "ciliuml2announcementpolicies"),
    "ExternalSecret": ("external-secrets.io", "externalsecrets"),
    "SecretStore": ("external-secrets.io", "secretstores"),
    "ClusterExternalSecret": ("external-secrets.io", "clusterexternalsecrets"),
    "ClusterSecretStore": ("external-secrets.io", "clustersecretstores"),
    "ScaledObject": ("keda.sh", "scaledobjects"),
    "Cluster": ("postgresql.cnpg.io", "clusters"),
    "ScheduledBackup": ("postgresql.cnpg.io", "scheduledbackups"),
}


def group_of(kind: str) -> str | None:
    """The API group of a kind that we know by name ("" is core); None for any other kind."""
    found = _RESOURCES.get(kind)
    return None if found is None else found[0]


def resource_of(kind: str) -> str | None:
    """Its resource, in the plural and lower case, as RBAC and admission rules write it; None for an unknown kind."""
    found = _RESOURCES.get(kind)
    return None if found is None else found[1]


def kinds() -> tuple[str, ...]:
    """Every kind that is known here, by name."""
    return tuple(sorted(_RESOURCES))
