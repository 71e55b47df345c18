"""The two sides of a comparison as files: from a folder, or from a commit without checking it out."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from charts_py.diff.errors import DiffError
from charts_py.dist import lock, swap
from charts_py.dist.tree import read, scan

Files: TypeAlias = Mapping[str, bytes]
"""Path relative to dist → content, YAML and JSON files only."""

_SUFFIXES = (".yaml", ".yml", ".json")
_OURS = frozenset({"provenance.json"})
_GIT_SECONDS = 60


def from_dist(dist: Path, environment: str | None) -> Files:
    """The working state, read under the lock: no publish swaps it half way. Raises DiffError, DistError."""
    swap.recover(dist)
    if not dist.is_dir():
        raise DiffError(f"there is no folder {dist}", "render first: paperclip-gitops synth; or give --dist")
    place = swap.resolve(dist)
    with lock.held(place.parent, exclusive=False, holder=lambda: swap.holder(place)):
        return _folder(place, environment)


def from_folder(folder: Path, environment: str | None) -> Files:
    """Any folder laid out as dist is. Raises DiffError if it is none."""
    if not folder.is_dir():
        raise DiffError(
            f"--against {folder}: there is no such folder",
            "give a folder laid out as dist is, or git:REF for a commit",
        )
    return _folder(folder, environment)


def from_git(ref: str, dist: Path, environment: str | None) -> Files:
    """Dist as it is in the commit `ref`; empty if the commit has none. Raises DiffError for a bad ref."""
    where = dist.resolve()
    while not where.is_dir():
        where = where.parent
    top = _git(where, "rev-parse", "--show-toplevel")
    if top.returncode != 0:
        raise DiffError(f"{where} is in no git repository: {_said(top)}", "compare with a folder: --against DIR")
    root = Path(top.stdout.decode().removesuffix("\n"))
    commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if commit.returncode != 0:
        raise DiffError(
            f"--against git:{ref}: {ref!r} is no commit in {root}",
            "give a branch, a tag or a commit (git log --oneline lists some); in a shallow clone fetch it "
            "first: git fetch --depth=1 origin <branch>, then git:FETCH_HEAD",
        )
    inside = dist.resolve().relative_to(root.resolve()).as_posix()
    prefix = "" if inside == "." else f"{inside}/"
    return _blobs(root, commit.stdout.decode().strip(), prefix, environment)


def refuse_unknown(environment: str | None, old: Files, new: Files) -> None:
    """Raises DiffError if neither side has the environment that was asked for: a slip is not "no change"."""
    if environment and not old and not new:
        raise DiffError(
            f"--environment {environment}: neither side has it",
            "give the name of a folder in dist, or leave it out",
        )


def _blobs(root: Path, commit: str, prefix: str, environment: str | None) -> Files:
    narrowed = f"{prefix}{environment}/" if environment else prefix
    listed = _git(root, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *([narrowed] if narrowed else []))
    if listed.returncode != 0:
        raise DiffError(f"git ls-tree {commit} failed: {_said(listed)}")
    names: dict[str, str] = {}
    for row in listed.stdout.split(b"\0"):
        marks, _, path = row.partition(b"\t")
        mode, _, rest = marks.partition(b" ")
        text = path.decode("utf-8", "replace").removeprefix(prefix)
        if mode in {b"100644", b"100755"} and _compared(text):
            names[text] = rest.split(b" ")[1].decode()
    if not names:
        return {}
    batch = _git(root, "cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in names.values()).encode())
    if batch.returncode != 0:
        raise DiffError(f"git cat-file failed: {_said(batch)}")
    return dict(zip(names, _contents(batch.stdout, len(names)), strict=True))


def _contents(stream: bytes, count: int) -> list[bytes]:
    """The answers of `git cat-file --batch`: "<id> blob <size>", the bytes, a newline."""
    found = []
    at = 0
    for _ in range(count):
        end = stream.index(b"\n", at)
        header = stream[at:end].split(b" ")
        if header[-1] == b"missing":
            raise DiffError(
                f"git has no content for {header[0].decode()}",
                "the clone is partial; fetch it: git fetch --refetch",
            )
        size = int(header[-1])
        found.append(stream[end + 1 : end + 1 + size])
        at = end + 1 + size + 1
    return found


def _folder(folder: Path, environment: str | None) -> Files:
    wanted = (path for path in scan(folder).files if _compared(path))
    return {path: read(folder / path) for path in wanted if not environment or path.startswith(f"{environment}/")}


def _compared(path: str) -> bool:
    return path.endswith(_SUFFIXES) and path.rpartition("/")[2] not in _OURS


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command: Sequence[str] = ("git", "-C", str(folder), *arguments)
    try:
        return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=_GIT_SECONDS)
    except FileNotFoundError as problem:
        raise DiffError("git is not installed", "install git, or compare with a folder: --against DIR") from problem
    except subprocess.TimeoutExpired as problem:
        raise DiffError(f"git {arguments[0]} did not end within {_GIT_SECONDS} s") from problem


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode("utf-8", "replace").strip().partition("\n")[0][:200] or f"exit {done.returncode}"
