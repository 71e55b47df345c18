"""What lies in a folder right now: every file with the marks by which a later change is noticed."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from charts_py.dist.errors import DistError

Stamp: TypeAlias = tuple[int, int, int]
"""inode, size in bytes, mtime in nanoseconds."""


@dataclass(frozen=True)
class Tree:
    """Paths are relative to the scanned folder, with slashes."""

    files: Mapping[str, Stamp]
    folders: frozenset[str]

    def under(self, name: str) -> frozenset[str]:
        """The files below the first-level folder `name`, relative to it."""
        return frozenset(self._by_folder.get(name, ()))

    @cached_property
    def _by_folder(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in self.files:
            folder, slash, rest = path.partition("/")
            if slash:
                found.setdefault(folder, []).append(rest)
        return found


def scan(root: Path) -> Tree:
    """The files and folders below `root`; none if it does not exist.

    Raises DistError for a link, a device, a pipe or a socket: following one would write or publish what lies
    elsewhere. A `.git` folder is refused too: git may be writing there while the whole folder is replaced.
    """
    files: dict[str, Stamp] = {}
    folders: list[str] = []
    waiting = [""] if root.exists() else []
    while waiting:
        folder = waiting.pop()
        with os.scandir(f"{root}/{folder}") as entries:
            for entry in entries:
                path = folder + entry.name
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    files[path] = (status.st_ino, status.st_size, status.st_mtime_ns)
                elif stat.S_ISDIR(status.st_mode) and path != ".git":
                    folders.append(path)
                    waiting.append(f"{path}/")
                else:
                    raise _refusal(root / path, status.st_mode)
    return Tree(files, frozenset(folders))


def _refusal(path: Path, mode: int) -> DistError:
    if stat.S_ISLNK(mode):
        return DistError(
            f"{path} is a symbolic link", "replace the link by the file itself, or move it out of dist"
        )
    if stat.S_ISDIR(mode):
        return DistError(
            f"{path.parent} is the root of a git checkout; synth replaces the folder as a whole",
            "render into a folder of the checkout: --dist <checkout>/dist",
        )
    return DistError(f"{path} is neither a file nor a folder", "move it out of dist")


def read(path: Path | str) -> bytes:
    """The content of a file, never through a link. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        chunks = []
        while chunk := os.read(descriptor, size + 1):
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    finally:
        os.close(descriptor)
