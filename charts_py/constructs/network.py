"""Who may talk to whom: everything is denied, then exactly the flows that are needed are allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from charts_py.config.agents import Egress
from charts_py.config.environment import Environment
from charts_py.config.server import ServicePort
from charts_py.constructs import database, flows
from charts_py.constructs.addresses import PORT
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.metadata import metadata
from kubekit import labels
from kubekit.identity import Manifest

_AGENTS = {labels.COMPONENT: "agent-job"}


class SystemNetwork(Concept):
    """The flows of the server and of a database in its namespace."""

    concept = "network"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        namespace = environment.namespace.name
        yield flows.default_deny(environment, namespace, "server")
        yield flows.policy(
            environment,
            "paperclip-server",
            namespace,
            "server",
            labels.SERVER,
            ingress=_into_server(environment),
            egress=_out_of_server(environment),
        )
        selector = database.pod_labels(environment)
        if selector is not None:
            yield flows.policy(
                environment,
                "paperclip-database",
                namespace,
                "database",
                selector,
                ingress=_into_database(environment),
                egress=_out_of_database(environment),
            )
        needed = bool(_balanced(environment)) or environment.launcher.enabled
        if environment.cluster.cilium is not None and needed:
            yield _cilium_server(environment)


class AgentsNetwork(Concept):
    """Agents reach DNS, the Paperclip API and the outside world; nobody reaches them."""

    concept = "network"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        agents = environment.agents
        yield flows.default_deny(environment, agents.namespace, "agents")
        egress = out_of_agents(environment, agents.egress)
        yield flows.policy(environment, "agent-egress", agents.namespace, "agents", _AGENTS, egress=egress)
        if agents.egress.fqdns:
            spec = by_names(environment, agents.egress, _AGENTS)
            yield _cilium_policy(environment, "agent-egress-names", agents.namespace, "agents", spec)


def out_of_agents(environment: Environment, egress: Egress) -> list[dict[str, Any]]:
    """The rules of what agents reach by address."""
    rules = [
        flows.dns(environment),
        flows.rule("to", [flows.pods(environment.namespace.name, labels.SERVER)], flows.tcp(PORT)),
        *(flows.rule("to", flows.peers(peer), flows.tcp(*peer.ports)) for peer in egress.destinations),
    ]
    if egress.world:
        rules.append(flows.rule("to", flows.world(environment.cluster), flows.tcp(*egress.world_ports)))
    return rules


def _into_server(environment: Environment) -> list[dict[str, Any]]:
    rules = [flows.rule("from", [flows.pods(environment.agents.namespace, _AGENTS)], flows.tcp(PORT))]
    rules += [
        flows.rule("from", flows.peers(peer), flows.tcp(*(peer.ports or (PORT,))))
        for peer in environment.network.callers
    ]
    outside = flows.addresses(environment.network.load_balancer_cidrs)
    if environment.server.load_balancer is not None and outside:
        rules.append(flows.rule("from", outside, flows.tcp(PORT)))
    for extra in environment.server.services:
        if extra.load_balancer is not None and outside:
            rules.append(flows.rule("from", outside, _target_ports(extra.ports)))
    return rules


def _target_ports(ports: Iterable[ServicePort]) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = []
    for port in ports:
        first = port.target if port.target is not None else port.port
        one: dict[str, Any] = {"protocol": port.protocol, "port": first}
        if port.through is not None:
            one["endPort"] = first + port.through - port.port
        result.append(one)
    return result


def _out_of_server(environment: Environment) -> list[dict[str, Any]]:
    rules = [flows.dns(environment), _to_database(environment)]
    rules += [flows.rule("to", flows.peers(peer), flows.tcp(*peer.ports)) for peer in environment.network.destinations]
    if environment.launcher.enabled:
        api = environment.cluster.api_server
        rules.append(flows.rule("to", flows.addresses(api.cidrs), flows.tcp(api.port)))
    if environment.network.world_ports:
        rules.append(flows.rule("to", flows.world(environment.cluster), flows.tcp(*environment.network.world_ports)))
    return rules


def _to_database(environment: Environment) -> dict[str, Any]:
    settings = environment.database
    if settings.kind == "external":
        if settings.namespace is not None:
            return flows.rule("to", [flows.pods(settings.namespace, settings.pod_labels)], flows.tcp(settings.port))
        return flows.rule("to", flows.addresses(settings.cidrs), flows.tcp(settings.port))
    selector = dict(database.pod_labels(environment) or {})
    return flows.rule("to", [{"podSelector": {"matchLabels": selector}}], flows.tcp(database.POSTGRES_PORT))


def _into_database(environment: Environment) -> list[dict[str, Any]]:
    server = {"podSelector": {"matchLabels": dict(labels.SERVER)}}
    rules = [flows.rule("from", [server], flows.tcp(database.POSTGRES_PORT))]
    if environment.database.kind == "cloudnative-pg":
        own = {"podSelector": {"matchLabels": dict(database.pod_labels(environment) or {})}}
        rules.append(flows.rule("from", [own], flows.tcp(database.POSTGRES_PORT, 8000)))
        # The operator asks each instance for its state.
        rules.append(flows.rule("from", [flows.pods("cnpg-system", {})], flows.tcp(database.POSTGRES_PORT, 8000)))
    return rules


def _out_of_database(environment: Environment) -> list[dict[str, Any]]:
    rules = [flows.dns(environment)]
    if environment.database.kind == "cloudnative-pg":
        own = {"podSelector": {"matchLabels": dict(database.pod_labels(environment) or {})}}
        api = environment.cluster.api_server
        rules.append(flows.rule("to", [own], flows.tcp(database.POSTGRES_PORT, 8000)))
        rules.append(flows.rule("to", flows.addresses(api.cidrs), flows.tcp(api.port)))
        if environment.database.backup is not None and environment.database.backup.object_store is not None:
            rules.append(flows.rule("to", flows.world(environment.cluster), flows.tcp(443)))
    return rules


def _balanced(environment: Environment) -> list[dict[str, Any]]:
    """The pod's ports that a load balancer forwards to."""
    server = environment.server
    ports = flows.tcp(PORT) if server.load_balancer is not None else []
    for extra in server.services:
        if extra.load_balancer is not None:
            ports += _target_ports(extra.ports)
    return ports


def _cilium_server(environment: Environment) -> Manifest:
    """What Cilium keeps out of address rules: its own nodes and the API server are entities, not addresses.

    A load balancer that forwards from another node shows that node as the sender; without this rule such callers are
    dropped.
    """
    spec: dict[str, Any] = {"endpointSelector": {"matchLabels": dict(labels.SERVER)}}
    ports = [{**port, "port": str(port["port"])} for port in _balanced(environment)]
    if ports:
        spec["ingress"] = [{"fromEntities": ["host", "remote-node"], "toPorts": [{"ports": ports}]}]
    if environment.launcher.enabled:
        api = [{"port": str(environment.cluster.api_server.port), "protocol": "TCP"}]
        spec["egress"] = [{"toEntities": ["kube-apiserver"], "toPorts": [{"ports": api}]}]
    return _cilium_policy(environment, "paperclip-server-entities", environment.namespace.name, "server", spec)


def by_names(environment: Environment, egress: Egress, selected: Mapping[str, str]) -> dict[str, Any]:
    """Names instead of addresses. Cilium learns a name's addresses from the answers of DNS, so it must see them."""
    settings = environment.cluster.dns
    dns_pods = {"k8s:io.kubernetes.pod.namespace": settings.namespace}
    dns_pods |= {f"k8s:{key}": value for key, value in settings.pod_labels.items()}
    lookups = {
        "ports": [{"port": "53", "protocol": "UDP"}, {"port": "53", "protocol": "TCP"}],
        "rules": {"dns": [{"matchPattern": "*"}]},
    }
    ports = [{"port": str(port), "protocol": "TCP"} for port in egress.world_ports]
    rules: list[dict[str, Any]] = [{"toEndpoints": [{"matchLabels": dns_pods}], "toPorts": [lookups]}]
    if egress.fqdns:
        rules.append({"toFQDNs": [{"matchName": name} for name in egress.fqdns], "toPorts": [{"ports": ports}]})
    return {"endpointSelector": {"matchLabels": dict(selected)}, "egress": rules}


def _cilium_policy(
    environment: Environment,
    name: str,
    namespace: str,
    component: str,
    spec: dict[str, Any],
) -> Manifest:
    return {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": metadata(environment, "CiliumNetworkPolicy", name, namespace, component),
        "spec": spec,
    }
