"""A YAML text to the events of its parser: decoded, bounded, and a text that is none refused with its place.

The events come from libyaml, which is ten times as fast; a text that it cannot parse is parsed by ruamel.yaml
(YAML 1.2), which has the last word and says better what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

_QUICK = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
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

# YAML forbids most of these; NEL, U+2028 and U+2029 end a line for some readers and not for others.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


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


def checked(text: str | bytes, source: str, max_bytes: int) -> str:
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
            if data.startswith((b"\xff\xfe", b"\xfe\xff")):
                message = "the file is UTF-16, not UTF-8"
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


def events(text: str, source: str) -> Iterator[Any]:
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
            place = position(event)
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


def position(event: Any) -> Position:
    mark = event.start_mark
    return Position(mark.line + 1, mark.column + 1)
