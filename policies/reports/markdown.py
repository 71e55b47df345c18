"""For comments and job summaries: a table that keeps to a number of bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from policies.model import Finding
from policies.reports.content import Report, visible, written

# What means something to Markdown or to GitHub; a name must neither format nor notify.
_SPECIAL = re.compile(r"[\\`*_\[\]<>|#~&@!]")
_HEAD = "| | policy | object | where | what is wrong, and how to mend it |\n|---|---|---|---|---|\n"


def render(report: Report, max_bytes: int) -> str:
    """At most `max_bytes` of UTF-8; whole rows only, and what is left out is counted. At least 1,000 are needed."""
    rows = [_row(one, "known" if report.is_known(index) else str(one.severity)) for index, one in report.by_severity()]
    rows += [_fixed(one) for one in (report.baseline.fixed if report.baseline else ())]
    rows += [_row(one, "waived") for one in report.findings if one.waived]
    title = f"### paperclip-gitops: {_escaped(report.told())}\n"
    if not rows:
        return f"{title}\nNo findings.\n"
    text = f"{title}\n{_HEAD}"
    size = len(text.encode())
    sizes = [len(row.encode()) for row in rows]
    if size + sum(sizes) <= max_bytes:
        return text + "".join(rows)
    room = max_bytes - size - len(_left_out(len(rows), max_bytes).encode())
    kept = 0
    while kept < len(rows) and sizes[kept] <= room:
        room -= sizes[kept]
        kept += 1
    return text + "".join(rows[:kept]) + _left_out(len(rows) - kept, max_bytes)


def _left_out(count: int, max_bytes: int) -> str:
    return f"\n{count:,} more are left out: this report may have {max_bytes:,} bytes.\n"


def _row(one: Finding, state: str) -> str:
    what = one.message + (f" Mend: {one.remedy}" if one.remedy else "")
    if one.waived:
        what = f"{one.message} (waived: {one.waived})"
    place = f"{one.source.file}:{one.source.line}" if one.source and one.source.line else ""
    place = place or (one.source.file if one.source else "")
    where = " ".join(part for part in (place, one.pointer) if part)
    return _cells(state, one.policy, str(one.object or ""), where, what)


def _fixed(one: Mapping[str, Any]) -> str:
    return _cells("fixed", one.get("policy"), written(one.get("object")), one.get("pointer"), one.get("message"))


def _cells(*cells: object) -> str:
    return "| " + " | ".join(_escaped(str(cell or "")) for cell in cells) + " |\n"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", visible(text))
