"""Reads folders that others can write to, without ever leaving them.

Every name is opened relative to its folder's descriptor and never through a link, and what counts is what the open
descriptor says, not what was looked at before: whoever swaps a file for a link in between gets an error, not a copy.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from paperclip_launcher.errors import LauncherError
from paperclip_launcher.skills.sinks import Sink, Write, closed

LEFT_OUT = frozenset({".git"})
"""Names that are not copied: a clone's folder may hold the credential it was made with."""
LISTED = 64
"""Bytes of an entry in a list of files, beside its path in the bundle."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without NONBLOCK the open of a FIFO would wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE = 1 << 18


class BundleFailed(LauncherError):
    """Skills or instructions cannot be copied; the text names the skill, the file and the reason."""

    code = "k8s_prompt_bundle_failed"


class Refused(Exception):
    """One name is passed over, for the reason given; the rest is read."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one bundle, all its skills together; `names` counts what is looked at, copied or not.

    `listed` are the bytes of a list of all files, by their path in the bundle and LISTED for the rest of each entry;
    None is no limit. No path may match `never`.
    """

    files: int = 5_000
    names: int = 20_000
    size: int = 64 << 20
    file_size: int = 16 << 20
    depth: int = 16
    listed: int | None = None
    never: re.Pattern[str] | None = None


@dataclass(slots=True)
class Budget:
    """What one pass has used of the limits. BundleFailed where that is too much. `place` begins all paths."""

    limits: Limits
    files: int = 0
    names: int = 0
    size: int = 0
    listed: int = 0
    place: str = ""

    def count_name(self) -> None:
        self.names += 1
        if self.names > self.limits.names:
            raise BundleFailed(f"holds more than {self.limits.names} names")

    def check_depth(self, path: str, depth: int) -> None:
        if depth >= self.limits.depth:
            raise BundleFailed(f"{path} is more than {self.limits.depth} folders deep")

    def count_file(self, path: str, size: int) -> None:
        self.files += 1
        self.size += size
        self.listed += len(self.place) + len(path.encode()) + LISTED
        if self.files > self.limits.files:
            raise BundleFailed(f"holds more than {self.limits.files} files")
        if size > self.limits.file_size:
            raise BundleFailed(f"{path} has {size} bytes; at most {self.limits.file_size} are copied")
        if self.size > self.limits.size:
            raise BundleFailed(f"holds more than {self.limits.size} bytes")
        if self.limits.listed is not None and self.listed > self.limits.listed:
            raise BundleFailed(f"holds so many files that the list of their names has over {self.limits.listed} bytes")
        if self.limits.never is not None and self.limits.never.search(self.place + path):
            raise BundleFailed(f"{path} has the name of a file that no agent may have")


@contextmanager
def opened(path: str, roots: Sequence[str], *, folder: bool) -> Iterator[tuple[int, str]]:
    """A descriptor of `path` and where that really is: a folder, or a plain file, below one of `roots`. Refused.

    Links on the way are resolved once, to know the real place; that place is then opened name by name.
    """
    if "\0" in path or not path.startswith("/"):
        raise Refused("is no absolute path")
    try:
        real = os.path.realpath(path, strict=True)
    except (OSError, UnicodeEncodeError) as error:
        raise Refused(f"cannot be read: {_reason(error)}") from error
    tops = [top for top in map(os.path.realpath, roots) if os.path.commonpath((top, real)) == top]
    if not tops:
        raise Refused(f"is outside of {', '.join(roots) or 'all folders, since none is allowed'}")
    parts = [part for part in os.path.relpath(real, tops[0]).split("/") if part != "."]
    try:
        # The operator's own path may hold links.
        top = os.open(tops[0], _FOLDER & ~os.O_NOFOLLOW)
    except OSError as error:
        raise Refused(f"cannot be opened: {_reason(error)}") from error
    with closed(top), closed(_descend(top, parts, folder=folder)) as descriptor:
        yield descriptor, real


def names_in(descriptor: int) -> list[str]:
    """What an open folder holds, in order."""
    with os.scandir(descriptor) as entries:
        return sorted(entry.name for entry in entries)


def read_file(descriptor: int, limit: int) -> bytes:
    """All of an open file. Refused beyond `limit` bytes."""
    pieces, size = [], 0
    while piece := os.read(descriptor, _PIECE):
        size += len(piece)
        if size > limit:
            raise Refused(f"has more than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)


@dataclass(slots=True)
class Tree:
    """An open folder with all below it. `real` is where it is; `notes` say what was passed over, and why."""

    descriptor: int
    real: str
    notes: list[str] = field(default_factory=list)

    def scout(self, budget: Budget) -> None:
        """Looks at everything and reads nothing: a tree that is too large is refused at once. BundleFailed."""
        self._scout(self.descriptor, "", 1, budget)
        self.notes.clear()

    def _scout(self, folder: int, prefix: str, depth: int, budget: Budget) -> None:
        for path, name, info in self._names(folder, prefix, budget):
            if stat.S_ISREG(info.st_mode):
                budget.count_file(path, info.st_size)
            elif stat.S_ISDIR(info.st_mode):
                budget.check_depth(path, depth)
                # What cannot be opened is noted when it is read.
                with suppress(Refused), closed(_open(folder, name, folder=True)) as inner:
                    self._scout(inner, f"{path}/", depth + 1, budget)

    def read(self, budget: Budget, into: Sink | None = None) -> bytes:
        """The hash of names, contents and who may run them; all of it copied into `into` if there is one.

        BundleFailed where the tree is too large; OSError where `into` cannot be written.
        """
        self.notes.clear()
        lines = sorted(self._read(self.descriptor, "", 1, budget, into))
        return hashlib.sha256(b"".join(lines)).digest()

    def _names(self, folder: int, prefix: str, budget: Budget) -> Iterator[tuple[str, str, os.stat_result]]:
        """What is in a folder, by name, without what may not be copied at all."""
        names = []
        with os.scandir(folder) as entries:
            for entry in entries:
                budget.count_name()
                names.append(entry.name)
        twins: set[str] = set()
        for name in sorted(names):
            path = f"{prefix}{name}"
            twin = unicodedata.normalize("NFC", name).casefold()
            problem = name_problem(name)
            if name in LEFT_OUT:
                problem = "is never copied"
            elif not problem and twin in twins:
                problem = "differs from another name in capitals or accents only, which some disks do not tell apart"
            twins.add(twin)
            if problem:
                self._note(path, problem)
                continue
            try:
                yield path, name, os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                self._note(path, "went while it was looked at")

    def _read(self, folder: int, prefix: str, depth: int, budget: Budget, into: Sink | None) -> Iterator[bytes]:
        for path, name, info in self._names(folder, prefix, budget):
            try:
                if stat.S_ISDIR(info.st_mode):
                    yield from self._read_folder(_open(folder, name, folder=True), path, depth, budget, into)
                elif stat.S_ISLNK(info.st_mode):
                    yield self._read_file(self._target(path), path, budget, into)
                elif stat.S_ISREG(info.st_mode):
                    yield self._read_file(_open(folder, name, folder=False), path, budget, into)
                else:
                    self._note(path, "is neither a file nor a folder")
            except Refused as reason:
                self._note(path, str(reason))

    def _read_folder(self, folder: int, path: str, depth: int, budget: Budget, into: Sink | None) -> Iterator[bytes]:
        with closed(folder):
            budget.check_depth(path, depth)
            yield _line(b"folder", path)
            if into is None:
                yield from self._read(folder, f"{path}/", depth + 1, budget, None)
                return
            with into.folder(path.rpartition("/")[2]) as below:
                yield from self._read(folder, f"{path}/", depth + 1, budget, below)

    def _read_file(self, source: int, path: str, budget: Budget, into: Sink | None) -> bytes:
        with closed(source):
            info = os.fstat(source)
            budget.count_file(path, info.st_size)
            runs = bool(info.st_mode & 0o100)
            if into is None:
                digest = _digest(source, None, path, info.st_size)
            else:
                with into.file(path.rpartition("/")[2], runs=runs) as write:
                    digest = _digest(source, write, path, info.st_size)
        return _line(b"program" if runs else b"file", path, digest)

    def _target(self, path: str) -> int:
        """Opens what the link at `path` leads to, if that is a plain file of this tree."""
        try:
            real = os.path.realpath(f"{self.real}/{path}", strict=True)
        except OSError as error:
            raise Refused("is a link that leads nowhere") from error
        if os.path.commonpath((self.real, real)) != self.real:
            raise Refused("is a link out of the skill")
        parts = os.path.relpath(real, self.real).split("/")
        if LEFT_OUT.intersection(parts):
            raise Refused("is a link to what is never copied")
        try:
            return _descend(self.descriptor, parts, folder=False)
        except Refused as reason:
            raise Refused(f"is a link to what {reason}") from reason

    def _note(self, path: str, reason: str) -> None:
        shown = path if path.isprintable() else ascii(path)[1:-1]
        self.notes.append(f"{shown} {reason}")


def name_problem(name: str) -> str:
    """Why nothing may be called so in a bundle, "" where it may."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is no UTF-8"
    if size > 255:
        return "is longer than 255 bytes"
    if any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in name):
        return "holds control characters"
    return "is no name" if name in ("", ".", "..") else ""


def _open(place: int, name: str, *, folder: bool) -> int:
    """A folder, or a plain file, of the open folder `place`. Refused for anything else, links above all."""
    try:
        descriptor = os.open(name, _FOLDER if folder else _FILE, dir_fd=place)
    except OSError as error:
        raise Refused(f"cannot be opened: {_reason(error)}") from error
    try:
        if not folder:
            _check_file(descriptor, place, name)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_file(descriptor: int, place: int, name: str) -> None:
    """Refuses all but a plain file whose only name is this one: a second one, a hard link, may be outside.

    Counting names in the skill would not do, since one that moves meanwhile counts twice; nor would one look at the
    count, since the name that was opened may have gone by then. Each link and unlink shows in ctime.
    """
    before = os.fstat(descriptor)
    if not stat.S_ISREG(before.st_mode):
        raise Refused("is no plain file")
    try:
        there = os.stat(name, dir_fd=place, follow_symlinks=False)
    except OSError as error:
        raise Refused("went while it was looked at") from error
    after = os.fstat(descriptor)
    if before.st_nlink != 1 or after.st_nlink != 1:
        raise Refused("has a second name (a hard link), which may be outside of the skill")
    if not os.path.samestat(there, after) or before.st_ctime_ns != after.st_ctime_ns:
        raise Refused("changes while it is looked at")


def _descend(top: int, parts: Sequence[str], *, folder: bool) -> int:
    """As _open, several names deep; `top` stays open."""
    if not parts and not folder:
        raise Refused("is no plain file")
    descriptor = os.dup(top)
    for index, part in enumerate(parts):
        with closed(descriptor):
            descriptor = _open(descriptor, part, folder=folder or index < len(parts) - 1)
    return descriptor


def _digest(source: int, write: Write | None, path: str, size: int) -> bytes:
    """The SHA-256 of an open file, which is written elsewhere as it is read if there is a place for it."""
    digest = hashlib.sha256()
    while piece := os.read(source, _PIECE):
        size -= len(piece)
        if size < 0:
            raise BundleFailed(f"{path} grows while it is read")
        digest.update(piece)
        if write is not None:
            write(piece)
    return digest.digest()


def _line(kind: bytes, path: str, digest: bytes = b"") -> bytes:
    # A path holds no NUL, so no two trees give the same lines.
    return b"\0".join((path.encode(), kind, digest.hex().encode())) + b"\0\0"


def _reason(error: Exception) -> str:
    return (error.strerror or "") if isinstance(error, OSError) else "its name is no UTF-8"
