"""The changes as text for people and as JSON for programs. Pure: nothing is printed here."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from charts_py.diff.compare import FieldChange
from charts_py.diff.mask import SHOWN, Masked
from charts_py.diff.objects import ObjectChange
from charts_py.diff.verdict import RISKS, worst

_VALUE_CHARACTERS = 200
_TEXT_LINES = 40
_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}


def summary(changes: Sequence[ObjectChange]) -> str:
    """One line: 3 changed, 1 added, 0 removed; worst: data loss."""
    counts = {happened: sum(change.happened == happened for change in changes) for happened in _SIGNS}
    moved = f", {counts['moved']} moved" if counts["moved"] else ""
    risk = worst(change.risk for change in changes)
    ending = f"; worst: {risk}" if risk else ""
    return f"{counts['changed']} changed, {counts['added']} added, {counts['removed']} removed{moved}{ending}"


def text(changes: Sequence[ObjectChange], *, limit_bytes: int = 0) -> str:
    """By environment and object; the last line is the summary, whatever `limit_bytes` (0: none) cuts off."""
    lines = list(_lines(changes))
    last = summary(changes)
    if limit_bytes:
        lines = _cut(lines, limit_bytes - len(last.encode()) - 1)
    return "".join(f"{line}\n" for line in (*lines, last))


def document(changes: Sequence[ObjectChange], against: str) -> dict[str, Any]:
    """`kind: Diff`; secrets are "***"."""
    return {
        "apiVersion": "paperclip-gitops/v1",
        "kind": "Diff",
        "against": against,
        "summary": {
            **{happened: sum(change.happened == happened for change in changes) for happened in _SIGNS},
            "worst": worst(change.risk for change in changes),
        },
        "changes": [_change(change) for change in changes],
    }


def _change(change: ObjectChange) -> dict[str, Any]:
    identity = change.identity
    return {
        "environment": change.environment,
        "change": change.happened,
        "apiVersion": identity.api_version,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "path": change.path,
        "oldPath": change.old_path,
        "risk": change.risk,
        "reasons": [
            {"risk": verdict.risk, "reason": verdict.why, "pointer": verdict.pointer} for verdict in change.verdicts
        ],
        "fields": [
            {
                "pointer": field.pointer,
                "names": list(field.names),
                "change": field.change,
                "old": _shown(field.old),
                "new": _shown(field.new),
                "risk": change.risk_of(field),
            }
            for field in change.fields
        ],
    }


def _lines(changes: Sequence[ObjectChange]) -> Iterator[str]:
    for environment, group in groupby(changes, key=lambda change: change.environment):
        yield _safe(environment) or "(no environment)"
        for change in group:
            yield from _object_lines(change)


def _object_lines(change: ObjectChange) -> Iterator[str]:
    path = f"{change.old_path} → {change.path}" if change.old_path else change.path
    name = _safe(str(change.identity))
    head = f"{_SIGNS[change.happened]} {name}" + ("" if name.endswith(path) else f"  ({_safe(path)})")
    yield f"  {head}" + (f"  [{change.risk}]" if change.risk else "")
    for field in change.fields:
        yield from _field_lines(field, change.risk_of(field))
    ranked = sorted(change.verdicts, key=lambda verdict: -RISKS.index(verdict.risk))
    yield from dict.fromkeys(f"      ! {verdict.risk}: {verdict.why}" for verdict in ranked)


def _field_lines(field: FieldChange, risk: str) -> Iterator[str]:
    names = f" [{'/'.join(map(_safe, field.names))}]" if field.names else ""
    where = f"      {_safe(field.pointer) or '/'}{names}"
    ending = f"  [{risk}]" if risk else ""
    if field.change == "reordered":
        yield f"{where}: same items in another order{ending}"
    elif field.change == "added":
        yield f"{where}: added {_value(field.new)}{ending}"
    elif field.change == "removed":
        yield f"{where}: removed {_value(field.old)}{ending}"
    elif isinstance(field.old, str) and isinstance(field.new, str) and "\n" in field.old + field.new:
        yield f"{where}: text changed{ending}"
        yield from _text_lines(field.old, field.new)
    else:
        both = isinstance(field.old, Masked) and isinstance(field.new, Masked)
        yield f"{where}: {_value(field.old)} → {_value(field.new)}{' (changed)' if both else ''}{ending}"


def _text_lines(old: str, new: str) -> Iterator[str]:
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1))[2:]
    for line in lines[:_TEXT_LINES] or ["only line ends differ"]:
        yield f"        {_safe(line)[:_VALUE_CHARACTERS]}"
    if len(lines) > _TEXT_LINES:
        yield f"        … {len(lines) - _TEXT_LINES} more lines"


def _value(value: Any) -> str:
    if isinstance(value, Masked):
        return SHOWN
    shown = _safe(json.dumps(_shown(value), ensure_ascii=False))
    if len(shown) > _VALUE_CHARACTERS:
        return f"{shown[:_VALUE_CHARACTERS]}… ({len(shown) - _VALUE_CHARACTERS} more characters)"
    return shown


def _shown(value: Any) -> Any:
    """The tree as it may be seen."""
    if isinstance(value, Masked):
        return SHOWN
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, list) else value


def _safe(shown: str) -> str:
    """Nothing that a terminal would obey: escape sequences, marks that turn the direction of the text."""
    if shown.isprintable():
        return shown
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in shown)


def _cut(lines: Sequence[str], room: int) -> list[str]:
    """As many whole lines as fit, and one that says how many did not."""
    if sum(len(line.encode()) + 1 for line in lines) <= room:
        return list(lines)
    kept: list[str] = []
    room -= len(_rest(len(lines)).encode()) + 1
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    return [*kept, _rest(len(lines) - len(kept))]


def _rest(count: int) -> str:
    return f"… {count} more lines (--limit-bytes)"
