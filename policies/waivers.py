"""Waivers: findings that somebody has decided to live with, for a while, with a reason.

They stand in one file and never in the manifests. A waived finding is shown and counted, never hidden; a waiver that
has expired, or that covers nothing any more, is a finding itself.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubekit.yamlread import Document, YamlProblem, read
from policies.model import Finding, Severity, Source
from policies.registry import all_policies
from policies.run import ordered

MAXIMUM_DAYS = 180
_FIELDS = ("policy", "object", "containing", "reason", "owner", "expires")
_REQUIRED = ("policy", "object", "reason", "owner", "expires")


class WaiverError(ValueError):
    """The file cannot be read; each line of the text is one problem with its place."""


@dataclass(frozen=True)
class Waiver:
    """`object` is Kind/namespace/name, or Kind/name; `containing` narrows it to messages with that text."""

    policy: str
    object: str
    containing: str
    reason: str
    owner: str
    expires: datetime.date
    line: int

    def covers(self, finding: Finding) -> bool:
        if finding.policy != self.policy or finding.object is None or self.containing not in finding.message:
            return False
        one = finding.object
        return self.object == "/".join(part for part in (one.kind, one.namespace, one.name) if part)


@dataclass(frozen=True)
class Waivers:
    """All of one file. `sha256` is that of its bytes, "" for no file."""

    file: str = ""
    entries: tuple[Waiver, ...] = ()
    sha256: str = ""


def load(path: Path) -> Waivers:
    """Reads the file; none is no waivers. Raises WaiverError with every problem."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Waivers(str(path))
    try:
        document = read(raw, str(path))
    except YamlProblem as problem:
        raise WaiverError(f"{problem}\n    {problem.remedy}") from None
    problems: list[str] = []
    entries = tuple(_parse(document, str(path), problems))
    if problems:
        raise WaiverError("\n".join(problems))
    return Waivers(str(path), entries, hashlib.sha256(raw).hexdigest())


def apply(findings: Sequence[Finding], waivers: Waivers, today: datetime.date) -> list[Finding]:
    """The findings with their waivers, and findings about the waivers themselves."""
    used: set[int] = set()
    result = []
    for finding in findings:
        covering = [waiver for waiver in waivers.entries if waiver.covers(finding)]
        used.update(waiver.line for waiver in covering)
        alive = [waiver for waiver in covering if waiver.expires >= today and _waivable(waiver.policy)]
        result.append(finding.with_waiver(alive[0].reason) if alive else finding)
    result += [
        _about(waiver, waivers.file, text) for waiver in waivers.entries for text in _faults(waiver, today, used)
    ]
    return ordered(result)


def _faults(waiver: Waiver, today: datetime.date, used: set[int]) -> Iterable[str]:
    if waiver.expires < today:
        yield f"the waiver of {waiver.policy} for {waiver.object} expired on {waiver.expires}"
    elif waiver.expires > today + datetime.timedelta(days=MAXIMUM_DAYS):
        named = f"the waiver of {waiver.policy} for {waiver.object}"
        yield f"{named} runs until {waiver.expires}: at most {MAXIMUM_DAYS} days"
    if not _waivable(waiver.policy):
        yield f"{waiver.policy} cannot be waived"
    elif waiver.line not in used:
        yield f"the waiver of {waiver.policy} for {waiver.object} covers nothing any more"


def _about(waiver: Waiver, file: str, message: str) -> Finding:
    return Finding(
        "waiver-live",
        Severity.ERROR,
        None,
        "",
        message,
        "renew it with a reason, or remove it",
        Source(file, waiver.line),
    )


def _waivable(policy_id: str) -> bool:
    return all(policy.waivable for policy in all_policies() if policy.id == policy_id)


def _parse(document: Document, file: str, problems: list[str]) -> Iterable[Waiver]:
    value = document.value
    entries = value.get("waivers") if isinstance(value, Mapping) else None
    if not isinstance(entries, list) or set(value) - {"waivers"}:
        problems.append(f"{file}:1:1: must be a mapping with the one key `waivers`, a list")
        return
    for index, entry in enumerate(entries):
        position = document.positions[f"/waivers/{index}"]
        place = f"{file}:{position.line}:{position.column}"
        if faults := list(_entry_faults(entry)):
            problems.extend(f"{place}: {fault}" for fault in faults)
            continue
        yield Waiver(
            entry["policy"],
            entry["object"],
            entry.get("containing", ""),
            entry["reason"],
            entry["owner"],
            datetime.date.fromisoformat(entry["expires"]),
            position.line,
        )


def _entry_faults(entry: Any) -> Iterable[str]:
    if not isinstance(entry, Mapping):
        yield f"a waiver is a mapping with {', '.join(_REQUIRED)}"
        return
    for field in sorted(set(entry) - set(_FIELDS)):
        yield f"there is no field {field!r}; known: {', '.join(_FIELDS)}"
    for field in _FIELDS:
        if field not in entry:
            if field in _REQUIRED:
                yield f"`{field}` is required"
        elif not isinstance(entry[field], str) or not entry[field].strip():
            yield f"`{field}` must be text"
    expires = entry.get("expires")
    if isinstance(expires, str):
        try:
            datetime.date.fromisoformat(expires)
        except ValueError:
            yield f"`expires` is {expires!r}, and must be a date such as 2027-03-31"
    known = {policy.id for policy in all_policies()}
    if isinstance(entry.get("policy"), str) and entry["policy"] not in known:
        yield f"there is no policy {entry['policy']!r}"
