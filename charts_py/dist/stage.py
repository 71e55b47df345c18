"""The new state, complete, in a folder beside dist: proven there before it takes the place of the old one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from charts_py.dist.errors import DistError
from charts_py.dist.plan import EnvironmentPlan
from charts_py.dist.system import SystemCalls
from charts_py.dist.tree import Tree, read


@dataclass(frozen=True)
class Contents:
    """Paths relative to dist. `carried` keep their file, `fresh` are written, `proven` are read back."""

    carried: Sequence[str]
    fresh: Mapping[str, bytes]
    proven: Mapping[str, bytes]
    folders: Sequence[str]


def contents(tree: Tree, plans: Sequence[EnvironmentPlan]) -> Contents:
    planned = {plan.name for plan in plans}
    carried = [path for path in tree.files if path.partition("/")[0] not in planned]
    fresh: dict[str, bytes] = {}
    proven: dict[str, bytes] = {}
    for plan in plans:
        carried += [f"{plan.name}/{path}" for path in (*plan.unchanged, *plan.strays)]
        fresh |= {f"{plan.name}/{path}": plan.files[path] for path in plan.written}
        proven |= {f"{plan.name}/{path}": data for path, data in plan.files.items()}
    folders = {folder for folder in tree.folders if folder.partition("/")[0] not in planned}
    for parent in {path.rpartition("/")[0] for path in (*carried, *fresh)}:
        waiting = parent
        while waiting and waiting not in folders:
            folders.add(waiting)
            waiting = waiting.rpartition("/")[0]
    return Contents(carried, fresh, proven, sorted(folders))


def build(place: Path, stage: Path, wanted: Contents, calls: SystemCalls) -> None:
    """Fills the new folder `stage`, flushes it, reads it back. Raises OSError; DistError for other bytes."""
    root, source = str(stage), str(place)
    calls.make_folder(root)
    for folder in wanted.folders:
        calls.make_folder(f"{root}/{folder}")
    for path in wanted.carried:
        calls.link(f"{source}/{path}", f"{root}/{path}")
    for path, data in wanted.fresh.items():
        calls.write_file(f"{root}/{path}", data)
    calls.flush(root, [f"{root}/{path}" for path in (*wanted.fresh, *wanted.folders)] + [root])
    for path, data in wanted.proven.items():
        if read(f"{root}/{path}") != data:
            raise DistError(
                f"{path} reads back other bytes than were written; dist was left as it was",
                "run again; if it happens again, the disk or its file system is at fault",
            )
