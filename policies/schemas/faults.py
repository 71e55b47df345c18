"""Turns what a schema refuses into sentences: what is there, what must be there, how to mend it.

Slow and thorough by intent (jsonschema, 0.3 ms an object): it runs only for objects known to be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]

from kubekit import pointers
from policies.schemas.compiled import Fault
from policies.schemas.shape import Schema, type_names

_QUOTE_LIMIT = 60  # characters of a value that a message repeats
_LIST_LIMIT = 12  # names that a remedy lists
_HIDDEN = frozenset({"data", "stringData", "env", "password", "token"})  # values below these are never repeated
_NAMES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a map",
    "array": "a list",
}
_BRANCHES = ("anyOf", "oneOf")


def explain(schema: Schema, tree: Any, *, secret: bool) -> list[Fault]:
    """The faults of `tree`, sorted by pointer; [] where it fits, or jsonschema cannot use the schema."""
    try:
        errors = list(Draft202012Validator(schema).iter_errors(tree))
    except (re.error, RecursionError):  # a pattern that Python's regular expressions do not know
        return []
    return sorted({fault for error in errors for fault in _faults(error, secret=secret)})


def _faults(error: ValidationError, *, secret: bool) -> Iterator[Fault]:
    where = pointers.join("", *error.absolute_path)
    quoted = not secret and _HIDDEN.isdisjoint(map(str, error.absolute_path))
    if error.validator in ("additionalProperties", "unevaluatedProperties") and error.validator_value is False:
        yield from _unknown_fields(error, where)
    elif error.validator in _BRANCHES:
        yield _no_branch(error, where, secret=secret)
    else:
        sentence = _SENTENCES.get(str(error.validator), _other)
        message, remedy = sentence(error, _quote(error.instance) if quoted else "")
        yield Fault(where, message, remedy)


def _unknown_fields(error: ValidationError, where: str) -> Iterator[Fault]:
    known = sorted(error.schema.get("properties", {}))
    patterns = [re.compile(pattern) for pattern in error.schema.get("patternProperties", {})]
    for name in sorted(error.instance):
        if name in known or any(pattern.search(name) for pattern in patterns):
            continue
        near = _near(name, known)
        message = f'unknown field "{name}"' + (f'; did you mean "{near}"?' if near else "")
        remedy = f'Rename it to "{near}".' if near else f"Remove it; allowed here: {_listed(known)}."
        yield Fault(pointers.join(where, name), message, remedy)


def _no_branch(error: ValidationError, where: str, *, secret: bool) -> Fault:
    branches = error.validator_value
    fields = [each["required"] for each in branches if isinstance(each, dict) and each.get("required")]
    if len(fields) == len(branches):
        names = " or ".join(" with ".join(f'"{name}"' for name in group) for group in fields)
        count = "exactly one" if error.validator == "oneOf" else "at least one"
        return Fault(where, f"must have {count} of the fields {names}", f"Set {count} of them.")
    context: Sequence[ValidationError] = error.context or ()
    if not context:
        return Fault(where, "fits several forms that exclude each other", "Keep the fields of one form.")
    if all(inner.validator == "type" and not inner.relative_path for inner in context):
        wanted = [name for inner in context for name in type_names(inner.schema)]
        return Fault(where, _wrong_type(error.instance, wanted), _retype(error.instance, wanted))
    reasons = dict.fromkeys(fault.message for inner in context for fault in _faults(inner, secret=secret))
    return Fault(where, "fits none of the allowed forms: " + "; or ".join(list(reasons)[:4]))


def _required(error: ValidationError, _: str) -> tuple[str, str]:
    missing = [name for name in error.validator_value if name not in error.instance]
    names = ", ".join(f'"{name}"' for name in missing)
    near = [guess for name in missing if (guess := _near(name, error.instance))]
    message = f"field {names} is missing" if len(missing) == 1 else f"fields {names} are missing"
    return message, f'Did you write "{near[0]}" for it?' if near else f"Add {names}."


def _type(error: ValidationError, _: str) -> tuple[str, str]:
    wanted = type_names(error.schema)
    return _wrong_type(error.instance, wanted), _retype(error.instance, wanted)


def _enum(error: ValidationError, quote: str) -> tuple[str, str]:
    allowed = [str(value) for value in error.validator_value if value is not None]
    near = _near(error.instance, allowed) if quote and isinstance(error.instance, str) else ""
    message = f"is {quote or 'a value'}, must be one of {_listed(allowed)}"
    return message, f'Did you mean "{near}"?' if near else ""


def _bound(words: str) -> Callable[[ValidationError, str], tuple[str, str]]:
    def sentence(error: ValidationError, quote: str) -> tuple[str, str]:
        return f"is {quote or 'a value'}, {words} {error.validator_value}", ""

    return sentence


def _size(words: str) -> Callable[[ValidationError, str], tuple[str, str]]:
    def sentence(error: ValidationError, _: str) -> tuple[str, str]:
        limit = str(error.validator_value)
        return f"has {len(error.instance)} {words.replace('*', limit)}", ""

    return sentence


def _pattern(error: ValidationError, quote: str) -> tuple[str, str]:
    return f"is {quote or 'a value'}, must match {error.validator_value}", ""


def _other(error: ValidationError, _: str) -> tuple[str, str]:
    return f'breaks the rule "{error.validator}" of its schema', ""


_SENTENCES: dict[str, Callable[[ValidationError, str], tuple[str, str]]] = {
    "required": _required,
    "type": _type,
    "enum": _enum,
    "pattern": _pattern,
    "minimum": _bound("must be at least"),
    "maximum": _bound("must be at most"),
    "exclusiveMinimum": _bound("must be more than"),
    "exclusiveMaximum": _bound("must be less than"),
    "multipleOf": _bound("must be a multiple of"),
    "minLength": _size("characters, must have at least *"),
    "maxLength": _size("characters, must have at most *"),
    "minItems": _size("entries, must have at least *"),
    "maxItems": _size("entries, must have at most *"),
    "minProperties": _size("fields, must have at least *"),
    "maxProperties": _size("fields, must have at most *"),
    "uniqueItems": lambda _error, _quote: ("holds an entry twice", "Remove the repeated entry."),
}


def _wrong_type(value: Any, wanted: Iterable[str]) -> str:
    names = dict.fromkeys(_NAMES[name] for name in wanted if name in _NAMES)
    return f"is {_kind(value)}, must be {' or '.join(names)}"


def _retype(value: Any, wanted: Iterable[str]) -> str:
    names = set(wanted)
    if "string" in names and isinstance(value, bool | int | float):
        return "Put it in quotes."
    if names & {"integer", "number"} and isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value):
        return "Write the number without quotes."
    if "boolean" in names and isinstance(value, str) and value.lower() in ("true", "false", "yes", "no"):
        return "Write true or false without quotes."
    if value is None:
        return "Give it a value, or remove the field."
    return ""


def _kind(value: Any) -> str:
    if value is None:
        return "empty (null)"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "text" if isinstance(value, str) else "a list" if isinstance(value, list) else "a map"


def _quote(value: Any) -> str:
    if not isinstance(value, str):
        return _kind(value) if isinstance(value, dict | list) or value is None else str(value).lower()
    return f'"{value}"' if len(value) <= _QUOTE_LIMIT else f'"{value[:_QUOTE_LIMIT]}…"'


def _near(name: str, candidates: Iterable[str]) -> str:
    """The one that was probably meant, "" where none is near. Case is the most common slip."""
    by_case = {candidate.lower(): candidate for candidate in candidates if isinstance(candidate, str)}
    close = get_close_matches(name.lower(), list(by_case), n=1, cutoff=0.75)
    return by_case[close[0]] if close and by_case[close[0]] != name else ""


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    shown = ", ".join(every[:_LIST_LIMIT]) or "nothing"
    return f"{shown} and {len(every) - _LIST_LIMIT} more" if len(every) > _LIST_LIMIT else shown
