"""What a policy is and what it finds: frozen data, no I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kubekit.identity import ObjectId

if TYPE_CHECKING:
    from policies.cel import Cel
    from policies.facts import Facts
    from policies.world import Entry, World


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Scope(StrEnum):
    """What a policy must see to judge an object."""

    OBJECT = "object"
    """The object alone: such policies also judge each Job before it is created."""
    SET = "set"
    """The object and the whole set around it."""
    DOCUMENT = "document"
    """The file it stands in, or the way it got there: found by a check outside the policies."""


class Fault(NamedTuple):
    """One thing that is wrong in an object.

    `pointer` is a JSON pointer to the culprit, "" for the whole object; `message` says what is and what must be.
    `severity` and `remedy` replace those of the policy where they are set.
    """

    pointer: str
    message: str
    severity: Severity | None = None
    remedy: str = ""


Check: TypeAlias = "Callable[[Entry, World], Iterator[Fault]]"


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
    waiver that covers the finding, "" where none does. `container` is the name of the container that it is about.
    """

    policy: str
    severity: Severity
    object: ObjectId | None
    pointer: str
    message: str
    remedy: str = ""
    source: Source | None = None
    waived: str = ""
    container: str = ""

    @property
    def stops(self) -> bool:
        """Whether nothing may be written: an error that no waiver covers."""
        return not self.waived and self.severity is Severity.ERROR

    @property
    def fingerprint(self) -> str:
        """Stays the same while the finding does: 16 hex digits over policy, object, pointer and message.

        What is about no object is told apart by its file.
        """
        identity = self.object.identity if self.object else ("", "", "", self.source.file if self.source else "")
        text = "\0".join((self.policy, *identity, self.pointer, self.message))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def with_waiver(self, reason: str) -> Finding:
        return replace(self, waived=reason)


@dataclass(frozen=True)
class Policy:
    """A rule: a small pure function and what people need to know of it.

    `kinds` are those it looks at; empty: all. The function takes (entry, world) and yields a Fault for each thing that
    is wrong; `remedy` says how to mend them all. `check` is None for a policy of scope document. `since` is the minor
    version of Kubernetes from which on it holds, "" for all. `cel` says the same to the API server: an expression, or
    a function that makes it from the facts (None where they do not suffice).
    """

    id: str
    title: str
    severity: Severity
    scope: Scope
    family: str
    kinds: frozenset[str]
    rationale: str
    remedy: str
    links: tuple[str, ...]
    waivable: bool
    since: str
    check: Check | None
    cel: Cel | Callable[[Facts], Cel | None] | None
