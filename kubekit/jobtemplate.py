"""The template of an agent's Job: a tree in which whole scalars wait for the values of a run.

The tree is made once, when an environment is rendered. A run only exchanges whole scalars, items and maps in
it, so no text, whatever it holds, can give the Job another shape. Three forms, each the whole scalar:

    "@{name}"   the value. As an item of a list, a value that is a list puts its items there.
                Without a value: the map key goes, or the list item.
    "@{name^}"  the same, but without a value the nearest list item around it goes, all of it.
    "@{name?}"  true where `name` has a value; without one it goes like "@{name}".

What a removal leaves empty goes as well, upwards. None is no value. A default counts as a value.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from kubekit.complaints import shown
from kubekit.identity import Manifest
from kubekit.placeholders import (
    CHECKS,
    LISTS,
    MAPS,
    Check,
    Placeholder,
    PlaceholderError,
    TemplateError,
)
from kubekit.pointers import join

__all__ = ["Contract", "JobTemplate", "Placeholder", "PlaceholderError", "TemplateError", "escaped"]

Size = Literal["smallest", "example", "largest"]

_PLACEHOLDER = re.compile(r"@\{([a-z][a-z0-9_]*)([\^?]?)\}")
# The keys of an entry in the contract and the fields they fill.
_FIELDS = {
    **{key: key for key in ("type", "about", "required", "item_bytes", "items", "minimum", "maximum")},
    **{key: key for key in ("pattern", "key_pattern", "reserved", "smallest", "example", "largest")},
    "bytes": "max_bytes",
}
_BOUNDS = frozenset({"default", "minimum", "maximum", "inside"})
_NEEDED = ("type", "about", "example", "largest")


def escaped(text: str) -> str:
    """`text` for a variable or an argument of a container: what Kubernetes makes of it is `text` again.

    Kubernetes expands `$(NAME)` and makes one dollar sign of two, so each one is doubled (EnvVar.value in the
    API reference).
    """
    return text.replace("$", "$$")


@dataclass(frozen=True)
class Contract:
    """What may be put into templates, by name. `text` is its canonical JSON."""

    text: str
    placeholders: Mapping[str, Placeholder] = field(compare=False)

    @classmethod
    def of(cls, tree: Any, source: str = "contract") -> Contract:
        """From the tree of contract.yaml or contract.json; TemplateError names all that is wrong with it."""
        entries = tree.get("placeholders") if isinstance(tree, Mapping) and len(tree) == 1 else None
        if not isinstance(entries, Mapping):
            raise TemplateError(source, ('must be a map with the one key "placeholders"',))
        problems: list[str] = []
        placeholders = {name: _placeholder(name, entry, problems) for name, entry in entries.items()}
        if problems:
            raise TemplateError(source, tuple(problems))
        return cls(_canonical(tree), {name: found for name, found in placeholders.items() if found})

    @classmethod
    def load(cls, text: str, source: str = "contract.json") -> Contract:
        return cls.of(_parsed(text, source), source)

    def narrowed(self, bounds: Mapping[str, Mapping[str, Any]], source: str) -> dict[str, Placeholder]:
        """The placeholders with the defaults and limits of one environment."""
        narrowed = dict(self.placeholders)
        problems = [f"bounds {name!r}, which is not in the contract" for name in bounds.keys() - narrowed.keys()]
        for name in bounds.keys() & narrowed.keys():
            if unknown := bounds[name].keys() - _BOUNDS:
                problems.append(f"bounds {name} by {sorted(unknown)}; a bound is one of {sorted(_BOUNDS)}")
                continue
            narrowed[name] = replace(narrowed[name], **bounds[name])
            if (default := narrowed[name].default) is not None:
                narrowed[name].check(default, problems)
        if problems:
            raise TemplateError(source, tuple(sorted(problems)))
        return narrowed


@dataclass(frozen=True, slots=True)
class _Site:
    """One place of a placeholder: `key` in container number `parent`. Without a value `removed` goes."""

    name: str
    pointer: str
    parent: int
    key: Any
    removed: tuple[int, Any]
    presence: bool
    spliced: bool
    expands: bool
    baked: bool


@dataclass(frozen=True)
class JobTemplate:
    """`job` is the canonical JSON of the tree, `bounds` what the environment narrows, by placeholder."""

    name: str
    contract: Contract
    job: str
    bounds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    _plan: _Plan = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        narrowed = self.contract.narrowed(self.bounds, self.name)
        object.__setattr__(self, "_plan", _Plan(self.name, _parsed(self.job, self.name), narrowed))

    @classmethod
    def of(
        cls,
        name: str,
        job: Manifest,
        contract: Contract,
        bounds: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> JobTemplate:
        """From a parsed tree; TemplateError lists where it does not fit the contract."""
        return cls(name, contract, _canonical(job), bounds or {})

    @classmethod
    def load(cls, template_text: str, contract_text: str) -> JobTemplate:
        """The template that `to_text` and `contract.text` were written from; TemplateError."""
        tree = _parsed(template_text, "template")
        if not isinstance(tree, dict) or sorted(tree) != ["job", "name", "placeholders"]:
            raise TemplateError("template", ('must be a map of "name", "placeholders" and "job"',))
        return cls.of(tree["name"], tree["job"], Contract.load(contract_text), tree["placeholders"])

    @property
    def placeholders(self) -> Mapping[str, Placeholder]:
        """The contract as this environment narrows it."""
        return self._plan.placeholders

    def to_text(self) -> str:
        """Canonical JSON of {name, placeholders: bounds, job}."""
        return _canonical({"name": self.name, "placeholders": self.bounds, "job": json.loads(self.job)})

    def values(self, size: Size) -> dict[str, Any]:
        """Values for every placeholder that has one of this `size`; with them the template can be tried."""
        values = {name: placeholder.value(size) for name, placeholder in self.placeholders.items()}
        return {name: value for name, value in values.items() if value is not None}

    def fill(self, values: Mapping[str, object]) -> Manifest:
        """The Job of one run; shares nothing with `values`. PlaceholderError lists all that is wrong."""
        given = self._checked(values)
        plan = self._plan
        # Half the time of json.loads; the bytes come from marshal.dumps below and from nowhere else.
        tree: Manifest = marshal.loads(plan.baked)  # noqa: S302
        containers: list[Any] = [tree]
        for parent, token in plan.steps:
            containers.append(containers[parent][token])
        for name, parent, key, expands in plan.kept:
            if name in given:
                containers[parent][key] = _expanded(given[name]) if expands else given[name]
        for site in plan.others:
            if site.name not in given:
                if not site.baked:
                    plan.remove(containers, *site.removed)
                continue
            value = True if site.presence else given[site.name]
            value = _expanded(value) if site.expands else value
            if site.spliced:
                containers[site.parent][site.key : site.key + 1] = value
            else:
                containers[site.parent][site.key] = value
        return tree

    def _checked(self, values: Mapping[str, object]) -> dict[str, Any]:
        problems: list[str] = []
        given: dict[str, Any] = {}
        for name, check, required in self._plan.checks:
            value = values.get(name)
            if value is not None:
                given[name] = check(value, problems)
            elif required:
                problems.append(f"{name} is missing: {self.placeholders[name].about}")
        if len(given) != len(values):
            unknown = sorted(str(name) for name in values.keys() - self.placeholders.keys())
            problems.extend(f"{shown(name)} is not a placeholder" for name in unknown)
        if problems:
            raise PlaceholderError(self.name, tuple(problems))
        return given


class _Plan:
    """What a fill does, worked out once: the tree with its defaults, the containers to fetch, the places.

    `steps` fetches container number n + 1 (0 is the tree) out of an earlier one by a key. `kept` are places
    that only change, since they always have a value. `others` may go or be spliced; they stand in the reverse
    order of the tree, so that what moves has been dealt with by then.
    """

    def __init__(self, source: str, tree: Any, placeholders: dict[str, Placeholder]) -> None:
        self.placeholders = placeholders
        self.sites: list[_Site] = []
        self.steps: list[tuple[int, Any]] = []
        self._containers: list[Any] = [tree]
        self._numbers: dict[tuple[Any, ...], int] = {(): 0}
        self._problems: list[str] = []
        self._visit(tree, (), "")
        self._check()
        if self._problems:
            raise TemplateError(source, tuple(sorted(self._problems)))
        self._reserve_names()
        self._bake_defaults()
        self.baked = marshal.dumps(tree)
        kept = [site for site in self.sites if self._is_kept(site)]
        self.kept = [(site.name, site.parent, site.key, site.expands) for site in kept]
        self.others = [site for site in reversed(self.sites) if not self._is_kept(site)]
        self.checks: list[tuple[str, Check, bool]] = [
            (name, found.check, found.required) for name, found in placeholders.items()
        ]

    def remove(self, containers: list[Any], index: int, key: Any) -> None:
        del containers[index][key]
        while index and not containers[index]:
            index, key = self.steps[index - 1]
            del containers[index][key]

    def _is_kept(self, site: _Site) -> bool:
        return not site.spliced and not site.presence and (site.baked or self.placeholders[site.name].required)

    def _reserve_names(self) -> None:
        """What the template itself puts beside the variables of a run is no longer the run's to name."""
        for site in self.sites:
            found = self.placeholders[site.name]
            if found.type == "environment":
                beside = [item for item in self._containers[site.parent] if isinstance(item, Mapping)]
                names = frozenset(str(item.get("name")) for item in beside)
                self.placeholders[site.name] = replace(found, reserved=found.reserved | names)

    def _bake_defaults(self) -> None:
        for site in self.sites:
            if site.baked:
                default = self.placeholders[site.name].default
                value = _expanded(default) if site.expands else default
                self._containers[site.parent][site.key] = True if site.presence else value

    def _visit(self, value: Any, path: tuple[Any, ...], pointer: str) -> None:
        if isinstance(value, dict | list):
            for key, child in value.items() if isinstance(value, dict) else enumerate(value):
                if "@{" in str(key):
                    self._problems.append(f"{join(pointer, key)}: a key cannot be a placeholder")
                self._visit(child, (*path, key), join(pointer, key))
        elif isinstance(value, str) and "@{" in value:
            match = _PLACEHOLDER.fullmatch(value)
            if match is None:
                self._problems.append(f"{pointer}: a placeholder must be the whole text, like @{{name}}")
            elif match[1] not in self.placeholders:
                self._problems.append(f"{pointer}: {match[1]} is not in the contract")
            else:
                self.sites.append(self._site(match[1], match[2], path, pointer))

    def _site(self, name: str, mark: str, path: tuple[Any, ...], pointer: str) -> _Site:
        found = self.placeholders[name]
        parent, key = self._number(path[:-1]), path[-1]
        removed = (parent, key)
        if mark == "^":
            depth = max((index for index, token in enumerate(path) if isinstance(token, int)), default=-1)
            if depth < 0:
                self._problems.append(f"{pointer}: no list item is around @{{{name}^}}")
            else:
                removed = (self._number(path[:depth]), path[depth])
        if mark and found.required:
            self._problems.append(f'{pointer}: {name} is required, so it cannot carry "{mark}"')
        spliced = isinstance(key, int) and found.type in LISTS
        if spliced and found.default is not None:
            self._problems.append(f"{pointer}: {name} has a default, so its items cannot be put into a list")
        return _Site(
            name=name,
            pointer=pointer,
            parent=parent,
            key=key,
            removed=removed,
            presence=mark == "?",
            spliced=spliced,
            expands=_is_expanded(path) and found.type in {"string", "path", "strings", "environment"},
            baked=found.default is not None,
        )

    def _number(self, path: tuple[Any, ...]) -> int:
        if path not in self._numbers:
            parent = self._number(path[:-1])
            self.steps.append((parent, path[-1]))
            self._containers.append(self._containers[parent][path[-1]])
            self._numbers[path] = len(self.steps)
        return self._numbers[path]

    def _check(self) -> None:
        used = {site.name for site in self.sites}
        unused = self.placeholders.keys() - used
        self._problems.extend(f"{name} is in the contract but not in the template" for name in unused)
        whole: set[str] = set()
        for site in self.sites:
            container, key = site.removed
            if len(_PLACEHOLDER.findall(json.dumps(self._containers[container][key]))) != 1:
                self._problems.append(f"{site.pointer}: an item that goes may hold no second placeholder")
            if self.placeholders[site.name].type in LISTS | MAPS and not site.presence:
                if site.name in whole:
                    self._problems.append(f"{site.pointer}: {site.name} is no scalar and stands here again")
                whole.add(site.name)


def _is_expanded(path: tuple[Any, ...]) -> bool:
    """Whether Kubernetes expands `$(NAME)` at `path`: in commands, arguments and variables of containers."""
    for depth, token in enumerate(path):
        if token in {"containers", "initContainers"} and len(path) > depth + 2:
            return path[depth + 2] in {"command", "args", "env"}
    return False


def _expanded(value: Any) -> Any:
    """`value` escaped: a text, a list of texts or a list of {name, value}."""
    if isinstance(value, str):
        return escaped(value)
    if value and isinstance(value[0], str):
        return [escaped(item) for item in value]
    return [{"name": entry["name"], "value": escaped(entry["value"])} for entry in value]


def _placeholder(name: Any, entry: Any, problems: list[str]) -> Placeholder | None:
    before = len(problems)
    if not isinstance(name, str) or not _PLACEHOLDER.fullmatch(f"@{{{name}}}"):
        problems.append(f"{name!r} is not a name of a-z, 0-9 and _")
    if not isinstance(entry, Mapping):
        problems.append(f"{name} is not a map")
        return None
    problems.extend(f"{name} has the unknown key {key!r}" for key in entry if key not in _FIELDS)
    problems.extend(f"{name} has no {key!r}" for key in _NEEDED if key not in entry)
    if entry.get("required") and "smallest" not in entry:
        problems.append(f"{name} is required and has no 'smallest'")
    if entry.get("type") not in CHECKS:
        problems.append(f"{name} has the type {entry.get('type')!r}; take one of {', '.join(CHECKS)}")
    for key in ("pattern", "key_pattern"):
        try:
            re.compile(entry.get(key, ""))
        except (re.error, TypeError) as error:
            problems.append(f"{name} has a {key} that is no regular expression: {error}")
    if len(problems) > before:
        return None
    fields = {_FIELDS[key]: value for key, value in entry.items()}
    return Placeholder(**{"name": name, **fields, "reserved": frozenset(entry.get("reserved", ()))})


def _canonical(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _parsed(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TemplateError(source, (f"is not JSON: {error}",)) from error
