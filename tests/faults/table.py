"""What `make faults` prints: a figure a line, as it was found, with its aim and whether that is met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

_HEAD = ("figure", "found", "aim", "")
_SHOWN = 3
"""Items of a list; the rest is counted."""


@dataclass(frozen=True)
class Figure:
    """`name` of what was measured, by `scenario`; `measured` and `target` as people read them."""

    scenario: str
    name: str
    measured: str
    target: str
    ok: bool


def at_most(scenario: str, name: str, value: float, limit: float, unit: str = "") -> Figure:
    return Figure(scenario, name, _shown(value, unit), f"<= {_shown(limit, unit)}", value <= limit)


def at_least(scenario: str, name: str, value: float, limit: float, unit: str = "") -> Figure:
    return Figure(scenario, name, _shown(value, unit), f">= {_shown(limit, unit)}", value >= limit)


def exactly(scenario: str, name: str, value: object, wanted: object) -> Figure:
    return Figure(scenario, name, _text(value), _text(wanted), value == wanted)


def _shown(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def _text(value: object) -> str:
    """Words without quotes, `none` for nothing, and of a long list its beginning and its length."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return " / ".join(map(_text, value))
    if isinstance(value, list):
        more = f", and {len(value) - _SHOWN:,} more" if len(value) > _SHOWN else ""
        return ", ".join(map(_text, islice(value, _SHOWN))) + more or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_text(one)}" for key, one in value.items()) or "none"
    return str(value) or "none"


def lines(figures: Iterable[Figure]) -> Iterable[str]:
    """One scenario's, below their heads."""
    found = list(figures)
    rows: Sequence[Sequence[str]] = [_HEAD, *((one.name, one.measured, one.target, _verdict(one)) for one in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _verdict(one: Figure) -> str:
    if not one.ok:
        return "MISSED"
    return "ok" if one.target else ""
