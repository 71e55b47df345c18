"""For GitHub Actions: workflow commands that become annotations at the lines of the files."""

from __future__ import annotations

from policies.model import Finding, Severity
from policies.reports.content import Report

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(report: Report) -> str:
    """Errors first: GitHub shows ten of each kind. Waived findings are counted in the last line."""
    lines = [_annotation(one) for _, one in report.by_severity()]
    return "\n".join([*lines, f"::notice title=paperclip-gitops::{_message(report.told())}"]) + "\n"


def _annotation(one: Finding) -> str:
    properties: dict[str, str] = {}
    if one.source is not None and one.source.file:
        properties = {"file": one.source.file, "line": str(max(one.source.line, 1))}
    properties["title"] = one.policy
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    where = " ".join(part for part in (str(one.object or ""), one.pointer) if part)
    text = f"{where}: {one.message}" if where else one.message
    text += f"\nTo mend it: {one.remedy}" if one.remedy else ""
    return f"::{_COMMANDS[one.severity]} {told}::{_message(text)}"


def _message(text: str) -> str:
    """As @actions/core escapes data: a line feed would end the command, and what follows could be another one."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
