"""What the Paperclip server needs of its pod, its settings and its Services."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from kubekit import labels
from policies.cel import Cel
from policies.model import Fault, Scope, Severity
from policies.registry import policy
from policies.workloads.subjects import AGENT_CEL, OURS_CEL, SERVER_CEL, is_agent, is_ours, is_server
from policies.world import PODS, Entry, World, mapping, sequence

SETTINGS = "paperclip-config"
_ALLOWED, _PUBLIC_URL, _EXPOSURE = (
    "PAPERCLIP_ALLOWED_HOSTNAMES",
    "PAPERCLIP_PUBLIC_URL",
    "PAPERCLIP_DEPLOYMENT_EXPOSURE",
)
_API_URL = "PAPERCLIP_API_URL"
_PORTS = ("http", 3100)
"""What a Service that leads to the server names as its targetPort."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_TRUSTING = ("true", "uniquelocal", "0.0.0.0/0", "::/0")
_HOSTNAME = "kubernetes.io/hostname"
_TRAEFIK_HOST = re.compile(r"Host\(([^)]*)\)")
_QUOTED = re.compile(r"[`'\"]([^`'\"]+)[`'\"]")
_UPSTREAM = "https://github.com/paperclipai/paperclip"
_EXPRESS = "https://expressjs.com/en/guide/behind-proxies.html"


@policy(
    "server-allowed-hostnames",
    title="The server answers to every name under which it is reached",
    rationale=(
        f"In private mode the server refuses each other Host header with 403, and {_ALLOWED} replaces its own list:"
        " a name that is left out is a login page that nobody gets to."
    ),
    remedy=f"add the names to {_ALLOWED}, separated by commas",
    scope=Scope.SET,
    kinds=("ConfigMap",),
    links=(_UPSTREAM,),
)
def server_allowed_hostnames(entry: Entry, world: World) -> Iterator[Fault]:
    data = mapping(entry.manifest.get("data"))
    given = data.get(_ALLOWED)
    if not isinstance(given, str) or data.get(_EXPOSURE) != "private":
        return
    if (entry.id.namespace, entry.id.name) not in world.index(_settings):
        return
    allowed = {_without_port(one) for one in given.split(",")} | _LOOPBACK
    needed = [*_public(data), *world.index(_reached).get(entry.id.namespace, ())]
    for host, why in dict(reversed(needed)).items():
        if _without_port(host) not in allowed:
            yield Fault(f"/data/{_ALLOWED}", f"{_ALLOWED} must hold {host}, {why}")


def _settings(world: World) -> frozenset[tuple[str, str]]:
    """(namespace, name) of the ConfigMaps that are variables of a server, for World.index."""
    return frozenset(
        (entry.id.namespace, name)
        for entry, pod in world.pods
        if is_server(entry)
        for container in pod.containers
        for source in sequence(container.spec.get("envFrom"))
        if isinstance(name := mapping(mapping(source).get("configMapRef")).get("name"), str)
    )


def _public(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    host = _host(data.get(_PUBLIC_URL))
    if host:
        yield host, f"the host of {_PUBLIC_URL}"


def _reached(world: World) -> Mapping[str, list[tuple[str, str]]]:
    """Namespace to (host, why) of the ways to its server that the set shows, for World.index."""
    found: dict[str, list[tuple[str, str]]] = {}
    for namespace in {entry.id.namespace for entry, _ in world.pods if is_server(entry)}:
        services = [one for one in world.within("Service", namespace) if _leads_to_server(one, world)]
        names = frozenset(one.id.name for one in services)
        hosts = [pair for one in services for pair in _addresses(one, world)]
        for kind, read in _ROUTES.items():
            for route in world.within(kind, namespace):
                hosts += [(host, f"a host of {route.id}") for host in read(route, names) if "*" not in host]
        found[namespace] = [*hosts, *_called_by_agents(namespace, names, world)]
    return found


def _leads_to_server(service: Entry, world: World) -> bool:
    selector = mapping(service.spec.get("selector"))
    if not selector or not any(_targets(port) in _PORTS for port in sequence(service.spec.get("ports"))):
        return False
    return any(
        all(pod.labels.get(key) == value for key, value in selector.items())
        for entry, pod in world.index(_servers)
        if entry.id.namespace == service.id.namespace
    )


def _servers(world: World) -> list[tuple[Entry, Any]]:
    return [(entry, pod) for entry, pod in world.pods if is_server(entry)]


def _targets(port: object) -> object:
    found = mapping(port).get("targetPort", mapping(port).get("port"))
    return found if isinstance(found, str | int) else None


def _addresses(service: Entry, world: World) -> Iterator[tuple[str, str]]:
    if service.spec.get("type") != "LoadBalancer":
        return
    asked = service.annotations.get(labels.LOAD_BALANCER_IPS)
    asked = asked if isinstance(asked, str) else str(service.spec.get("loadBalancerIP", ""))
    known = world.facts.load_balancers.get(f"{service.id.namespace}/{service.id.name}", "")
    for address in dict.fromkeys(one.strip() for one in (*asked.split(","), known)):
        if address:
            yield address, f"the address of {service.id}"


def _ingress(route: Entry, services: frozenset[str]) -> Iterator[str]:
    for rule in sequence(route.spec.get("rules")):
        host = mapping(rule).get("host")
        backends = (
            mapping(mapping(mapping(path).get("backend")).get("service")).get("name")
            for path in sequence(mapping(mapping(rule).get("http")).get("paths"))
        )
        if isinstance(host, str) and any(isinstance(name, str) and name in services for name in backends):
            yield host


def _http_route(route: Entry, services: frozenset[str]) -> Iterator[str]:
    backends = (
        mapping(backend).get("name")
        for rule in sequence(route.spec.get("rules"))
        for backend in sequence(mapping(rule).get("backendRefs"))
    )
    if any(isinstance(name, str) and name in services for name in backends):
        yield from (host for host in sequence(route.spec.get("hostnames")) if isinstance(host, str))


def _ingress_route(route: Entry, services: frozenset[str]) -> Iterator[str]:
    for one in sequence(route.spec.get("routes")):
        match = mapping(one).get("match")
        backends = (mapping(service).get("name") for service in sequence(mapping(one).get("services")))
        if isinstance(match, str) and any(isinstance(name, str) and name in services for name in backends):
            for hosts in _TRAEFIK_HOST.findall(match):
                yield from _QUOTED.findall(hosts)


_ROUTES = {"Ingress": _ingress, "HTTPRoute": _http_route, "IngressRoute": _ingress_route}


def _called_by_agents(namespace: str, services: frozenset[str], world: World) -> Iterator[tuple[str, str]]:
    """The host in the URL that agents call, if it is one of a Service here."""
    for entry, pod in world.pods:
        if not is_agent(entry):
            continue
        for container in pod.containers:
            for variable in sequence(container.spec.get("env")):
                host = _host(mapping(variable).get("value")) if mapping(variable).get("name") == _API_URL else ""
                if host.split(".")[:2] in [[service, namespace] for service in services]:
                    yield host, f"the host of {_API_URL} in {entry.id}"


def _host(url: object) -> str:
    """The host of a URL, without port and account; "" for what is none."""
    try:
        return urlsplit(url).hostname or "" if isinstance(url, str) else ""
    except ValueError:
        return ""


def _without_port(host: str) -> str:
    text = host.strip().lower().rstrip(".")
    head, colon, port = text.rpartition(":")
    return head.strip("[]") if colon and port.isdecimal() and (":" not in head or "]" in head) else text.strip("[]")


_SETTINGS_CEL = f"object.metadata.name == '{SETTINGS}' || {OURS_CEL}"
_WIDE_CEL = "lowerAscii().split(',').exists(p, p.trim() in [" + ", ".join(f"'{one}'" for one in _TRUSTING) + "])"


@policy(
    "trust-proxy-narrow",
    title="The server believes only its own proxy about who calls",
    rationale=(
        "With `true` or `uniquelocal` every pod can name any client address in X-Forwarded-For: rate limits and the log"
        " of who did what are worth nothing."
    ),
    remedy="set TRUST_PROXY to loopback and the range of the proxy's pods",
    kinds=(*PODS, "ConfigMap"),
    links=(_EXPRESS, _UPSTREAM),
    cel=Cel(
        f"object.kind == 'ConfigMap' ? !({_SETTINGS_CEL})"
        f" || !(dyn(object).?data[?'TRUST_PROXY'].hasValue() && dyn(object).data['TRUST_PROXY'].{_WIDE_CEL})"
        f" : !({SERVER_CEL}) || variables.mainContainers.all(c, c.?env.orValue([]).all(e, e.name != 'TRUST_PROXY'"
        f" || !e.?value.orValue('').{_WIDE_CEL}))",
    ),
)
def trust_proxy_narrow(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.id.kind == "ConfigMap":
        if is_ours(entry) or entry.id.name == SETTINGS:
            yield from _wide("/data/TRUST_PROXY", mapping(entry.manifest.get("data")).get("TRUST_PROXY"))
        return
    for container in entry.pod.containers if entry.pod and is_server(entry) else ():
        for place, one in enumerate(sequence(container.spec.get("env"))):
            if container.list_name == "containers" and mapping(one).get("name") == "TRUST_PROXY":
                yield from _wide(f"{container.pointer}/env/{place}/value", mapping(one).get("value"))


def _wide(pointer: str, value: object) -> Iterator[Fault]:
    parts = {one.strip() for one in value.lower().split(",")} if isinstance(value, str) else set()
    for one in _TRUSTING:
        if one in parts:
            yield Fault(pointer, f"TRUST_PROXY must name the proxy's own range (holds {one})")


@policy(
    "no-shared-process-namespace",
    title="Containers of the server and of agents do not see each other's processes",
    rationale=(
        "A sidecar that shares the processes reads every variable of the server in /proc, keys included; and an image"
        " with its own init ends at once, since it is not process 1."
    ),
    remedy="leave shareProcessNamespace out",
    kinds=PODS,
    links=("https://kubernetes.io/docs/tasks/configure-pod-container/share-process-namespace/",),
    cel=Cel(f"!({SERVER_CEL} || {AGENT_CEL}) || !variables.podSpec.?shareProcessNamespace.orValue(false)"),
)
def no_shared_process_namespace(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of all
    pod = entry.pod
    if pod is not None and pod.spec.get("shareProcessNamespace") is True and (is_server(entry) or is_agent(entry)):
        yield Fault(f"{pod.pointer}/shareProcessNamespace", "shareProcessNamespace must be absent (is true)")


@policy(
    "server-arch-pinned",
    title="The server says which nodes it can run on",
    rationale="The image is for amd64 only: on a node of another architecture it is not pulled, or ends at once.",
    remedy="add nodeSelector kubernetes.io/arch: amd64, or choose nodes in another way",
    severity=Severity.INFO,
    kinds=("Deployment", "StatefulSet", "Pod", "Rollout"),
    links=("https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/",),
    cel=Cel(
        f"!({SERVER_CEL}) || size(variables.podSpec.?nodeSelector.orValue({{}})) > 0"
        " || has(variables.podSpec.nodeName) || has(variables.podSpec.affinity) && "
        "has(variables.podSpec.affinity.nodeAffinity)",
        kinds=frozenset({"Deployment", "StatefulSet", "Pod"}),
    ),
)
def server_arch_pinned(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.pod is None or not is_server(entry):
        return
    spec = entry.pod.spec
    chosen = mapping(spec.get("nodeSelector")) or spec.get("nodeName")
    if not chosen and "nodeAffinity" not in mapping(spec.get("affinity")):
        yield Fault(f"{entry.pod.pointer}/nodeSelector", "nodeSelector must hold kubernetes.io/arch (has nothing)")


@policy(
    "external-traffic-policy-local",
    title="A Service that keeps the client's address leads to pods on one known node",
    rationale=(
        "With externalTrafficPolicy Local a node without a pod drops the traffic; where one node announces the address"
        " by ARP, that is another node than the pod's sooner or later."
    ),
    remedy=f"pin the pods with nodeSelector {_HOSTNAME}, or use externalTrafficPolicy Cluster",
    severity=Severity.WARNING,
    scope=Scope.SET,
    kinds=("Service",),
    links=(
        "https://docs.cilium.io/en/stable/network/l2-announcements/",
        "https://kubernetes.io/docs/tasks/access-application-cluster/create-external-load-balancer/",
    ),
)
def external_traffic_policy_local(entry: Entry, world: World) -> Iterator[Fault]:
    if entry.spec.get("type") != "LoadBalancer" or entry.spec.get("externalTrafficPolicy") != "Local":
        return
    selector = mapping(entry.spec.get("selector"))
    if not selector or not (world.facts.announced or world.by_kind.get("CiliumL2AnnouncementPolicy")):
        return
    for kind in ("Deployment", "StatefulSet", "Rollout", "Pod"):
        for one in world.within(kind, entry.id.namespace):
            if one.pod is None or any(one.pod.labels.get(key) != value for key, value in selector.items()):
                continue
            if not _pinned(one.pod.spec):
                yield Fault(
                    "/spec/externalTrafficPolicy",
                    f"externalTrafficPolicy must be Cluster (is Local), since {one.id} is not pinned to one node",
                )
                return


def _pinned(spec: Mapping[str, Any]) -> bool:
    """Whether it can run on one node alone, or affinity, which nobody here can weigh, says where."""
    selected = _HOSTNAME in mapping(spec.get("nodeSelector")) or bool(spec.get("nodeName"))
    return selected or "nodeAffinity" in mapping(spec.get("affinity"))
