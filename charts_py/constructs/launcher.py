"""The launcher beside the server: its containers, the volumes that both share, and what the server is told of it.

It is an init container that goes on (Kubernetes calls it a sidecar): it runs before the server begins, and is told to
end when the server has ended, so a server that still sends its last words finds somebody. It has no readiness probe,
since the pod is ready only while all of its containers are: a launcher that has lost the API server would take the
users' pages down. It has no startup probe either, since the server would wait for it.
"""

from __future__ import annotations

from typing import Any

from charts_py.config.environment import Environment
from charts_py.config.launcher import (
    ADAPTER,
    HOME,
    LAUNCHER,
    SOCKET,
    SOCKET_FOLDER,
    SOCKET_VARIABLE,
    TEMPLATES,
    TOKEN,
    WORKSPACE,
    Sidecar,
)
from charts_py.config.workload import Amounts, Resources
from charts_py.constructs.component import Inputs
from charts_py.constructs.configmaps import settings
from charts_py.constructs.containers import locked_down, resources
from charts_py.constructs.jobtemplates import NAME as TEMPLATES_MAP

GRACE_SECONDS = 15
"""What the launcher needs to detach from its runs, once the server has ended."""
_PROGRAM = "paperclip-launcher"
_SOCKET_FILE = f"{SOCKET_FOLDER}/launcher.sock"
_STATE, _STATE_FOLDER = "/var/lib/paperclip-launcher", "launcher"
_TEMPLATES_FOLDER = "/etc/paperclip/job-templates"
_TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  where every client looks for it
_WORKSPACE_FOLDER = "/workspace"
_USER = 1000  # as the server's process, once its entry point has dropped root: the socket is for its owner alone
_INSTALLING = Resources(
    requests=Amounts(cpu="10m", memory="64Mi"),
    limits=Amounts(cpu="500m", memory="128Mi"),
)


def init_containers(inputs: Inputs) -> list[dict[str, Any]]:
    """What runs before the server, and in part goes on beside it; [] without a sidecar."""
    sidecar = inputs.environment.launcher.sidecar
    return [] if sidecar is None else [_adapter(inputs, sidecar), _launcher(inputs, sidecar)]


def volumes(environment: Environment) -> list[dict[str, Any]]:
    """[] without a sidecar."""
    sidecar = environment.launcher.sidecar
    if sidecar is None:
        return []
    found: list[dict[str, Any]] = [
        {"name": SOCKET, "emptyDir": {"sizeLimit": "1Mi"}},
        {"name": TEMPLATES, "configMap": {"name": TEMPLATES_MAP}},
        {"name": TOKEN, "projected": {"defaultMode": 0o440, "sources": _token()}},
    ]
    if sidecar.workspace_claim is not None:
        found.append({"name": WORKSPACE, "persistentVolumeClaim": {"claimName": sidecar.workspace_claim}})
    return found


def server_variables(environment: Environment) -> list[dict[str, Any]]:
    """What the server's container is told; [] without a sidecar."""
    if environment.launcher.sidecar is None:
        return []
    return [{"name": SOCKET_VARIABLE, "value": _SOCKET_FILE}]


def server_mounts(environment: Environment) -> list[dict[str, Any]]:
    """Who may only read can connect, and can put no other socket in its place."""
    if environment.launcher.sidecar is None:
        return []
    return [{"name": SOCKET, "mountPath": SOCKET_FOLDER, "readOnly": True}]


def _adapter(inputs: Inputs, sidecar: Sidecar) -> dict[str, Any]:
    """Lays the adapter where the server looks for its plugins."""
    return {
        **_program(inputs, sidecar, ADAPTER),
        "args": ["adapter", f"--install={settings(inputs.environment)['PAPERCLIP_HOME']}"],
        "volumeMounts": [{"name": "data", "mountPath": HOME}],
        "resources": resources(_INSTALLING),
        "securityContext": locked_down(_USER, _USER, read_only=True),
    }


def _launcher(inputs: Inputs, sidecar: Sidecar) -> dict[str, Any]:
    return {
        **_program(inputs, sidecar, LAUNCHER),
        "args": _arguments(inputs.environment, sidecar),
        "restartPolicy": "Always",
        # On this address, of either family, the kubelet and Prometheus ask.
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}],
        "ports": [{"name": "metrics", "containerPort": sidecar.metrics_port, "protocol": "TCP"}],
        "volumeMounts": _mounts(sidecar),
        "resources": resources(sidecar.resources),
        # That it turns is all it asks: a launcher without an API server waits, and a restart would help nobody.
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "metrics"},
            "initialDelaySeconds": 15,
            "periodSeconds": 15,
            "timeoutSeconds": 5,
            "failureThreshold": 4,
        },
        "securityContext": locked_down(_USER, _USER, read_only=True),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _program(inputs: Inputs, sidecar: Sidecar, name: str) -> dict[str, Any]:
    result: dict[str, Any] = {"name": name, "image": inputs.images.pin(sidecar.image)}
    if sidecar.image_pull_policy is not None:
        result["imagePullPolicy"] = sidecar.image_pull_policy
    return {**result, "command": [_PROGRAM]}


def _arguments(environment: Environment, sidecar: Sidecar) -> list[str]:
    found = [
        "serve",
        f"--socket={_SOCKET_FILE}",
        f"--http=[$(POD_IP)]:{sidecar.metrics_port}",
        f"--state={_STATE}",
        f"--identity={environment.name}",
        f"--templates={_TEMPLATES_FOLDER}",
        f"--log-level={sidecar.log_level}",
        "--log-format=json",
    ]
    found += [f"--skills={folder}" for folder in sidecar.skills_folders]
    if sidecar.workspace_claim is not None:
        found.append(f"--workspace={_WORKSPACE_FOLDER}")
    return found


def _mounts(sidecar: Sidecar) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": SOCKET, "mountPath": SOCKET_FOLDER},
        # The journal must outlive the pod, or the next launcher would be another one to the runs of this one.
        {"name": "data", "mountPath": _STATE, "subPath": _STATE_FOLDER},
        {"name": TEMPLATES, "mountPath": _TEMPLATES_FOLDER, "readOnly": True},
        {"name": TOKEN, "mountPath": _TOKEN_FOLDER, "readOnly": True},
    ]
    if sidecar.skills_folders:
        found.append({"name": "data", "mountPath": HOME, "readOnly": True})
    if sidecar.workspace_claim is not None:
        found.append({"name": WORKSPACE, "mountPath": _WORKSPACE_FOLDER})
    return found


def _token() -> list[dict[str, Any]]:
    """The three files that the kubelet would mount into every container of the pod, for this one alone."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
