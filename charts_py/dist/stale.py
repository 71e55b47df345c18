"""Whether the committed state is what synth would write now: `synth --check`. Never writes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from charts_py.dist import lock, plan, sums, swap
from charts_py.dist.layout import (
    RenderedEnvironment,
    check_environments,
    environments_in,
    is_object_path,
    synced_folders,
)
from charts_py.dist.sums import SUMS
from charts_py.dist.tree import Tree, read, scan

_DIFF_LINES = 200


@dataclass(frozen=True)
class Difference:
    """`text` is a unified diff from what is there to what would be written, at most 200 lines of it."""

    path: str
    text: str


@dataclass(frozen=True)
class StaleReport:
    """Paths relative to dist, sorted.

    `unexpected`: written by synth once, no longer rendered. `strays`: never written by synth, in a folder
    that Argo CD syncs, so that it would deploy them. `sums_wrong`: files that are not as SHA256SUMS says, and
    SHA256SUMS itself where it would be written otherwise.
    """

    missing: tuple[str, ...] = ()
    different: tuple[Difference, ...] = ()
    unexpected: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    sums_wrong: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not (self.missing or self.different or self.unexpected or self.strays or self.sums_wrong)


def stale(dist: Path, environments: Sequence[RenderedEnvironment], *, complete: bool = False) -> StaleReport:
    """Compares `dist` with `environments`. `complete`: these are all, so any other environment is unexpected.

    Raises DistError for what cannot be read.
    """
    check_environments(environments, ())
    swap.recover(dist)
    place = swap.resolve(dist)
    if not place.is_dir():
        return _compared(place, Tree({}, frozenset()), environments)
    with lock.held(place.parent, exclusive=False, holder=lambda: swap.holder(place)):
        tree = scan(place)
        report = _compared(place, tree, environments)
        if not complete:
            return report
        known = {environment.name for environment in environments}
        forgotten = [
            f"{name}/{path}"
            for name in environments_in(place)
            if name not in known
            for path in sorted({*plan.recorded(place, name, tree.under(name)), SUMS} & tree.under(name))
        ]
        return replace(report, unexpected=_joined([report.unexpected, forgotten]))


def _compared(place: Path, tree: Tree, environments: Sequence[RenderedEnvironment]) -> StaleReport:
    reports = [_one(place, tree, environment) for environment in environments]
    return StaleReport(
        missing=_joined(report.missing for report in reports),
        different=tuple(difference for report in reports for difference in report.different),
        unexpected=_joined(report.unexpected for report in reports),
        strays=_joined(report.strays for report in reports),
        sums_wrong=_joined(report.sums_wrong for report in reports),
    )


def _one(place: Path, tree: Tree, environment: RenderedEnvironment) -> StaleReport:
    name = environment.name
    wanted = plan.complete(environment)
    present = tree.under(name)
    actual = {path: read(place / name / path) for path in present}
    owned = plan.recorded(place, name, present)
    folders = synced_folders([*wanted, *owned])
    foreign = present - wanted.keys() - owned.keys()
    wrong = [path for path in present & owned.keys() if sums.digest(actual[path]) != owned[path]]
    if SUMS in present and actual[SUMS] != wanted[SUMS]:
        wrong.append(SUMS)

    def placed(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(f"{name}/{path}" for path in paths)

    return StaleReport(
        missing=placed(wanted.keys() - present),
        different=tuple(
            Difference(f"{name}/{path}", _diff(f"{name}/{path}", actual[path], wanted[path]))
            for path in sorted(present & wanted.keys())
            if actual[path] != wanted[path] and path != SUMS
        ),
        unexpected=placed((present & owned.keys()) - wanted.keys()),
        strays=placed(path for path in foreign if path.partition("/")[0] in folders or is_object_path(path)),
        sums_wrong=placed(wrong),
    )


def _joined(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted(path for group in groups for path in group))


def _diff(path: str, there: bytes, wanted: bytes) -> str:
    old, new = (data.decode("utf-8", "replace").splitlines() for data in (there, wanted))
    lines = list(difflib.unified_diff(old, new, f"dist/{path}", f"synth/{path}", lineterm=""))
    if not lines:
        return f"--- dist/{path}\n+++ synth/{path}\nonly line ends or bytes that are not UTF-8 differ\n"
    if len(lines) > _DIFF_LINES:
        lines = [*lines[:_DIFF_LINES], f"… {len(lines) - _DIFF_LINES} more lines"]
    return "".join(f"{line}\n" for line in lines)
