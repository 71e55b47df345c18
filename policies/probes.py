"""Probes: a wrong one restarts a healthy server for ever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import labels
from kubekit.podspec import ContainerView
from policies.cel import Cel
from policies.model import Fault, Severity
from policies.registry import policy
from policies.world import PODS, Entry, World, mapping, sequence

_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_ACTIONS = ("httpGet", "tcpSocket", "grpc")
_HOOKS = ("postStart", "preStop")
_DOCUMENTATION = "https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/"
_PROBES_IN_CEL = "[?c.?startupProbe, ?c.?readinessProbe, ?c.?livenessProbe]"


def _probes(container: ContainerView) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in _PROBES:
        probe = container.spec.get(name)
        if isinstance(probe, Mapping):
            yield name, probe


def _handlers(container: ContainerView) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(path, handler) of probes and lifecycle hooks."""
    yield from _probes(container)
    for name in _HOOKS:
        hook = mapping(container.spec.get("lifecycle")).get(name)
        if isinstance(hook, Mapping):
            yield f"lifecycle/{name}", hook


def _containers(entry: Entry) -> tuple[ContainerView, ...]:
    return entry.pod.containers if entry.pod else ()


@policy(
    "probe-port-exists",
    title="A probe asks a port that its container has",
    rationale="A probe of a port that nobody listens on fails for ever; a name that is not declared is refused.",
    remedy="name one of the container's ports",
    kinds=PODS,
    links=(_DOCUMENTATION, "https://docs.kubelinter.io/#/generated/checks?id=liveness-port"),
    cel=Cel(
        f"variables.containers.all(c, {_PROBES_IN_CEL}.all(p, [?p.?httpGet.?port, ?p.?tcpSocket.?port, ?p.?grpc.?port]"
        ".all(port, c.?ports.orValue([]).exists(d, d.?name.orValue('') == port || d.containerPort == port))))",
        message="a probe must ask a port, by name or number, that its container declares",
    ),
)
def probe_port_exists(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for container in _containers(entry):
        known: list[Any] | None = None
        for name, probe in _probes(container):
            for action in _ACTIONS:
                port = mapping(probe.get(action)).get("port")
                if port is None:
                    continue
                known = _ports(container) if known is None else known
                if port not in known:
                    shown = ", ".join(sorted(str(one) for one in known)) or "none"
                    yield Fault(
                        f"{container.pointer}/{name}/{action}/port",
                        f'container "{container.name}" {name} asks port {port!r}, and must ask one that it has'
                        f" ({shown})",
                    )


def _ports(container: ContainerView) -> list[Any]:
    """Names and numbers: a list, since junk may not be hashable."""
    declared = [mapping(port) for port in sequence(container.spec.get("ports"))]
    found = [port.get(key) for port in declared for key in ("name", "containerPort")]
    return [one for one in found if one is not None]


_IS_SERVER = " && ".join(
    f"variables.podLabels[?'{key}'].orValue('') == '{value}'" for key, value in labels.SERVER.items()
)


@policy(
    "paperclip-tcp-probes",
    title="The server is probed by TCP on port `http`",
    rationale="In private mode the server answers 403 to a kubelet's HTTP request, so an HTTP probe kills it.",
    remedy="use tcpSocket with port `http`",
    kinds=("Deployment",),
    links=(f"{_DOCUMENTATION}#define-a-tcp-liveness-probe",),
    cel=Cel(
        f"!({_IS_SERVER}) || variables.mainContainers.all(c, c.name != 'paperclip'"
        " || (c.?readinessProbe.?tcpSocket.?port.orValue('') == 'http'"
        " && c.?livenessProbe.?tcpSocket.?port.orValue('') == 'http'"
        " && (!has(c.startupProbe) || !has(c.startupProbe.httpGet))))",
        message="the server's probes must be tcpSocket on port http",
    ),
)
def paperclip_tcp_probes(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.pod is None or any(entry.pod.labels.get(key) != value for key, value in labels.SERVER.items()):
        return
    for container in entry.pod.containers:
        if container.name != "paperclip" or container.list_name != "containers":
            continue
        for name in _PROBES:
            probe = mapping(container.spec.get(name))
            wanted = 'tcpSocket on port "http"'
            if name == "startupProbe":  # may be left out, or wait for something else
                wrong, wanted = "httpGet" in probe, f"{wanted}, or exec"
            else:
                wrong = mapping(probe.get("tcpSocket")).get("port") != "http"
            if wrong:
                yield Fault(
                    f"{container.pointer}/{name}",
                    f'container "paperclip" {name} must be {wanted} (is {_shown(probe)})',
                )


def _shown(probe: Mapping[str, Any]) -> str:
    if not probe:
        return "absent"
    action = next((key for key in probe if key in {*_ACTIONS, "exec"}), "empty")
    port = mapping(probe.get(action)).get("port")
    return f"{action} on port {port!r}" if action == "tcpSocket" else action


@policy(
    "probe-host-unset",
    title="Probes and hooks ask their own pod",
    rationale=(
        "With `host` the kubelet asks any address from the node's network, past every network policy, and tells the"
        " pod's owner whether it answered. The baseline of pod security refuses it from Kubernetes 1.34 on."
    ),
    remedy="take `host` out: the probe then asks the pod itself",
    kinds=PODS,
    links=(
        "https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline",
        "https://github.com/kubernetes/enhancements/issues/4940",
    ),
    cel=Cel(
        "variables.containers.all(c,"
        " [?c.?startupProbe, ?c.?readinessProbe, ?c.?livenessProbe, ?c.?lifecycle.?postStart, ?c.?lifecycle.?preStop]"
        ".all(p, p.?httpGet.?host.orValue('') == '' && p.?tcpSocket.?host.orValue('') == ''))",
        message="probes and lifecycle hooks must not set host",
    ),
)
def probe_host_unset(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for container in _containers(entry):
        for path, handler in _handlers(container):
            for action in ("httpGet", "tcpSocket"):
                if mapping(handler.get(action)).get("host"):
                    name = path.rpartition("/")[2]
                    yield Fault(
                        f"{container.pointer}/{path}/{action}/host",
                        f'container "{container.name}" {name} sets {action}.host, and must ask its own pod',
                    )


@policy(
    "probe-timing",
    title="A liveness probe leaves the start alone",
    rationale=(
        "A liveness probe that begins with the readiness probe kills a server that is still starting: a migration is"
        " cut off, and is begun again by the next start, for ever."
    ),
    remedy="add a startupProbe that lasts as long as the slowest start, or a later livenessProbe.initialDelaySeconds",
    severity=Severity.WARNING,
    kinds=("Deployment",),
    links=(f"{_DOCUMENTATION}#define-startup-probes",),
    cel=Cel(
        "variables.mainContainers.all(c, !has(c.livenessProbe) || !has(c.readinessProbe) || has(c.startupProbe)"
        " || c.livenessProbe.?initialDelaySeconds.orValue(0) > c.readinessProbe.?initialDelaySeconds.orValue(0))",
        message="a livenessProbe begins after the readinessProbe, or a startupProbe comes first",
    ),
)
def probe_timing(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for container in _containers(entry):
        found = dict(_probes(container))
        if container.list_name != "containers" or not {"livenessProbe", "readinessProbe"} <= set(found):
            continue
        live, ready = _delay(found["livenessProbe"]), _delay(found["readinessProbe"])
        if "startupProbe" not in found and live <= ready:
            yield Fault(
                f"{container.pointer}/livenessProbe",
                f'container "{container.name}" livenessProbe begins after {live} s and readinessProbe after {ready} s:'
                " it must begin later, or a startupProbe must come first",
            )


def _delay(probe: Mapping[str, Any]) -> int:
    """Seconds until its first question."""
    delay = probe.get("initialDelaySeconds")
    return delay if isinstance(delay, int) else 0


@policy(
    "no-probes-on-jobs",
    title="What runs to its end is not probed",
    rationale=(
        "Nobody waits for a Job to be ready, and a liveness probe kills work that is busy: what tells that a run hangs"
        " is activeDeadlineSeconds."
    ),
    remedy="remove the probe, and bound the run with activeDeadlineSeconds; only a sidecar that restarts may have one",
    severity=Severity.WARNING,
    kinds=("CronJob", "Job"),
    links=(
        "https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup",
        "https://github.com/stackrox/kube-linter/issues/487",
    ),
    cel=Cel(
        "variables.mainContainers.all(c, !has(c.livenessProbe) && !has(c.readinessProbe))",
        message="the containers of a Job have neither livenessProbe nor readinessProbe",
    ),
)
def no_probes_on_jobs(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for container in _containers(entry):
        if container.list_name != "containers":
            continue
        for name in ("readinessProbe", "livenessProbe"):
            if container.spec.get(name) is not None:
                yield Fault(
                    f"{container.pointer}/{name}",
                    f'container "{container.name}" of a {entry.id.kind} has a {name}, and must have none',
                )
