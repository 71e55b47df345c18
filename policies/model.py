"""What a policy is and what it finds: frozen data, no I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from kubekit.identity import ObjectId

if TYPE_CHECKING:
    from policies.world import Entry, World

Fault: TypeAlias = tuple[str, str]
"""(JSON pointer, message: what it is and what it must be)"""
Check: TypeAlias = "Callable[[Entry, World], Iterator[Fault]]"


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Source:
    """Where the object comes from: a file with its line (1-based; 0 = the whole file), the construct that made it."""

    file: str = ""
    line: int = 0
    construct: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return " ".join(part for part in (place, f"({self.construct})" if self.construct else "") if part)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: what, where, and how to mend it.

    `pointer` is a JSON pointer (RFC 6901) into the object, "" for the whole of it. `waived` holds the reason of the
    waiver that covers the finding, "" where none does.
    """

    policy: str
    severity: Severity
    object: ObjectId | None
    pointer: str
    message: str
    remedy: str = ""
    source: Source | None = None
    waived: str = ""

    @property
    def stops(self) -> bool:
        """Whether nothing may be written: an error that no waiver covers."""
        return not self.waived and self.severity is Severity.ERROR

    @property
    def fingerprint(self) -> str:
        """Stays the same while the finding does: 16 hex digits over policy, object, pointer and message."""
        identity = self.object.identity if self.object else ("", "", "", "")
        text = "\0".join((self.policy, *identity, self.pointer, self.message))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def with_waiver(self, reason: str) -> Finding:
        return replace(self, waived=reason)


@dataclass(frozen=True)
class Policy:
    """A rule: a small pure function and what people need to know of it.

    `kinds` are those it looks at; empty: all. The function takes (entry, world) and yields (pointer, message) of each
    fault; `remedy` says how to mend them all.
    """

    id: str
    title: str
    severity: Severity
    kinds: frozenset[str]
    rationale: str
    remedy: str
    waivable: bool
    check: Check
