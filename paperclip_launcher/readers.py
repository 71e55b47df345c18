"""Readers of one config value each: lenient about the form that people and web forms write, strict about the meaning.

A reader gives the value, or raises Unreadable with the rest of a sentence about it. None and "" never come here: they
mean that nothing was said. Sources of the leniency: what the forms of Paperclip store, which is text for all but
numbers and toggles.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from kubekit import names, quantity

Reader = Callable[[Any], Any]

_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,15}(\.[0-9]{1,15})?\s*")
_LINES = re.compile(r"\r?\n")
_SHOWN = 60


class Unreadable(ValueError):
    """The rest of a sentence about a value, such as "is a list, not a number"."""


def shown(value: Any) -> str:
    """`value` in ASCII and cut, for a message. Never for what may be secret."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def kind(value: Any) -> str:
    """What `value` is, for a message that must not show it."""
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "a map"}
    return "nothing" if value is None else kinds.get(type(value), f"of the type {type(value).__name__}")


def prose(value: Any) -> str:
    """Any text; a number is not one."""
    if not isinstance(value, str):
        raise Unreadable(f"is {kind(value)}, not a text")
    return value


def text(value: Any) -> str:
    """A text without NUL, which no process can be given."""
    found = prose(value)
    if "\x00" in found:
        raise Unreadable(f"holds NUL at character {found.index(chr(0)) + 1}")
    return found


def word(value: Any) -> str:
    """A text without blanks around it, on one line."""
    found = text(value).strip()
    if "\n" in found or "\r" in found:
        raise Unreadable("has more than one line")
    return found


def number(low: int, high: int) -> Reader:
    """A whole number from `low` to `high`, also as text; a fraction is rounded up."""

    def read(value: Any) -> int:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unreadable(f"is {shown(value)}, not a number")
        if not math.isfinite(value):
            raise Unreadable("is not a finite number")
        found = math.ceil(value)
        if not low <= found <= high:
            raise Unreadable(f"is {shown(value)}; it may be {low} to {high}")
        return found

    return read


def flag(value: Any) -> bool:
    """True or false, also as text."""
    found = _TRUTH.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise Unreadable(f"is {shown(value)}, not true or false")
    return found


def choice(*options: str) -> Reader:
    """One of `options`."""

    def read(value: Any) -> str:
        found = word(value)
        if found not in options:
            raise Unreadable(f"is {shown(value)}; it may be {', '.join(options)}")
        return found

    return read


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, also as JSON text or with one in each line."""
    if isinstance(value, str):
        stripped = value.strip()
        value = _json(stripped) if stripped.startswith("[") else [one for one in _LINES.split(value) if one.strip()]
    if not isinstance(value, list | tuple):
        raise Unreadable(f"is {kind(value)}, not a list of texts")
    found = []
    for index, one in enumerate(value):
        try:
            found.append(text(one))
        except Unreadable as problem:
            raise Unreadable(f"[{index}] {problem}") from None
    return tuple(found)


def tree(value: Any) -> dict[str, Any]:
    """A map, also as JSON text."""
    found = _json(value) if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise Unreadable(f"is {kind(found)}, not a map")
    return dict(found)


def parse_key_value(value: Any) -> dict[str, str]:
    """Pairs of texts from a map, from JSON text of one, or from lines of key=value; what is none is left out.

    In lines, blank ones and those that begin with # are skipped, the first = divides, and the last of two equal keys
    counts.
    """
    return read_pairs(value)[0]


def read_pairs(value: Any) -> tuple[dict[str, str], list[str]]:
    """The same, with a sentence for each thing that was left out."""
    if isinstance(value, str):
        stripped = value.strip()
        if stripped.startswith("{"):
            try:
                value = _json(stripped)
            except Unreadable as problem:
                return {}, [str(problem)]
        else:
            return _pairs_of_lines(value)
    if not isinstance(value, Mapping):
        return {}, [] if value is None else [f"is {kind(value)}, not a map or lines of key=value"]
    kept = {str(key): one for key, one in value.items() if isinstance(one, str)}
    return kept, [f"[{shown(key)}] is {kind(one)}, not a text" for key, one in value.items() if str(key) not in kept]


def _pairs_of_lines(lines: str) -> tuple[dict[str, str], list[str]]:
    pairs: dict[str, str] = {}
    skipped: list[str] = []
    for number_of_line, line in enumerate(_LINES.split(lines), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, divider, rest = stripped.partition("=")
        if divider and key.strip():
            pairs[key.strip()] = rest.strip()
        else:
            skipped.append(f"has in line {number_of_line} what is not key=value")
    return pairs, skipped


def labels(value: Any) -> dict[str, str]:
    """Pairs of which each is legal as a Kubernetes label; every problem is told."""
    pairs, problems = read_pairs(value)
    for key, one in pairs.items():
        if wrong := names.explain_label_key(key):
            problems.append(f"has the key {shown(key)}, which {wrong}")
        if wrong := names.explain_label_value(one):
            problems.append(f"[{shown(key)}] {wrong}")
    if problems:
        raise Unreadable("; it ".join(problems))
    return pairs


def tolerations(value: Any) -> tuple[dict[str, Any], ...]:
    """A list of tolerations, also as JSON text; what is in each the contract of the templates checks."""
    found = _json(value) if isinstance(value, str) else value
    if isinstance(found, Mapping):
        found = [found]
    if not isinstance(found, list | tuple) or not all(isinstance(one, Mapping) for one in found):
        raise Unreadable(f"is {kind(found)}, not a list of maps such as [{{'key': 'agents', 'operator': 'Exists'}}]")
    return tuple(dict(one) for one in found)


def amount(value: Any) -> str:
    """A Kubernetes quantity that is not negative, also as a number."""
    try:
        if quantity.parse(value) < 0:
            raise Unreadable(f"is {shown(value)}; it cannot be negative")
    except quantity.QuantityError as problem:
        raise Unreadable(f"is no quantity: {problem}") from None
    return value if isinstance(value, str) else quantity.canonical(value)


def absolute_path(value: Any) -> str:
    found = word(value)
    if not found.startswith("/"):
        raise Unreadable(f"is {shown(found)}, not an absolute path")
    return found


def object_name(value: Any) -> str:
    """The name of a Kubernetes object."""
    found = word(value)
    if wrong := names.explain_dns_subdomain(found):
        raise Unreadable(wrong)
    return found


def _json(value: str) -> Any:
    try:
        return json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as problem:
        at = f" at character {problem.pos + 1}" if isinstance(problem, json.JSONDecodeError) else ""
        raise Unreadable(f"is no JSON{at}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
