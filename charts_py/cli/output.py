"""The one place that prints: stdout is the product, stderr the talk."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TextIO

from charts_py.errors import GitopsError

_COLOURS = {"error": "31", "warning": "33", "good": "32", "quiet": "2"}


class Output:
    """`format` is what the user asked for; colour only where a person looks (NO_COLOR and FORCE_COLOR are heeded)."""

    def __init__(
        self,
        format: Literal["text", "json"] = "text",  # noqa: A002  the flag's own name
        *,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.format = format
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr

    def product(self, text: str, style: str = "") -> None:
        text = self.styled(text, style, self._stdout)
        self._stdout.write(text if text.endswith("\n") else text + "\n")

    def data(self, document: Mapping[str, Any]) -> None:
        """Machine output; nothing in text format."""
        if self.format == "json":
            self._stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def note(self, text: str, style: str = "") -> None:
        self._stderr.write(self.styled(text, style, self._stderr) + "\n")

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Aligned columns on stdout, the last one as long as it is."""
        if not rows:
            return
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            self._stdout.write("  ".join([*cells, row[-1]]).rstrip() + "\n")

    def failure(self, error: GitopsError) -> None:
        """What is wrong and how to mend it; the trace only where it was asked for."""
        if self.format == "json":
            self.data(
                {
                    "apiVersion": "paperclip-gitops/v1",
                    "kind": "Error",
                    "message": error.message,
                    "remedy": error.remedy,
                }
            )
        self.note(f"error: {error.message}", "error")
        if error.remedy:
            self.note(f"  mend: {error.remedy}")

    @staticmethod
    def styled(text: str, style: str, stream: TextIO) -> str:
        code = _COLOURS.get(style)
        if not code or not _coloured(stream):
            return text
        return f"\033[{code}m{text}\033[0m"


def _coloured(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()
