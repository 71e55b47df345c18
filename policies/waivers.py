"""Waivers: findings that somebody has decided to live with, for a while, with a reason.

They stand in one file and never in the manifests. A waived finding is shown and counted, never hidden; a waiver that
has expired, or that covers nothing any more, is a finding itself.
"""

from __future__ import annotations

import datetime
import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubekit import yamlwrite
from kubekit.yamlread import Document, YamlProblem, read
from policies.model import Finding, Severity, Source
from policies.registry import by_id
from policies.run import ordered

MAXIMUM_DAYS = 180
SUGGESTED_DAYS = 30
POLICY = "waiver-live"
_FIELDS = ("policy", "object", "container", "containing", "reason", "owner", "expires")
_REQUIRED = ("policy", "object", "reason", "owner", "expires")


class WaiverError(ValueError):
    """The file cannot be read; each line of the text is one problem with its place."""


@dataclass(frozen=True)
class Waiver:
    """`object` is Kind/namespace/name, or Kind/name, or the file of a finding that is about no object.

    `container` narrows it to one container, `containing` to messages with that text.
    """

    policy: str
    object: str
    containing: str
    reason: str
    owner: str
    expires: datetime.date
    line: int
    container: str = ""

    def covers(self, finding: Finding) -> bool:
        if finding.policy != self.policy or self.containing not in finding.message:
            return False
        return self.object == subject(finding) and self.container in ("", finding.container)

    def __str__(self) -> str:
        return f"the waiver of {self.policy} for {self.object}" + (f", {self.container}" if self.container else "")


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


def subject(finding: Finding) -> str:
    """What a waiver calls the thing that is wrong: Kind/namespace/name, or the file where there is no object."""
    one = finding.object
    if one is None:
        return finding.source.file if finding.source else ""
    return "/".join(part for part in (one.kind, one.namespace, one.name) if part)


def apply(
    findings: Sequence[Finding], waivers: Waivers, today: datetime.date, *, complete: bool = True
) -> list[Finding]:
    """The findings with their waivers, and findings about the waivers themselves.

    `complete`: the findings are all that the waivers were written for, so that one which covers none is dead.
    """
    used: set[int] = set()
    result = []
    for finding in findings:
        covering = [waiver for waiver in waivers.entries if waiver.covers(finding)]
        used.update(waiver.line for waiver in covering)
        alive = [waiver for waiver in covering if waiver.expires >= today and waivable(waiver.policy)]
        result.append(finding.with_waiver(alive[0].reason) if alive else finding)
    result += [
        _about(waiver, waivers.file, text)
        for waiver in waivers.entries
        for text in _faults(waiver, today, used if complete else None)
    ]
    return ordered(result)


def suggest(findings: Iterable[Finding], today: datetime.date) -> str:
    """Entries for all that is open and can be waived, as YAML: to be filled in, and good for thirty days."""
    expires = today + datetime.timedelta(days=SUGGESTED_DAYS)
    places = {(one.policy, subject(one), one.container) for one in findings if not one.waived and waivable(one.policy)}
    return "".join(["waivers:\n", *(entry(*place, expires) for place in sorted(places))]) if places else ""


def entry(policy_id: str, place: str, container: str, expires: datetime.date) -> str:
    """One entry of the file, as YAML."""
    fields = {"policy": policy_id, "object": place, "container": container, "reason": "", "owner": "", "expires": ""}
    fields |= {"reason": "say why this may stay", "owner": "say who decided it", "expires": expires.isoformat()}
    lines = [line for key, text in fields.items() if text for line in yamlwrite.dump({key: text}).splitlines()]
    return "  - " + "\n    ".join(lines) + "\n"


def waivable(policy_id: str) -> bool:
    known = by_id().get(policy_id)
    return known is not None and known.waivable


def _faults(waiver: Waiver, today: datetime.date, used: set[int] | None) -> Iterable[str]:
    """`used` None: it cannot be said which of them cover something."""
    known = by_id()
    if waiver.policy not in known:
        near = difflib.get_close_matches(waiver.policy, known, n=1)
        yield f"there is no policy {waiver.policy!r}" + (f"; did you mean {near[0]}?" if near else "")
        return
    if waiver.expires < today:
        yield f"{waiver} expired on {waiver.expires}"
    elif waiver.expires > today + datetime.timedelta(days=MAXIMUM_DAYS):
        yield f"{waiver} runs until {waiver.expires}: at most {MAXIMUM_DAYS} days"
    if not waivable(waiver.policy):
        yield f"{waiver.policy} cannot be waived"
    elif used is not None and waiver.line not in used:
        yield f"{waiver} covers nothing any more"


def _about(waiver: Waiver, file: str, message: str) -> Finding:
    return Finding(
        POLICY,
        Severity.ERROR,
        None,
        "",
        message,
        "renew it with a reason, or remove it",
        Source(file, waiver.line),
    )


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
            entry.get("container", ""),
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
