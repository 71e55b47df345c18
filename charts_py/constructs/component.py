"""What every construct of ours is: a concept with a name and the objects that it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from charts_py.config.environment import Environment
from charts_py.images import ImageLock
from kubekit.identity import Manifest
from kubekit.jobtemplate import JobTemplate
from policies.waivers import Waivers


@dataclass(frozen=True)
class Inputs:
    """What constructs are made from."""

    environment: Environment
    images: ImageLock
    job_templates: tuple[JobTemplate, ...] = ()
    waivers: Waivers = field(default_factory=Waivers)
    _objects: dict[type[Concept], list[Manifest]] = field(default_factory=dict, compare=False, repr=False)

    def objects_of(self, concept: type[Concept]) -> list[Manifest]:
        """What the concept stands for; made once, though the Argo CD project asks for all of them again."""
        if concept not in self._objects:
            self._objects[concept] = list(concept.objects(self))
        return self._objects[concept]


class Concept:
    """What one construct stands for: its objects are a pure function of the inputs. Subclasses say which.

    The construct itself is made by charts_py.kernel.tree, so that what only looks at objects need not start Node.
    """

    concept: ClassVar[str]
    """The name in the tree; the path of an object is <stack>/<concept>/<kind>-<name>."""
    by_namespace: ClassVar[bool] = False
    """Whether its objects stand in several namespaces, under the same names: these then stand for the concept."""

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:  # noqa: ARG004  what subclasses take
        """The objects, in the order in which they are read best."""
        raise TypeError("a concept says which objects it stands for")  # pragma: no cover
