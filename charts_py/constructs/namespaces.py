"""Namespaces with their Pod Security level."""

from __future__ import annotations

from collections.abc import Iterator

from charts_py.config.environment import Environment
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.metadata import KEPT, metadata
from kubekit import labels
from kubekit.identity import Manifest


class SystemNamespace(Concept):
    """The server's namespace."""

    concept = "namespace"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        # The server's image starts as root and drops to its user, which `restricted` would refuse.
        yield namespace(inputs.environment, inputs.environment.namespace.name, "server", "baseline")


class AgentsNamespace(Concept):
    """The agents' namespace: always restricted, since what runs there obeys a language model."""

    concept = "namespace"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        yield namespace(inputs.environment, inputs.environment.agents.namespace, "agents", "restricted")


def namespace(environment: Environment, name: str, component: str, level: str) -> Manifest:
    """The level is pinned to the cluster's version: else an upgrade of the cluster could refuse pods of today."""
    described = metadata(environment, "Namespace", name, None, component, KEPT)
    for mode in ("enforce", "audit", "warn"):
        described["labels"][f"{labels.POD_SECURITY}/{mode}"] = level
        described["labels"][f"{labels.POD_SECURITY}/{mode}-version"] = f"v{environment.cluster.kubernetes_version}"
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": described}
