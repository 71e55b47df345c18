"""A Dockerfile as instructions: as much of the format as ours use.

The reference of the format: docs.docker.com/reference/dockerfile. Here-documents and the escape directive are not read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """`flags` are the --name=value before the `text`; `stage` counts FROM, 0 is before the first one."""

    name: str
    text: str
    flags: dict[str, str]
    stage: int

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)


def read(path: Path) -> list[Instruction]:
    """Raises ValueError for what is no instruction of ours."""
    stage = 0
    found = []
    for line in _lines(path.read_text()):
        name, _, rest = line.partition(" ")
        if not re.fullmatch(r"ARG|CMD|COPY|ENTRYPOINT|ENV|FROM|LABEL|RUN|USER|WORKDIR|ADD", name):
            raise ValueError(f"{path}: {name!r} is no instruction that is read here")
        stage += name == "FROM"
        flags = {}
        while match := re.match(r"\s*--([a-z-]+)=(\S+)\s+", rest):
            flags[match[1]] = match[2]
            rest = rest[match.end() :]
        found.append(Instruction(name, rest.strip(), flags, stage))
    return found


def _lines(text: str) -> Iterator[str]:
    """Without comments; a line that ends in a backslash goes on."""
    whole = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not line.strip():
            continue
        whole += line.strip().removesuffix("\\").rstrip() + " "
        if not line.rstrip().endswith("\\"):
            yield whole.strip()
            whole = ""
    if whole:
        yield whole.strip()
