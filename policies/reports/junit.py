"""For CI servers: JUnit XML, a testcase for each policy, so that what was checked and holds is seen too."""

from __future__ import annotations

import re
from collections import defaultdict
from xml.sax.saxutils import escape, quoteattr

from policies.model import Finding
from policies.registry import all_policies
from policies.reports.content import Report

_NAME = "paperclip-gitops"
# What XML 1.0 cannot hold, not even as a reference.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    found: dict[str, list[int]] = defaultdict(list)
    for index, one in enumerate(report.findings):
        found[one.policy].append(index)
    families = {policy.id: policy.family for policy in all_policies()}
    names = sorted({*families, *found})
    failures = sum(any(report.fails(index) for index in found[name]) for name in names)
    skipped = sum(bool(found[name]) and all(report.findings[index].waived for index in found[name]) for name in names)
    counts = f'tests="{len(names)}" failures="{failures}" errors="0"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="{_NAME}" {counts} time="0">',
        f'  <testsuite name="{_NAME} check" {counts} skipped="{skipped}" time="0">',
    ]
    for name in names:
        lines += _case(report, name, families.get(name, "other"), found[name])
    return "\n".join([*lines, "  </testsuite>", "</testsuites>"]) + "\n"


def _case(report: Report, policy: str, family: str, indices: list[int]) -> list[str]:
    head = f'    <testcase name={quoteattr(policy)} classname={quoteattr(f"{_NAME}.{family}")} time="0"'
    if not indices:
        return [f"{head}/>"]
    failing = [index for index in indices if report.fails(index)]
    others = [index for index in indices if not report.findings[index].waived and index not in failing]
    waived = [report.findings[index] for index in indices if report.findings[index].waived]
    body = []
    if failing:
        kinds = {str(report.findings[index].severity) for index in failing}
        message = f"{len(failing)} finding{'s' if len(failing) != 1 else ''}"
        body.append(f'      <failure message="{message}" type="{min(kinds)}">{_told(report, failing)}</failure>')
    elif not others:
        body.append(f"      <skipped message={quoteattr(_legal(f'waived: {waived[0].waived}'))}/>")
    if rest := _told(report, others) + "".join(
        f"waived ({_text(one.waived)}): {_text(_line(one))}\n" for one in waived
    ):
        body.append(f"      <system-out>{rest}</system-out>")
    return [f"{head}>", *body, "    </testcase>"]


def _told(report: Report, indices: list[int]) -> str:
    return "".join(f"{_text(_line(report.findings[index]))}\n" for index in indices)


def _line(one: Finding) -> str:
    place = "  ".join(str(part) for part in (one.object, one.source) if part)
    where = f" {one.pointer}" if one.pointer else ""
    return f"{one.severity} {place}{where}: {one.message}" + (f" (mend: {one.remedy})" if one.remedy else "")


def _text(text: str) -> str:
    return escape(_legal(text))


def _legal(text: str) -> str:
    return _FORBIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
