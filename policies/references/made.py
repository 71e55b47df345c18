"""What a producer says of the Secret or ConfigMap that it makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from policies.world import Entry

SECRET = "Secret"  # noqa: S105  a kind
CONFIG_MAP = "ConfigMap"
ANYWHERE = ""
"""The namespace of what is made in each of them, or in one that nothing says."""


@dataclass(frozen=True, eq=False)
class Made:
    """One object that something makes.

    `complete`: it has `keys` and no others. `entry` is the object of the set that makes it, None where it is declared.
    `owns` is false for what only adds keys to an object of somebody else. `doubt` says which field of `entry` brings
    keys that nobody can tell.
    """

    kind: str
    namespace: str
    name: str
    keys: frozenset[str] = frozenset()
    complete: bool = True
    entry: Entry | None = None
    owns: bool = True
    doubt: str = ""


def names_of(values: Iterable[object]) -> Iterator[str]:
    """Those that are text and not empty."""
    return (value for value in values if isinstance(value, str) and value)


def text(value: object) -> str:
    """`value` if it is text, else ""."""
    return value if isinstance(value, str) else ""
