"""Probes: a wrong one restarts a healthy server for ever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import labels
from kubekit.podspec import ContainerView, containers, pod_metadata
from policies.model import Fault
from policies.registry import policy
from policies.world import Entry, World

_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_ACTIONS = ("httpGet", "tcpSocket", "grpc")


def _probes(container: ContainerView) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in _PROBES:
        probe = container.spec.get(name)
        if isinstance(probe, Mapping):
            yield name, probe


@policy(
    "probe-port-exists",
    title="A probe asks a port that its container has",
    rationale="A probe of a port that nobody listens on fails for ever; a name that is not declared is refused.",
    remedy="name one of the container's ports",
    kinds=("Pod", "Deployment", "StatefulSet", "DaemonSet"),
)
def probe_port_exists(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for container in containers(entry.manifest):
        declared = container.spec.get("ports")
        ports = [port for port in declared if isinstance(port, Mapping)] if isinstance(declared, list) else []
        known = {port.get("name") for port in ports} | {port.get("containerPort") for port in ports}
        for name, probe in _probes(container):
            for action in _ACTIONS:
                target = probe.get(action)
                if isinstance(target, Mapping) and target.get("port") not in known:
                    shown = ", ".join(sorted(str(port) for port in known if port is not None)) or "none"
                    yield Fault(
                        f"{container.pointer}/{name}/{action}/port",
                        f"container {container.name!r} has no port {target.get('port')!r} (it has {shown})",
                    )


@policy(
    "paperclip-tcp-probes",
    title="The server is probed by TCP on port `http`",
    rationale="In private mode the server answers 403 to a kubelet's HTTP request, so an HTTP probe kills it.",
    remedy="use tcpSocket with port `http`",
    kinds=("Deployment",),
)
def paperclip_tcp_probes(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    pods = pod_metadata(entry.manifest)
    pod_labels = pods[1].get("labels") if pods else None
    if not isinstance(pod_labels, Mapping) or any(pod_labels.get(key) != value for key, value in labels.SERVER.items()):
        return
    for container in containers(entry.manifest):
        if container.name != "paperclip" or container.list_name != "containers":
            continue
        for name in ("readinessProbe", "livenessProbe"):
            probe = container.spec.get(name)
            target = probe.get("tcpSocket") if isinstance(probe, Mapping) else None
            if not isinstance(target, Mapping) or target.get("port") != "http":
                found = (
                    "absent"
                    if not isinstance(probe, Mapping)
                    else next((key for key in probe if key in {*_ACTIONS, "exec"}), "empty")
                )
                yield Fault(
                    f"{container.pointer}/{name}",
                    f'container "paperclip" {name} must be tcpSocket on port "http" (is {found})',
                )
