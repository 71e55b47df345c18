"""Why an object is what it is: the construct that made it, and the config field behind each value."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from charts_py import jobtemplates, sources, tracing
from charts_py.config.argocd import Fleet
from charts_py.config.environment import Environment
from charts_py.config.load import parse, written
from charts_py.constructs.applications import application_set
from charts_py.constructs.component import Inputs
from charts_py.constructs.jobtemplates import settings
from charts_py.errors import UsageError
from charts_py.images import ImageLock
from charts_py.render import FLEET, STACKS
from charts_py.rendering import places
from charts_py.tracing import FieldPath, Recorder
from kubekit import pointers
from kubekit.identity import Manifest, ObjectId
from kubekit.jobtemplate import JobTemplate
from kubekit.yamlread import Position

_VARIATIONS = 3  # of one field; a value may depend on one word of three only
_ABSENT = object()


@dataclass(frozen=True)
class Config:
    """One config file. `folder` is its name in dist."""

    folder: str
    file: str
    model: BaseModel
    positions: Mapping[str, Position]


@dataclass(frozen=True)
class Producer:
    """A pure function from the inputs to objects; `code` says where it is written."""

    stack: str
    concept: str
    code: str
    make: Callable[[Any], Iterable[Manifest]]
    by_namespace: bool = False


@dataclass(frozen=True)
class Made:
    """One object, the `index`-th of its producer; `reads` are the fields that were read while it was built."""

    folder: str
    producer: Producer
    index: int
    manifest: Manifest
    reads: tuple[FieldPath, ...]

    @property
    def id(self) -> ObjectId:
        return ObjectId.of(self.manifest)

    @property
    def construct(self) -> str:
        """The path in the construct tree, as in findings."""
        return self._places[0] if self.producer.concept else self.producer.stack

    @property
    def file(self) -> str:
        """Relative to dist."""
        return f"{self.folder}/{self.producer.stack}/{self._places[1]}"

    @property
    def _places(self) -> tuple[str, str]:
        made_by = self.producer
        return places(made_by.stack, made_by.concept, self.manifest, by_namespace=made_by.by_namespace)


@dataclass(frozen=True)
class FieldUse:
    """A config field as people write it, its value, and `file:line` or "default"."""

    name: str
    value: Any
    place: str


@dataclass(frozen=True)
class Leaf:
    """A value of the object. `verbatim`: it is that of its one field; no fields: the construct fixes it."""

    pointer: str
    value: Any
    verbatim: bool
    fields: tuple[FieldUse, ...]


@dataclass(frozen=True)
class Answer:
    """`conditions` decide whether the object is there at all; `undecided` could not be varied.

    Both are looked for only where a leaf does not carry its origin.
    """

    leaves: tuple[Leaf, ...]
    conditions: tuple[FieldUse, ...] = ()
    undecided: tuple[FieldUse, ...] = ()


@dataclass
class _Influence:
    """What was seen when each field in turn had another value: the pointers of the leaves that changed."""

    changed: dict[FieldPath, frozenset[str]] = field(default_factory=dict)
    conditions: list[FieldPath] = field(default_factory=list)
    undecided: list[FieldPath] = field(default_factory=list)


class Workshop:
    """All that makes objects from one config file."""

    def __init__(self, config: Config, images: ImageLock, templates: Path) -> None:
        self.config = config
        self._images = images
        self._folder = templates

    @cached_property
    def made(self) -> tuple[Made, ...]:
        """Every object, with the fields it was built from."""
        return tuple(made for producer in self._producers() for made in self._trace(producer))

    def fields(self, paths: Iterable[FieldPath]) -> tuple[FieldUse, ...]:
        """Each once, by name."""
        return tuple(self._field(path) for path in sorted(dict.fromkeys(paths), key=written))

    def answer(self, made: Made, pointer: str) -> Answer:
        """Where each value at or below `pointer` comes from."""
        leaves = {
            place: value
            for place, value in pointers.walk(made.manifest)
            if place == pointer or place.startswith(f"{pointer}/")
        }
        if all(tracing.origin_of(value) for value in leaves.values()):
            return Answer(tuple(self._leaf(place, value, {}) for place, value in leaves.items()))
        seen = self._influence(made)
        found = tuple(self._leaf(place, value, seen.changed) for place, value in leaves.items())
        return Answer(found, self.fields(seen.conditions), self.fields(seen.undecided))

    def _leaf(self, pointer: str, value: Any, influence: Mapping[FieldPath, frozenset[str]]) -> Leaf:
        origin = tracing.origin_of(value)
        if origin is not None:
            return Leaf(pointer, value, verbatim=True, fields=(self._field(origin),))
        fields = self.fields(path for path, changed in influence.items() if pointer in changed)
        verbatim = len(fields) == 1 and type(fields[0].value) is type(value) and fields[0].value == value
        return Leaf(pointer, value, verbatim, fields + self._lock(value, fields))

    def _lock(self, value: Any, fields: Sequence[FieldUse]) -> tuple[FieldUse, ...]:
        """A digest that no field holds was put there by images.lock."""
        if not isinstance(value, str) or "@sha256:" not in value:
            return ()
        if not any(isinstance(one.value, str) and value.startswith(one.value) for one in fields):
            return ()
        return (FieldUse("the digest", value.partition("@")[2], self._images.source),)

    def _field(self, path: FieldPath) -> FieldUse:
        position = self.config.positions.get(pointers.join("", *path))
        place = f"{self.config.file}:{position.line}" if position else "default"
        return FieldUse(written(path), tracing.value_at(self.config.model, path), place)

    def _producers(self) -> Iterator[Producer]:
        if self.config.folder == FLEET:
            make = cast("Callable[[Any], Manifest]", application_set)
            yield Producer("applicationset", "", _code(application_set), lambda inputs: [make(inputs.environment)])
            return
        for stack, concepts in STACKS.items():
            for concept in concepts:
                make_all = cast("Callable[[Any], Iterable[Manifest]]", concept.objects)
                yield Producer(stack, concept.concept, _code(concept), make_all, concept.by_namespace)

    def _trace(self, producer: Producer) -> Iterator[Made]:
        recorder = Recorder()
        begin = 0
        through_templates = self._template_reads if self._uses_templates(producer) else ()
        inputs = self._inputs(recorder.trace(self.config.model), self._templates)
        for index, manifest in enumerate(producer.make(inputs)):
            origins = (tracing.origin_of(value) for _, value in pointers.walk(manifest))
            taken = (origin for origin in origins if origin is not None)
            reads = dict.fromkeys((*recorder.reads[begin:], *taken, *through_templates))
            begin = len(recorder.reads)
            yield Made(self.config.folder, producer, index, manifest, tuple(reads))

    def _inputs(self, model: Any, templates: tuple[JobTemplate, ...]) -> Inputs:
        return Inputs(model, self._images, templates)

    @cached_property
    def _templates(self) -> tuple[JobTemplate, ...]:
        return self._synthesize(self.config.model)

    @cached_property
    def _template_reads(self) -> tuple[FieldPath, ...]:
        """The fields behind the Job templates. A synthesis checks exact types, so it is never given traced values."""
        recorder = Recorder()
        if isinstance(self.config.model, Environment):
            settings(recorder.trace(self.config.model), self._images)
        return tuple(recorder.reads)

    def _uses_templates(self, producer: Producer) -> bool:
        model = self.config.model
        with_them = list(producer.make(self._inputs(model, self._templates)))
        return with_them != list(producer.make(self._inputs(model, ())))

    def _synthesize(self, model: BaseModel) -> tuple[JobTemplate, ...]:
        if not isinstance(model, Environment):
            return ()
        return jobtemplates.synthesize(settings(model, self._images), self._folder)

    def _influence(self, made: Made) -> _Influence:
        read = {path for other in self.made if other.producer is made.producer for path in other.reads}
        seen = _Influence()
        for path in sorted(read):
            values = islice(tracing.variations(self.config.model, path), _VARIATIONS)
            runs = [after for value in values if (after := self._varied(made, path, value)) is not None]
            if not runs:
                seen.undecided.append(path)
            elif not all(runs):
                seen.conditions.append(path)
            differing = (place for run in runs if run for place in tracing.changed_leaves(made.manifest, run))
            seen.changed[path] = frozenset(differing)
        return seen

    def _varied(self, made: Made, path: FieldPath, value: Any) -> Manifest | None:
        """The object if `path` had another value; empty if there were no such object.

        None where the construct refuses the value, as the loader would have.
        """
        model = tracing.replaced(self.config.model, path, value)
        try:
            # 30 ms, which most fields need not cost.
            templates = self._synthesize(model) if path in self._template_reads else self._templates
            manifests = list(made.producer.make(self._inputs(model, templates)))
        except Exception:  # noqa: BLE001  what no loader has judged may break a construct in any way
            return None
        found = next((one for one in manifests if ObjectId.of(one).identity == made.id.identity), None)
        if found is None and made.index < len(manifests) and manifests[made.index]["kind"] == made.id.kind:
            found = manifests[made.index]
        return found or {}


def workshops(folder: Path, wanted: tuple[str, ...], images: ImageLock, templates: Path) -> list[Workshop]:
    """One for each config file. Raises ConfigError, UsageError."""
    found = []
    for one in sources.config_files(folder, wanted):
        kind: type[BaseModel] = Fleet if one.kind == "Fleet" else Environment
        model, positions = parse(one.path.read_bytes(), str(one.path), kind)
        name = FLEET if one.kind == "Fleet" else one.name
        found.append(Workshop(Config(name, str(one.path), model, positions), images, templates))
    return found


def find(target: str, found: Sequence[Workshop]) -> tuple[Workshop, Made]:
    """The one object that `target` (Kind/name or Kind/namespace/name) means. Raises UsageError."""
    kind, *rest = target.split("/")
    name, namespace = rest[-1], rest[0] if len(rest) > 1 else None
    everything = [(workshop, made) for workshop in found for made in workshop.made]
    hits = [
        (workshop, made)
        for workshop, made in everything
        if made.id.kind.lower() == kind.lower() and made.id.name == name and namespace in (None, made.id.namespace)
    ]
    if not hits:
        raise _unknown(target, [made.id for _, made in everything])
    folders = sorted({made.folder for _, made in hits})
    if len(folders) > 1:
        raise UsageError(
            f"{target} stands in {len(folders)} environments: {', '.join(folders)}",
            f"say which: --environment {folders[0]}",
        )
    if len(hits) > 1:
        names = ", ".join(f"{made.id.kind}/{made.id.namespace}/{made.id.name}" for _, made in hits)
        raise UsageError(f"{target} is the name of {len(hits)} objects", f"say which: {names}")
    return hits[0]


def _unknown(target: str, ids: Iterable[ObjectId]) -> UsageError:
    known = {f"{one.kind}/{one.name}".lower(): f"{one.kind}/{one.name}" for one in ids}
    kind, _, rest = target.lower().partition("/")
    near = difflib.get_close_matches(f"{kind}/{rest.rpartition('/')[2]}", known, n=1)
    same_kind = sorted(name for key, name in known.items() if key.startswith(f"{kind}/"))
    listed = ", ".join(same_kind or sorted(known.values()))
    hint = f"did you mean {known[near[0]]}? " if near else ""
    return UsageError(f"there is no object {target!r}", f"{hint}known: {listed}")


def _code(made_by: Callable[..., Any]) -> str:
    module = made_by.__module__.replace(".", "/")
    return f"{module}.py:{inspect.getsourcelines(made_by)[1]}"


def pointer_of(manifest: Manifest, text: str) -> str:
    """The JSON pointer of a path: "/spec/replicas", "spec.replicas", "spec.ports[0].name". Raises UsageError.

    Keys may hold dots, as labels do: the longest key that is there is meant. An entry of a list may be named
    by its `name`: spec.template.spec.containers[paperclip].
    """
    if text.startswith("/"):
        try:
            pointers.get(manifest, text)
        except pointers.PointerError as error:
            raise UsageError(str(error), "leave the path out to see the whole object") from None
        return text
    here: Any = manifest
    pointer, rest = "", text
    while rest:
        token, rest = _token(here, rest.removeprefix("."))
        child = _child(here, token)
        if child is _ABSENT:
            raise _nothing(here, pointer, token)
        here, pointer = child[1], pointers.join(pointer, child[0])
    return pointer


def _token(here: Any, text: str) -> tuple[str, str]:
    """The next step, and what is left of the path."""
    if text.startswith("["):
        token, _, rest = text[1:].partition("]")
        return token.strip("\"'"), rest
    if isinstance(here, Mapping):
        fitting = [key for key in here if text == key or text.startswith((f"{key}.", f"{key}["))]
        if fitting:
            key = max(fitting, key=len)
            return key, text[len(key) :]
    end = min((text.index(mark) for mark in ".[" if mark in text), default=len(text))
    return text[:end], text[end:]


def _child(here: Any, token: str) -> Any:
    """(key or index, value), or _ABSENT."""
    if isinstance(here, Mapping):
        return (token, here[token]) if token in here else _ABSENT
    if isinstance(here, list):
        if token.isdecimal():
            return (int(token), here[int(token)]) if int(token) < len(here) else _ABSENT
        named = [
            (index, one) for index, one in enumerate(here) if isinstance(one, Mapping) and one.get("name") == token
        ]
        return named[0] if named else _ABSENT
    return _ABSENT


def _nothing(here: Any, pointer: str, token: str) -> UsageError:
    keys = [str(key) for key in here] if isinstance(here, Mapping) else []
    near = difflib.get_close_matches(token, keys, n=1)
    known = f"there: {', '.join(keys)}" if keys else f"it has {len(here)} entries" if isinstance(here, list) else ""
    place = pointer or "the object"
    return UsageError(f"{place} has no {token!r}", f"did you mean {near[0]!r}? {known}" if near else known)
