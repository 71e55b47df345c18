"""Writes YAML that every reader reads the same: Go's (kubectl, Argo CD), PyYAML, ruamel.yaml.

The usual writers quote by the rules of their own reader, and Go's has others: it takes `1e3`, `0o17` and `y`
for numbers and booleans, and U+2028 makes a file that it cannot read. So only words stand plain here; all
else is quoted. Characters that a reviewer cannot see (text direction, zero width) are escaped as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any

from kubekit.pointers import join

MAX_LEVELS = 100
"""Levels of indentation; a tree that holds itself ends here too."""

# Words joined by single blanks or colons. No leading digit: that keeps all numbers, dates and times out.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+=,()-]*(?:[: ][A-Za-z0-9_./@+=,()-]+)*")
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
# What YAML 1.1 or 1.2 takes for a boolean, null or number, and what Go's ParseFloat takes for one.
_KEYWORDS = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity"},
)
_LONGEST_KEYWORD = 8

# What prints nothing: controls, line ends of YAML 1.1, text direction, zero width, byte order mark, tags,
# non-characters. Lone surrogates are in the class so that the search for them costs nothing extra.
_UNSEEN = (
    "\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U000e0000-\U000e007f\ud800-\udfff"
) + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
_ESCAPED = re.compile(f'["\\\\\x00-\x1f{_UNSEEN}]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
# A block keeps a text that begins with a visible character, no line of which ends in a blank, nothing unseen.
_NO_BLOCK = re.compile(f"\\A[ \\n]| \\n| \\Z|[\x00-\x09\x0b-\x1f{_UNSEEN}]")

# Keys in the order in which they are put to the front, so the last one stands first.
_FIRST = ("namespace", "name")
_ROOT_FIRST = (*_FIRST, "metadata", "kind", "apiVersion")
# A key may stand before its colon up to 1,024 characters; a longer one needs "? ".
_LONGEST_KEY = 1000
# Go reads an integer beyond this as a float and loses digits.
_INTEGERS = range(-(2**63), 2**63)
_LEAVES = frozenset({str, int, float, bool, type(None)})
# Steps that a message names.
_LONGEST_PLACE = 20


class _Refused(Exception):
    """A value that cannot be written; `trail` collects the way to it from the inside out."""

    def __init__(self, kind: type[TypeError | ValueError], message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.trail: list[str] = []


def dump(value: object) -> str:
    """`value` as one YAML document in block style, ending in a line feed; equal values give equal text.

    Maps are sorted: apiVersion, kind, metadata first at the top, name and namespace first everywhere. Raises
    TypeError for what YAML has no plain type for, ValueError for a float that is not finite, an integer
    beyond 64 bits, a lone surrogate, and more than MAX_LEVELS. Both name the place and never the value, which
    may be a secret.
    """
    out: list[str] = []
    try:
        plain = _plain(value)
        if plain and type(plain) is dict:
            _mapping(out, plain, "\n", "", _ROOT_FIRST)
        elif plain and type(plain) is list:
            _sequence(out, plain, "\n", "")
        else:
            out.append(_scalar(plain, "\n  "))
    except _Refused as refused:
        place = join("", *refused.trail[: -_LONGEST_PLACE - 1 : -1]) or "the document"
        raise refused.kind(f"{place}: {refused}") from None
    out.append("\n")
    return "".join(out)


def dump_all(values: Iterable[object]) -> str:
    """One stream of documents, parted by "---"."""
    return "---\n".join(dump(value) for value in values)


def _mapping(out: list[str], mapping: dict[Any, Any], pad: str, lead: str, first: tuple[str, ...] = _FIRST) -> None:
    """Writes the entries at the column of `pad`; first comes `lead`: `pad`, or "" after a dash."""
    deeper = pad + "  "
    if len(pad) > 2 * MAX_LEVELS:
        raise _too_deep()
    keys = _ordered(mapping, first)
    key: object = None
    try:
        for key in keys:
            text = _key(key)
            out.append(lead + text + ":" if len(text) <= _LONGEST_KEY else f"{lead}? {text}{pad}:")
            lead = pad
            value = mapping[key]
            kind = type(value)
            if kind is not str and kind not in _LEAVES:
                value = _plain(value)
                kind = type(value)
                if value and kind is dict:
                    _mapping(out, value, deeper, deeper)
                    continue
                if value and kind is list:
                    _sequence(out, value, pad, pad)
                    continue
            out.append(" " + _scalar(value, deeper))
    except _Refused as refused:
        refused.trail.append(str(key).encode(errors="backslashreplace").decode())
        raise


def _sequence(out: list[str], items: list[Any], pad: str, lead: str) -> None:
    """Writes the items with their dashes at the column of `pad`."""
    deeper = pad + "  "
    if len(pad) > 2 * MAX_LEVELS:
        raise _too_deep()
    index = 0
    try:
        for index, item in enumerate(items):  # noqa: B007 - the handler below names it
            out.append(lead + "- ")
            lead = pad
            value = _plain(item)
            if value and type(value) is dict:
                _mapping(out, value, deeper, "")
            elif value and type(value) is list:
                _sequence(out, value, deeper, "")
            else:
                out.append(_scalar(value, deeper))
    except _Refused as refused:
        refused.trail.append(str(index))
        raise


def _ordered(mapping: dict[Any, Any], first: tuple[str, ...]) -> list[Any]:
    try:
        keys = sorted(mapping)
    except TypeError:
        raise _Refused(TypeError, "the keys of a map must all be text; put str() around the others") from None
    for key in first:
        if key in mapping:
            keys.remove(key)
            keys.insert(0, key)
    return keys


@lru_cache(maxsize=4096)
def _key(key: object) -> str:
    if not isinstance(key, str):
        raise _Refused(TypeError, f"the keys of a map must be text, this one is {type(key).__name__}")
    if _PLAIN_KEY.fullmatch(key) and key.lower() not in _KEYWORDS:
        return str.__str__(key)
    return _quoted(str.__str__(key))


def _scalar(value: object, deeper: str) -> str:
    """The text of a leaf or of an empty map or list; the lines of a block begin with `deeper`."""
    if isinstance(value, str):
        if _PLAIN.fullmatch(value):
            if len(value) > _LONGEST_KEYWORD or value.lower() not in _KEYWORDS:
                return value
        elif "\n" in value and not _NO_BLOCK.search(value):
            return _block(value, deeper)
        return _quoted(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        if value not in _INTEGERS:
            raise _Refused(ValueError, "an integer beyond 64 bits would lose digits; write it as text")
        return repr(value)
    if isinstance(value, float):
        return _float(value)
    return "[]" if isinstance(value, list) else "{}"


def _float(value: float) -> str:
    if not isfinite(value):
        raise _Refused(ValueError, "a float that is not finite has no place in a Kubernetes object")
    mantissa, exponent, power = repr(value).partition("e")
    # YAML 1.1 knows a float by its point, also before an exponent.
    return (mantissa if "." in mantissa else mantissa + ".0") + exponent + power


def _block(text: str, deeper: str) -> str:
    """`text` as a literal block, without the line feed that ends it: the next entry brings that along."""
    if not text.endswith("\n"):
        style, body = "|-", text
    else:
        style, body = "|+" if text.endswith("\n\n") else "|", text[:-1]
    return style + "".join(deeper + line if line else "\n" for line in body.split("\n"))


def _quoted(text: str) -> str:
    if _ESCAPED.search(text):
        text = _ESCAPED.sub(_escape, text)
    return f'"{text}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if 0xD800 <= code <= 0xDFFF:
        place = f"character {match.start() + 1} (U+{code:04X})"
        raise _Refused(ValueError, f"{place} is half of a surrogate pair, which UTF-8 cannot hold; leave it out")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _plain(value: object) -> Any:
    """`value` with the exact built-in type that YAML has for it."""
    if type(value) in _LEAVES or type(value) is dict or type(value) is list:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | list):
        return list(value)
    hint = "turn it into text, a number, a list or a map first"
    raise _Refused(TypeError, f"YAML has no plain type for {type(value).__name__}; {hint}")


def _too_deep() -> _Refused:
    return _Refused(ValueError, f"more than {MAX_LEVELS} levels deep; does the tree hold itself?")
