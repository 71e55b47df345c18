"""Compares what an environment renders with the tables of a real deployment, field by field.

A list of plain values is one field; a list of maps is compared item by item, in order. What only one side
has is one difference, at its topmost pointer. In a text of differences.yaml, `{environment}` stands for the
environment's name and `*` for any text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from charts_py import images
from charts_py.config.load import load_environment
from charts_py.images import ImageLock, LockedImage
from charts_py.render import render
from kubekit import pointers, yamlread
from kubekit.identity import Manifest, ObjectId

TABLES = Path(__file__).resolve().parent
ROOT = TABLES.parents[2]
ENVIRONMENTS = ("operating-post", "frank-2026-08")


class _Nothing:
    """What stands on the side that has no such field."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()
Objects = Mapping[str, Manifest]
"""Objects by Kind/namespace/name, or Kind/name for objects of the cluster."""


@dataclass(frozen=True)
class Difference:
    environment: str
    object: str
    pointer: str
    table: Any
    ours: Any

    @property
    def kind(self) -> str:
        if self.table is NOTHING:
            return "added"
        return "removed" if self.ours is NOTHING else "changed"

    def __str__(self) -> str:
        place = f"{self.object} {self.pointer}" if self.pointer else f"{self.object} (the whole object)"
        sides = f"the table has {shown(self.table)}, we render {shown(self.ours)}"
        return f"{self.environment}: {place}: {self.kind}: {sides}"


@dataclass(frozen=True)
class Scope:
    """Which fields an entry of differences.yaml speaks of; each part may hold globs and must be of use."""

    environments: tuple[str, ...]
    objects: tuple[str, ...]
    pointers: tuple[str, ...]

    def hits(self, difference: Difference) -> Iterator[tuple[str, str]]:
        """(part, value) of what is of use for `difference`; nothing unless all three parts are."""
        if difference.environment not in self.environments:
            return
        objects = [one for one in self.objects if fnmatchcase(difference.object, one)]
        places = [one for one in self.pointers if _pointer_fits(one, difference.pointer)]
        if objects and places:
            yield "environment", difference.environment
            yield from (("object", one) for one in objects)
            yield from (("pointer", one) for one in places)

    def parts(self) -> set[tuple[str, str]]:
        named = (("environment", self.environments), ("object", self.objects), ("pointer", self.pointers))
        return {(part, value) for part, values in named for value in values}


@dataclass(frozen=True)
class Deliberate:
    """One entry under `differences`."""

    line: int
    topic: str
    scope: Scope
    kind: str
    table: Any
    ours: Any
    reason: str

    def covers(self, difference: Difference) -> bool:
        return (
            difference.kind == self.kind
            and any(True for _ in self.scope.hits(difference))
            and (self.table is NOTHING or fits(self.table, difference.table, difference.environment))
            and (self.ours is NOTHING or fits(self.ours, difference.ours, difference.environment))
        )


@dataclass(frozen=True)
class Silent:
    """One entry under `silent`: what the tables leave open. `holds` are texts that they do state of it."""

    line: int
    scope: Scope
    why: str
    holds: tuple[str, ...]


@dataclass(frozen=True)
class Catalogue:
    differences: tuple[Deliberate, ...]
    silent: tuple[Silent, ...]
    outside: tuple[Mapping[str, str], ...]


@dataclass
class Verdict:
    """`problems` empty: what is rendered is the table and the listed differences.

    `used`: (line, part, value) of the entries that were needed.
    """

    objects: int = 0
    fields: int = 0
    differences: int = 0
    problems: list[str] = field(default_factory=list)
    used: set[tuple[int, str, str]] = field(default_factory=set)


def shown(value: Any) -> str:
    return repr(value) if value is NOTHING else json.dumps(value, ensure_ascii=False)


def key_of(manifest: Manifest) -> str:
    one = ObjectId.of(manifest)
    return "/".join(part for part in (one.kind, one.namespace, one.name) if part)


def read_table(environment: str) -> dict[str, Manifest]:
    path = TABLES / f"{environment}.yaml"
    documents = [document.value for document in yamlread.read_all(path.read_bytes(), path.name)]
    result = {key_of(one): one for one in documents}
    if len(result) != len(documents):
        raise ValueError(f"{path.name} has two objects of one identity")
    return result


def rendered(environment: str, lock: ImageLock | None = None) -> dict[str, Manifest]:
    """What the product makes of the environment; the chart's values and other files stand in as objects."""
    loaded = load_environment(ROOT / "environments" / f"{environment}.yaml").config
    rendering = render(loaded, images.load(ROOT / "images.lock") if lock is None else lock, ROOT / "templates")
    result = {key_of(one.manifest): one.manifest for one in rendering.objects}
    for path, data in rendering.files.items():
        if path == "paperclip-db/values.yaml":
            values = {"apiVersion": "helm/values", "kind": "HelmValues", "metadata": {"name": "paperclip-db"}}
            result["HelmValues/paperclip-db"] = {**values, "values": yamlread.read(data, path).value}
        else:
            result[f"File/{path}"] = {"kind": "File", "metadata": {"name": path}}
    return result


def every_image_pinned(ours: Objects) -> ImageLock:
    """A lock with a digest for each image of `ours`: it shows what a pin changes whatever images.lock has today."""
    named = {image.partition("@")[0] for manifest in ours.values() for image in _images(manifest)}
    return ImageLock(
        tuple(LockedImage(one, f"sha256:{hashlib.sha256(one.encode()).hexdigest()}") for one in sorted(named)),
    )


def _images(tree: Any) -> Iterator[str]:
    """Of containers, and those that the values of a chart name in parts."""
    if isinstance(tree, list):
        for item in tree:
            yield from _images(item)
    elif isinstance(tree, dict):
        if isinstance(tree.get("image"), str):
            yield tree["image"]
        if {"registry", "repository", "tag"} <= tree.keys():
            yield "{registry}/{repository}:{tag}".format_map(tree)
        for item in tree.values():
            yield from _images(item)


def differences(environment: str, table: Objects, ours: Objects) -> Iterator[Difference]:
    for name in sorted({*table, *ours}):
        if name in table and name in ours:
            for pointer, theirs, mine in _compare(table[name], ours[name], ""):
                yield Difference(environment, name, pointer, theirs, mine)
        else:
            yield Difference(environment, name, "", table.get(name, NOTHING), ours.get(name, NOTHING))


def _compare(table: Any, ours: Any, pointer: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(table, dict) and isinstance(ours, dict):
        for key in (*table, *(key for key in ours if key not in table)):
            yield from _compare(table.get(key, NOTHING), ours.get(key, NOTHING), pointers.join(pointer, key))
    elif _has_maps(table) and _has_maps(ours):
        for index in range(max(len(table), len(ours))):
            one, other = (side[index] if index < len(side) else NOTHING for side in (table, ours))
            yield from _compare(one, other, pointers.join(pointer, index))
    elif type(table) is not type(ours) or table != ours:
        yield pointer, table, ours


def _has_maps(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def _pointer_fits(pattern: str, pointer: str) -> bool:
    wanted, given = pattern.split("/"), pointer.split("/")
    return len(wanted) == len(given) and all(fnmatchcase(one, glob) for glob, one in zip(wanted, given, strict=True))


def fits(pattern: Any, value: Any, environment: str) -> bool:
    """Whether `value` is what `pattern` says: the same tree, and the same text but for the placeholders."""
    if isinstance(pattern, dict) and isinstance(value, dict):
        return pattern.keys() == value.keys() and all(
            fits(one, value[key], environment) for key, one in pattern.items()
        )
    if isinstance(pattern, list) and isinstance(value, list):
        pairs = zip(pattern, value, strict=False)
        return len(pattern) == len(value) and all(fits(one, other, environment) for one, other in pairs)
    if isinstance(pattern, str) and isinstance(value, str):
        text = re.escape(pattern.replace("{environment}", environment)).replace(r"\*", ".*")
        return re.fullmatch(text, value, re.DOTALL) is not None
    return type(pattern) is type(value) and bool(pattern == value)


def read_catalogue() -> Catalogue:
    path = TABLES / "differences.yaml"
    document = yamlread.read(path.read_bytes(), path.name)
    lines = {pointer: position.line for pointer, position in document.positions.items()}
    value = document.value
    listed = [_deliberate(one, lines[f"/differences/{index}"]) for index, one in enumerate(value["differences"])]
    silent = [
        Silent(lines[f"/silent/{index}"], _scope(one), one["why"], tuple(one.get("holds", ())))
        for index, one in enumerate(value["silent"])
    ]
    return Catalogue(tuple(listed), tuple(silent), tuple(value["outside"]))


def _scope(entry: Mapping[str, Any]) -> Scope:
    return Scope(tuple(entry.get("environments", ENVIRONMENTS)), tuple(entry["objects"]), tuple(entry["pointers"]))


def _deliberate(entry: Mapping[str, Any], line: int) -> Deliberate:
    scope, kind = _scope(entry), entry["kind"]
    sides = {"added": {"ours"}, "removed": {"table"}, "changed": {"ours", "table"}}[kind]
    wanted = set() if scope.pointers == ("",) else sides
    if entry.keys() & {"table", "ours"} != wanted:
        raise ValueError(f"differences.yaml:{line}: {kind} takes {sorted(wanted) or 'neither `table` nor `ours`'}")
    table, ours = entry.get("table", NOTHING), entry.get("ours", NOTHING)
    return Deliberate(line, entry["topic"], scope, kind, table, ours, entry["reason"])


def judge(environment: str, table: Objects, ours: Objects, catalogue: Catalogue) -> Verdict:
    """What is wrong between `table` and `ours`; see dead_entries for what the catalogue has too much."""
    both = table.keys() & ours.keys()
    fields = sum(len({at for side in (table, ours) for at, _ in pointers.walk(side[name])}) for name in both)
    verdict = Verdict(objects=len(table.keys() | ours.keys()), fields=fields)
    for difference in differences(environment, table, ours):
        silent = [one for one in catalogue.silent if any(True for _ in one.scope.hits(difference))]
        listed = [one for one in catalogue.differences if one.covers(difference)]
        verdict.used |= {(one.line, *hit) for one in (*silent, *listed) for hit in one.scope.hits(difference)}
        verdict.differences += not silent
        if silent:
            verdict.problems += _silent_problems(difference, silent[0])
        elif not listed:
            verdict.problems.append(f"not in differences.yaml: {difference}")
        if len(silent) + len(listed) > 1:
            lines = ", ".join(str(one.line) for one in (*silent, *listed))
            verdict.problems.append(f"listed more than once (differences.yaml, lines {lines}): {difference}")
    return verdict


def _silent_problems(difference: Difference, entry: Silent) -> Iterator[str]:
    if difference.kind != "added":
        yield f"differences.yaml:{entry.line}: is under `silent`, but the table speaks: {difference}"
    for text in entry.holds:
        if text not in str(difference.ours):
            yield f"differences.yaml:{entry.line}: the tables state {text!r} of it: {difference}"


def dead_entries(catalogue: Catalogue, used: set[tuple[int, str, str]]) -> list[str]:
    """Parts of entries that no rendering has any use for."""
    return [
        f"differences.yaml:{entry.line}: {part} {value!r} is listed, but nothing differs there any more"
        for entry in (*catalogue.differences, *catalogue.silent)
        for part, value in sorted(entry.scope.parts())
        if (entry.line, part, value) not in used
    ]


def compare_everything(catalogue: Catalogue) -> dict[str, Verdict]:
    """Each environment as its images are locked today; with what shows when no digest is known, and when all are."""
    verdicts = {}
    for environment in ENVIRONMENTS:
        table, ours = read_table(environment), rendered(environment)
        verdicts[environment] = shipped = judge(environment, table, ours, catalogue)
        for lock in (ImageLock(), every_image_pinned(ours)):
            other = judge(environment, table, rendered(environment, lock), catalogue)
            shipped.problems += [one for one in other.problems if one not in shipped.problems]
            shipped.used |= other.used
    return verdicts
