"""What a rendered environment is. No pydantic, no cdk8s: both processes of a synth hold these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from charts_py.errors import GitopsError
from kubekit import yamlwrite
from kubekit.identity import Manifest, ObjectId

if TYPE_CHECKING:
    from kubekit.jobtemplate import JobTemplate
    from policies.model import Finding


@dataclass(frozen=True)
class RenderedObject:
    """One object, the stack it is synced with and the path of the construct that made it.

    `file` is the name of its file; "": <kind>-<name>.yaml.
    """

    stack: str
    construct: str
    manifest: Manifest
    file: str = ""

    @property
    def id(self) -> ObjectId:
        return ObjectId.of(self.manifest)

    @property
    def path(self) -> str:
        """Relative to the environment's folder in dist."""
        return f"{self.stack}/{self.file or self.id.file_name}"


def places(stack: str, concept: str, manifest: Manifest, *, by_namespace: bool = False) -> tuple[str, str]:
    """(path of the construct, name of the file) of an object; `by_namespace` tells those of one name apart."""
    one = ObjectId.of(manifest)
    name = f"{one.kind}-{one.name}".lower()
    if not by_namespace:
        return f"{stack}/{concept}/{name}", one.file_name
    # No namespace has a dot, so no two objects have one file.
    within = f"{one.namespace}." if one.namespace else ""
    return f"{stack}/{one.namespace or one.name}/{name}", f"{one.kind.lower()}-{within}{one.name}.yaml"


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


@dataclass(frozen=True)
class Judgement:
    """Of one environment: findings without waivers, and how many objects of which kind no schema has judged."""

    findings: tuple[Finding, ...]
    checked: int
    unchecked: Mapping[str, int]
