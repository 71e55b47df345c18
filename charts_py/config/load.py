"""A config file in, a frozen Environment out; every problem at once, each with its line and how to mend it."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from charts_py.errors import ConfigError
from kubekit import pointers
from kubekit.yamlread import Position, YamlProblem, read

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    from charts_py.config.argocd import Fleet
    from charts_py.config.environment import Environment


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a config file. `field` is written as in the file: server.storage.size."""

    file: str
    line: int
    column: int
    field: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}"
        text = f"{place}: {self.field}: {self.message}" if self.field else f"{place}: {self.message}"
        return f"{text}\n    {self.remedy}" if self.remedy else text


class InvalidConfig(ConfigError):
    """Holds every problem of one or more files."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = f"{count} problem{'s' if count != 1 else ''} in the config"
        super().__init__("\n".join([head, *(str(problem) for problem in self.problems)]))


@dataclass(frozen=True)
class LoadedEnvironment:
    """An environment with where each of its fields stands. `sha256` is that of the file's bytes."""

    config: Environment
    file: str
    sha256: str
    positions: Mapping[str, Position]

    def place_of(self, field: str) -> str:
        """`file:line` of a field written as server.storage.size, or that it is a default."""
        pointer = pointers.join("", *field.replace("[", ".").replace("]", "").split("."))
        position = self.positions.get(pointer)
        return f"{self.file}:{position.line}" if position else "default"


def load_environment(path: Path, shown: str = "") -> LoadedEnvironment:
    """Reads one environment; `shown` is the file's name in messages. Raises InvalidConfig, ConfigError."""
    from charts_py.config.environment import Environment  # noqa: PLC0415  pydantic costs 0.1 s: only when needed

    shown = shown or str(path)
    raw = _bytes_of(path, shown)
    model, positions = parse(raw, shown, Environment)
    return LoadedEnvironment(model, shown, hashlib.sha256(raw).hexdigest(), positions)


def load_fleet(path: Path, shown: str = "") -> Fleet:
    """Reads a file of kind Fleet. Raises InvalidConfig, ConfigError."""
    from charts_py.config.argocd import Fleet  # noqa: PLC0415  as above

    shown = shown or str(path)
    return parse(_bytes_of(path, shown), shown, Fleet)[0]


ModelT = TypeVar("ModelT", bound="BaseModel")


def parse(raw: bytes, shown: str, model: type[ModelT]) -> tuple[ModelT, Mapping[str, Position]]:
    """YAML bytes to a model. Raises InvalidConfig with every problem."""
    from pydantic import ValidationError  # noqa: PLC0415  as above

    try:
        document = read(raw, shown)
    except YamlProblem as problem:
        where = problem.position or Position(1, 1)
        raise InvalidConfig([Problem(shown, where.line, where.column, "", problem.message, problem.remedy)]) from None
    try:
        return model.model_validate_json(json.dumps(document.value)), document.positions
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise InvalidConfig(sorted(_problems(details, document.value, document.positions, shown, model), key=_order)) from None


def _bytes_of(path: Path, shown: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{shown}: there is no such file", "`paperclip-gitops init` writes a starter") from None
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror}") from error


def _order(problem: Problem) -> tuple[int, int, str]:
    return (problem.line, problem.column, problem.field)


def _problems(
    details: Iterable[ErrorDetails],
    value: object,
    positions: Mapping[str, Position],
    shown: str,
    model: type[BaseModel],
) -> Iterator[Problem]:
    for detail in details:
        path = _path_in_file(detail["loc"], value)
        kind = detail["type"]
        known = path[:-1] if kind == "missing" else path
        position = positions.get(pointers.join("", *known)) or positions.get("") or Position(1, 1)
        message, remedy = _say(detail, path, model)
        yield Problem(shown, position.line, position.column, _written(path), message, remedy)


def _path_in_file(loc: tuple[int | str, ...], value: object) -> tuple[str, ...]:
    """The location without what pydantic adds for itself, such as the tag of a union."""
    path: list[str] = []
    here = value
    for index, part in enumerate(loc):
        if isinstance(here, Mapping) and isinstance(part, str):
            if part not in here and index + 1 < len(loc) and part != "[key]":
                continue
            here = here.get(part)
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        elif index + 1 < len(loc) or part == "[key]":
            continue
        path.append(str(part))
    return tuple(path)


def _written(path: tuple[str, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if part.isdigit() else (f".{part}" if text else part)
    return text


def _say(detail: ErrorDetails, path: tuple[str, ...], model: type[BaseModel]) -> tuple[str, str]:
    kind, given = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        return _unknown_field(path, model, detail["loc"])
    if kind == "missing":
        return "is required", f"add `{path[-1]}:` here"
    if kind == "string_type":
        hint = f'write it in quotes: "{given}"' if isinstance(given, int | float) else "write text"
        return f"must be text, and is {_kind_of(given)}", hint
    if kind in {"value_error", "assertion_error"}:
        return detail["msg"].removeprefix("Value error, "), ""
    if kind == "literal_error":
        expected = str(detail.get("ctx", {}).get("expected", ""))
        options = [option.strip("'") for option in expected.replace(" or ", ", ").split(", ")]
        near = difflib.get_close_matches(str(given), options, n=1)
        return f"is {given!r}, and must be {expected}", f"did you mean {near[0]!r}?" if near else ""
    if kind.startswith("union_tag"):
        tags = str(detail.get("ctx", {}).get("expected_tags", "")).replace("'", "")
        return f"needs a `kind`: one of {tags}", ""
    message = detail["msg"][:1].lower() + detail["msg"][1:]
    return f"{message} (is {_short(given)})", ""


def _unknown_field(path: tuple[str, ...], model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[str, str]:
    known = _fields_at(model, loc[:-1])
    near = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.6)
    if near:
        return "there is no such field", f"did you mean `{near[0]}`?"
    return "there is no such field", f"known here: {', '.join(known)}" if known else ""


def _fields_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The fields that may stand at `loc`, found in the JSON Schema of the model."""
    schema: dict[str, Any] = model.model_json_schema()
    definitions = schema.get("$defs", {})
    here = schema
    for part in loc:
        here = _step(here, part, definitions)
    here = _resolve(here, definitions)
    return sorted(here.get("properties", {}))


def _step(schema: dict[str, Any], part: int | str, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = _resolve(schema, definitions)
    if isinstance(part, int):
        items: dict[str, Any] = schema.get("items", {})
        return items
    for choice in schema.get("oneOf", ()):
        resolved = _resolve(choice, definitions)
        if part in (resolved.get("properties", {}).get("kind", {}).get("const"),):
            return dict(resolved)
    found: dict[str, Any] = schema.get("properties", {}).get(part, {})
    return found


def _resolve(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return dict(definitions.get(schema["$ref"].rpartition("/")[2], {}))
    for choice in schema.get("anyOf", ()):
        if "$ref" in choice or "properties" in choice or "items" in choice:
            return _resolve(choice, definitions)
    return schema


def _kind_of(value: object) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a mapping"}
    return "empty" if value is None else names.get(type(value), type(value).__name__)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
