"""The Job templates, in a ConfigMap that the launcher mounts."""

from __future__ import annotations

from collections.abc import Iterator

from charts_py.config.environment import Environment
from charts_py.constructs.addresses import api_url
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.containers import resources, tolerations
from charts_py.constructs.metadata import metadata
from charts_py.images import ImageLock
from charts_py.jobtemplates import JobKindSettings, JobTemplateSettings, SecretVariable, config_map
from charts_py.known import launch_facts
from kubekit.identity import Manifest

NAME = "paperclip-job-templates"


class JobTemplates(Concept):
    """It stands in the server's namespace, where the launcher runs."""

    concept = "job-templates"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        described = metadata(environment, "ConfigMap", NAME, environment.namespace.name, "launcher")
        known = launch_facts(environment, inputs.images)
        manifest = config_map(inputs.job_templates, known, NAME, environment.namespace.name, described["labels"])
        yield {**manifest, "metadata": described}


def settings(environment: Environment, images: ImageLock) -> JobTemplateSettings:
    """What the templates are made from."""
    agents = environment.agents
    jobs = agents.jobs
    owner = {entry.key: secret.name for secret in agents.secrets for entry in secret.entries}
    kinds = tuple(
        JobKindSettings(
            name=kind.name,
            program=kind.program,
            image=images.pin(kind.image),
            resources=resources(kind.resources),
            secret_environment=tuple(SecretVariable(key, owner[key], key) for key in kind.secret_keys),
        )
        for kind in jobs.kinds
    )
    return JobTemplateSettings(
        namespace=agents.namespace,
        service_account=agents.service_account,
        claim_name=agents.workspace.name,
        api_url=api_url(environment),
        kinds=kinds,
        user=jobs.user,
        deadline_seconds=jobs.deadline_seconds,
        time_to_live_seconds=jobs.time_to_live_seconds,
        termination_grace_period_seconds=jobs.termination_grace_period_seconds,
        node_selector=dict(jobs.node_selector) or None,
        tolerations=tuple(tolerations(jobs.tolerations)),
        priority_class=jobs.priority_class,
        runtime_class=jobs.runtime_class,
    )
