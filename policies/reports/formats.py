"""The formats by name. Each module is imported when its format is asked for."""

from __future__ import annotations

from importlib import import_module

from policies.reports.content import Report

FORMATS = ("text", "json", "sarif", "junit", "github", "markdown")
SMALLEST = 1_000
"""Bytes that a markdown report must be given: its head and its last line always fit."""
# The body of a comment on GitHub takes 65,536 characters.
USUAL = 65_000


def render(report: Report, name: str, *, max_bytes: int = USUAL) -> str:
    """The report in the format `name`, ending in a line feed. `max_bytes` (UTF-8) bounds markdown alone."""
    if name == "markdown":
        from policies.reports import markdown  # noqa: PLC0415  only the format that is asked for

        return markdown.render(report, max_bytes)
    # "json" would hide the module of the standard library from its neighbours.
    module = import_module(f"policies.reports.{'document' if name == 'json' else name}")
    text: str = module.render(report)
    return text
