"""The server's Deployment.

One pod and never two: the claim is ReadWriteOnce, so a rolling update would wait for ever for a volume that the old pod
holds. Probes connect and hang up, since the server answers an HTTP probe with 403 in private mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from charts_py.config.environment import Environment
from charts_py.config.workload import TcpProbe
from charts_py.constructs import database, launcher
from charts_py.constructs.addresses import PORT
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.configmaps import SETTINGS, checksum
from charts_py.constructs.containers import (
    container,
    mount,
    resources,
    tcp_probe,
    tolerations,
    variable,
    volume,
)
from charts_py.constructs.jobtemplates import JobTemplates
from charts_py.constructs.metadata import common_labels, metadata
from charts_py.images import ImageLock
from kubekit import labels
from kubekit.identity import Manifest

SERVICE_ACCOUNT = "paperclip"
_GRACE_SECONDS = 30  # what Kubernetes gives a pod that says nothing
_GROUP = 1000  # the image's own user; a root-owned volume is not writable without it


class Server(Concept):
    """The server and the account it runs as."""

    concept = "server"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        namespace = environment.namespace.name
        yield {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(environment, "ServiceAccount", SERVICE_ACCOUNT, namespace, "server"),
            "automountServiceAccountToken": False,
        }
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata(environment, "Deployment", "paperclip", namespace, "server"),
            "spec": {
                "replicas": 1,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": dict(labels.SERVER)},
                "template": {"metadata": _pod_metadata(inputs), "spec": pod(inputs)},
            },
        }


def _pod_metadata(inputs: Inputs) -> dict[str, Any]:
    environment = inputs.environment
    # A launcher reads the templates once, at its start.
    templates = inputs.objects_of(JobTemplates) if environment.launcher.sidecar is not None else []
    annotations = {labels.CONFIG_CHECKSUM: checksum(environment, templates)}
    if environment.server.image_version is not None:
        annotations[labels.IMAGE_VERSION] = environment.server.image_version
    return {"labels": common_labels(environment, "paperclip", "server"), "annotations": annotations}


def pod(inputs: Inputs) -> dict[str, Any]:
    environment = inputs.environment
    server = environment.server
    spec: dict[str, Any] = {
        "serviceAccountName": SERVICE_ACCOUNT,
        # A launcher in a container of its own has the token by a volume that nobody else mounts.
        "automountServiceAccountToken": environment.launcher.enabled and environment.launcher.sidecar is None,
        # A Service called paperclip would put PAPERCLIP_PORT and others among the server's own PAPERCLIP_ variables.
        "enableServiceLinks": False,
        "securityContext": {
            "fsGroup": _GROUP,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # The image is amd64 only; without a choice of the user the pod must not land on another node.
        "nodeSelector": dict(server.node_selector) or {"kubernetes.io/arch": "amd64"},
        "containers": [
            _server_container(environment, inputs.images),
            *(container(one, inputs.images) for one in server.sidecars),
        ],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": server.storage.name}},
            *(volume(one) for one in server.volumes),
            *launcher.volumes(environment),
        ],
    }
    pull_secrets = [{"name": secret.name} for secret in server.secrets if secret.use == "imagePull"]
    if pull_secrets:
        spec["imagePullSecrets"] = pull_secrets
    if server.tolerations:
        spec["tolerations"] = tolerations(server.tolerations)
    if (grace := _grace_period(environment)) is not None:
        spec["terminationGracePeriodSeconds"] = grace
    before = [*(container(one, inputs.images) for one in server.init_containers), *launcher.init_containers(inputs)]
    if before:
        spec["initContainers"] = before
    return spec


def _grace_period(environment: Environment) -> int | None:
    """Of the whole pod, in seconds: the launcher is told to end when the server has ended."""
    own = environment.server.termination_grace_period_seconds
    if environment.launcher.sidecar is None:
        return own
    return (own if own is not None else _GRACE_SECONDS) + launcher.GRACE_SECONDS


def _server_container(environment: Environment, images: ImageLock) -> dict[str, Any]:
    server = environment.server
    result: dict[str, Any] = {"name": "paperclip", "image": images.pin(server.image)}
    if server.image_pull_policy is not None:
        result["imagePullPolicy"] = server.image_pull_policy
    result |= {
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "envFrom": _variables_from(environment),
        "env": [
            *database.variables(environment),
            *launcher.server_variables(environment),
            *(variable(one) for one in server.environment),
        ],
        "volumeMounts": [
            {"name": "data", "mountPath": "/paperclip"},
            *launcher.server_mounts(environment),
            *(mount(one) for one in server.mounts),
        ],
        "resources": resources(server.resources),
        "readinessProbe": tcp_probe(TcpProbe(port="http", period_seconds=10)),
        "livenessProbe": tcp_probe(TcpProbe(port="http", initial_delay_seconds=30, period_seconds=15)),
        # The first start runs some hundred migrations; a restart in their middle would leave the database half done.
        "startupProbe": {**tcp_probe(TcpProbe(port="http", period_seconds=5)), "failureThreshold": 120},
    }
    return result


def _variables_from(environment: Environment) -> list[dict[str, Any]]:
    sources: list[dict[str, Any]] = [{"configMapRef": {"name": SETTINGS}}]
    for secret in environment.server.secrets:
        if secret.use == "environment":
            reference: dict[str, Any] = {"name": secret.name}
            if secret.optional:
                reference["optional"] = True
            sources.append({"secretRef": reference})
    return sources
