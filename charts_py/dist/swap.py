"""Putting the staged folder in the place of dist, and mending what a kill left behind.

Linux and macOS exchange two folders in one step, so that a kill at any moment leaves all of the old or all
of the new. Where the file system refuses that (NFS, some FUSE), two renames do it: dist → .dist-old-…,
stage → dist. A kill between the two leaves no dist; `recover`, which every reader and writer calls first,
puts the old one back.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from charts_py.dist import lock
from charts_py.dist.errors import DistError
from charts_py.dist.system import SYSTEM, SystemCalls

_TOKEN_BYTES = 4


def resolve(dist: Path) -> Path:
    """The folder itself when `dist` is a link to it, so that the link stays a link.

    Raises DistError for what is no folder, and for a mount point: nothing can be swapped with one.
    """
    place = dist.resolve() if dist.is_symlink() else dist.parent.resolve() / dist.name
    if not place.name or place.name == "..":
        raise DistError(f"{dist} cannot be replaced as a whole", "give a folder of its own: --dist dist")
    if dist.is_symlink() and not place.is_dir() and not _left(place, "old"):
        raise DistError(
            f"{dist} is a link to {place}, which is no folder", "make the folder or remove the link"
        )
    if place.exists() and not place.is_dir():
        raise DistError(f"{dist} is a file, not a folder", "move it away or give another --dist")
    if place.exists() and place.is_mount():
        raise DistError(
            f"{dist} is a mount point; the folder is replaced as a whole, which needs its parent",
            "mount the parent folder instead, or render into a folder below: --dist dist/rendered",
        )
    return place


def new_stage_path(place: Path) -> Path:
    """A new name beside dist; the process id in it tells others whom they wait for."""
    return place.parent / f"{_prefix(place, 'stage')}{os.getpid()}-{secrets.token_hex(_TOKEN_BYTES)}"


def holder(place: Path) -> str:
    """`pid N` of the process that stages beside `place`, "" if none does yet."""
    pids = [
        path.name.removeprefix(_prefix(place, "stage")).partition("-")[0] for path in _left(place, "stage")
    ]
    return f"pid {pids[0]}" if pids else ""


def swap(stage: Path, place: Path, calls: SystemCalls = SYSTEM) -> None:
    """Makes the complete folder `stage` the new `place`; the caller holds the lock."""
    old = stage
    if not place.exists():
        calls.rename(stage, place)
    elif not _exchanged(stage, place, calls):
        old = place.parent / stage.name.replace(_prefix(place, "stage"), _prefix(place, "old"), 1)
        calls.rename(place, old)
        calls.rename(stage, place)
    calls.flush_entry(str(place.parent))
    calls.remove_tree(old)


def _exchanged(stage: Path, place: Path, calls: SystemCalls) -> bool:
    try:
        return calls.exchange(stage, place)
    except OSError as problem:
        raise DistError(
            f"{place} cannot be swapped for the new state: {problem.strerror}",
            f"if it comes from a layer of a container image, copy it once: cp -a {place} {place}.copy && "
            f"rm -r {place} && mv {place}.copy {place}",
        ) from problem


def recover(dist: Path, calls: SystemCalls = SYSTEM) -> None:
    """Mends what a killed publish left: puts a half-swapped dist back, removes stages of dead processes.

    A live publisher holds the lock for as long as its stage exists, so what is found under the lock is dead.
    Raises DistBusy when one is at work for longer than lock.PATIENCE.
    """
    if not dist.parent.is_dir():
        return
    place = resolve(dist)
    if place.parent.is_dir() and (_left(place, "stage") or _left(place, "old")):
        with lock.held(place.parent, exclusive=True, holder=lambda: holder(place)) as locked:
            mend(place, calls, remove_leftovers=locked)


def mend(place: Path, calls: SystemCalls = SYSTEM, *, remove_leftovers: bool = True) -> None:
    """`recover` for one who holds the lock already."""
    old = _left(place, "old")
    if old and not place.exists():
        newest = max(old, key=lambda path: path.lstat().st_mtime_ns)
        calls.rename(newest, place)
        old.remove(newest)
    if remove_leftovers:
        for path in (*old, *_left(place, "stage")):
            calls.remove_tree(path)


def _prefix(place: Path, what: str) -> str:
    return f".{place.name.lstrip('.')}-{what}-"


def _left(place: Path, what: str) -> list[Path]:
    """Ours are <prefix><pid>-<8 hex digits>; anything else of a like name belongs to somebody."""
    prefix = _prefix(place, what)
    found = []
    with contextlib.suppress(FileNotFoundError):
        for path in place.parent.iterdir():
            pid, _, token = path.name.removeprefix(prefix).partition("-")
            if path.name.startswith(prefix) and pid.isdigit() and len(token) == _TOKEN_BYTES * 2:
                found.append(path)
    return found
