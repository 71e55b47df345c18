"""Why an object is what it is: the construct that made it, and the config field behind each value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import BaseModel

from charts_py import jobtemplates
from charts_py.config.environment import Environment
from charts_py.config.load import written
from charts_py.constructs.jobtemplates import settings
from charts_py.images import ImageLock
from charts_py.render import FLEET
from charts_py.tracing import Path, Recorder
from kubekit import pointers
from kubekit.identity import Manifest, ObjectId
from kubekit.jobtemplate import JobTemplate
from kubekit.yamlread import Position


@dataclass(frozen=True)
class Config:
    """One config file. `folder` is its name in dist."""

    folder: str
    file: str
    model: BaseModel
    positions: Mapping[str, Position]

    def place_of(self, path: Path) -> str:
        """`file:line` of a field, or that its default is used."""
        position = self.positions.get(pointers.join("", *path))
        return f"{self.file}:{position.line}" if position else "default"


@dataclass(frozen=True)
class Producer:
    """A pure function from a config to objects, and where it is written."""

    stack: str
    concept: str
    code: str
    make: Callable[[Any, _Templates], Iterator[Manifest]]


@dataclass(frozen=True)
class Made:
    """One object, the `index`-th of its producer; `reads` are the fields that were read while it was built."""

    config: Config
    producer: Producer
    index: int
    manifest: Manifest
    reads: tuple[Path, ...]

    @property
    def id(self) -> ObjectId:
        return ObjectId.of(self.manifest)

    @property
    def construct(self) -> str:
        name = f"{self.id.kind}-{self.id.name}".lower()
        parts = (self.producer.stack, self.producer.concept, name)
        return self.producer.stack if self.config.folder == FLEET else "/".join(parts)

    @property
    def file(self) -> str:
        """Relative to dist."""
        return f"{self.config.folder}/{self.producer.stack}/{self.id.file_name}"


@dataclass(frozen=True)
class FieldUse:
    """A config field, its value and `file:line` or "default"."""

    path: Path
    value: Any
    place: str

    @property
    def name(self) -> str:
        return written(self.path)


@dataclass(frozen=True)
class Leaf:
    """A value of the object. `verbatim`: it is the value of its one field; no fields: the construct fixes it."""

    pointer: str
    value: Any
    verbatim: bool
    fields: tuple[FieldUse, ...]


@dataclass(frozen=True)
class Answer:
    """`undecided` are fields that could not be varied, so their part in `leaves` is not known."""

    leaves: tuple[Leaf, ...]
    undecided: tuple[FieldUse, ...]


class _Templates:
    """The Job templates of one config, made only for who asks, and once while nothing they read changes."""

    def __init__(self, images: ImageLock, folder: FilePath | None, known: _Templates | None = None) -> None:
        self.images = images
        self.folder = folder
        self.known = known
        self.reads: frozenset[Path] = frozenset()
        self.made: tuple[JobTemplate, ...] | None = None
        self.changed: Path = ()

    def of(self, environment: Environment) -> tuple[JobTemplate, ...]:
        if self.known is not None and self.known.made is not None and self.changed not in self.known.reads:
            return self.known.made
        recorder = Recorder()
        if self.made is None:
            self.made = jobtemplates.synthesize(settings(environment, self.images), self.folder)
        del recorder
        return self.made


def load(folder: FilePath, wanted: tuple[str, ...]) -> list[Config]:
    raise NotImplementedError
