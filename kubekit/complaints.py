"""Words for what is wrong with a value that came from outside; they never show what may be a secret."""

from __future__ import annotations

from typing import Any

_SHOWN = 60


def is_plain(value: Any, limit: int) -> bool:
    """The short way for nearly all texts: ASCII has as many bytes as characters and no surrogates."""
    return type(value) is str and value.isascii() and len(value) <= limit and "\x00" not in value


def text_problem(value: Any, limit: int) -> str:
    """Why `value` is no text of at most `limit` bytes that a cluster can keep; "" where it is one."""
    if not isinstance(value, str):
        return f"is {kind_of(value)}, not a text"
    if "\x00" in value:
        return f"holds NUL at character {value.index(chr(0)) + 1}, which no process can be given"
    try:
        size = size_of(value)
    except UnicodeEncodeError as error:
        return f"holds a lone surrogate (U+{ord(value[error.start]):04X}) at character {error.start + 1}"
    return f"has {size} bytes; at most {limit}" if size > limit else ""


def size_of(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def shown(value: Any) -> str:
    """`value` in ASCII and cut, so that it fits into any message."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def kind_of(value: Any) -> str:
    """What `value` is, in words that say nothing of what is in it."""
    return "nothing" if value is None else f"of the type {type(value).__name__}"
