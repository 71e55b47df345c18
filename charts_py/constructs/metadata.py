"""The metadata that every object carries: labels, the place in Argo CD's order, the guards of what holds data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from charts_py.config.environment import Environment
from kubekit import labels

# Argo CD applies lower waves first and waits until they are healthy; it knows the health of an ExternalSecret.
_WAVE = {
    "Namespace": -4,
    "ServiceAccount": -3,
    "ResourceQuota": -3,
    "LimitRange": -3,
    "NetworkPolicy": -3,
    "CiliumNetworkPolicy": -3,
    "CiliumLoadBalancerIPPool": -3,
    "CiliumL2AnnouncementPolicy": -3,
    "Role": -3,
    "RoleBinding": -3,
    "ExternalSecret": -2,
    "ConfigMap": -1,
    "Cluster": -1,
}


def common_labels(environment: Environment, name: str, component: str) -> dict[str, str]:
    return {
        labels.NAME: name,
        labels.INSTANCE: environment.name,
        labels.COMPONENT: component,
        labels.PART_OF: labels.PART_OF_PAPERCLIP,
        labels.MANAGED_BY: labels.MANAGED_BY_GENERATOR,
    }


def metadata(
    environment: Environment,
    kind: str,
    name: str,
    namespace: str | None,
    component: str,
    annotations: Mapping[str, str] | None = None,
    *,
    awaited: bool = True,
) -> dict[str, Any]:
    """Of an object of `kind`; `namespace` is None for an object of the cluster.

    `awaited` is False for what the server starts without: Argo CD then applies it together with the server.
    """
    notes = dict(annotations or {})
    if environment.argocd is not None and awaited and kind in _WAVE:
        notes[labels.SYNC_WAVE] = str(_WAVE[kind])
    result: dict[str, Any] = {"name": name}
    if namespace is not None:
        result["namespace"] = namespace
    result["labels"] = common_labels(environment, "paperclip", component)
    if notes:
        result["annotations"] = notes
    return result


KEPT = {labels.SYNC_OPTIONS: labels.KEEP}
"""Annotations of a Namespace or a claim: Argo CD neither prunes it nor deletes it with the Application."""
