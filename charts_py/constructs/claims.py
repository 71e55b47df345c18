"""Claims. They hold what cannot be rendered again: Argo CD neither prunes nor deletes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from charts_py.config.environment import Environment
from charts_py.config.server import ServerStorage
from charts_py.config.workload import Claim
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.metadata import KEPT, metadata
from kubekit.identity import Manifest


class ServerClaims(Concept):
    """The server's own claim and those of its further volumes: one writer each."""

    concept = "claims"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        own = environment.server.storage
        further = [volume.claim for volume in environment.server.volumes if volume.claim is not None]
        claims: list[ServerStorage | Claim] = [own, *further]
        for settings in claims:
            yield claim(
                environment,
                settings.name,
                environment.namespace.name,
                "server",
                access_mode="ReadWriteOnce",
                size=settings.size,
                storage_class=settings.storage_class,
            )


class AgentWorkspace(Concept):
    """The claim of all agents; each Job mounts only its agent's folder of it."""

    concept = "workspace"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        settings = environment.agents.workspace
        yield claim(
            environment,
            settings.name,
            environment.agents.namespace,
            "agents",
            access_mode=settings.access_mode,
            size=settings.size,
            storage_class=settings.storage_class,
        )


def claim(
    environment: Environment,
    name: str,
    namespace: str,
    component: str,
    *,
    access_mode: str,
    size: str,
    storage_class: str | None,
) -> Manifest:
    spec: dict[str, Any] = {"accessModes": [access_mode], "resources": {"requests": {"storage": size}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(environment, "PersistentVolumeClaim", name, namespace, component, KEPT),
        "spec": spec,
    }
