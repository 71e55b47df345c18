"""A config that remembers: which fields were read, and which field a value was taken from.

Constructs are pure functions of the config. Given a traced one they make the same objects, whose leaves know their
field as long as they were passed on as they are. A value that was put together (by an f-string, a join) has lost its
origin; what it depends on is found by `replaced`: change one field, run again, look which leaves change.
"""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MethodType, NoneType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from kubekit import pointers

FieldPath: TypeAlias = tuple[str, ...]
"""The field as in the file, one token a step: ("agents", "jobs", "kinds", "0", "image")."""

# Legal for one or the other type of the config; the first that its field accepts is used.
_SAMPLES: tuple[str | int, ...] = (
    "example",
    "EXAMPLE",
    "192.0.2.10",
    "192.0.2.0/24",
    "3Gi",
    "9m",
    "/example",
    "1.33",
    "example.com/app:9",
    "https://example.com",
    "s3://example/x",
    "0 0 3 * * *",
    "9d",
    7,
    3600,
    70000,
)


class TracedText(str):
    """Text with the field it was taken from."""

    __slots__ = ("origin",)
    origin: FieldPath


class TracedNumber(int):
    """A number with the field it was taken from."""

    origin: FieldPath


@dataclass
class Recorder:
    """The leaves that were read, in order; a mapping or list of leaves counts as read when it is taken."""

    reads: list[FieldPath] = field(default_factory=list)

    def trace(self, value: Any, path: FieldPath = ()) -> Any:
        """`value` with everything below it traced. Booleans and None cannot carry an origin: only read."""
        if isinstance(value, BaseModel):
            return _TracedModel(value, path, self)
        if isinstance(value, tuple) and value:
            return tuple(self.trace(one, (*path, str(index))) for index, one in enumerate(value))
        if isinstance(value, dict) and value:
            return {key: self.trace(one, (*path, key)) for key, one in value.items()}
        self.reads.append(path)
        if isinstance(value, str):
            text = TracedText(value)
            text.origin = path
            return text
        if isinstance(value, int) and not isinstance(value, bool):
            number = TracedNumber(value)
            number.origin = path
            return number
        return value


class _TracedModel:
    """Stands in for a model: it passes `isinstance`, and every field it gives away is traced."""

    def __init__(self, model: BaseModel, path: FieldPath, recorder: Recorder) -> None:
        self._model = model
        self._path = path
        self._recorder = recorder

    @property  # type: ignore[misc] # what isinstance and pydantic ask
    def __class__(self) -> type[BaseModel]:  # type: ignore[override] # as above
        return type(self._model)

    def __getattr__(self, name: str) -> Any:
        kind = type(self._model)
        found = kind.model_fields.get(name)
        if found is not None:
            return self._recorder.trace(getattr(self._model, name), (*self._path, str(found.alias)))
        own = inspect.getattr_static(kind, name)
        if isinstance(own, property) and own.fget is not None:
            return own.fget(self)
        return MethodType(own, self) if inspect.isfunction(own) else getattr(self._model, name)


def origin_of(leaf: object) -> FieldPath | None:
    """The field that `leaf` was taken from, unchanged; None where that is not known."""
    return leaf.origin if isinstance(leaf, TracedText | TracedNumber) else None


def value_at(config: Any, path: FieldPath) -> Any:
    """What stands at `path` of a config, defaults included."""
    here = config
    for token in path:
        here = _step(here, token)
    return here


def replaced(config: Any, path: FieldPath, value: Any) -> Any:
    """The config with another value at `path`; nothing is validated."""
    if not path:
        return value
    token, rest = path[0], path[1:]
    changed = replaced(_step(config, token), rest, value)
    if isinstance(config, BaseModel):
        return config.model_copy(update={_name_of(type(config), token): changed})
    if isinstance(config, tuple):
        return tuple(changed if str(index) == token else one for index, one in enumerate(config))
    return {**config, token: changed}


def changed_leaves(before: Any, after: Any, pointer: str = "") -> Iterator[str]:
    """The pointers into `before` whose value is another in `after`, or is gone.

    Lists of different lengths are laid side by side by their equal entries: what only moved has not changed.
    """
    if isinstance(before, dict) and before and isinstance(after, dict):
        for key, value in before.items():
            yield from changed_leaves(value, after.get(key, _GONE), pointers.join(pointer, key))
    elif isinstance(before, list) and before and isinstance(after, list):
        partner = dict(enumerate(after))
        if len(before) != len(after):
            words = [[json.dumps(one, sort_keys=True) for one in side] for side in (before, after)]
            blocks = difflib.SequenceMatcher(a=words[0], b=words[1], autojunk=False).get_matching_blocks()
            partner = {block.a + step: after[block.b + step] for block in blocks for step in range(block.size)}
        for index, value in enumerate(before):
            yield from changed_leaves(value, partner.get(index, _GONE), pointers.join(pointer, index))
    elif before != after:
        yield from (pointer + place for place, _ in pointers.walk(before))


_GONE = object()


def variations(config: BaseModel, path: FieldPath) -> Iterator[Any]:
    """Other values that the type of the field at `path` allows, each near to what stands there."""
    current = value_at(config, path)
    wanted = _without_none(_annotation(config, path))
    if isinstance(current, bool):
        yield not current
        return
    if isinstance(current, tuple | dict):
        if current == () and (one := _sample(get_args(wanted)[0])) is not None:
            yield (one,)
        if current == {} and (one := _sample(get_args(wanted)[1])) is not None:
            yield {"example": one}
        return
    near = (
        [current + 1, current - 1] if isinstance(current, int) else [f"{current}x"] if isinstance(current, str) else []
    )
    if current is None and (one := _sample(wanted)) is not None:
        yield one
    for candidate in (*_choices(wanted), *near, *_SAMPLES):
        if candidate != current and _fits(wanted, candidate):
            yield candidate


def _step(here: Any, token: str) -> Any:
    if isinstance(here, BaseModel):
        return getattr(here, _name_of(type(here), token))
    return here[int(token)] if isinstance(here, tuple) else here[token]


def _name_of(model: type[BaseModel], alias: str) -> str:
    return next(name for name, found in model.model_fields.items() if found.alias == alias)


def _annotation(config: Any, path: FieldPath) -> Any:
    """The type of the field, or of the entry of a list or mapping, with what restricts it."""
    here: Any = config
    wanted: Any = None
    for token in path:
        if isinstance(here, BaseModel):
            found = type(here).model_fields[_name_of(type(here), token)]
            wanted = Annotated[(found.annotation, *found.metadata)] if found.metadata else found.annotation
        else:
            inner = get_args(_bare(_without_none(wanted)))
            wanted = inner[1] if isinstance(here, dict) else inner[0]
        here = _step(here, token)
    return wanted


def _without_none(wanted: Any) -> Any:
    """What an optional field holds when it is set."""
    bare = _bare(wanted)
    options = [one for one in get_args(bare) if one is not NoneType]
    if NoneType not in get_args(bare):
        return wanted
    return options[0]


def _bare(wanted: Any) -> Any:
    return get_args(wanted)[0] if get_origin(wanted) is Annotated else wanted


def _choices(wanted: Any) -> tuple[Any, ...]:
    bare = _bare(wanted)
    return get_args(bare) if get_origin(bare) is Literal else ()


def _sample(wanted: Any) -> Any:
    """Some value of the type; None where none is known. A model gets its required fields only."""
    bare = _bare(wanted)
    if isinstance(bare, type) and issubclass(bare, BaseModel):
        required = {name: found for name, found in bare.model_fields.items() if found.is_required()}
        values = {
            name: _sample(Annotated[(found.annotation, *found.metadata)] if found.metadata else found.annotation)
            for name, found in required.items()
        }
        return bare.model_construct(**values)
    if get_origin(bare) is tuple:
        return (_sample(get_args(bare)[0]),)
    return next((one for one in (*_choices(bare), *_SAMPLES) if _fits(wanted, one)), None)


def _fits(wanted: Any, candidate: object) -> bool:
    try:
        TypeAdapter(wanted).validate_python(candidate, strict=True)
    except ValidationError:
        return False
    return True
