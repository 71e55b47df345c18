"""What every report says, before it has a form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from policies.model import Finding, Severity

SEVERITIES = tuple(Severity)
"""The worst first."""


@dataclass(frozen=True)
class Baseline:
    """An earlier report. `known` are places in the list of findings that it had; `fixed` are findings now gone."""

    file: str
    known: frozenset[int]
    fixed: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Report:
    """Findings in their order and what they were found in.

    `failing` are the severities that make the check fail; `kubeconform` says whether it ran, and from where.
    """

    findings: tuple[Finding, ...]
    objects: int = 0
    kubeconform: str = "not run"
    failing: frozenset[Severity] = frozenset({Severity.ERROR})
    baseline: Baseline | None = None
    version: str = ""
    summary: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "summary", count(self.findings))

    def is_known(self, index: int) -> bool:
        """Whether the baseline had this finding already."""
        return self.baseline is not None and index in self.baseline.known

    def fails(self, index: int) -> bool:
        one = self.findings[index]
        return not one.waived and one.severity in self.failing and not self.is_known(index)

    @property
    def failed(self) -> bool:
        return any(self.fails(index) for index in range(len(self.findings)))

    @property
    def new(self) -> int:
        """Open findings that the baseline did not have."""
        return sum(not one.waived and not self.is_known(index) for index, one in enumerate(self.findings))

    def by_severity(self) -> Iterator[tuple[int, Finding]]:
        """Open findings, the worst first: readers with a limit show those that matter."""
        for severity in SEVERITIES:
            for index, one in enumerate(self.findings):
                if one.severity is severity and not one.waived:
                    yield index, one

    def told(self) -> str:
        """The counts in one line."""
        parts = [f"{self.summary[key]} {key}" for key in ("error", "warning")]
        parts += [f"{self.summary['info']} info"] if self.summary["info"] else []
        plural = "s" if self.objects != 1 else ""
        line = f"{self.objects} object{plural}: {', '.join(parts)}, {self.summary['waived']} waived"
        return line if self.baseline is None else f"{line}; {self.new} new, {len(self.baseline.fixed)} fixed"


def count(findings: Iterable[Finding]) -> dict[str, int]:
    """Counts by severity, and of the waived."""
    counts = Counter("waived" if one.waived else str(one.severity) for one in findings)
    return {key: counts[key] for key in (*map(str, Severity), "waived")}


def compare(findings: Sequence[Finding], document: Any, file: str) -> Baseline:
    """Findings against an earlier report in JSON. Raises ValueError for what is none.

    A waived finding of the baseline was not open then: without its waiver it is new.
    """
    if (
        not isinstance(document, dict)
        or document.get("kind") != "Report"
        or not isinstance(document.get("findings"), list)
    ):
        raise ValueError("is no report of `paperclip-gitops check --format json`")
    before = [one for one in document["findings"] if isinstance(one, dict) and isinstance(one.get("fingerprint"), str)]
    if len(before) != len(document["findings"]):
        raise ValueError("holds findings without fingerprints")
    left = Counter(one["fingerprint"] for one in before if not one.get("waived"))
    known: set[int] = set()
    for index, one in enumerate(findings):
        if not one.waived and left[one.fingerprint] > 0:
            left[one.fingerprint] -= 1
            known.add(index)
    # One that is waived by now is not mended.
    left -= Counter(one.fingerprint for one in findings if one.waived)
    fixed = []
    for finding in before:
        if not finding.get("waived") and left[finding["fingerprint"]] > 0:
            left[finding["fingerprint"]] -= 1
            fixed.append(finding)
    return Baseline(file, frozenset(known), tuple(fixed))


def written(identity: Any) -> str:
    """Kind namespace/name of an object in a report's JSON; "" for none."""
    if not isinstance(identity, dict):
        return ""
    place = "/".join(str(identity.get(key)) for key in ("namespace", "name") if identity.get(key))
    return f"{identity.get('kind')} {place}".strip()


def visible(text: str) -> str:
    """`text` on one line, what cannot be seen written out: a name from a manifest steers no terminal and no log."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
