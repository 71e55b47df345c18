"""Planted defects: one at a time, into the shipped environments as they are rendered."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from charts_py.config.load import load_environment
from charts_py.dist.layout import is_object_path
from charts_py.known import facts
from charts_py.samples import sample_jobs, templates_in, with_externals
from kubekit import pointers, yamlread
from kubekit.identity import Manifest, ObjectId
from policies.facts import Facts

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests/policies/planted/defects.yaml"
ENVIRONMENTS = ("minimal", "operating-post", "frank-2026-08")
_RUN = "claude-example"


@dataclass(frozen=True)
class Planted:
    """A set with one defect, and what must be found: (policy, Kind/namespace/name, pointer); `*` ends any index."""

    name: str
    environment: str
    objects: tuple[Manifest, ...]
    facts: Facts
    finds: tuple[tuple[str, str, str], ...]


@cache
def clean(environment: str) -> tuple[tuple[Manifest, ...], Facts]:
    """The rendered objects of a shipped environment with a Job of each template, and what its config knows."""
    config = load_environment(ROOT / "environments" / f"{environment}.yaml").config
    folder = ROOT / "dist" / environment
    paths = [path for path in sorted(folder.glob("*/*.yaml")) if is_object_path(path.relative_to(folder).as_posix())]
    objects = [yamlread.read(path.read_bytes(), str(path), max_bytes=4 << 20).value for path in paths]
    jobs = [
        job
        for job, _ in sample_jobs(templates_in(folder))
        if job["metadata"]["annotations"]["paperclip.io/run-id"] == _RUN
    ]
    return (*objects, *jobs), with_externals(facts(config), jobs)


def all_planted() -> Iterator[Planted]:
    """Every defect in every environment that it fits."""
    defects = yamlread.read(FILE.read_bytes(), str(FILE), max_bytes=1 << 20).value["defects"]
    for defect in defects:
        for environment in defect.get("in", ENVIRONMENTS):
            if (planted := _planted(defect, environment)) is not None:
                yield planted


def place(one: ObjectId) -> str:
    """Kind/namespace/name; the namespace of a cluster's object is empty, and the claude sample is called claude."""
    return f"{one.kind}/{one.namespace}/{'claude' if one.name.startswith(f'run-{_RUN}-') else one.name}"


def _planted(defect: Any, environment: str) -> Planted | None:
    """None where the environment has no such object, unless the defect names the environment."""
    known, cluster = clean(environment)
    objects = {place(ObjectId.of(one)): copy.deepcopy(one) for one in known}
    target = defect.get("object")
    if target is not None and target not in objects:
        if "in" in defect:
            raise ValueError(f"{defect['name']}: {environment} has no {target}")
        return None
    added = [copy.deepcopy(one) for one in defect.get("add", ())]
    for name in defect.get("remove", ()):
        del objects[name]
    if "like" in defect:
        added.append(_changed(copy.deepcopy(objects[target]), defect["like"]))
    _changed(objects.get(target), defect.get("set", {}))
    finds = tuple(_find(text, target) for text in defect["finds"])
    return Planted(defect["name"], environment, (*objects.values(), *added), cluster, finds)


def _find(text: str, target: str | None) -> tuple[str, str, str]:
    policy, *rest = text.split(" ")
    where = next((one for one in rest if not one.startswith("/")), target)
    return policy, str(where), next((one for one in rest if one.startswith("/")), "")


def _changed(manifest: Any, changes: dict[str, Any]) -> Any:
    for pointer, value in changes.items():
        *path, last = pointers.split(pointer)
        here = manifest
        for token in path:
            here = here[int(token)] if isinstance(here, list) else here.setdefault(token, {})
        _put(here, last, value)
    return manifest


def _put(here: Any, token: str, value: Any) -> None:
    if isinstance(value, dict) and isinstance(value.get("value"), str) and value["value"].startswith("*"):
        value = {**value, "value": "x" * int(value["value"][1:])}
    if isinstance(here, list):
        if token == "-":
            here.append(value)
        elif value is None:
            del here[int(token)]
        else:
            here[int(token)] = value
    elif value is None:
        del here[token]
    else:
        here[token] = value
