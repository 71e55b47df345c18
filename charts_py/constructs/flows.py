"""The words that network policies are written in: peers, ports, rules."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from charts_py.config.cluster import Cluster
from charts_py.config.environment import Environment
from charts_py.config.server import Peer
from charts_py.constructs.metadata import metadata
from kubekit.identity import Manifest

# What is no address of the outside world: private and shared ranges, loopback, link-local (where clouds keep the
# metadata service), protocol and benchmark ranges, multicast and reserved (IANA special-purpose registries).
NOT_WORLD_V4 = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
# 64:ff9b::/96 and 2002::/16 embed IPv4 addresses, private ones too; fd00:ec2::254 lies in fc00::/7. Not ::ffff:0:0/96:
# it never stands on a wire, and the API server reads it as an IPv4 range, which is no part of ::/0.
NOT_WORLD_V6 = ("::/96", "64:ff9b::/96", "2002::/16", "fc00::/7", "fe80::/10", "ff00::/8")


def pods(namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Pods of another namespace; the label is set by the API server on every namespace."""
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": dict(labels)} if labels else {},
    }


def addresses(cidrs: Iterable[str]) -> list[dict[str, Any]]:
    return [{"ipBlock": {"cidr": cidr}} for cidr in cidrs]


def world(cluster: Cluster) -> list[dict[str, Any]]:
    """Every address outside, for both families; the cluster's own ranges are taken out even if they are public."""
    own = (*cluster.pod_cidrs, *cluster.service_cidrs, *cluster.node_cidrs)
    return [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": _without(NOT_WORLD_V4, own, 4)}},
        {"ipBlock": {"cidr": "::/0", "except": _without(NOT_WORLD_V6, own, 6)}},
    ]


def _without(fixed: tuple[str, ...], own: tuple[str, ...], version: int) -> list[str]:
    cidrs = (*fixed, *own)
    if version == 4:
        return [str(one) for one in ipaddress.collapse_addresses(map(ipaddress.IPv4Network, _of(cidrs, 4)))]
    return [str(one) for one in ipaddress.collapse_addresses(map(ipaddress.IPv6Network, _of(cidrs, 6)))]


def _of(cidrs: Iterable[str], version: int) -> list[str]:
    return [cidr for cidr in cidrs if ipaddress.ip_network(cidr).version == version]


def tcp(*ports: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def dns(environment: Environment) -> dict[str, Any]:
    """The egress rule that lets names be looked up."""
    settings = environment.cluster.dns
    to = [pods(settings.namespace, settings.pod_labels)]
    if settings.node_local_address is not None:
        bits = ipaddress.ip_address(settings.node_local_address).max_prefixlen
        to += addresses([f"{settings.node_local_address}/{bits}"])
    return {"to": to, "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}


def peers(peer: Peer) -> list[dict[str, Any]]:
    return addresses(peer.cidrs) if peer.namespace is None else [pods(peer.namespace, peer.pod_labels)]


def rule(direction: str, sides: list[dict[str, Any]], ports: list[dict[str, Any]]) -> dict[str, Any]:
    """`direction` is "from" or "to". Without ports every port is meant."""
    return {direction: sides, "ports": ports} if ports else {direction: sides}


def policy(
    environment: Environment,
    name: str,
    namespace: str,
    component: str,
    selector: Mapping[str, str],
    *,
    ingress: list[dict[str, Any]] | None = None,
    egress: list[dict[str, Any]] | None = None,
) -> Manifest:
    """A NetworkPolicy over the directions that are given; an empty list denies the direction."""
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": dict(selector)} if selector else {},
        "policyTypes": [],
    }
    for direction, rules in (("Ingress", ingress), ("Egress", egress)):
        if rules is not None:
            spec["policyTypes"].append(direction)
            if rules:
                spec[direction.lower()] = rules
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(environment, "NetworkPolicy", name, namespace, component),
        "spec": spec,
    }


def default_deny(environment: Environment, namespace: str, component: str) -> Manifest:
    return policy(environment, "default-deny", namespace, component, {}, ingress=[], egress=[])
