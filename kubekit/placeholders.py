"""What a placeholder of a Job template takes: types, limits, and the words for what is wrong with a value.

Values come from users and agents. A check never puts one into its message where it may be a secret (arguments
and variables); there it names the place and the size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kubekit.complaints import is_plain, kind_of, shown, size_of, text_problem

Check: TypeAlias = Callable[[Any, list[str]], Any]
"""(value, problems) -> a copy that shares nothing with the value; appends a sentence for each problem."""

ANY_TEXT = r"[^\x00]*"
_LONGEST_NAME = 253  # of an object
_ITEM = 47  # bytes of a file's place in a volume, beside its path
_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION = ("key", "operator", "value", "effect", "tolerationSeconds")
_NEEDED = {"requests": ("cpu", "memory", "ephemeral-storage"), "limits": ("memory", "ephemeral-storage")}
_PATH = re.compile(r"(/[^/\x00-\x1f\x7f]+)+")


class PlaceholderError(ValueError):
    """Values that do not fit the contract; `problems` has one sentence for each, all of them at once."""

    def __init__(self, template: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"template {template}: " + "; ".join(problems))
        self.problems = problems


class TemplateError(ValueError):
    """A template or contract that is wrong in itself; `problems` has one sentence for each."""

    def __init__(self, source: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"{source}: " + "; ".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Placeholder:
    """One entry of the contract, with what an environment narrows: `default`, `minimum`, `maximum`, `inside`.

    Sizes are bytes of UTF-8: `max_bytes` of a text or of all items together (names and values), `item_bytes`
    of one item; `items` counts. `minimum` and `maximum` bound an integer; `minimum` is also the fewest items.
    None is no bound, and no default. `smallest`, `example` and `largest` are values or say how to build one.
    """

    name: str
    type: str
    about: str
    required: bool = False
    max_bytes: int | None = None
    item_bytes: int | None = None
    items: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    pattern: str = ANY_TEXT
    key_pattern: str = ANY_TEXT
    reserved: frozenset[str] = frozenset()
    inside: str = "/"
    default: Any = None
    smallest: Any = None
    example: Any = None
    largest: Any = None
    check: Check = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "check", CHECKS[self.type](self))

    def value(self, size: str) -> Any:
        """A fresh value of `size` ("smallest", "example" or "largest"); None where there is none."""
        value = deepcopy(build(getattr(self, size), self))
        if self.type == "path" and value is not None:
            return self.inside if value == "." else f"{self.inside.rstrip('/')}/{value}"
        if self.type == "strings" and value is not None and len(value) < (self.minimum or 0):
            return list(self.example[: self.minimum])
        if self.type == "integer" and value is not None and self.maximum is not None:
            return min(value, self.maximum)
        return value


def build(recipe: Any, placeholder: Placeholder) -> Any:
    """The value that `recipe` is, or that {build: text|strings|environment|map|files|maximum, …} makes."""
    if not isinstance(recipe, Mapping) or "build" not in recipe:
        return recipe
    kind, times, prefix = recipe["build"], recipe.get("times", 0), recipe.get("prefix", "")
    if kind == "maximum":
        return placeholder.maximum
    if kind == "text":
        return f"{prefix}{recipe['repeat'] * times}{recipe.get('suffix', '')}"
    each = build(recipe["each"], placeholder)
    if kind == "strings":
        return [each] * times
    if kind == "environment":
        return [{"name": f"{prefix}{index}", "value": each} for index in range(times)]
    if kind == "map":
        return {f"{prefix}{index}": each for index in range(times)}
    if kind == "files":
        items = [{"key": f"f{index:04}", "path": f"{each}{index:04}", "mode": 493} for index in range(times)]
        return [{"name": prefix, "items": items}]
    raise ValueError(f"no way to build {kind!r}; take text, strings, environment, map, files or maximum")


def _string(placeholder: Placeholder) -> Check:
    matches = re.compile(placeholder.pattern).fullmatch
    limit = placeholder.max_bytes or 0
    name = placeholder.name

    def check(value: Any, problems: list[str]) -> Any:
        # is_plain() written out: most values of a run come this way, and a call takes as long as the rest.
        if type(value) is str and value.isascii() and len(value) <= limit and "\x00" not in value and matches(value):
            return value
        if problem := text_problem(value, limit):
            problems.append(f"{name} {problem}")
        elif not matches(value):
            problems.append(f"{name} is {shown(value)}, which does not match {placeholder.pattern}")
        return value

    return check


def _path(placeholder: Placeholder) -> Check:
    name, inside, limit = placeholder.name, placeholder.inside.rstrip("/"), placeholder.max_bytes or 0

    def check(value: Any, problems: list[str]) -> Any:
        if problem := text_problem(value, limit):
            problems.append(f"{name} {problem}")
        elif not _PATH.fullmatch(value) or not {".", ".."}.isdisjoint(value.split("/")):
            problems.append(f'{name} is {shown(value)}; write an absolute path without "." and ".." steps')
        elif value != inside and not value.startswith(f"{inside}/"):
            problems.append(f"{name} is {shown(value)}, which is outside of {inside}")
        return value

    return check


def _integer(placeholder: Placeholder) -> Check:
    name, low, high = placeholder.name, placeholder.minimum, placeholder.maximum

    def check(value: Any, problems: list[str]) -> Any:
        if type(value) is not int:
            problems.append(f"{name} is {kind_of(value)}, not an integer")
        elif (low is not None and value < low) or (high is not None and value > high):
            problems.append(f"{name} is {shown(value)}; it may be {low} to {high}")
        return value

    return check


def _strings(placeholder: Placeholder) -> Check:
    name, limit, total = placeholder.name, placeholder.item_bytes or 0, placeholder.max_bytes or 0

    def check(value: Any, problems: list[str]) -> Any:
        if not isinstance(value, list | tuple):
            problems.append(f"{name} is {kind_of(value)}, not a list of texts")
            return value
        if _count(placeholder, len(value), problems):
            return value
        size = 0
        for index, item in enumerate(value):
            if is_plain(item, limit):
                size += len(item)
            elif problem := text_problem(item, limit):
                problems.append(f"{name}[{index}] {problem}")
            else:
                size += size_of(item)
        if size > total:
            problems.append(f"{name} has {size} bytes in all; at most {total}")
        return list(value)

    return check


def _environment(placeholder: Placeholder) -> Check:
    name, total, reserved = placeholder.name, placeholder.max_bytes or 0, placeholder.reserved
    matches = re.compile(placeholder.pattern).fullmatch

    def check(value: Any, problems: list[str]) -> Any:
        if not isinstance(value, list | tuple):
            problems.append(f"{name} is {kind_of(value)}, not a list of {{name, value}}")
            return value
        if _count(placeholder, len(value), problems):
            return value
        seen: set[str] = set()
        entries: list[dict[str, str]] = []
        size = 0
        for index, entry in enumerate(value):
            if problem := _entry_problem(placeholder, entry):
                problems.append(f"{name}[{index}] {problem}")
                continue
            key, text = entry["name"], entry["value"]
            if not matches(key):
                problems.append(f"{name}[{index}] has the name {shown(key)}; want {placeholder.pattern}")
            elif key in reserved:
                problems.append(f"{name}[{index}] sets {key}, which is not the run's to set")
            elif key in seen:
                problems.append(f"{name}[{index}] sets {key} a second time")
            seen.add(key)
            size += len(key) + size_of(text)
            entries.append({"name": key, "value": text})
        if size > total:
            problems.append(f"{name} has {size} bytes in all; at most {total}")
        return entries

    return check


def _entry_problem(placeholder: Placeholder, entry: Any) -> str:
    if not isinstance(entry, Mapping) or len(entry) != 2 or "name" not in entry or "value" not in entry:
        return "is not {name, value}"
    limit = placeholder.item_bytes or 0
    for part in ("name", "value"):
        if not is_plain(entry[part], limit) and (problem := text_problem(entry[part], limit)):
            return f"has a {part} that {problem}"
    return ""


def _map(placeholder: Placeholder) -> Check:
    name = placeholder.name
    key_matches = re.compile(placeholder.key_pattern).fullmatch
    matches = re.compile(placeholder.pattern).fullmatch

    def check(value: Any, problems: list[str]) -> Any:
        if not isinstance(value, Mapping):
            problems.append(f"{name} is {kind_of(value)}, not a map of texts")
            return value
        if _count(placeholder, len(value), problems):
            return value
        for key, text in value.items():
            if not isinstance(key, str) or not key_matches(key):
                problems.append(f"{name} has the key {shown(key)}; it must match {placeholder.key_pattern}")
            elif not isinstance(text, str) or not matches(text):
                problems.append(f"{name}[{key!r}] is {shown(text)}; want a text like {placeholder.pattern}")
        return dict(value)

    return check


def _tolerations(placeholder: Placeholder) -> Check:
    name = placeholder.name
    key_matches = re.compile(placeholder.key_pattern).fullmatch
    matches = re.compile(placeholder.pattern).fullmatch

    def problem_of(item: Mapping[Any, Any]) -> str:
        if unknown := [key for key in item if key not in _TOLERATION]:
            return f"has the key {shown(unknown[0])}; it may have {', '.join(_TOLERATION)}"
        operator, key, value = item.get("operator", "Equal"), item.get("key"), item.get("value", "")
        if operator not in _OPERATORS or item.get("effect", _EFFECTS[0]) not in _EFFECTS:
            return f"wants an operator of {', '.join(_OPERATORS)} and an effect of {', '.join(_EFFECTS)}"
        if key is None and operator != "Exists":
            return "has no key; only the operator Exists may do without"
        if key is not None and not (isinstance(key, str) and key_matches(key)):
            return f"has the key {shown(key)}; it must match {placeholder.key_pattern}"
        if not isinstance(value, str) or not matches(value) or (operator == "Exists" and value):
            return f"has the value {shown(value)}; want {placeholder.pattern}, and none with Exists"
        if "tolerationSeconds" in item and type(item["tolerationSeconds"]) is not int:
            return f"has tolerationSeconds {shown(item['tolerationSeconds'])}, which is not an integer"
        return ""

    def check(value: Any, problems: list[str]) -> Any:
        if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
            problems.append(f"{name} is {kind_of(value)}, not a list of tolerations")
            return value
        if not _count(placeholder, len(value), problems):
            found = ((index, problem_of(item)) for index, item in enumerate(value))
            problems.extend(f"{name}[{index}] {problem}" for index, problem in found if problem)
        return [dict(item) for item in value]

    return check


def _secret_sources(placeholder: Placeholder) -> Check:
    """Takes the names of Secrets, and gives what a projected volume has for them."""
    name, matches = placeholder.name, re.compile(placeholder.pattern).fullmatch

    def check(value: Any, problems: list[str]) -> Any:
        if not isinstance(value, list | tuple):
            problems.append(f"{name} is {kind_of(value)}, not a list of Secrets")
            return value
        if not _count(placeholder, len(value), problems):
            wrong = [one for one in value if not isinstance(one, str) or len(one) > _LONGEST_NAME or not matches(one)]
            problems.extend(f"{name} has {shown(one)}, which is no name of a Secret" for one in wrong)
        return [{"secret": {"name": one}} for one in value]

    return check


def _secret_files(placeholder: Placeholder) -> Check:
    """Takes Secrets with the items of each, and gives the same as a projected volume has it."""
    name, total, named = placeholder.name, placeholder.max_bytes or 0, _secret_sources(placeholder)

    def check(value: Any, problems: list[str]) -> Any:
        secrets = value if isinstance(value, list | tuple) else [None]
        if not all(isinstance(one, Mapping) and isinstance(one.get("items"), list | tuple) for one in secrets):
            problems.append(f"{name} is {kind_of(value)}, not a list of {{name, items}}")
            return value
        named([one.get("name") for one in value], problems)
        paths: list[str] = []
        for item in (item for one in value for item in one["items"]):
            if problem := _item_problem(placeholder, item):
                problems.append(f"{name} has {shown(item)}, which {problem}")
            else:
                paths.append(item["path"])
        if len(set(paths)) < len(paths):
            problems.append(f"{name} puts two files in one place")
        if (size := sum(size_of(path) + _ITEM for path in paths)) > total:
            problems.append(f"{name} has {size} bytes in all; at most {total}")
        return [
            {"secret": {"name": one.get("name"), "items": [deepcopy(item) for item in one["items"]]}} for one in value
        ]

    return check


def _item_problem(placeholder: Placeholder, item: Any) -> str:
    if not isinstance(item, Mapping) or not {"key", "path"} <= set(item) <= {"key", "path", "mode"}:
        return "is not {key, path, mode}"
    if not isinstance(item["key"], str) or not re.fullmatch(placeholder.key_pattern, item["key"]):
        return "has no key of a Secret"
    if problem := text_problem(item["path"], placeholder.item_bytes or 0):
        return f"has a path that {problem}"
    if not _PATH.fullmatch(f"/{item['path']}") or not {".", ".."}.isdisjoint(item["path"].split("/")):
        return 'has a path that is not relative, or has "." or ".." in it'
    mode = item.get("mode", 0)
    return "" if type(mode) is int and 0 <= mode <= 0o777 else "has no mode of a file"


def _resources(placeholder: Placeholder) -> Check:
    name, matches = placeholder.name, re.compile(placeholder.pattern).fullmatch

    def check(value: Any, problems: list[str]) -> Any:
        if not isinstance(value, Mapping) or set(value) != set(_NEEDED):
            problems.append(f"{name} is {kind_of(value)}; write a map of requests and limits")
            return value
        for part, needed in _NEEDED.items():
            amounts = value[part]
            if not isinstance(amounts, Mapping) or not set(needed) <= set(amounts):
                problems.append(f"{name}.{part} must have {', '.join(needed)}")
                continue
            _count(placeholder, len(amounts), problems)
            for key, amount in amounts.items():
                if not isinstance(key, str) or not isinstance(amount, str) or not matches(amount):
                    problems.append(f"{name}.{part}[{shown(key)}] is {shown(amount)}, not a quantity")
        return {part: dict(value[part]) if isinstance(value[part], Mapping) else {} for part in _NEEDED}

    return check


CHECKS: Mapping[str, Callable[[Placeholder], Check]] = {
    "string": _string,
    "path": _path,
    "integer": _integer,
    "strings": _strings,
    "environment": _environment,
    "map": _map,
    "tolerations": _tolerations,
    "resources": _resources,
    "secret_sources": _secret_sources,
    "secret_files": _secret_files,
}
LISTS = frozenset({"strings", "environment", "tolerations", "secret_sources", "secret_files"})
MAPS = frozenset({"map", "resources"})


def _count(placeholder: Placeholder, count: int, problems: list[str]) -> bool:
    low, high = placeholder.minimum or 0, placeholder.items or 0
    if low <= count <= high:
        return False
    problems.append(f"{placeholder.name} has {count} items; it may have {low} to {high}")
    return True
