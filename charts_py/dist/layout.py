"""Where what lies in the rendered state.

- dist/<environment>/<stack>/<kind>-<name>.yaml: one object a file; the folders that Argo CD syncs
- dist/<environment>/job-templates/*.yaml: read by the launcher, never synced
- dist/<environment>/SHA256SUMS and provenance.json: ours, outside the synced folders
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from charts_py.dist.errors import DistError
from charts_py.dist.sums import SUMS

PROVENANCE = "provenance.json"
UNSYNCED_FOLDERS = frozenset({"job-templates"})
_RESERVED = frozenset({SUMS, PROVENANCE})
_NAME_BYTES = 255  # NAME_MAX of every file system in use


@dataclass(frozen=True)
class RenderedEnvironment:
    """What synth made of one environment.

    `files`: path relative to dist/<name>/ → bytes. `inputs`: what the bytes depend on, name → hash.
    `tools`: name → version. Both go into provenance.json as they are.
    """

    name: str
    files: Mapping[str, bytes]
    inputs: Mapping[str, str]
    tools: Mapping[str, str] = field(default_factory=dict)


def is_object_path(path: str) -> bool:
    """Whether `path`, relative to its environment, is the file of an object that Argo CD syncs."""
    folder, slash, rest = path.partition("/")
    name = rest.rpartition("/")[2]
    kind, dash, _ = name.partition("-")
    return bool(slash and dash and kind) and name.endswith(".yaml") and folder not in UNSYNCED_FOLDERS


def synced_folders(paths: Iterable[str]) -> frozenset[str]:
    """The stacks: the first folders of the object files among `paths`."""
    return frozenset(path.partition("/")[0] for path in paths if is_object_path(path))


def objects_per_stack(paths: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for path in paths:
        if is_object_path(path):
            stack = path.partition("/")[0]
            counts[stack] = counts.get(stack, 0) + 1
    return counts


def environments_in(dist: Path) -> tuple[str, ...]:
    """The environments that synth wrote under `dist`: every folder with a SHA256SUMS."""
    if not dist.is_dir():
        return ()
    return tuple(sorted(entry.name for entry in dist.iterdir() if (entry / SUMS).is_file()))


def check_environments(environments: Sequence[RenderedEnvironment], removed: Sequence[str]) -> None:
    """Raises DistError for names and paths that must never be written."""
    names = [environment.name for environment in environments]
    for name in (*names, *removed):
        problem = _name_problem(name)
        if problem or name.startswith("."):
            raise DistError(
                f"{name!r} cannot be a folder of dist: {problem or 'it starts with a dot'}",
                "name the environment with lower-case letters, digits and dashes",
            )
    doubled = sorted({name for name in names if names.count(name) > 1} | set(names) & set(removed))
    if doubled:
        raise DistError(
            f"environment {doubled[0]} is given twice, or both rendered and removed", "give each name once"
        )
    for environment in environments:
        _check_paths(environment)


def _check_paths(environment: RenderedEnvironment) -> None:
    folded: dict[str, str] = {}
    folders = {parent for path in environment.files for parent in _parents(path)}
    for path in environment.files:
        problem = _path_problem(path)
        if not problem and path in folders:
            problem = "another file needs a folder of that name"
        twin = folded.setdefault(path.casefold(), path)
        if not problem and twin != path:
            problem = f"differs from {twin!r} only in case, which is one file on macOS"
        if problem:
            raise DistError(f"environment {environment.name}: refused to write {path!r}: {problem}")


def _path_problem(path: str) -> str:
    if path.startswith("/"):
        return "the path is absolute"
    if path in _RESERVED:
        return "synth writes this file itself"
    return next((problem for part in path.split("/") if (problem := _name_problem(part))), "")


def _name_problem(name: str) -> str:
    if name in {"", ".", ".."}:
        return f"{name!r} is no name of a file"
    if not name.isprintable() or "\\" in name or "/" in name:
        return "it holds a slash, a backslash or a character that cannot be printed"
    if len(os.fsencode(name)) > _NAME_BYTES:
        return f"a name has more than {_NAME_BYTES} bytes"
    return ""


def _parents(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))
