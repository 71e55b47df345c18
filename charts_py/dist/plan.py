"""What a publish would do to one environment, decided before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from charts_py.dist import provenance, sums
from charts_py.dist.errors import DistError, RemovalRefused
from charts_py.dist.layout import PROVENANCE, RenderedEnvironment, is_object_path
from charts_py.dist.sums import SUMS
from charts_py.dist.tree import Tree, read

_SHOWN = 20


@dataclass(frozen=True)
class EnvironmentPlan:
    """Paths are relative to the environment.

    `files` is all that synth means to be there, SHA256SUMS and provenance.json included. `unchanged` and
    `strays` stay the same files on disk. `lost` are the objects that go away.
    """

    name: str
    files: Mapping[str, bytes]
    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    edited: tuple[str, ...]
    strays: tuple[str, ...]
    lost: tuple[str, ...]

    @property
    def changes(self) -> bool:
        return bool(self.written or self.removed)


def complete(environment: RenderedEnvironment) -> dict[str, bytes]:
    """The files of the environment with provenance.json and SHA256SUMS."""
    files = {**environment.files, PROVENANCE: provenance.document(environment)}
    files[SUMS] = sums.render({path: sums.digest(data) for path, data in files.items()})
    return files


def recorded(place: Path, name: str, present: frozenset[str]) -> dict[str, str]:
    """Path → digest as SHA256SUMS of the environment says; empty where there is none."""
    if SUMS not in present:
        return {}
    return sums.parse(read(place / name / SUMS), f"{place.name}/{name}/{SUMS}")


def for_environment(environment: RenderedEnvironment, place: Path, tree: Tree) -> EnvironmentPlan:
    """Raises DistError if a file that synth never wrote stands where one must go."""
    wanted = complete(environment)
    present = tree.under(environment.name)
    owned = recorded(place, environment.name, present)
    sizes = {path: tree.files[f"{environment.name}/{path}"][1] for path in present}
    written, unchanged, edited = [], [], []
    blocked = [""] if environment.name in tree.files else []
    for path, data in wanted.items():
        if path not in present:
            written.append(path)
            blocked += [path] if f"{environment.name}/{path}" in tree.folders else []
            continue
        content = read(place / environment.name / path) if path in owned or sizes[path] == len(data) else b""
        if content == data and sizes[path] == len(data):
            unchanged.append(path)
        elif path in owned or path == SUMS:
            written.append(path)
            edited += [path] if path != SUMS and sums.digest(content) != owned[path] else []
        else:
            blocked.append(path)
    strays = present - wanted.keys() - owned.keys()
    blocked += sorted(path for path in strays if any(item.startswith(f"{path}/") for item in wanted))
    _refuse_blocked(environment.name, blocked)
    removed = sorted((present & owned.keys()) - wanted.keys())
    edited += _edited(place / environment.name, removed, owned)
    lost = sorted(path for path in owned if is_object_path(path) and path not in wanted)
    return EnvironmentPlan(
        environment.name,
        wanted,
        tuple(sorted(written)),
        tuple(sorted(unchanged)),
        tuple(removed),
        tuple(sorted(edited)),
        tuple(sorted(strays)),
        tuple(lost),
    )


def for_removal(name: str, place: Path, tree: Tree) -> EnvironmentPlan:
    """Takes away what synth wrote of `name`. Raises DistError if it wrote nothing there."""
    present = tree.under(name)
    owned = recorded(place, name, present)
    if SUMS not in present:
        raise DistError(
            f"{place / name} was not written by synth: it has no {SUMS}",
            "remove the folder by hand if it may go",
        )
    removed = sorted(present & {*owned, SUMS})
    return EnvironmentPlan(
        name=name,
        files={},
        written=(),
        unchanged=(),
        removed=tuple(removed),
        edited=tuple(_edited(place / name, [path for path in removed if path != SUMS], owned)),
        strays=tuple(sorted(present - {*owned, SUMS})),
        lost=tuple(sorted(path for path in owned if is_object_path(path))),
    )


def guard(plans: Sequence[EnvironmentPlan]) -> None:
    """Raises RemovalRefused if an object goes away, an environment goes away or renders no object at all."""
    lost = [f"{plan.name}/{path}" for plan in plans for path in plan.lost]
    empty = [plan.name for plan in plans if not any(is_object_path(path) for path in plan.files)]
    if not lost and not empty:
        return
    parts = []
    if empty:
        parts.append(f"no object is left of {', '.join(empty)}")
    if lost:
        more = f"\n  and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        listed = "".join(f"\n  {path}" for path in lost[:_SHOWN])
        noun = "object" if len(lost) == 1 else "objects"
        parts.append(f"{len(lost)} {noun} would go away, and Argo CD may delete them:{listed}{more}")
    raise RemovalRefused("; ".join(parts), "run again with --allow-removal if that is meant")


def _edited(folder: Path, paths: Sequence[str], owned: Mapping[str, str]) -> list[str]:
    return [path for path in paths if sums.digest(read(folder / path)) != owned[path]]


def _refuse_blocked(name: str, blocked: Sequence[str]) -> None:
    if not blocked:
        return
    more = f" and {len(blocked) - 1} more" if len(blocked) > 1 else ""
    raise DistError(
        f"{f'{name}/{blocked[0]}'.rstrip('/')}{more} is in the way, and synth did not write it",
        f"move it away; if synth did write it, restore {name}/{SUMS} from git",
    )
