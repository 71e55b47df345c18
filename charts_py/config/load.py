"""A config file in, a frozen Environment out; every problem at once, with its line and how to mend it."""

from __future__ import annotations

import difflib
import hashlib
import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from charts_py.errors import ConfigError
from kubekit import pointers
from kubekit.yamlread import Document, Position, YamlProblem, read

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    from charts_py.config.argocd import Fleet
    from charts_py.config.environment import Environment

_MAX_BYTES = 256 * 1024


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


_NOT_APPLICABLE = re.compile("[\x7f-\x9f\ufffe\uffff]")

ModelT = TypeVar("ModelT", bound="BaseModel")


def parse(raw: bytes, shown: str, model: type[ModelT]) -> tuple[ModelT, Mapping[str, Position]]:
    """YAML bytes to a model. Raises InvalidConfig with every problem."""
    from pydantic import ValidationError  # noqa: PLC0415  as above

    try:
        document = read(raw, shown, max_bytes=_MAX_BYTES)
    except YamlProblem as problem:
        where = problem.position or Position(1, 1)
        raise InvalidConfig([Problem(shown, where.line, where.column, "", problem.message, problem.remedy)]) from None
    if refused := sorted(_not_applicable(document, shown), key=_order):
        raise InvalidConfig(refused)
    try:
        # By alias only: a second spelling of a field would be one that editors refuse.
        data = json.dumps(document.value)
        return model.model_validate_json(data, by_alias=True, by_name=False), document.positions
    except ValidationError as error:
        found = _problems(error.errors(include_url=False), _File(shown, raw, document), model)
        raise InvalidConfig(sorted(found, key=_order)) from None


def _not_applicable(document: Document, shown: str) -> Iterator[Problem]:
    """Characters that an API server refuses in a server-side apply (it reads the body as YAML), or changes: U+0085."""
    waiting: list[tuple[str, Any]] = [("", document.value)]
    while waiting:
        pointer, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(pointers.join(pointer, key), part) for key, child in value.items() for part in (key, child)]
        elif isinstance(value, list):
            waiting += [(pointers.join(pointer, index), child) for index, child in enumerate(value)]
        elif isinstance(value, str) and (found := _NOT_APPLICABLE.search(value)):
            position = document.positions.get(pointer) or Position(1, 1)
            message = f"holds U+{ord(found[0]):04X}, which no server-side apply can carry"
            field = written(pointers.split(pointer))
            yield Problem(shown, position.line, position.column, field, message, "take the character out")


def _bytes_of(path: Path, shown: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{shown}: there is no such file", "`paperclip-gitops init` writes a starter") from None
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror}") from error


def _order(problem: Problem) -> tuple[int, int, str]:
    return (problem.line, problem.column, problem.field)


@dataclass(frozen=True)
class _File:
    """What the words of a problem are taken from."""

    shown: str
    raw: bytes
    document: Document

    def position(self, path: tuple[str, ...]) -> Position:
        positions = self.document.positions
        return positions.get(pointers.join("", *path)) or positions.get("") or Position(1, 1)

    def as_written(self, path: tuple[str, ...], given: float) -> str:
        """A number as it stands in the file: 1.30 is read as 1.3, which is another version."""
        place = self.position(path)
        rest = self.raw.decode("utf-8-sig").split("\n")[place.line - 1][place.column - 1 :]
        found = re.match(r"(?:[^:]*:\s+)?([-+.0-9A-Za-z_]+)", rest)
        try:
            return found[1] if found and float(found[1]) == given else str(given)
        except ValueError:
            return str(given)


def _problems(details: Iterable[ErrorDetails], file: _File, model: type[BaseModel]) -> Iterator[Problem]:
    for detail in _without_echoes(list(details), model):
        path = _path_in_file(detail["loc"], file.document.value)
        if detail["type"].startswith("union_tag"):
            path = (*path, "kind")
        message, remedy = _say(detail, path, file, model)
        path, message = _narrowed(path, message, file)
        position = file.position(path[:-1] if _absent(detail, path, file) else path)
        yield Problem(file.shown, position.line, position.column, written(path), message, remedy)


def _without_echoes(details: list[ErrorDetails], model: type[BaseModel]) -> Iterator[ErrorDetails]:
    """Without what only follows from another problem: a misspelt field is missing too."""
    meant = {
        (*detail["loc"][:-1], _meant(str(detail["loc"][-1]), model, detail["loc"]))
        for detail in details
        if detail["type"] == "extra_forbidden"
    }
    for detail in details:
        given = detail.get("input")
        if detail["type"] == "missing" and detail["loc"] in meant:
            continue
        if detail["type"] == "too_short" and isinstance(given, list) and given:
            continue
        yield detail


def _absent(detail: ErrorDetails, path: tuple[str, ...], file: _File) -> bool:
    return detail["type"] == "missing" or pointers.join("", *path) not in file.document.positions


def _narrowed(path: tuple[str, ...], message: str, file: _File) -> tuple[tuple[str, ...], str]:
    """A rule over several fields names the one to look at first in its message: "agents.egress: ..."."""
    named = re.fullmatch(r"([a-zA-Z]+(?:\.[a-zA-Z]+)*): (.+)", message, re.DOTALL)
    if named is None:
        return path, message
    longer = (*path, *named[1].split("."))
    return (longer, named[2]) if pointers.join("", *longer) in file.document.positions else (path, message)


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


def written(path: tuple[str, ...]) -> str:
    """A path as people write it: server.storage.size, agents.jobs.kinds[0].image, nodeSelector["a.b/c"]."""
    text = ""
    for part in path:
        if part.isdigit():
            text += f"[{part}]"
        elif re.fullmatch(r"[\w-]+", part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


_WANTED = {
    "string_type": ("text", "write text"),
    "int_type": ("a whole number", "write it without quotes, as digits"),
    "bool_type": ("true or false", "write true or false"),
    "tuple_type": ("a list", "begin each entry with `- `, or write [a, b]"),
    "dict_type": ("a mapping", "write `key: value` lines below it, indented"),
    "model_type": ("a mapping", "write its fields below it, indented"),
    "model_attributes_type": ("a mapping", "write its fields below it, indented"),
}
# As kubectl prints them, which the API server does not take.
_SHORT = {
    "RWO": "ReadWriteOnce",
    "RWX": "ReadWriteMany",
    "ROX": "ReadOnlyMany",
    "RWOP": "ReadWriteOncePod",
}


def _say(detail: ErrorDetails, path: tuple[str, ...], file: _File, model: type[BaseModel]) -> tuple[str, str]:
    """(what is wrong, how to mend it)"""
    kind, given, context = detail["type"], detail.get("input"), detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_field(path[-1], model, detail["loc"])
    if kind == "missing":
        return "is required", f"add `{path[-1]}:` here"
    if kind in _WANTED:
        return _other_type(kind, given, path, file)
    if kind in {"value_error", "assertion_error"}:
        message = detail["msg"].removeprefix("Value error, ")
        return message, _network_of(given) if message.endswith("has host bits set") else ""
    if kind == "literal_error":
        expected = str(context.get("expected", ""))
        return f"is {given!r}, and must be {expected}", _near(str(given), expected)
    if kind.startswith("union_tag"):
        tags = ", ".join(f"'{tag}'" for tag in _tags_at(model, detail["loc"]))
        if kind == "union_tag_not_found":
            return "is required", f"add `kind:` here: one of {tags}"
        tag = str(context.get("tag", ""))
        return f"is {tag!r}, and must be one of {tags}", _near(tag, tags)
    if kind in {"greater_than_equal", "less_than_equal"}:
        bound = f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}"
        return f"is {given}, and must be {bound}", ""
    if kind == "too_short":
        return f"is empty, and must have at least {context['min_length']}", "add one, or take the line out"
    if kind == "string_too_short":
        return "must not be empty", "write text"
    if kind == "string_pattern_mismatch":
        return f"is {_short(given)}, and must match {context['pattern']}", ""
    message = detail["msg"][:1].lower() + detail["msg"][1:]
    return f"{message} (is {_short(given)})", ""


def _other_type(kind: str, given: object, path: tuple[str, ...], file: _File) -> tuple[str, str]:
    wanted, remedy = _WANTED[kind]
    if not path:
        said = "the file is empty" if given is None else f"the file must be {wanted}, and is {_kind_of(given)}"
        return said, "`paperclip-gitops init` writes a starter"
    message = f"must be {wanted}, and is {_kind_of(given)}"
    if given is None:
        return message, "write a value, or take the line out"
    if kind == "int_type" and isinstance(given, float):
        return f"must be {wanted}, and is {given}", ""
    if kind == "string_type" and isinstance(given, bool):
        return message, f'write it in quotes: "{str(given).lower()}"'
    if kind == "string_type" and isinstance(given, int | float):
        return message, f'write it in quotes: "{file.as_written(path, given)}"'
    return message, remedy


def _network_of(given: object) -> str:
    return f"write {ipaddress.ip_network(str(given), strict=False)}"


def _near(given: str, expected: str) -> str:
    """`expected` is pydantic's list: 'a', 'b' or 'c'."""
    options = re.findall(r"'([^']*)'", expected)
    if _SHORT.get(given) in options:
        return f"did you mean {_SHORT[given]!r}?"
    near = difflib.get_close_matches(given, options, n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def _unknown_field(name: str, model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[str, str]:
    near = _meant(name, model, loc)
    if near:
        return "there is no such field", f"did you mean `{near}`?"
    known = _fields_at(model, loc[:-1])
    return "there is no such field", f"known here: {', '.join(known)}" if known else ""


def _meant(name: str, model: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    """The field that was meant by `name`, "" for none. snake_case is not told from camelCase."""
    known = _fields_at(model, loc[:-1])
    plain = {field.lower(): field for field in known}
    near = difflib.get_close_matches(name.replace("_", "").lower(), plain, n=1, cutoff=0.6)
    return plain[near[0]] if near else ""


def _fields_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The fields that may stand at `loc`, found in the JSON Schema of the model."""
    return sorted(_schema_at(model, loc).get("properties", {}))


def _tags_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The values of `kind` that may stand at `loc`."""
    return sorted(_schema_at(model, loc).get("discriminator", {}).get("mapping", {}))


def _schema_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> dict[str, Any]:
    here: dict[str, Any] = model.model_json_schema()
    definitions = here.get("$defs", {})
    for part in loc:
        here = _step(here, part, definitions)
    return _resolve(here, definitions)


def _step(schema: dict[str, Any], part: int | str, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = _resolve(schema, definitions)
    if isinstance(part, int):
        items: dict[str, Any] = schema.get("items", {})
        return items
    for choice in schema.get("oneOf", ()):
        resolved = _resolve(choice, definitions)
        if part == resolved.get("properties", {}).get("kind", {}).get("const"):
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
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a mapping",
    }
    return "empty" if value is None else names.get(type(value), type(value).__name__)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
