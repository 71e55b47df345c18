"""JSON Patch (RFC 6902) and merge patch (RFC 7386) on trees that are shared: what changes is copied first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class PatchFailed(Exception):
    """It does not fit the object, or a `test` did not hold."""


def json_patch(tree: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    for operation in operations:
        kind = operation.get("op")
        path = _parts(operation.get("path"))
        if kind == "test":
            parent = _at(tree, path[:-1])
            absent = isinstance(parent, dict) and path and path[-1] not in parent
            # As the library of the API server has it, null is also what is not there.
            if not _same(None if absent else _at(tree, path), operation.get("value")):
                raise PatchFailed("test")
        elif kind in ("add", "replace"):
            if "value" not in operation:
                raise PatchFailed("no value")
            if kind == "replace":
                _at(tree, path)
            tree = _put(tree, path, operation["value"], insert=kind == "add")
        elif kind == "remove":
            tree = _remove(tree, path)
        elif kind in ("move", "copy"):
            source = _parts(operation.get("from"))
            value = _at(tree, source)
            if kind == "move":
                tree = _remove(tree, source)
            tree = _put(tree, path, value, insert=True)
        else:
            raise PatchFailed(f"operation {kind!r}")
    return tree


def merge_patch(tree: Any, change: Any) -> Any:
    if not isinstance(change, dict):
        return change
    merged = dict(tree) if isinstance(tree, dict) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def _parts(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and pointer[0] != "/"):
        raise PatchFailed(f"path {pointer!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    return bool(one == other)


def _index(part: str, size: int) -> int:
    if not part.isdigit() or (part != "0" and part[0] == "0") or int(part) >= size:
        raise PatchFailed(f"index {part}")
    return int(part)


def _at(tree: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(tree, dict):
            if part not in tree:
                raise PatchFailed(f"no {part}")
            tree = tree[part]
        elif isinstance(tree, list):
            tree = tree[_index(part, len(tree))]
        else:
            raise PatchFailed(f"no {part}")
    return tree


def _put(tree: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(tree, dict):
        if rest and head not in tree:
            raise PatchFailed(f"no {head}")
        return {**tree, head: _put(tree.get(head), rest, value, insert=insert) if rest else value}
    if not isinstance(tree, list):
        raise PatchFailed(f"no {head}")
    copy = list(tree)
    if rest:
        at = _index(head, len(copy))
        copy[at] = _put(copy[at], rest, value, insert=insert)
    elif insert:
        copy.insert(len(copy) if head == "-" else _index(head, len(copy) + 1), value)
    else:
        copy[_index(head, len(copy))] = value
    return copy


def _remove(tree: Any, path: list[str]) -> Any:
    if not path:
        raise PatchFailed("the whole object")
    head, rest = path[0], path[1:]
    if isinstance(tree, dict):
        if head not in tree:
            raise PatchFailed(f"no {head}")
        copy = dict(tree)
        if rest:
            copy[head] = _remove(copy[head], rest)
        else:
            del copy[head]
        return copy
    if not isinstance(tree, list):
        raise PatchFailed(f"no {head}")
    items = list(tree)
    at = _index(head, len(items))
    if rest:
        items[at] = _remove(items[at], rest)
    else:
        del items[at]
    return items
