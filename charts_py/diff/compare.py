"""Two trees → the fields in which they differ.

A list of maps that all have a `name` of their own is compared by name, because that is how the API server
merges them; other lists by content, so that one item put in front is one change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from charts_py.diff.mask import Masked
from kubekit import pointers

Change = Literal["added", "removed", "changed", "reordered"]


@dataclass(frozen=True)
class FieldChange:
    """`pointer` leads into the new object, into the old one for what was removed.

    `names` are the names of the list items on the way (container, variable), an index tells nobody much.
    `old` is None for what was added and `new` for what was removed; for `reordered` both are the orders.
    """

    pointer: str
    change: Change
    old: Any = None
    new: Any = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Place:
    """Where a pair of values stands: an item of a list may have another index in the new tree than in the old one."""

    old: str = ""
    new: str = ""
    names: tuple[str, ...] = ()

    def key(self, key: str) -> _Place:
        return _Place(pointers.join(self.old, key), pointers.join(self.new, key), self.names)

    def item(self, old: int, new: int, *name: str) -> _Place:
        return _Place(pointers.join(self.old, old), pointers.join(self.new, new), (*self.names, *name))

    def added(self, value: Any) -> FieldChange:
        return FieldChange(self.new, "added", None, value, self.names)

    def removed(self, value: Any) -> FieldChange:
        return FieldChange(self.old, "removed", value, None, self.names)

    def differs(self, change: Change, old: Any, new: Any) -> FieldChange:
        return FieldChange(self.new, change, old, new, self.names)


def canonical(value: Any) -> str:
    """Equal for equal values only: 1, 1.0, true and "1" are four."""
    return json.dumps(value, sort_keys=True, default=_token)


def field_changes(old: Any, new: Any) -> list[FieldChange]:
    """All differences, in the order of the new tree, removed fields last in their map."""
    return list(_compared(old, new, _Place()))


def _token(value: object) -> dict[str, str]:
    if isinstance(value, Masked):
        return {"***": value.token}
    raise TypeError(f"{type(value).__name__} is no part of a manifest")


def _compared(old: Any, new: Any, place: _Place) -> Iterator[FieldChange]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            if key not in old:
                yield place.key(key).added(value)
            else:
                yield from _compared(old[key], value, place.key(key))
        for key, value in old.items():
            if key not in new:
                yield place.key(key).removed(value)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _lists(old, new, place)
    elif canonical(old) != canonical(new):
        yield place.differs("changed", old, new)


def _lists(old: list[Any], new: list[Any], place: _Place) -> Iterator[FieldChange]:
    old_keys, new_keys = [canonical(item) for item in old], [canonical(item) for item in new]
    if old_keys == new_keys:
        return
    old_names, new_names = _names(old), _names(new)
    if old_names is not None and new_names is not None:
        yield from _by_name(dict(zip(old_names, old, strict=True)), dict(zip(new_names, new, strict=True)), place)
    elif sorted(old_keys) == sorted(new_keys):
        yield place.differs("reordered", old, new)
    elif not any(isinstance(item, dict) for item in (*old, *new)):
        yield place.differs("changed", old, new)
    else:
        yield from _by_content(_unmatched(old_keys, new_keys), _unmatched(new_keys, old_keys), (old, new), place)


def _by_name(old: dict[str, Any], new: dict[str, Any], place: _Place) -> Iterator[FieldChange]:
    indexes = {name: index for index, name in enumerate(old)}
    for index, (name, value) in enumerate(new.items()):
        if name in old:
            yield from _compared(old[name], value, place.item(indexes[name], index, name))
        else:
            yield place.item(index, index, name).added(value)
    for name, value in old.items():
        if name not in new:
            yield place.item(indexes[name], indexes[name], name).removed(value)
    before, after = [name for name in old if name in new], [name for name in new if name in old]
    if before != after:
        yield place.differs("reordered", before, after)


def _by_content(
    gone: Sequence[int], come: Sequence[int], lists: tuple[list[Any], list[Any]], place: _Place
) -> Iterator[FieldChange]:
    """Items that are in both lists count as the same; if as many are left on both sides, they are pairs."""
    old, new = lists
    if len(gone) == len(come):
        for before, after in zip(gone, come, strict=True):
            yield from _compared(old[before], new[after], place.item(before, after))
        return
    for index in come:
        yield place.item(index, index).added(new[index])
    for index in gone:
        yield place.item(index, index).removed(old[index])


def _unmatched(keys: Sequence[str], others: Sequence[str]) -> list[int]:
    left = list(others)
    found = []
    for index, key in enumerate(keys):
        if key in left:
            left.remove(key)
        else:
            found.append(index)
    return found


def _names(items: list[Any]) -> list[str] | None:
    """The name of every item; None unless each has one of its own."""
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    texts = [name for name in names if isinstance(name, str)]
    return texts if len(set(texts)) == len(items) else None
