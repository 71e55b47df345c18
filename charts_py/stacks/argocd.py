"""argocd: what tells Argo CD of the other stacks."""

from __future__ import annotations

from collections.abc import Iterator

from charts_py.constructs.applications import applications, project
from charts_py.constructs.component import Concept, Inputs
from charts_py.stacks import agents, policies, system, tenants
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
            concepts = (*system.CONCEPTS, *agents.CONCEPTS, *tenants.CONCEPTS, *policies.CONCEPTS)
            others = [one for concept in concepts for one in inputs.objects_of(concept)]
            yield project(inputs.environment, argocd, others)
        yield from applications(inputs.environment, argocd)


CONCEPTS: tuple[type[Concept], ...] = (Applications,)
