"""argocd: what tells Argo CD of the other stacks."""

from __future__ import annotations

from collections.abc import Iterator

from charts_py.constructs.applications import applications, project
from charts_py.constructs.component import Concept, Inputs
from charts_py.stacks import agents, system
from kubekit.identity import Manifest


class Applications(Concept):
    """The project and the Applications."""

    concept = "applications"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        argocd = inputs.environment.argocd
        if argocd is None:
            return
        if argocd.render_project:
            others = (concept.objects(inputs) for concept in (*system.CONCEPTS, *agents.CONCEPTS))
            yield project(inputs.environment, argocd, (manifest for objects in others for manifest in objects))
        yield from applications(inputs.environment, argocd)


CONCEPTS: tuple[type[Concept], ...] = (Applications,)
