"""The one place that prints: stdout is the product, stderr the talk. Everything is masked here."""

from __future__ import annotations

import json
import os
import select
import stat
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from paperclip_launcher.errors import ConfigInvalid, LauncherError
from paperclip_launcher.masking import Mask

if TYPE_CHECKING:
    import asyncio

API_VERSION = "paperclip-launcher/v1"
_COLOURS = {"error": "31", "warning": "33", "good": "32", "quiet": "2"}
_PIECE = 4096
"""Bytes: a pipe that is ready takes so many without making the writer wait."""


class Printer:
    """`format` is what the user asked for; colour only where a person looks (NO_COLOR and FORCE_COLOR are heeded)."""

    def __init__(self, format: Literal["text", "json"] = "text") -> None:  # noqa: A002  the flag's own name
        self.format = format
        self.mask = Mask()

    @cached_property
    def gone(self) -> asyncio.Event:
        """The reader of stdout has left."""
        from asyncio import Event  # noqa: PLC0415  40 ms that a help text need not cost

        return Event()

    @property
    def interactive(self) -> bool:
        """Whether a person looks at stdout."""
        return sys.stdout.isatty()

    @property
    def watched(self) -> bool:
        """Whether a person looks at stderr, and wants to know how it goes."""
        return sys.stderr.isatty()

    def product(self, text: str, style: str = "") -> None:
        text = self.styled(self.mask.text(text), style, sys.stdout)
        sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def data(self, kind: str, **fields: Any) -> None:
        """Machine output; nothing in text format."""
        if self.format == "json":
            tree = {"apiVersion": API_VERSION, "kind": kind, **self.mask.tree(fields)}
            sys.stdout.write(json.dumps(tree, indent=2, ensure_ascii=False) + "\n")

    def line(self, kind: str, **fields: Any) -> None:
        """Machine output on one line, such as can follow a log."""
        tree = {"apiVersion": API_VERSION, "kind": kind, **self.mask.tree(fields)}
        sys.stdout.write(json.dumps(tree, ensure_ascii=False) + "\n")

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Aligned columns on stdout, the last one as long as it is."""
        if not rows:
            return
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            self.product("  ".join([*cells, row[-1]]).rstrip())

    def note(self, text: str, style: str = "") -> None:
        sys.stderr.write(self.styled(self.mask.text(text), style, sys.stderr) + "\n")
        sys.stderr.flush()

    def failure(self, error: LauncherError) -> None:
        """What is wrong, where, and how to mend it."""
        problems = list(error.problems) if isinstance(error, ConfigInvalid) else [str(error)]
        code = error.code if isinstance(error, ConfigInvalid) else ""
        self.data("Error", code=code, problems=problems, remedy=error.remedy)
        for problem in problems:
            self.note(f"error: {problem}", "error")
        if error.remedy:
            self.note(f"  mend: {error.remedy}")

    @staticmethod
    def flush() -> None:
        sys.stdout.flush()

    def trace(self) -> None:
        """Of the error that is being handled, for --debug."""
        self.note(traceback.format_exc().rstrip())

    async def write(self, data: bytes) -> None:
        """Bytes for stdout, at its reader's pace and without holding up anything else. BrokenPipeError."""
        sys.stdout.flush()
        descriptor = sys.stdout.fileno()
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            write_all(descriptor, data)
            return
        view = memoryview(data)
        while view:
            if not _ready(descriptor):
                await _writable(descriptor)
            view = view[os.write(descriptor, view[:_PIECE]) :]

    @staticmethod
    def styled(text: str, style: str, stream: Any) -> str:
        code = _COLOURS.get(style)
        return f"\033[{code}m{text}\033[0m" if code and coloured(stream) else text


def coloured(stream: Any) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or bool(stream.isatty())


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def summary(fields: Mapping[str, str]) -> str:
    """`a 1, b 2` of what is known."""
    return ", ".join(f"{name} {value}".strip() for name, value in fields.items() if value)


def _ready(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


async def _writable(descriptor: int) -> None:
    import asyncio  # noqa: PLC0415  as above

    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)
