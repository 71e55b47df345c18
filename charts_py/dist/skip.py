"""Whether an environment needs rendering at all: a cache of what the last synth read and wrote.

Only the standard library, and none of it slow to import: this is all that a synth with nothing to do runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from charts_py.dist import sums
from charts_py.dist.errors import DistError
from charts_py.dist.sums import SUMS

_FORMAT = 1
_TICK_NS = 20_000_000
"""Two writes within one tick of the kernel's clock (4 to 10 ms) can bear one time; this is twice that."""

_Stamp = tuple[int, int, int, int]
_UNKNOWN: _Stamp = (0, 0, 0, 0)
"""Never equal to a real one, so that the file is hashed."""


def inputs_digest(inputs: Mapping[str, str]) -> str:
    """One hash over all inputs, name → hash or version, in any order."""
    return hashlib.sha256(json.dumps(sorted(inputs.items())).encode()).hexdigest()


def is_current(cache: Path, dist: Path, environment: str, inputs: str) -> bool:
    """Whether dist/<environment> is still, byte for byte, what synth wrote from `inputs` (a digest).

    A file whose size, times and inode are as recorded is taken as unchanged, as git does; any other is
    hashed. A missing, changed or added file, other inputs or an unreadable cache give False, never an error.
    So do strays: they are worth a report at every synth.
    """
    record = _load(_record_path(cache, dist, environment))
    if record.get("format") != _FORMAT or record.get("inputs") != inputs:
        return False
    folder = f"{dist}/{environment}"
    known = record.get("files")
    stamps = _stamps(folder)
    if not isinstance(known, dict) or stamps is None or stamps.keys() != known.keys():
        return False
    moved = False
    for path, stamp in stamps.items():
        row = known[path]
        if not isinstance(row, list) or not row:
            return False
        if row[:-1] != [*stamp]:
            moved = True
            if _hash(f"{folder}/{path}") != row[-1]:
                return False
    if moved:
        # Hard links of another environment's publish touch the times; hashing once is enough.
        with contextlib.suppress(OSError):
            _save(
                cache,
                dist,
                environment,
                inputs,
                {path: (stamp, known[path][-1]) for path, stamp in stamps.items()},
            )
    return True


def remember(cache: Path, dist: Path, environment: str, inputs: str) -> None:
    """Records the environment as it lies on the disk, right after a publish.

    Nothing is recorded if it is not as its SHA256SUMS says: then the next synth renders and reports. A cache
    that cannot be written costs time, not correctness, so that is no error.
    """
    folder = f"{dist}/{environment}"
    stamps = _stamps(folder)
    with contextlib.suppress(OSError, DistError):
        _record_path(cache, dist, environment).unlink(missing_ok=True)
        if stamps is None:
            return
        text = Path(f"{folder}/{SUMS}").read_bytes()
        digests = {**sums.parse(text, SUMS), SUMS: sums.digest(text)}
        if digests.keys() != stamps.keys() or any(
            _hash(f"{folder}/{path}") != digests[path] for path in stamps
        ):
            return
        _save(
            cache, dist, environment, inputs, {path: (stamp, digests[path]) for path, stamp in stamps.items()}
        )


def _record_path(cache: Path, dist: Path, environment: str) -> Path:
    key = hashlib.sha256(f"{dist.resolve()}\0{environment}".encode("utf-8", "surrogateescape")).hexdigest()
    return cache / f"dist-{key[:32]}.json"


def _load(path: Path) -> dict[str, object]:
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _save(
    cache: Path, dist: Path, environment: str, inputs: str, files: Mapping[str, tuple[_Stamp, str]]
) -> None:
    settled = time.time_ns() - _TICK_NS
    rows = {
        path: [*(stamp if max(stamp[1], stamp[2]) < settled else _UNKNOWN), digest]
        for path, (stamp, digest) in files.items()
    }
    target = _record_path(cache, dist, environment)
    cache.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps({"format": _FORMAT, "inputs": inputs, "files": rows}, separators=(",", ":")))
    part.replace(target)


def _stamps(folder: str) -> dict[str, _Stamp] | None:
    """Path → (size, mtime, ctime, inode) of every file below `folder`; None for a link or the unreadable."""
    stamps: dict[str, _Stamp] = {}
    waiting = [""]
    try:
        while waiting:
            part = waiting.pop()
            with os.scandir(f"{folder}/{part}") as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{part}{entry.name}/")
                    elif entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        stamps[part + entry.name] = (
                            status.st_size,
                            status.st_mtime_ns,
                            status.st_ctime_ns,
                            status.st_ino,
                        )
                    else:
                        return None
    except OSError:
        return None
    return stamps


def _hash(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""
