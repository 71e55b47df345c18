"""For code scanning: SARIF 2.1.0 (OASIS). Every result has a rule, a fingerprint and a line, and nothing is empty."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from policies.model import Finding, Policy, Severity
from policies.registry import by_id
from policies.reports.content import Report

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NAME = "paperclip-gitops"
_ROOT = "%SRCROOT%"
_FINGERPRINT = "paperclipGitops/v1"
_LEVELS: Mapping[Severity, str] = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def render(report: Report) -> str:
    known = by_id()
    used = sorted({one.policy for one in report.findings})
    driver: dict[str, Any] = {"name": _NAME}
    if used:
        driver["rules"] = [_rule(policy, known.get(policy)) for policy in used]
    if report.version:
        driver["version"] = report.version
    results = [_result(report, index, used.index(one.policy)) for index, one in enumerate(report.findings)]
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"{_NAME}/check/"},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(policy_id: str, policy: Policy | None) -> dict[str, Any]:
    if policy is None:
        return {"id": policy_id, "shortDescription": {"text": policy_id}}
    rule: dict[str, Any] = {
        "id": policy_id,
        "shortDescription": {"text": policy.title},
        "fullDescription": {"text": policy.rationale},
        "help": {
            "text": f"{policy.rationale}\n\nTo mend it: {policy.remedy}",
            "markdown": f"{policy.rationale}\n\n**To mend it:** {policy.remedy}\n\n"
            f"`{_NAME} explain {policy_id}` shows examples.",
        },
        "defaultConfiguration": {"level": _LEVELS[policy.severity]},
        "properties": {"tags": ["kubernetes", policy.family]},
    }
    if policy.links:
        rule["helpUri"] = policy.links[0]
    return rule


def _result(report: Report, index: int, rule: int) -> dict[str, Any]:
    one = report.findings[index]
    remedy = f"\nTo mend it: {one.remedy}" if one.remedy else ""
    result: dict[str, Any] = {
        "ruleId": one.policy,
        "ruleIndex": rule,
        "level": _LEVELS[one.severity],
        "message": {"text": f"{one.message}{remedy}"},
        "locations": [_location(one)],
        "partialFingerprints": {_FINGERPRINT: one.fingerprint},
    }
    if one.waived:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": one.waived}]
    if report.baseline is not None:
        result["baselineState"] = "unchanged" if report.is_known(index) else "new"
    return result


def _location(one: Finding) -> dict[str, Any]:
    source = one.source
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": _artifact(source.file if source else ""),
            "region": {"startLine": max(source.line if source else 1, 1)},
        }
    }
    if one.object is not None:
        name = f"{one.object}{one.pointer}"
        location["logicalLocations"] = [{"fullyQualifiedName": name, "kind": "object"}]
    return location


def _artifact(file: str) -> dict[str, Any]:
    """A path of the repository, relative to its root; an absolute one as it is."""
    path = PurePath(file or "unknown")
    # Bytes that are no UTF-8 have been written out by then, so that this quotes any name.
    uri = quote(path.as_posix())
    return {"uri": f"file://{uri}"} if path.is_absolute() else {"uri": uri, "uriBaseId": _ROOT}
