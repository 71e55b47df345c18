"""For people at a terminal: by object, each finding with the way to mend it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from policies.model import Finding
from policies.reports.content import Report, visible, written


def render(report: Report) -> str:
    """All lines without colour, and the counts."""
    return "".join(f"{line}\n" for line, _ in (*lines(report), (report.told(), "")))


def lines(report: Report) -> Iterator[tuple[str, str]]:
    """(line, style); styles are those of severities, "good" and "quiet"."""
    opened = [one for index, one in enumerate(report.findings) if not one.waived and not report.is_known(index)]
    for where, group in groupby(opened, key=_where):
        yield visible(where), ""
        for one in group:
            place = f"{one.pointer}: " if one.pointer else ""
            yield visible(f"  {one.severity} {one.policy}: {place}{one.message}"), str(one.severity)
            if one.remedy:
                yield visible(f"    mend: {one.remedy}"), ""
    known = Counter(one.policy for index, one in enumerate(report.findings) if report.is_known(index))
    for policy, count in sorted(known.items()):
        yield f"known: {count} of {policy}", "quiet"
    for gone in report.baseline.fixed if report.baseline else ():
        yield (
            visible(f"fixed: {gone.get('policy')}  {written(gone.get('object'))} {gone.get('pointer')}".rstrip()),
            "good",
        )
    waived = Counter((one.policy, one.waived) for one in report.findings if one.waived)
    for (policy, reason), count in sorted(waived.items()):
        yield visible(f"waived: {count} of {policy} ({reason})"), "quiet"


def _where(finding: Finding) -> str:
    return "  ".join(str(part) for part in (finding.object, finding.source) if part) or finding.policy
