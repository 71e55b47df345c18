"""Output of one JSON object a line, read tolerantly and with bounded memory. The dialects' parsers build on it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

MAX_EVENT_BYTES = 4 << 20
"""A longer line is not parsed: hostile JSON unfolds to 25 times its size, and no event that counts is that long."""

_TYPE_FIRST = re.compile(rb'\s*\{\s*"type"\s*:\s*"([^"\\]{1,64})"')
_SPACE = b" \t\r\n\xef\xbb\xbf"
_UNFIT = re.compile("[\x00\ud800-\udfff]")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_STEPS = ((16384, 256), (4096, 64), (1024, 32), (256, 16), (64, 8))
"""Longest text and longest list of each try of `bounded`."""


def first_type(line: bytes) -> bytes | None:
    """The type of an event that begins with it, as all agents write theirs, without parsing the rest."""
    match = _TYPE_FIRST.match(line)
    return match[1] if match else None


def decode(line: bytes) -> Any:
    """The JSON of a line; None where it is none, or too long. Broken UTF-8 does not lose the line."""
    if len(line) > MAX_EVENT_BYTES:
        return None
    try:
        return _DECODER.decode(line.strip(_SPACE).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def decode_event(line: bytes) -> dict[str, Any] | None:
    """The object of a line whose `type` is a text that is not empty; None for any other line."""
    event = decode(line)
    return event if isinstance(event, dict) and text_of(event.get("type")) else None


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def map_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def maps_of(value: Any) -> list[dict[str, Any]]:
    """The objects in a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def count_of(value: Any) -> int:
    """A number of tokens: whole, not negative; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return max(int(value), 0) if abs(value) < 1 << 53 else 0


def amount_of(value: Any) -> float | None:
    """A JSON number that is finite; texts and booleans are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e15 else None


def clean(text: str) -> str:
    """Without what neither UTF-8 nor PostgreSQL can hold: NUL and lone surrogates become U+FFFD."""
    return _UNFIT.sub("\ufffd", text)


def cut(text: str, limit: int) -> str:
    """`text` cleaned, with at most `limit` bytes of UTF-8, whole characters only, and a marker where it was cut."""
    text = clean(text)
    if len(text) * 4 <= limit:
        return text  # no character has more than four
    raw = text.encode()
    if len(raw) <= limit:
        return text
    marker = f"… [{len(raw) - limit} bytes cut]"
    return raw[: max(limit - len(marker) - 2, 0)].decode("utf-8", "ignore") + marker


def size(tree: Any) -> int:
    """Bytes as compact JSON in UTF-8."""
    return len(json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


def bounded(tree: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """`tree` with at most `limit` bytes of JSON: as it is where it fits, else with long texts and lists cut."""
    plain: dict[str, Any] = _cut_tree(tree, limit, limit, 32)
    for longest, items in _STEPS:
        if size(plain) <= limit:
            return plain
        plain = _cut_tree(tree, longest, items, 8)
    return plain if size(plain) <= limit else {"type": cut(text_of(tree.get("type")), 64), "cut": True}


def _cut_tree(tree: Any, longest: int, items: int, depth: int) -> Any:
    if isinstance(tree, str):
        return cut(tree, longest)
    if isinstance(tree, Mapping):
        if depth == 0:
            return {}
        pairs = list(tree.items())[:items]
        return {cut(str(key), 256): _cut_tree(value, longest, items, depth - 1) for key, value in pairs}
    if isinstance(tree, list | tuple):
        return [_cut_tree(one, longest, items, depth - 1) for one in tree[:items]] if depth else []
    return tree


def from_whole_line(tail: bytes) -> bytes:
    """The end of a text, less what it begins with: a secret is masked as a whole only, so no part of one may be kept.
    Of a single line all but its first word.
    """
    at = tail.find(b"\n") + 1
    return tail[at:] if 0 < at < len(tail) else tail.partition(b" ")[2]


class Texts:
    """What an agent wrote, joined by blank lines; the newest `limit` bytes of it."""

    def __init__(self, limit: int = 16384) -> None:
        self._limit = limit
        self._parts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        part = cut(text, self._limit)
        self._parts.append(part)
        self._size += len(part.encode())
        while self._size > self._limit and len(self._parts) > 1:
            self._size -= len(self._parts.pop(0).encode())

    def clear(self) -> None:
        self._parts.clear()
        self._size = 0

    @property
    def joined(self) -> str:
        return "\n\n".join(self._parts).strip()

    def to_json(self) -> list[str]:
        return list(self._parts)

    def restore(self, parts: Iterable[Any]) -> None:
        self.clear()
        for part in parts:
            self.add(str(part))


@dataclass(slots=True)
class PlainLines:
    """Lines that are no events: the first one, and the first and last bytes of all, where a cause would stand."""

    first: str = field(default="", repr=False)
    limit: int = 8192
    _head: bytes = field(default=b"", repr=False)
    _tail: bytearray = field(default_factory=bytearray, repr=False)

    def add(self, line: bytes) -> None:
        if not self.first:
            self.first = cut(line.decode("utf-8", "replace").strip(), 500)
        if len(self._head) < self.limit:
            kept = line[: self.limit - len(self._head)]
            over = len(line) - len(kept)
            self._head += kept + (f"… [{over} bytes cut]\n".encode() if over else b"\n")
            return
        self._tail += line[-self.limit :] + b"\n"
        # Not at every line: each time moves all that is kept.
        if len(self._tail) > 4 * self.limit:
            del self._tail[: -self.limit]

    @property
    def text(self) -> str:
        return (self._head + self._end).decode("utf-8", "replace")

    @property
    def _end(self) -> bytes:
        tail = bytes(self._tail[-self.limit :])
        return tail if len(self._tail) < self.limit else from_whole_line(tail)

    def to_json(self) -> dict[str, str]:
        head, tail = self._head.decode("utf-8", "replace"), self._end.decode("utf-8", "replace")
        return {"first": self.first, "head": head, "tail": tail}

    def restore(self, tree: Mapping[str, Any]) -> None:
        self.first = str(tree["first"])
        self._head = str(tree["head"]).encode()
        self._tail = bytearray(str(tree["tail"]).encode())
