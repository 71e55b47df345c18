"""What every construct of ours is: a concept with a name and the objects that it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from charts_py.config.environment import Environment
from charts_py.images import ImageLock
from charts_py.kernel.objects import Component, ManifestObject
from kubekit.identity import Manifest
from kubekit.jobtemplate import JobTemplate


@dataclass(frozen=True)
class Inputs:
    """What constructs are made from."""

    environment: Environment
    images: ImageLock
    job_templates: tuple[JobTemplate, ...] = ()


class Concept(Component):
    """A construct whose objects are a pure function of the inputs; subclasses say which."""

    concept: ClassVar[str]
    """The name in the tree; the path of an object is <stack>/<concept>/<kind>-<name>."""

    def __init__(self, scope: Component, inputs: Inputs) -> None:
        super().__init__(scope, self.concept)
        for manifest in self.objects(inputs):
            ManifestObject(self, f"{manifest['kind']}-{manifest['metadata']['name']}".lower(), manifest)

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        """The objects, in the order in which they are read best."""
        raise TypeError("a concept says which objects it stands for")  # pragma: no cover
