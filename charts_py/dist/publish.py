"""Writing rendered environments: plan, guard, stage, prove, swap. Nothing in dist is changed in place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from charts_py.dist import lock, plan, stage, swap
from charts_py.dist.errors import DistError
from charts_py.dist.layout import RenderedEnvironment, check_environments
from charts_py.dist.plan import EnvironmentPlan
from charts_py.dist.system import SYSTEM, SystemCalls
from charts_py.dist.tree import Tree, scan


@dataclass(frozen=True)
class PublishResult:
    """Paths relative to dist, sorted.

    `strays` are files synth never wrote, kept as they are. `edited` are files of ours that were changed by
    hand and are now as rendered (or removed); they are in `written` or `removed` too.
    """

    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    strays: tuple[str, ...]
    edited: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.written or self.removed)


def publish(
    dist: Path,
    environments: Sequence[RenderedEnvironment],
    *,
    remove_environments: Sequence[str] = (),
    allow_removal: bool,
    calls: SystemCalls = SYSTEM,
) -> PublishResult:
    """Makes `dist` hold exactly the given environments; other environments stay as they are.

    A kill at any moment leaves all of the old or all of the new state. If nothing changes, nothing is
    written.

    Raises RemovalRefused if an object would go away without `allow_removal`, DistBusy if another publish
    lasts longer than `calls.patience` seconds, DistError for a folder that cannot be written as asked. dist
    is then as it was before.
    """
    check_environments(environments, remove_environments)
    place = swap.resolve(dist)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with lock.held(
            place.parent, exclusive=True, patience=calls.patience, holder=lambda: swap.holder(place)
        ) as locked:
            swap.mend(place, calls, remove_leftovers=locked)
            tree = scan(place)
            plans = [plan.for_environment(environment, place, tree) for environment in environments]
            plans += [plan.for_removal(name, place, tree) for name in remove_environments]
            if not allow_removal:
                plan.guard(plans)
            if any(item.changes for item in plans):
                _replace(place, tree, plans, calls)
    except OSError as problem:
        raise DistError(
            f"{problem.filename or place}: {problem.strerror}; dist was not changed",
            "see that the folder is writable and the disk has room, then run again",
        ) from problem
    return _result(plans)


def _replace(place: Path, tree: Tree, plans: Sequence[EnvironmentPlan], calls: SystemCalls) -> None:
    staged = swap.new_stage_path(place)
    try:
        stage.build(place, staged, stage.contents(tree, plans), calls)
        _refuse_changed(place, tree)
        swap.swap(staged, place, calls)
    except BaseException:
        # A half-made swap has no dist: putting it back comes before cleaning up.
        swap.mend(place, calls, remove_leftovers=False)
        calls.remove_tree(staged)
        raise


def _refuse_changed(place: Path, before: Tree) -> None:
    """What somebody wrote into dist after we looked would be lost with the old folder."""
    now = scan(place).files
    changed = sorted(path for path in {*now, *before.files} if now.get(path) != before.files.get(path))
    if changed:
        raise DistError(f"{place}/{changed[0]} was changed while synth was at work", "run again")


def _result(plans: Sequence[EnvironmentPlan]) -> PublishResult:
    def paths(kind: str) -> tuple[str, ...]:
        return tuple(sorted(_shown(f"{item.name}/{path}" for item in plans for path in getattr(item, kind))))

    return PublishResult(*(paths(kind) for kind in ("written", "unchanged", "removed", "strays", "edited")))


def _shown(paths: Iterable[str]) -> Iterable[str]:
    """A stray may have a name that is not UTF-8; what is reported must be printable."""
    return (os.fsencode(path).decode("utf-8", "replace") for path in paths)
