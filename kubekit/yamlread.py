"""Reads YAML strictly, with the place of every value: for files that people write.

What two readers may take for different things, and what can be used to hurt a reader, is refused: duplicate
keys, aliases (a bomb unfolds from them), merge keys, keys that are not text, foreign tags, directives, and
numbers with leading zeros. Values are built here from events, because composing unfolds and recurses before
anything can be checked.

Manifests of others hold what Go's reader, which is the cluster's, makes sense of. `foreign` reads them as it does:
aliases and merge keys, within bounds, and plain words for what they are to it (kubekit/yamlgo.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from kubekit.pointers import escape
from kubekit.yamlevents import Position, YamlProblem, checked, events, position
from kubekit.yamlgo import plain_value

__all__ = ["Document", "Position", "YamlProblem", "read", "read_all"]


@dataclass(frozen=True)
class Document:
    """A value of plain types and where its parts stand.

    `positions` has a JSON pointer for each part, "" for the root; a map's entry stands where its key does.
    """

    value: Any
    positions: Mapping[str, Position]


def read(text: str | bytes, source: str, *, max_bytes: int = 1 << 20, max_depth: int = 64) -> Document:
    """The one document in `text`; an empty text is the document null. YamlProblem names `source`."""
    documents = read_all(text, source, max_bytes=max_bytes, max_depth=max_depth)
    if len(documents) > 1:
        place = documents[1].positions[""]
        raise YamlProblem(source, place, "a second document begins here", 'take the "---" out, or split the file')
    return documents[0] if documents else Document(None, {"": Position(1, 1)})


def read_all(
    text: str | bytes, source: str, *, max_bytes: int = 1 << 20, max_depth: int = 64, foreign: bool = False
) -> list[Document]:
    """All documents in `text` but the empty ones.

    `max_depth` (1 to 200) counts maps and lists inside one another. With `foreign`, what stands for an alias is the
    value of its anchor, not a copy, and has no positions of its own.
    """
    if not 0 < max_depth <= _DEEPEST:
        raise ValueError(f"max_depth is {max_depth}; it must be 1 to {_DEEPEST}")
    builder = _Builder(checked(text, source, max_bytes), source, max_depth, foreign=foreign)
    return [document for document in builder.documents() if document.value is not None]


_DEEPEST = 200
_CORE = "tag:yaml.org,2002:"

_SURROGATE = re.compile("[\ud800-\udfff]")

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9A-Fa-f]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# What all words with a meaning begin with; the rest is text without a further look.
_MEANINGFUL = frozenset("0123456789+-.~nNtTfF")
_LONGEST = 100
# Values that aliases may bring into one file: a bomb is refused before it costs, and real files stay far below.
_MOST_UNFOLDED = 100_000
_MERGE = "<<"


class _Anchor(NamedTuple):
    """What an alias stands for: how many values it is, and how many levels."""

    value: Any
    size: int
    levels: int


class _Builder:
    """Turns the events of one text into documents; each method takes what the one before has left."""

    def __init__(self, text: str, source: str, max_depth: int, *, foreign: bool) -> None:
        self._events = events(text, source)
        self._source = source
        self._max_depth = max_depth
        self._foreign = foreign
        self._positions: dict[str, Position] = {}
        self._anchors: dict[str, _Anchor] = {}
        # Values so far, those behind aliases counted as if they were written out; the deepest level so far.
        self._size = self._unfolded = self._deepest = 0

    def documents(self) -> Iterator[Document]:
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                if event.version or event.tags:
                    self._refuse(event, "a % directive stands before the document", "take the line with % out")
                self._positions, self._anchors = {}, {}
                root = next(self._events)
                self._positions[""] = position(root)
                yield Document(self._value(root, "", 1), self._positions)

    def _value(self, event: Any, pointer: str, depth: int) -> Any:
        """The value that begins with `event`; `depth` is what it has if it is a map or list."""
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._unfold(event, depth)
        if event.anchor is not None:
            return self._anchored(event, pointer, depth)
        return self._content(event, pointer, depth)

    def _anchored(self, event: Any, pointer: str, depth: int) -> Any:
        if not self._foreign:
            message = f'"&{event.anchor}" is an anchor, which is not read'
            self._refuse(event, message, "take it out, and write the value wherever it is used")
        # Until its value is whole, an alias to it would stand for what holds itself.
        self._anchors.pop(event.anchor, None)
        size, deepest = self._size, self._deepest
        self._deepest = 0
        value = self._content(event, pointer, depth)
        levels = max(self._deepest - depth + 1, 0)
        self._anchors[event.anchor] = _Anchor(value, self._size - size + 1, levels)
        self._deepest = max(deepest, self._deepest)
        return value

    def _unfold(self, event: Any, depth: int) -> Any:
        if not self._foreign:
            message = f'"*{event.anchor}" is an alias, which is not read'
            self._refuse(event, message, "write out what it stands for")
        anchor = self._anchors.get(event.anchor)
        if anchor is None:
            message = f'"*{_cut(event.anchor)}" stands for nothing that is whole here'
            self._refuse(event, message, f'write "&{_cut(event.anchor)}" before the value, further up in this document')
        self._size += anchor.size
        self._unfolded += anchor.size
        self._deepest = max(self._deepest, depth + anchor.levels - 1)
        if self._unfolded > _MOST_UNFOLDED:
            message = f"the aliases of this file stand for more than {_MOST_UNFOLDED:,} values"
            self._refuse(event, message, "write out what they stand for")
        if self._deepest > self._max_depth:
            self._refuse_depth(event)
        return anchor.value

    def _content(self, event: Any, pointer: str, depth: int) -> Any:
        kind = type(event).__name__
        if kind == "ScalarEvent":
            if _tag(event) is None:
                return self._plain(event) if not event.style else self._text(event)
            return self._tagged(event)
        if depth > self._max_depth:
            self._refuse_depth(event)
        self._deepest = max(self._deepest, depth)
        is_map = kind == "MappingStartEvent"
        if _tag(event) not in (None, _CORE + ("map" if is_map else "seq")):
            self._refuse_tag(event)
        return self._mapping(pointer, depth) if is_map else self._sequence(pointer, depth)

    def _mapping(self, pointer: str, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        brought: set[str] | None = None  # what "<<" has set, and a key of its own may set again
        for event in self._events:
            if type(event).__name__ == "MappingEndEvent":
                break
            key = self._key(event, depth)
            if key == _MERGE and self._foreign and not event.style:
                brought = self._merge(mapping, next(self._events), pointer, depth, first=brought is None)
                continue
            here = f"{pointer}/{escape(key)}"
            if key in mapping and not (brought and key in brought):
                first = self._positions[here]
                message = f'the key "{_cut(key)}" stands here and at {first.line}:{first.column}'
                self._refuse(event, message, "take one of the two out")
            if brought:
                brought.discard(key)
            self._positions[here] = position(event)
            mapping[key] = self._value(next(self._events), here, depth + 1)
        self._size += len(mapping)
        return mapping

    def _merge(self, mapping: dict[str, Any], event: Any, pointer: str, depth: int, *, first: bool) -> set[str]:
        """The keys that "<<" has brought. As Go does it: over what stands before it, and the first map wins."""
        value = self._value(event, f"{pointer}/{_MERGE}", depth)
        maps = value if isinstance(value, list) else [value]
        if not first or not all(isinstance(one, dict) for one in maps):
            self._refuse(event, '"<<" stands twice, or brings what is no map', "write out the entries that it brings")
        for one in reversed(maps):
            mapping.update(one)
        return {key for one in maps for key in one}

    def _sequence(self, pointer: str, depth: int) -> list[Any]:
        items: list[Any] = []
        for event in self._events:
            if type(event).__name__ == "SequenceEndEvent":
                break
            here = f"{pointer}/{len(items)}"
            self._positions[here] = position(event)
            items.append(self._value(event, here, depth + 1))
        self._size += len(items)
        return items

    def _key(self, event: Any, depth: int) -> str:
        kind = type(event).__name__
        if kind in {"MappingStartEvent", "SequenceStartEvent"}:
            self._refuse(event, "a map or list is the key of a map", 'write a word and ":"; quote text with { or [')
        if kind == "ScalarEvent" and not event.style and event.value == _MERGE and not self._foreign:
            self._refuse(event, '"<<" is a merge key, which is not read', "write out the entries that it brings")
        key = self._value(event, "", depth)
        if not isinstance(key, str):
            if not event.value:
                self._refuse(event, "a key is missing here", 'write the key before ":"')
            shown = _cut(event.value)
            message = f'the key "{shown}" is not text but {_kind_of(key)}'
            self._refuse(event, message, f'write "{shown}" in double quotes')
        return key

    def _text(self, event: Any) -> str:
        """A scalar that is text by its style or tag."""
        if event.style == '"' and _SURROGATE.search(event.value):
            message = "an escape gives half of a surrogate pair"
            self._refuse(event, message, "write the character itself, or one \\U with eight digits")
        text: str = event.value
        return text

    def _plain(self, event: Any) -> Any:
        """What a plain scalar means by the core schema of YAML 1.2."""
        text: str = event.value
        if self._foreign:
            try:
                return plain_value(text)
            except ValueError as error:
                self._refuse(event, str(error), "write a number, or put it in quotes if it is text")
        if text and text[0] not in _MEANINGFUL:
            return text
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if _LEADING_ZERO.fullmatch(text):
            message = "a number with a leading zero is octal for some readers and decimal for others"
            self._refuse(event, message, "quote it if it is text, write 0o17 for an octal number, or drop the zero")
        number = _INT.fullmatch(text) or _FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text)
        if not number:
            return text
        if len(text) > _LONGEST:
            self._refuse(event, f"a number of {len(text)} characters", "put it in double quotes if it is text")
        if _INT.fullmatch(text):
            # int() takes no leading zero with base 0, which _LEADING_ZERO has kept out, and knows 0o and 0x.
            return int(text, 0)
        return float(text.replace(".", "", 1) if _NOT_FINITE.fullmatch(text) else text)

    def _tagged(self, event: Any) -> Any:
        """A scalar with a tag of the core schema: `!!str 5` is text, `!!int "5"` a number."""
        tag = str(_tag(event))
        if tag == _CORE + "str":
            return self._text(event)
        if tag not in _TYPES:
            self._refuse_tag(event)
        value = self._plain(event)
        if tag == _CORE + "float" and type(value) is int:
            return float(value)
        if type(value) is not _TYPES[tag]:
            name = tag.removeprefix(_CORE)
            self._refuse(event, f"the value does not have the type that !!{name} says", "correct one of the two")
        return value

    def _refuse_depth(self, event: Any) -> NoReturn:
        self._refuse(event, f"maps and lists are more than {self._max_depth} levels deep here", "make the file flatter")

    def _refuse_tag(self, event: Any) -> NoReturn:
        tag = str(_tag(event)).replace(_CORE, "!!")
        self._refuse(event, f'the tag "{tag}" is not read here', "take it out; YAML knows text, numbers and the like")

    def _refuse(self, event: Any, message: str, remedy: str) -> NoReturn:
        raise YamlProblem(self._source, position(event), message, remedy)


_TYPES: dict[str, type] = {
    _CORE + "int": int,
    _CORE + "float": float,
    _CORE + "bool": bool,
    _CORE + "null": type(None),
}


def _cut(key: str) -> str:
    return key if len(key) <= _LONGEST else key[:_LONGEST] + "…"


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    return "true or false" if isinstance(value, bool) else "a number"


def _tag(event: Any) -> str | None:
    """Ruamel keeps the tag as an object of its own."""
    tag = event.ctag if hasattr(event, "ctag") else event.tag
    return None if tag is None else str(tag)
