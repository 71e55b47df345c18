"""Who reads the log of a run here: the screen, a pipe, or a file that a restarted program goes on with exactly."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import NoReturn

from paperclip_launcher.cli.printing import Printer, coloured, write_all
from paperclip_launcher.cli.usage import UsageError
from paperclip_launcher.dialects.formatting import terminal_line

_RESUME = ".resume"


class Notes:
    """What the launcher says of the run, on stderr: warnings always, how it goes where a person looks."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self.failure: OSError | None = None
        """Why the log can be written no further."""

    async def note(self, kind: str, text: str) -> None:
        if kind == "warning":
            self._printer.note(f"warning: {text}", "warning")
        elif self._printer.watched:
            self._printer.note(text, "quiet")

    def close(self) -> None:
        """Nobody reads any more."""

    async def _give_up(self, error: OSError) -> NoReturn:
        """The run is detached from: without its log, its result must not be taken for read."""
        self.failure = None if isinstance(error, BrokenPipeError) else error
        self._printer.gone.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets this event: the program ends meanwhile")


class Silence(Notes):
    """A services.Sink for somebody who wants a run to end, and not to read it."""

    offset: int | None = None

    async def log(self, data: bytes, offset: int) -> None:
        """Is left out."""

    def finish(self) -> None:
        """There is nothing to finish."""


class Screen(Notes):
    """A services.Sink on stdout: the agent's bytes as they are, or for people (`pretty`) as readable lines.

    Where stdout had got to in an earlier life is not known, so that a second of the log may come twice.
    """

    def __init__(self, printer: Printer, *, pretty: bool, offset: int | None = None) -> None:
        super().__init__(printer)
        self.offset = offset
        self._pretty = pretty

    async def log(self, data: bytes, offset: int) -> None:
        try:
            await self._printer.write(pretty_lines(data) if self._pretty else data)
        except OSError as error:
            await self._give_up(error)
        if self.offset is not None:
            self.offset = offset

    def finish(self) -> None:
        """All has been written."""


def pretty_lines(data: bytes) -> bytes:
    """Whole lines of an agent, for a terminal."""
    colour = coloured(sys.stdout)
    lines = data.decode("utf-8", "replace").split("\n")[:-1]
    shown = [line for line in (terminal_line(one, colour=colour) for one in lines) if line is not None]
    return "".join(f"{line}\n" for line in shown).encode("utf-8", "replace")


class LogFile(Notes):
    """A services.Sink that appends to a file. Its size is how much of the log is had, so that a program that was killed
    goes on to the byte.

    Where secrets were masked, the log and the file differ in length. That stands in a second file beside it,
    FILE.resume, which also says which run the first is of, and goes when the result is safe. Its lines: the run's id as
    JSON, then "SIZE OFFSET exact" for a place from which both go on alike, "SIZE OFFSET masked" where they do not.
    """

    def __init__(self, printer: Printer, path: Path, run_id: str, *, known: bool) -> None:
        """`known`: an earlier life of this launcher has begun the run. UsageError, OSError."""
        super().__init__(printer)
        self._path = path
        self._beside = path.with_name(path.name + _RESUME)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path} is no file that could be gone on with", "name a file, or take stdout")
        self._size = found.st_size
        self._resume = os.open(self._beside, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.offset: int | None = self._begin(run_id, known=known)

    def _begin(self, run_id: str, *, known: bool) -> int:
        """How much of the log an earlier life has written; what it had not finished is taken away."""
        lines = os.pread(self._resume, os.fstat(self._resume).st_size, 0).split(b"\n")[:-1]
        if not lines:
            if self._size and not known:
                raise UsageError(f"{self._path} holds something else already", "name another file, or remove it")
            os.ftruncate(self._resume, 0)
            write_all(self._resume, f"{json.dumps(run_id)}\n".encode())
            return self._size
        if lines[0].decode(errors="replace") != json.dumps(run_id):
            raise UsageError(f"{self._path} is the log of run {lines[0].decode(errors='replace')}", "name another file")
        whole, mark = len(lines[0]) + 1, (0, 0, b"exact")
        for line in lines[1:]:
            size, offset, kind = line.split()
            if int(size) > self._size:
                break
            mark, whole = (int(size), int(offset), kind), whole + len(line) + 1
        os.ftruncate(self._resume, whole)
        if mark[2] == b"masked":
            os.ftruncate(self._file, mark[0])
            self._size = mark[0]
        return mark[1] + self._size - mark[0]

    async def log(self, data: bytes, offset: int) -> None:
        try:
            self._append(data, self.offset or 0, offset)
        except OSError as error:
            await self._give_up(error)

    def _append(self, data: bytes, begin: int, offset: int) -> None:
        masked = len(data) != offset - begin
        if masked:
            self._mark(begin, "masked")
        write_all(self._file, data)
        self._size += len(data)
        self.offset = offset
        if masked:
            self._mark(offset, "exact")

    def _mark(self, offset: int, kind: str) -> None:
        write_all(self._resume, f"{self._size} {offset} {kind}\n".encode())

    def finish(self) -> None:
        """All has been written, and survives the machine."""
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)
        os.close(self._resume)

    def forget(self) -> None:
        """The result is safe: there is nothing left to go on with."""
        self._beside.unlink(missing_ok=True)
