"""One environment to its objects and files: config → constructs → cdk8s → plain objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from charts_py import jobtemplates
from charts_py.config.argocd import Fleet
from charts_py.config.environment import Environment
from charts_py.constructs import database
from charts_py.constructs.applications import AGENTS, ARGOCD, DATABASE, SYSTEM, application_set
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.jobtemplates import settings
from charts_py.errors import GitopsError
from charts_py.images import ImageLock
from charts_py.kernel.objects import App, StackChart
from charts_py.stacks import agents, argocd, system
from kubekit import yamlwrite
from kubekit.identity import Manifest, ObjectId
from kubekit.jobtemplate import JobTemplate

STACKS: Mapping[str, tuple[type[Concept], ...]] = {
    SYSTEM: system.CONCEPTS,
    AGENTS: agents.CONCEPTS,
    ARGOCD: argocd.CONCEPTS,
}
JOB_TEMPLATES = "job-templates"
FLEET = "_fleet"


@dataclass(frozen=True)
class RenderedObject:
    """One object, the stack it is synced with and the path of the construct that made it."""

    stack: str
    construct: str
    manifest: Manifest

    @property
    def id(self) -> ObjectId:
        return ObjectId.of(self.manifest)

    @property
    def path(self) -> str:
        """Relative to the environment's folder in dist."""
        return f"{self.stack}/{self.id.file_name}"


@dataclass(frozen=True)
class Rendering:
    """All of one environment. `files` are what is no object: path relative to the environment's folder → bytes."""

    name: str
    objects: tuple[RenderedObject, ...]
    job_templates: tuple[JobTemplate, ...]
    files: Mapping[str, bytes]

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The YAML of each object."""
        return tuple(yamlwrite.dump(rendered.manifest) for rendered in self.objects)

    def all_files(self) -> dict[str, bytes]:
        """Every file of the environment, objects included. Raises GitopsError if two objects need one file."""
        result = dict(self.files)
        for rendered, text in zip(self.objects, self.texts, strict=True):
            if rendered.path in result:
                raise GitopsError(
                    f"{rendered.id}: another object of this stack has the file {rendered.path}", "rename one"
                )
            result[rendered.path] = text.encode()
        return result


def inputs_of(environment: Environment, images: ImageLock, templates: Path | None = None) -> Inputs:
    """What the constructs are made from; the Job templates are synthesized here."""
    return Inputs(environment, images, jobtemplates.synthesize(settings(environment, images), templates))


def render(environment: Environment, images: ImageLock, templates: Path | None = None) -> Rendering:
    """The whole environment through cdk8s. Raises ConfigError for templates that cannot be made."""
    inputs = inputs_of(environment, images, templates)
    objects = tuple(_through_cdk8s(inputs))
    files = {f"{JOB_TEMPLATES}/{name}": data for name, data in jobtemplates.files(inputs.job_templates).items()}
    if environment.database.kind == "bitnami":
        values = yamlwrite.dump(database.bitnami_values(environment.database, images))
        files[f"{DATABASE}/values.yaml"] = values.encode()
    return Rendering(environment.name, objects, inputs.job_templates, files)


def render_fleet(fleet: Fleet) -> Rendering:
    """The ApplicationSet over all environments."""
    made = RenderedObject("applicationset", "applicationset", application_set(fleet))
    return Rendering(FLEET, (made,), (), {})


def _through_cdk8s(inputs: Inputs) -> Iterator[RenderedObject]:
    app = App()
    for stack, concepts in STACKS.items():
        chart = StackChart(app, stack)
        for concept in concepts:
            concept(chart, inputs)
        for construct, manifest in chart.manifests():
            yield RenderedObject(stack, construct, manifest)
