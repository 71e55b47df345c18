"""What `make faults` prints: a figure a line, with its target, whether it is met, and how to play it again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def lines(figures: Iterable[Figure]) -> Iterable[str]:
    found = list(figures)
    widths = [max(len(getattr(one, column)) for one in found) for column in ("scenario", "name", "measured", "target")]
    for one in found:
        cells = (one.scenario, one.name, one.measured, one.target)
        row = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield f"{row}  {'ok' if one.ok else 'MISSED'}"
