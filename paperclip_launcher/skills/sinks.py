"""Where a copy of skills goes: a folder of the claim, or memory, from which it travels in Secrets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Write = Callable[[bytes], object]
"""Takes the next piece of a file."""


class Sink(Protocol):
    """A folder that is being filled. OSError where it cannot be written."""

    def folder(self, name: str) -> AbstractContextManager[Sink]:
        """A folder in it. What is in there counts once this ends well."""
        ...

    def file(self, name: str, *, runs: bool) -> AbstractContextManager[Write]:
        """A new file in it; `runs` where it may be executed."""
        ...


@dataclass(frozen=True, slots=True)
class Folder:
    """An open folder of a disk. What was put there is on disk when its context ends."""

    descriptor: int

    @contextmanager
    def folder(self, name: str) -> Iterator[Folder]:
        with new_folder(self.descriptor, name) as below:
            yield Folder(below)

    @contextmanager
    def file(self, name: str, *, runs: bool) -> Iterator[Write]:
        mode = 0o755 if runs else 0o644
        with closed(os.open(name, _NEW, mode, dir_fd=self.descriptor)) as target:
            yield partial(_write, target)
            os.fchmod(target, mode)
            os.fsync(target)


@dataclass(frozen=True, slots=True)
class HeldFile:
    """`path` is relative to the bundle's top; `runs` where it may be executed."""

    path: str
    content: bytes = field(repr=False)
    runs: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """Files in memory, in the order in which they came. A folder that fails leaves nothing."""

    prefix: str = ""
    files: list[HeldFile] = field(default_factory=list)

    @contextmanager
    def folder(self, name: str) -> Iterator[Memory]:
        below = Memory(f"{self.prefix}{name}/")
        yield below
        self.files.extend(below.files)

    @contextmanager
    def file(self, name: str, *, runs: bool) -> Iterator[Write]:
        pieces: list[bytes] = []
        yield pieces.append
        self.files.append(HeldFile(f"{self.prefix}{name}", b"".join(pieces), runs))


@contextmanager
def new_folder(into: int, name: str) -> Iterator[int]:
    """A folder in the open folder `into`, there or made, open while this lasts, and on disk afterwards."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=into)
    with closed(os.open(name, _FOLDER, dir_fd=into)) as descriptor:
        yield descriptor
        os.fsync(descriptor)


@contextmanager
def closed(descriptor: int) -> Iterator[int]:
    """Closes it in the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
