"""Reads YAML strictly, with the place of every value: for files that people write.

What two readers may take for different things, and what can be used to hurt a reader, is refused: duplicate
keys, aliases (a bomb unfolds from them), merge keys, keys that are not text, foreign tags, directives, and
numbers with leading zeros. Values are built here from events, because composing unfolds and recurses before
anything can be checked. The events come from libyaml, which is ten times as fast; a text that it cannot parse
is parsed by ruamel.yaml (YAML 1.2), which has the last word and says better what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import yaml

from kubekit.pointers import escape

_QUICK = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Position(NamedTuple):
    """A place in a text: line and column count from 1, the column in characters."""

    line: int
    column: int


class YamlProblem(ValueError):
    """Why a text was refused: `message` says what is wrong, `remedy` what mends it. Neither holds a value."""

    def __init__(self, source: str, position: Position, message: str, remedy: str) -> None:
        super().__init__(f"{source}:{position.line}:{position.column}: {message}")
        self.source = source
        self.position = position
        self.message = message
        self.remedy = remedy


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


def read_all(text: str | bytes, source: str, *, max_bytes: int = 1 << 20, max_depth: int = 64) -> list[Document]:
    """All documents in `text` but the empty ones.

    `max_depth` (1 to 200) counts maps and lists inside one another.
    """
    if not 0 < max_depth <= _DEEPEST:
        raise ValueError(f"max_depth is {max_depth}; it must be 1 to {_DEEPEST}")
    builder = _Builder(_checked(text, source, max_bytes), source, max_depth)
    return [document for document in builder.documents() if document.value is not None]


_DEEPEST = 200
# What ruamel says; what it means to the one who wrote the file ("" where ruamel's words do); what mends it.
_MENDING = (
    (
        "mapping values are not allowed",
        'a ":" stands where no key can be',
        "quote text that holds ': '; check the indentation",
    ),
    ("could not find expected ':'", 'a key has no ":" behind it', 'write ": " behind it'),
    ("'\\t' that cannot start", "a tab stands where the indentation is", "indent with blanks"),
    ("that cannot start any token", "", "put the text that begins here in double quotes"),
    ("unexpected end of stream", "a quoted text has no end", "close the quote that opens here"),
    ("unexpected document separator", "a quoted text has no end", "close the quote that opens here"),
    ("expected ',' or ']'", "a list in [ ] is not closed, or lacks a comma", 'write "," or "]" here'),
    ("expected ',' or '}'", "a map in { } is not closed, or lacks a comma", 'write "," or "}" here'),
    ("unknown escape character", "", "double the backslash, or use single quotes"),
    (
        "expected <block end>",
        "this does not belong to the lines above",
        "indent it as its neighbours; quote the whole text",
    ),
    (
        "expected the node content",
        "a value is missing here",
        "write the value; quote text that begins with a bracket",
    ),
    ("undefined tag handle", "", "take the tag out; quote text that begins with !"),
    ("chomping or indentation", "text stands beside | or >", "begin the text on the next line"),
)
_BOM = "\ufeff"
_CORE = "tag:yaml.org,2002:"

# YAML forbids most of these; NEL, U+2028 and U+2029 end a line for some readers and not for others.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")

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


def _checked(text: str | bytes, source: str, max_bytes: int) -> str:
    """`text` decoded, without its byte order mark, if it is small enough and holds no refused character."""
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        message = f"the file has {size:,} bytes; at most {max_bytes:,} are read"
        raise YamlProblem(source, Position(1, 1), message, "split it into smaller files")
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            data: bytes = error.object
            message = f"byte 0x{data[error.start]:02x} is not UTF-8"
            place = _place(data[: error.start].decode())
            raise YamlProblem(source, place, message, "save the file as UTF-8") from None
    text = text.removeprefix(_BOM)
    bad = _REFUSED.search(text)
    if bad:
        code = ord(bad[0])
        remedy = "take it out; in double quotes, half of a pair cannot be written either"
        if not 0xD800 <= code <= 0xDFFF:
            remedy = f'take it out, or write it as "\\u{code:04x}" in double quotes'
        message = f"the character U+{code:04X} cannot stand in YAML as it is"
        raise YamlProblem(source, _place(text[: bad.start()]), message, remedy)
    return text


def _place(before: str) -> Position:
    """The place that follows the text `before`."""
    return Position(before.count("\n") + 1, len(before) - before.rfind("\n"))


class _Builder:
    """Turns the events of one text into documents; each method takes what the one before has left."""

    def __init__(self, text: str, source: str, max_depth: int) -> None:
        self._events = _events(text, source)
        self._source = source
        self._max_depth = max_depth
        self._positions: dict[str, Position] = {}

    def documents(self) -> Iterator[Document]:
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                if event.version or event.tags:
                    self._refuse(event, "a % directive stands before the document", "take the line with % out")
                self._positions = {}
                root = next(self._events)
                self._positions[""] = _position(root)
                yield Document(self._value(root, "", 1), self._positions)

    def _value(self, event: Any, pointer: str, depth: int) -> Any:
        """The value that begins with `event`; `depth` is what it has if it is a map or list."""
        kind = type(event).__name__
        if kind == "AliasEvent":
            message = f'"*{event.anchor}" is an alias, which is not read'
            self._refuse(event, message, "write out what it stands for")
        if event.anchor is not None:
            message = f'"&{event.anchor}" is an anchor, which is not read'
            self._refuse(event, message, "take it out, and write the value wherever it is used")
        if kind == "ScalarEvent":
            if _tag(event) is None:
                return self._plain(event) if not event.style else self._text(event)
            return self._tagged(event)
        if depth > self._max_depth:
            message = f"maps and lists are more than {self._max_depth} levels deep here"
            self._refuse(event, message, "make the file flatter")
        is_map = kind == "MappingStartEvent"
        if _tag(event) not in (None, _CORE + ("map" if is_map else "seq")):
            self._refuse_tag(event)
        return self._mapping(pointer, depth) if is_map else self._sequence(pointer, depth)

    def _mapping(self, pointer: str, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for event in self._events:
            if type(event).__name__ == "MappingEndEvent":
                break
            key = self._key(event, depth)
            here = f"{pointer}/{escape(key)}"
            if key in mapping:
                first = self._positions[here]
                message = f'the key "{_cut(key)}" stands here and at {first.line}:{first.column}'
                self._refuse(event, message, "take one of the two out")
            self._positions[here] = _position(event)
            mapping[key] = self._value(next(self._events), here, depth + 1)
        return mapping

    def _sequence(self, pointer: str, depth: int) -> list[Any]:
        items: list[Any] = []
        for event in self._events:
            if type(event).__name__ == "SequenceEndEvent":
                break
            here = f"{pointer}/{len(items)}"
            self._positions[here] = _position(event)
            items.append(self._value(event, here, depth + 1))
        return items

    def _key(self, event: Any, depth: int) -> str:
        kind = type(event).__name__
        if kind in {"MappingStartEvent", "SequenceStartEvent"}:
            self._refuse(event, "a map or list is the key of a map", 'write a word and ":"; quote text with { or [')
        if kind == "ScalarEvent" and not event.style and event.value == "<<":
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

    def _refuse_tag(self, event: Any) -> NoReturn:
        tag = str(_tag(event)).replace(_CORE, "!!")
        self._refuse(event, f'the tag "{tag}" is not read here', "take it out; YAML knows text, numbers and the like")

    def _refuse(self, event: Any, message: str, remedy: str) -> NoReturn:
        raise YamlProblem(self._source, _position(event), message, remedy)


_TYPES: dict[str, type] = {
    _CORE + "int": int,
    _CORE + "float": float,
    _CORE + "bool": bool,
    _CORE + "null": type(None),
}


def _position(event: Any) -> Position:
    mark = event.start_mark
    return Position(mark.line + 1, mark.column + 1)


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


def _events(text: str, source: str) -> Iterator[Any]:
    try:
        return iter(list(yaml.parse(text, Loader=_QUICK)))
    except (yaml.YAMLError, RecursionError):
        return _ruamel_events(text, source)


def _ruamel_events(text: str, source: str) -> Iterator[Any]:
    # The import takes 20 ms, which a program that reads nothing need not spend.
    from ruamel.yaml import YAML  # noqa: PLC0415
    from ruamel.yaml.error import MarkedYAMLError  # noqa: PLC0415

    place = Position(1, 1)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            place = _position(event)
            yield event
    except MarkedYAMLError as error:
        problem = str(error.problem or error.context)
        # Where a quoted text begins says more than the end of the file.
        endless = "quoted scalar" in str(error.context) and "unexpected" in problem
        mark = (error.context_mark if endless else None) or error.problem_mark or error.context_mark
        place = Position(mark.line + 1, mark.column + 1) if mark else place
        message, remedy = problem, "look at the indentation, the colons and the quotes here"
        for fragment, known, mending in _MENDING:
            if fragment in problem:
                message, remedy = known or problem, mending
                break
        raise YamlProblem(source, place, message, remedy) from None
    except ValueError:
        # ruamel hands "\\U00110000" to chr() as it is.
        message = "an escape behind this place names no character"
        raise YamlProblem(source, place, message, 'correct the "\\U" there; the last character is U+10FFFF') from None
