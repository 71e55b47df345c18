"""The ways into the server's pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from charts_py.config.environment import Environment
from charts_py.config.server import LoadBalancer
from charts_py.constructs.addresses import BALANCER, PORT, SERVICE
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.metadata import metadata
from kubekit import labels
from kubekit.identity import Manifest


class ServerServices(Concept):
    """One Service inside the cluster, one for people outside, and those of sidecars."""

    concept = "services"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        server = environment.server
        http = [{"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}]
        yield service(environment, SERVICE, None, http)
        if server.load_balancer is not None:
            yield service(environment, BALANCER, server.load_balancer, http)
        for extra in server.services:
            ports = [
                {
                    "name": name,
                    "port": number,
                    "targetPort": _target(port.target, number, port.port),
                    "protocol": port.protocol,
                }
                for port in extra.ports
                for name, number in port.expand()
            ]
            yield service(environment, extra.name, extra.load_balancer, ports)


def _target(target: int | None, number: int, first: int) -> int:
    """The container's port; a range keeps its distance."""
    return number if target is None else target + number - first


def service(
    environment: Environment,
    name: str,
    balancer: LoadBalancer | None,
    ports: list[dict[str, Any]],
) -> Manifest:
    spec: dict[str, Any] = {"selector": dict(labels.SERVER), "ports": ports}
    annotations: dict[str, str] = {}
    if balancer is None:
        spec["type"] = "ClusterIP"
    else:
        spec["type"] = "LoadBalancer"
        if balancer.external_traffic_policy is not None:
            spec["externalTrafficPolicy"] = balancer.external_traffic_policy
        if environment.cluster.cilium is None:
            spec["loadBalancerIP"] = balancer.ip
        else:
            annotations[labels.LOAD_BALANCER_IPS] = balancer.ip
            # Cilium forwards to the pod itself; a port on every node would only be a second way in.
            spec["allocateLoadBalancerNodePorts"] = False
        if balancer.sharing_key is not None:
            annotations[labels.SHARING_KEY] = balancer.sharing_key
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(environment, "Service", name, environment.namespace.name, "server", annotations),
        "spec": spec,
    }
