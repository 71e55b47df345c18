"""What the cluster says when something is wrong, as tables of rows: its words, our code, and what to do.

A row is tried in its place; the first whose pattern is found in the text wins. The words are those of Kubernetes 1.35:
the admission plugins, the Job controller, the scheduler's filters and the kubelet; older minors differ in wording only
where a pattern allows for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from paperclip_launcher.diagnosed import Diagnosis

_LONGEST = 256
_NOT_PRINTED = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x1f\x7f-\x9f\s]+")
_QUERY = re.compile(r"(https?://)(?:[^\s/@\"]*@)?([^\s?\"]+)\?[^\s\"]*")


class Cause(NamedTuple):
    """`pattern` is searched for, case aside; its named groups may stand in `summary` as {name}."""

    pattern: str
    code: str
    hard: bool
    summary: str
    remedy: str


def diagnosed(table: Iterable[Cause], text: str, **names: str) -> Diagnosis | None:
    """By the first row that fits `text`, None where none does. `names` fill what no group of the row does."""
    for row in table:
        if found := re.search(row.pattern, text, re.IGNORECASE | re.DOTALL):
            groups = names | {key: tidy(value, 120) for key, value in found.groupdict().items() if value}
            return Diagnosis(row.code, row.hard, row.summary.format_map(groups), tidy(text), row.remedy)
    return None


def tidy(text: object, limit: int = _LONGEST) -> str:
    """One printable line of at most `limit` characters; what is too long loses its middle, since errors name their
    place first and their cause last. Of addresses the query and the user go: both may hold credentials.
    """
    line = _NOT_PRINTED.sub(" ", str(text or "")).strip()
    line = _QUERY.sub(r"\1\2", line)
    if len(line) <= limit:
        return line
    head = (limit - 5) * 3 // 5
    return f"{line[:head]} ... {line[head + 5 - limit :]}"
