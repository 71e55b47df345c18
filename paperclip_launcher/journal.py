"""What a launcher keeps on its own disk of each run, so that its next life goes on exactly where this one stopped.

One small file a run, of JSON. It holds no prompt, no token and no line of the log.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from paperclip_launcher.lifecycle import Phase
from paperclip_launcher.log.position import LogPosition

_VERSION = 1
_LONGEST_FILE = 64 << 10
"""Bytes after which a run's file is begun anew, unless it holds fewer than"""
_MOST_STATES = 8
"""of its states."""


@dataclass(slots=True)
class Record:
    """`key` is the name of the run's Job. `position` is where the log has been read to, with the `parser` fed by just
    that much. `result` is the outcome as Paperclip gets it, `acknowledged` that its reader has it.
    """

    key: str
    run_id: str
    agent_id: str
    job_name: str
    nonce: str
    made_at: float = 0
    sent: bool = False
    """Whether its Job may have been created, though its uid is not known yet."""
    job_uid: str = ""
    armed: bool = False
    """Whether its Secrets may have been made: without them its container cannot start."""
    phase: Phase = Phase.PLANNED
    cancelled: bool = False
    stopping: str = ""
    """The code of what stopped the run, once it is being stopped."""
    started_at: float = 0
    """Seconds since 1970 when the run took its Job."""
    running_since: float = 0
    """The same of when its container was first seen to run."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of its RunOptions what whoever attaches to it needs."""
    position: LogPosition = field(default_factory=LogPosition)
    parser: Mapping[str, Any] = field(default_factory=dict)
    file_offset: int = 0
    """How far the file was read that is shown beside the log."""
    result: Mapping[str, Any] | None = None
    acknowledged: bool = False

    def to_json(self) -> str:
        tree = {name: getattr(self, name) for name in _NAMES}
        tree |= {"position": self.position.to_json(), "version": _VERSION}
        return _encode(tree)

    @classmethod
    def from_json(cls, text: str) -> Record:
        """ValueError where it is none of this version."""
        try:
            tree = json.loads(text)
            if tree.pop("version") != _VERSION:
                raise ValueError("another version")
            position = LogPosition.from_json(tree.pop("position"))
            return cls(**{**tree, "phase": Phase(tree["phase"]), "position": position})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no record of a run: {error}") from error


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_NAMES = tuple(one.name for one in fields(Record))


class Journal(Protocol):
    """Records by key. Writes are whole or not at all; `sync` also survives the machine."""

    def read(self, key: str) -> Record | None: ...

    def write(self, record: Record, *, sync: bool = False) -> None: ...

    def remove(self, key: str) -> None: ...

    def records(self) -> Iterator[Record]: ...


class FolderJournal:
    """In a folder of this launcher alone; OSError where it cannot be written.

    Each state of a run is added to its file as a line, and the last whole one counts. Replacing the file at every
    checkpoint would make ext4 write it out each time (auto_da_alloc), 1.5 ms in which no other run is looked after.
    What is over is one line again: it is kept for a while.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read(self, key: str) -> Record | None:
        try:
            lines = self._path(key).read_bytes().split(b"\n")
        except FileNotFoundError:
            return None
        for line in reversed(lines):
            try:
                return Record.from_json(line.decode())
            except ValueError:
                continue  # written by half
        return None

    def write(self, record: Record, *, sync: bool = False) -> None:
        path = self._path(record.key)
        line = record.to_json().encode()
        with path.open("ab") as stream:
            size = stream.tell()
            if size < max(_LONGEST_FILE, _MOST_STATES * len(line)) and not record.acknowledged:
                # The line feed first: what stands before it may have been written by half.
                stream.write(b"\n" + line if size else line)
                if sync:
                    stream.flush()
                    os.fsync(stream.fileno())
                return
        fresh = path.with_suffix(".new")
        with fresh.open("wb") as stream:
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())  # the file that goes may have been synced
        fresh.replace(path)

    def remove(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def records(self) -> Iterator[Record]:
        for path in sorted(self._folder.glob("*.run")):
            found = self.read(path.stem)
            if found is not None:
                yield found

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.run"


class MemoryJournal:
    """For a launcher without a disk, and for tests: what another life finds is the text that was written."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def read(self, key: str) -> Record | None:
        text = self._texts.get(key)
        return Record.from_json(text) if text is not None else None

    def write(self, record: Record, *, sync: bool = False) -> None:  # noqa: ARG002  as the protocol has it
        self._texts[record.key] = record.to_json()

    def remove(self, key: str) -> None:
        self._texts.pop(key, None)

    def records(self) -> Iterator[Record]:
        yield from [Record.from_json(text) for text in self._texts.values()]
