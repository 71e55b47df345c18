"""Containers and volumes, from their config to what a pod holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from charts_py.config.server import Toleration
from charts_py.config.workload import (
    Amounts,
    Container,
    EnvironmentVariable,
    Mount,
    Resources,
    TcpProbe,
    Volume,
)
from charts_py.images import ImageLock


def resources(settings: Resources) -> dict[str, Any]:
    return {"requests": amounts(settings.requests), "limits": amounts(settings.limits)}


def amounts(settings: Amounts, prefix: str = "") -> dict[str, str]:
    """`prefix` is "requests." or "limits." in a ResourceQuota."""
    named = (
        ("cpu", settings.cpu),
        ("memory", settings.memory),
        ("ephemeral-storage", settings.ephemeral_storage),
    )
    return {f"{prefix}{name}": value for name, value in named if value is not None}


def variable(settings: EnvironmentVariable) -> dict[str, Any]:
    if settings.secret is None:
        return {"name": settings.name, "value": settings.value}
    reference: dict[str, Any] = {"name": settings.secret.name, "key": settings.secret.key}
    if settings.secret.optional:
        reference["optional"] = True
    return {"name": settings.name, "valueFrom": {"secretKeyRef": reference}}


def mount(settings: Mount) -> dict[str, Any]:
    result: dict[str, Any] = {"name": settings.volume, "mountPath": settings.path}
    if settings.sub_path is not None:
        result["subPath"] = settings.sub_path
    if settings.read_only:
        result["readOnly"] = True
    return result


def volume(settings: Volume) -> dict[str, Any]:
    result: dict[str, Any] = {"name": settings.name}
    if settings.claim is not None:
        result["persistentVolumeClaim"] = {"claimName": settings.claim.name}
    elif settings.config is not None:
        result["configMap"] = {"name": settings.config.name, **_mode(settings.config.mode)}
    elif settings.secret is not None:
        result["secret"] = {"secretName": settings.secret.name, **_mode(settings.secret.mode)}
        if settings.secret.optional:
            result["secret"]["optional"] = True
    elif settings.scratch is not None:
        result["emptyDir"] = {"sizeLimit": settings.scratch.size_limit}
    return result


def tolerations(settings: Iterable[Toleration]) -> list[dict[str, Any]]:
    result = []
    for one in settings:
        toleration: dict[str, Any] = {"key": one.key, "operator": one.operator}
        if one.value is not None:
            toleration["value"] = one.value
        if one.effect is not None:
            toleration["effect"] = one.effect
        result.append(toleration)
    return result


def tcp_probe(settings: TcpProbe) -> dict[str, Any]:
    probe: dict[str, Any] = {"tcpSocket": {"port": settings.port}, "periodSeconds": settings.period_seconds}
    if settings.initial_delay_seconds is not None:
        probe["initialDelaySeconds"] = settings.initial_delay_seconds
    return probe


def container(settings: Container, images: ImageLock) -> dict[str, Any]:
    """A sidecar or an init container."""
    result: dict[str, Any] = {"name": settings.name, "image": images.pin(settings.image)}
    if settings.image_pull_policy is not None:
        result["imagePullPolicy"] = settings.image_pull_policy
    optional: tuple[tuple[str, list[Any]], ...] = (
        ("command", list(settings.command)),
        ("args", list(settings.arguments)),
        ("env", [variable(one) for one in settings.environment]),
        ("envFrom", [{"secretRef": {"name": name, "optional": True}} for name in settings.secrets]),
        ("volumeMounts", [mount(one) for one in settings.mounts]),
        ("ports", _ports(settings)),
    )
    result.update({key: value for key, value in optional if value})
    result["resources"] = resources(settings.resources)
    if settings.run_as is not None:
        result["securityContext"] = locked_down(settings.run_as.user, settings.run_as.group)
    if settings.readiness is not None:
        result["readinessProbe"] = tcp_probe(settings.readiness)
    if settings.liveness is not None:
        result["livenessProbe"] = tcp_probe(settings.liveness)
    return result


def locked_down(user: int, group: int, *, read_only: bool = False) -> dict[str, Any]:
    """The securityContext of a container without any privilege; `read_only` is about its root file system."""
    context: dict[str, Any] = {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": group,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    return {**context, "readOnlyRootFilesystem": True} if read_only else context


def _ports(settings: Container) -> list[dict[str, Any]]:
    return [
        {"name": name, "containerPort": number, "protocol": port.protocol}
        for port in settings.ports
        for name, number in port.expand()
    ]


def _mode(mode: int | None) -> dict[str, int]:
    return {} if mode is None else {"defaultMode": mode}
