"""Writes docs/differences.md: `python tests/charts/tables/page.py` from the root of the repo."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from comparison import (
    ENVIRONMENTS,
    NOTHING,
    ROOT,
    Catalogue,
    Deliberate,
    Scope,
    compare_everything,
    dead_entries,
    read_catalogue,
)

from kubekit import pointers

PAGE = ROOT / "docs" / "differences.md"


def page(catalogue: Catalogue) -> str:
    """docs/differences.md."""
    lines = [_HEAD]
    for topic in dict.fromkeys(one.topic for one in catalogue.differences):
        lines += [
            f"\n## {topic}\n",
            "| Where | Field | The tables have | We render | Why |",
            "|---|---|---|---|---|",
        ]
        for entry in catalogue.differences:
            if entry.topic == topic:
                values = (_cell(entry.table, entry, "added"), _cell(entry.ours, entry, "removed"))
                lines.append(_row(_where(entry.scope), _fields(entry.scope), *values, entry.reason))
    lines += [
        "\n## What the tables leave open\n",
        _SILENT,
        "| Where | Field | What is known |",
        "|---|---|---|",
    ]
    lines += [_row(_where(one.scope), _fields(one.scope), one.why) for one in catalogue.silent]
    lines += ["\n## What is not compared\n", "| Subject | Why |", "|---|---|"]
    lines += [_row(one["subject"], one["why"]) for one in catalogue.outside]
    return "\n".join(lines) + "\n"


_HEAD = """\
<!-- Written by tests/charts/tables/page.py from tests/charts/tables/differences.yaml; edit that file. -->

# Where we differ from the real deployment

Two environments describe a Paperclip that really ran: `operating-post` in April 2026, `frank-2026-08` in
August. A test compares every object that we render for them with the tables of that deployment, field by field.
It fails where something differs that is not listed here, and where something listed here differs no more.
`*` stands for any text, `{environment}` for the environment's name. Where no environment is named, both are meant."""
_SILENT = "The real objects have something here, but the tables do not say what. These are not compared further.\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _where(scope: Scope) -> str:
    objects = "<br>".join(f"`{one}`" for one in scope.objects)
    return objects if scope.environments == ENVIRONMENTS else f"{', '.join(scope.environments)}:<br>{objects}"


def _fields(scope: Scope) -> str:
    return "<br>".join(f"`{one}`" if one else "the whole object" for one in scope.pointers)


def _cell(value: Any, entry: Deliberate, without: str) -> str:
    if entry.kind == without:
        return "nothing"
    if value is NOTHING:
        return "the object"
    return "<br>".join(f"`{line}`" for line in _flat(value))


def _flat(value: Any) -> Iterable[str]:
    """One line a field, for people."""
    for pointer, leaf in pointers.walk(value):
        text = leaf if isinstance(leaf, str) else json.dumps(leaf)
        yield f"{'.'.join(pointers.split(pointer))}: {text}" if pointer else text


def main() -> int:
    catalogue = read_catalogue()
    verdicts = compare_everything(catalogue)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(catalogue), encoding="utf-8")
    used = {part for verdict in verdicts.values() for part in verdict.used}
    problems = [problem for verdict in verdicts.values() for problem in verdict.problems]
    print("\n".join([*problems, *dead_entries(catalogue, used)]))
    for environment, verdict in verdicts.items():
        counted = f"{verdict.objects} objects, {verdict.fields} fields, {verdict.differences} differences"
        print(f"{environment}: {counted}")
    print(f"{len(catalogue.differences)} entries; {len(catalogue.silent)} left open")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
