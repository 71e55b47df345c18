"""The instructions of an agent: a file of the server, and the files beside it that it may name."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from paperclip_launcher.skills.walk import Refused, name_problem, names_in, opened, read_file

FOLDER = "instructions"
"""Of the files beside the instructions, in a bundle."""

_LARGEST = 1 << 20
_LARGEST_BESIDE = 256 << 10
_MOST_BESIDE = 32


@dataclass(frozen=True, slots=True)
class Instructions:
    """The text for the agent, and the files that it may name: (name, content), without folders."""

    text: str = field(repr=False)
    files: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)


def read_instructions(path: str, roots: Sequence[str], *, mount: str) -> tuple[Instructions | None, tuple[str, ...]]:
    """The file at `path`, below one of `roots`, with the Markdown files beside it; and notes of what was left out.

    `mount` is where the bundle is in the pod. None where the file cannot be read: the agent then works without.
    """
    path, notes = path.strip(), list[str]()
    try:
        with opened(path, roots, folder=False) as (descriptor, real):
            text = read_file(descriptor, _LARGEST).decode()
    except (Refused, OSError, UnicodeDecodeError) as error:
        reason = "is no UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        return None, (f"the instructions {ascii(path)[1:-1]} are left out: the file {reason}",)
    own = PurePath(real)
    files = _beside(own, roots, notes)
    if files:
        text += (
            f"\n\nThese instructions are the file {own.name}. The files beside it ({', '.join(files)}) are in "
            f"{mount}/{FOLDER}: look there for what is named without a folder.\n"
        )
    return Instructions(text, tuple(files.items())), tuple(notes)


def _beside(own: PurePath, roots: Sequence[str], notes: list[str]) -> dict[str, bytes]:
    """The other Markdown files in the folder of the file `own`, by name."""
    found: dict[str, bytes] = {}
    taken: set[str] = set()
    try:
        with opened(str(own.parent), roots, folder=True) as (folder, _):
            names = [name for name in names_in(folder) if name.lower().endswith(".md") and name != own.name]
    except Refused:
        # The file alone was allowed, its folder is not.
        return {}
    if len(names) > _MOST_BESIDE:
        notes.append(f"of {len(names)} files beside the instructions the first {_MOST_BESIDE} are copied")
    for name in names[:_MOST_BESIDE]:
        twin = unicodedata.normalize("NFC", name).casefold()
        problem = name_problem(name) or ("has the name of another one" if twin in taken else "")
        taken.add(twin)
        try:
            if not problem:
                with opened(str(own.parent / name), roots, folder=False) as (descriptor, _):
                    found[name] = read_file(descriptor, _LARGEST_BESIDE)
        except Refused as reason:
            problem = str(reason)
        if problem:
            notes.append(f"beside the instructions, {ascii(name)[1:-1]} {problem}")
    return found
