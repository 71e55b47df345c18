"""The Node adapter into the home of a Paperclip server, which loads it when it starts.

The server finds its adapters by a list, adapter-plugins.json. One that is missing there, or cannot be loaded, is not an
error to it: it then runs the agents with its own `process` adapter, on its own host. So what is installed is whole, and
the list is never half written.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paperclip_launcher.clock import rfc3339
from paperclip_launcher.errors import LauncherError
from paperclip_launcher.serve import described

LIST = "adapter-plugins.json"
STORE = "adapter-plugins-local"
_PREFIX = "paperclip-kubernetes-"
_LARGEST = 4 << 20
"""Bytes of one file: the adapter has some kilobytes."""
_OLD_SECONDS = 7 * 86_400.0


class AdapterMissing(LauncherError):
    """The folder that is to be installed is not the adapter, or not whole."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.remedy = "name the adapter's folder with --from DIR"


@dataclass(frozen=True)
class Installed:
    """`records` are those of our types as they stand in the list now; `changed` is whether anything was written.

    `kept_aside` is where a list went that could not be read; `removed` are folders of former versions.
    """

    folder: Path
    records: tuple[Mapping[str, Any], ...]
    changed: bool
    kept_aside: Path | None
    removed: tuple[Path, ...]


def found(explicit: str, environment: Mapping[str, str]) -> Path:
    """The adapter's folder: what was named, the image's, or that of a checkout. AdapterMissing."""
    named = explicit or environment.get("PAPERCLIP_ADAPTER", "")
    if named:
        return Path(named)
    package = Path(__file__).resolve().parents[1]
    places = (Path("/opt/paperclip-adapter"), package / "_adapter", package.parent / "adapter")
    for place in places:
        if place.is_dir():
            return place
    raise AdapterMissing(f"there is no adapter at {' or '.join(map(str, places))}")


def install(home: Path, source: Path, *, now: float) -> Installed:
    """Installs all types, or nothing. AdapterMissing, OSError. What is there already is left as it is."""
    contents = _contents(source)
    home.mkdir(parents=True, exist_ok=True)
    with _alone(home):
        folder = home / STORE / f"{_PREFIX}{_digest(contents)}"
        changed = _place(folder, contents)
        records, kept_aside = _listed(home / LIST, now)
        ours = [_record(records, name, folder, contents, now) for name in described.FOLDERS]
        wanted = _merged(records, ours)
        if wanted != records or kept_aside is not None or not (home / LIST).exists():
            _write(home / LIST, json.dumps(wanted, indent=2, ensure_ascii=False).encode() + b"\n")
            changed = True
        removed = tuple(_clear(home / STORE, wanted, folder, now))
    return Installed(folder, tuple(ours), changed, kept_aside, removed)


def _contents(source: Path) -> dict[str, bytes]:
    """Every file by its path; described.json is made anew, by the very launcher that the adapter will ask."""
    if not source.is_dir():
        raise AdapterMissing(f"{source} is no folder")
    files = {str(path.relative_to(source)): _read(path) for path in sorted(source.rglob("*")) if _wanted(path, source)}
    for path, text in described.files(Path()).items():
        files[str(path)] = text.encode()
    needed = [f"{name}/{file}" for name in described.FOLDERS for file in ("package.json", "index.js", "ui-parser.cjs")]
    if missing := [one for one in (*needed, "source/module.js", "package.json") if one not in files]:
        raise AdapterMissing(f"{source} is not the adapter: it has no {', '.join(missing)}")
    return files


def _wanted(path: Path, source: Path) -> bool:
    hidden = any(part.startswith((".", "__")) or part == "node_modules" for part in path.relative_to(source).parts)
    return not hidden and stat.S_ISREG(path.lstat().st_mode)


def _read(path: Path) -> bytes:
    if path.stat().st_size > _LARGEST:
        raise AdapterMissing(f"{path} has more than {_LARGEST} bytes, which no file of the adapter has")
    return path.read_bytes()


def _digest(contents: Mapping[str, bytes]) -> str:
    names = [f"{name}\0{hashlib.sha256(data).hexdigest()}" for name, data in sorted(contents.items())]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _place(folder: Path, contents: Mapping[str, bytes]) -> bool:
    """Whether it was not there yet as it should be."""
    if _is_whole(folder, contents):
        return False
    folder.parent.mkdir(exist_ok=True)
    made = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    try:
        for name, data in contents.items():
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, data)
        if folder.exists():
            folder.rename(made.with_name(f"{made.name}-damaged"))
        made.rename(folder)
    finally:
        for rest in folder.parent.glob(f"{made.name}*"):
            shutil.rmtree(rest, ignore_errors=True)
    return True


def _is_whole(folder: Path, contents: Mapping[str, bytes]) -> bool:
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return there == set(contents) and all((folder / name).read_bytes() == data for name, data in contents.items())


def _listed(path: Path, now: float) -> tuple[list[Any], Path | None]:
    """The records, and where the list was put aside to if it is none: the server itself would start from nothing."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return [], None
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        tree = None
    if isinstance(tree, list):
        return tree, None
    aside = path.with_name(f"{path.name}.broken-{int(now)}")
    path.rename(aside)
    return [], aside


def _record(
    records: list[Any], name: str, folder: Path, contents: Mapping[str, bytes], now: float
) -> Mapping[str, Any]:
    """With all that stood in the former one and is not ours to say."""
    adapter_type, package = described.FOLDERS[name], json.loads(contents[f"{name}/package.json"])
    before = next((one for one in records if isinstance(one, dict) and one.get("type") == adapter_type), {})
    said = {
        "packageName": package["name"],
        "localPath": str((folder / name).absolute()),
        "version": package["version"],
        "type": adapter_type,
    }
    if {**before, **said} == before:
        return before
    return {**before, **said, "installedAt": rfc3339(now)}


def _merged(records: list[Any], ours: list[Mapping[str, Any]]) -> list[Any]:
    """Ours in the place of their former selves, else at the end; everything else as it is."""
    left = {one["type"]: one for one in ours}
    merged = []
    for record in records:
        kind = record.get("type") if isinstance(record, dict) else None
        if kind not in described.FOLDERS.values():
            merged.append(record)
        elif kind in left:
            merged.append(left.pop(kind))
    return merged + list(left.values())


def _clear(store: Path, records: list[Any], folder: Path, now: float) -> Iterator[Path]:
    """Versions that nothing names any more. A recent one may be in use by a server that has not ended yet."""
    named = {str(record.get("localPath")) for record in records if isinstance(record, dict)}
    for path in sorted(store.glob(f"{_PREFIX}*")):
        used = path == folder or any(one.startswith(f"{path.absolute()}/") for one in named)
        if not used and now - path.stat().st_mtime > _OLD_SECONDS:
            shutil.rmtree(path, ignore_errors=True)
            yield path


def _write(path: Path, data: bytes) -> None:
    """Whole, or not at all."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with made.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        made.chmod(stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644)
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Two that install at once would each lose the other's records."""
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def installed_now(home: Path, source: Path) -> Installed:
    return install(home, source, now=time.time())
