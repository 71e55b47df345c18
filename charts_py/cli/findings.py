"""How findings are shown: by object, the waived ones too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from charts_py.cli.output import Output
    from policies.model import Finding


def show(findings: Sequence[Finding], output: Output) -> None:
    """On stderr: open findings in full, waived ones as one line each reason."""
    for where, group in groupby((one for one in findings if not one.waived), key=_where):
        output.note(where)
        for one in group:
            output.note(
                f"  {one.severity} {one.policy}: {one.pointer + ': ' if one.pointer else ''}{one.message}",
                str(one.severity),
            )
            if one.remedy:
                output.note(f"    mend: {one.remedy}")
    waived = [one for one in findings if one.waived]
    for (policy, reason), same in groupby(sorted(waived, key=_reason), key=_reason):
        group_of = list(same)
        output.note(f"waived: {len(group_of)} of {policy} ({reason})", "quiet")


def report(findings: Sequence[Finding], summary: dict[str, int]) -> dict[str, Any]:
    """The JSON of a report."""
    return {
        "apiVersion": "paperclip-gitops/v1",
        "kind": "Report",
        "findings": list(_as_data(findings)),
        "summary": summary,
    }


def _as_data(findings: Iterable[Finding]) -> Iterable[dict[str, Any]]:
    for one in findings:
        identity = one.object
        yield {
            "policy": one.policy,
            "severity": str(one.severity),
            "object": None
            if identity is None
            else {
                "apiVersion": identity.api_version,
                "kind": identity.kind,
                "namespace": identity.namespace,
                "name": identity.name,
            },
            "pointer": one.pointer,
            "message": one.message,
            "remedy": one.remedy,
            "source": None
            if one.source is None
            else {"file": one.source.file, "line": one.source.line, "construct": one.source.construct},
            "fingerprint": one.fingerprint,
            "waived": one.waived,
        }


def _where(finding: Finding) -> str:
    return "  ".join(str(part) for part in (finding.object, finding.source) if part) or finding.policy


def _reason(finding: Finding) -> tuple[str, str]:
    return (finding.policy, finding.waived)
