"""The Job templates of an environment, as `paperclip-gitops synth` delivers them: a mounted ConfigMap or a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kubekit.jobtemplate import Contract, JobTemplate, TemplateError
from kubekit.podspec import PROMPT
from paperclip_launcher.errors import TemplateInvalid
from policies import facts
from policies.facts import Facts, FactsError

_CONTRACT, _FACTS = "contract", "facts"
_LARGEST = 4 << 20  # bytes
_REMEDY = (
    "name the folder where the ConfigMap paperclip-job-templates is mounted, or job-templates of an environment in dist"
)


@dataclass(frozen=True)
class Template:
    """One Job template, with what a run must know of its pod before the Job is filled.

    `reserved` are the variables that the template sets itself.
    """

    job: JobTemplate
    namespace: str
    service_account: str
    image_pull_policy: str
    prompt_mount: str
    bundle_mount: str
    workspace_mount: str
    reserved: frozenset[str]

    @classmethod
    def of(cls, job: JobTemplate) -> Template:
        """TemplateError where the template does not have the shape of a run of ours."""
        try:
            tree = json.loads(job.job)
            pod = tree["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            mounts = container["volumeMounts"]
            return cls(
                job=job,
                namespace=str(tree["metadata"]["namespace"]),
                service_account=str(pod["serviceAccountName"]),
                image_pull_policy=str(container["imagePullPolicy"]),
                prompt_mount=next(one["mountPath"] for one in mounts if one["name"] == PROMPT),
                bundle_mount=next(one["mountPath"] for one in mounts if "bundle_subpath" in str(one.get("subPath"))),
                workspace_mount=next(one["mountPath"] for one in mounts if "workspace" in str(one.get("subPath"))),
                reserved=job.placeholders["environment"].reserved,
            )
        except (KeyError, ValueError, TypeError, StopIteration) as error:
            raise TemplateError(job.name, (f"is no template of a run: {error!r}",)) from None

    @property
    def name(self) -> str:
        return self.job.name

    def default(self, placeholder: str) -> Any:
        """What the environment sets for a placeholder; None where it sets nothing."""
        return self.job.placeholders[placeholder].default


@dataclass(frozen=True)
class Templates:
    """All templates of an environment. `source` says where they were read, for messages."""

    source: str
    by_name: Mapping[str, Template]
    facts_document: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, folder: Path) -> Templates:
        """From a folder of .json or .yaml files: one a template, `contract`, and `facts` of the environment.

        TemplateInvalid lists what is wrong.
        """
        try:
            trees = {
                path.stem: _tree(path)
                for path in sorted(folder.iterdir())
                if path.suffix in {".json", ".yaml"} and not path.name.startswith(".")
            }
        except OSError as error:
            raise TemplateInvalid([f"{folder}: {error.strerror or error}"], _REMEDY) from error
        return cls.of(trees, str(folder))

    @classmethod
    def of(cls, trees: Mapping[str, Any], source: str = "templates") -> Templates:
        """From parsed trees by name: the templates, `contract` and perhaps `facts`. Raises as load."""
        problems: list[str] = []
        found: dict[str, Template] = {}
        if _CONTRACT not in trees or len(trees) < 2:
            raise TemplateInvalid([f"{source}: holds no contract, or no template beside it"], _REMEDY)
        try:
            contract = Contract.of(trees[_CONTRACT], _CONTRACT)
        except TemplateError as error:
            raise TemplateInvalid([f"{source}: {error}"], _REMEDY) from error
        for name in sorted(trees.keys() - {_CONTRACT, _FACTS}):
            try:
                found[name] = Template.of(_template(name, trees[name], contract))
            except TemplateError as error:
                problems.append(f"{source}: {error}")
        namespaces = {one.namespace for one in found.values()}
        if len(namespaces) > 1:
            problems.append(f"{source}: the templates are for several namespaces: {', '.join(sorted(namespaces))}")
        document = trees.get(_FACTS) or {}
        try:
            facts.of(document)
        except (FactsError, AttributeError) as error:
            problems.append(f"{source}: {_FACTS}: {error}")
        if problems:
            raise TemplateInvalid(problems, _REMEDY)
        return cls(source, found, document)

    @property
    def namespace(self) -> str:
        """The agents' namespace."""
        return next(iter(self.by_name.values())).namespace

    @cached_property
    def facts(self) -> Facts:
        """What the policies must know of the cluster to judge a Job."""
        return facts.of(self.facts_document)

    def get(self, name: str) -> Template:
        """TemplateInvalid where there is none of this name."""
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name))
            raise TemplateInvalid([f"{self.source}: there is no Job template {name!r}; there are {known}"], _REMEDY)
        return self.by_name[name]


def _tree(path: Path) -> Any:
    raw = path.read_bytes()
    if len(raw) > _LARGEST:
        raise TemplateInvalid([f"{path}: has {len(raw)} bytes; at most {_LARGEST} are read"], _REMEDY)
    try:
        if path.suffix == ".json":
            return json.loads(raw)
        # Reads YAML, which a mounted ConfigMap does not need: the import takes longer than all else here.
        from kubekit import yamlread  # noqa: PLC0415

        return yamlread.read(raw, path.name).value
    except ValueError as error:
        raise TemplateInvalid([f"{path}: {error}"], _REMEDY) from error


def _template(name: str, tree: Any, contract: Contract) -> JobTemplate:
    wanted = {"name", "job", "placeholders"}
    if not isinstance(tree, Mapping) or not {"name", "job"} <= tree.keys() <= wanted or tree["name"] != name:
        raise TemplateError(name, ('must be a map of "name", "placeholders" and "job", and named like its file',))
    if not isinstance(tree["job"], dict) or not isinstance(tree.get("placeholders") or {}, Mapping):
        raise TemplateError(name, ("job and placeholders must be maps",))
    return JobTemplate.of(name, tree["job"], contract, tree.get("placeholders") or {})
