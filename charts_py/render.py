"""One environment to its objects and files: config → constructs → cdk8s → plain objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from charts_py import jobtemplates
from charts_py.config.argocd import Fleet
from charts_py.config.environment import Environment
from charts_py.constructs import database
from charts_py.constructs.applications import AGENTS, ARGOCD, DATABASE, POLICIES, SYSTEM, TENANTS, application_set
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.jobtemplates import settings
from charts_py.images import ImageLock
from charts_py.known import launch_facts
from charts_py.rendering import RenderedObject, Rendering, places
from charts_py.stacks import agents, argocd, policies, system, tenants
from kubekit import yamlwrite
from kubekit.identity import Manifest
from policies.waivers import Waivers

STACKS: Mapping[str, tuple[type[Concept], ...]] = {
    SYSTEM: system.CONCEPTS,
    AGENTS: agents.CONCEPTS,
    TENANTS: tenants.CONCEPTS,
    POLICIES: policies.CONCEPTS,
    ARGOCD: argocd.CONCEPTS,
}
JOB_TEMPLATES = "job-templates"
NO_WAIVERS = Waivers()
FLEET = "_fleet"


def inputs_of(
    environment: Environment, images: ImageLock, templates: Path | None = None, waivers: Waivers = NO_WAIVERS
) -> Inputs:
    """What the constructs are made from; the Job templates are synthesized here."""
    return Inputs(environment, images, jobtemplates.synthesize(settings(environment, images), templates), waivers)


def prepare(
    environment: Environment, images: ImageLock, templates: Path | None = None, waivers: Waivers = NO_WAIVERS
) -> Rendering:
    """The whole environment as its constructs give it. Raises ConfigError for templates that cannot be made."""
    inputs = inputs_of(environment, images, templates, waivers)
    objects = tuple(
        _rendered(stack, concept, manifest)
        for stack, concepts in STACKS.items()
        for concept in concepts
        for manifest in inputs.objects_of(concept)
    )
    made = jobtemplates.files(inputs.job_templates, launch_facts(environment, images))
    files = {f"{JOB_TEMPLATES}/{name}": data for name, data in made.items()}
    if environment.database.kind == "bitnami":
        values = yamlwrite.dump(database.bitnami_values(environment.database, images))
        files[f"{DATABASE}/values.yaml"] = values.encode()
    return Rendering(environment.name, objects, inputs.job_templates, files)


def prepare_fleet(fleet: Fleet) -> Rendering:
    """The ApplicationSet over all environments."""
    manifest = application_set(fleet)
    construct, _ = places("applicationset", "fleet", manifest)
    made = RenderedObject("applicationset", construct, manifest)
    return Rendering(FLEET, (made,), (), {})


def _rendered(stack: str, concept: type[Concept], manifest: Manifest) -> RenderedObject:
    construct, file = places(stack, concept.concept, manifest, by_namespace=concept.by_namespace)
    return RenderedObject(stack, construct, manifest, file)


def render(
    environment: Environment, images: ImageLock, templates: Path | None = None, waivers: Waivers = NO_WAIVERS
) -> Rendering:
    """`prepare`, and through cdk8s."""
    from charts_py.kernel.tree import through_cdk8s  # noqa: PLC0415  importing it starts Node

    return through_cdk8s(prepare(environment, images, templates, waivers))
