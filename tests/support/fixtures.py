"""Fixtures of policies: sets of manifests as files, laid over a clean base.

tests/policies/fixtures/<policy>/{pass,fail}.<case>.yaml holds documents. One whose object stands in the base changes
it: mappings merge, lists of named items merge by name, null removes (in such a list `$gone: true`), everything else is
replaced. Any other document is added; one of kind Facts replaces facts of the base. Comments at the top steer:

    # without: Kind/namespace/name      takes an object out of the base
    # replace: Kind/namespace/name      the document replaces the object instead of changing it
    # base: none                        starts from nothing
    # base: launcher                    the base with a launcher beside the server (base-launcher/)
    # base: tenants                     the base with a tenant of upstream's plugin (base-tenants/)
    # finds: Kind/namespace/name /pointer   what a failing fixture must raise, exactly; one line a finding
    # cel: silent: why                  the API server cannot see it (else every failing fixture is refused)
    # long: Kind/namespace/name /pointer bytes   the text there is repeated until it has so many
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kubekit import pointers, yamlread
from kubekit.identity import Manifest, ObjectId
from policies import facts as facts_
from policies.facts import Facts

FOLDER = Path(__file__).parent.parent / "policies" / "fixtures"
_DIRECTIVE = re.compile(r"# (without|replace|base|finds|cel|long): *(.+)")


@dataclass(frozen=True)
class Fixture:
    """One file, laid over the base. `subjects` are the objects that the file itself names."""

    path: Path
    policy: str
    passes: bool
    objects: tuple[Manifest, ...]
    subjects: tuple[Manifest, ...]
    facts: Facts
    finds: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    silent: str = ""

    @property
    def name(self) -> str:
        return f"{self.policy}/{self.path.name}"


def written(manifest: Mapping[str, Any]) -> str:
    """Kind/namespace/name, as waivers write it."""
    one = ObjectId.of(manifest)
    return "/".join(part for part in (one.kind, one.namespace, one.name) if part)


@cache
def base() -> tuple[tuple[Manifest, ...], Facts]:
    """The clean set, and what is known of its cluster."""
    documents = [one for path in sorted((FOLDER / "base").glob("*.yaml")) for one in _documents(path)]
    known = Facts()
    for one in documents:
        known = facts_.of(one, known) if facts_.is_facts(one) else known
    return tuple(one for one in documents if not facts_.is_facts(one)), known


@cache
def _start(name: str) -> tuple[tuple[Manifest, ...], Facts]:
    """What a fixture is laid over."""
    if name == "none":
        return (), Facts()
    objects, known = base()
    if not name:
        return objects, known
    changes: dict[str, Manifest] = {}
    for one in (one for path in sorted((FOLDER / f"base-{name}").glob("*.yaml")) for one in _documents(path)):
        if facts_.is_facts(one):
            known = facts_.of(one, known)
        else:
            changes[written(one)] = one
    found = [merged(one, changes.pop(written(one))) if written(one) in changes else one for one in objects]
    return (*found, *changes.values()), known


def folders() -> list[Path]:
    """One a policy."""
    return sorted(path for path in FOLDER.iterdir() if not path.name.startswith("base") and path.is_dir())


def paths(folder: Path | None = None) -> list[Path]:
    """Every fixture file, or those of one policy."""
    return sorted(path for one in ([folder] if folder else folders()) for path in one.glob("*.yaml"))


@cache
def load(path: Path) -> Fixture:
    """The fixture in `path`; nobody may change what it holds. Raises ValueError for a directive that means nothing."""
    told = _directives(path)
    start, known = _start(told.get("base", [""])[0])
    objects = {written(one): one for one in start}
    for name in told.get("without", ()):
        if objects.pop(name, None) is None:
            raise ValueError(f"{path}: the base has no {name}")
    extra: list[Manifest] = []
    touched: list[str] = []
    for one in _documents(path):
        name = written(one)
        if facts_.is_facts(one):
            known = facts_.of(one, known)
        elif name in touched:
            extra.append(one)  # a second document of one identity is what some policies are about
        else:
            touched.append(name)
            replaced = name in told.get("replace", ()) or name not in objects
            objects[name] = one if replaced else merged(objects[name], one)
    for name, pointer, size in map(str.split, told.get("long", ())):
        objects[name] = _lengthened(objects[name], pointers.split(pointer), int(size))
    subjects = [objects[name] for name in touched] + extra
    finds = frozenset((parts[0], parts[1] if len(parts) > 1 else "") for parts in map(str.split, told.get("finds", ())))
    silent = "".join(told.get("cel", ())).removeprefix("silent:").strip()
    return Fixture(
        path,
        path.parent.name,
        path.name.startswith("pass."),
        (*objects.values(), *extra),
        tuple(subjects),
        known,
        finds,
        silent,
    )


def merged(base_value: Any, change: Any) -> Any:
    """`change` laid over `base_value`."""
    if isinstance(base_value, Mapping) and isinstance(change, Mapping):
        result = dict(base_value)
        for key, value in change.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merged(result[key], value) if key in result else _without_null(value)
        return result
    if _named(base_value) and _named(change):
        changes = {one["name"]: one for one in change}
        kept = [one for one in base_value if "$gone" not in changes.get(one["name"], {})]
        changes = {name: one for name, one in changes.items() if "$gone" not in one}
        result = [merged(one, changes.pop(one["name"], {})) for one in kept]
        return [*result, *(_without_null(one) for one in changes.values())]
    return _without_null(change)


def _lengthened(value: Any, path: tuple[str, ...], size: int) -> Any:
    if not path:
        return (value * size)[:size]
    if isinstance(value, list):
        return [_lengthened(one, path[1:], size) if str(index) == path[0] else one for index, one in enumerate(value)]
    return {key: _lengthened(one, path[1:], size) if key == path[0] else one for key, one in value.items()}


def _named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) and "name" in one for one in value)


def _without_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_null(one) for key, one in value.items() if one is not None}
    return [_without_null(one) for one in value] if isinstance(value, list) else value


def _documents(path: Path) -> Iterator[Any]:
    for document in yamlread.read_all(path.read_bytes(), str(path), max_bytes=4 << 20, max_depth=100):
        yield document.value


def _directives(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        if match := _DIRECTIVE.fullmatch(line):
            found.setdefault(match[1], []).append(match[2].strip())
    return found
