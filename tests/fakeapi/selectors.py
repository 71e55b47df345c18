"""Label and field selectors as functions on a tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tests.fakeapi.statuses import bad_request

Selector = Callable[[Mapping[str, Any]], bool]

_FIELDS = {
    "jobs": ("status.successful",),
    "pods": ("spec.nodeName", "status.phase", "spec.restartPolicy", "status.podIP"),
    "secrets": ("type",),
    "events": (
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.uid",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
}


@lru_cache(maxsize=256)
def selector(resource: str, labels: str, fields: str) -> Selector | None:
    """None where everything fits."""
    wanted = [*_labels(labels), *_fields(resource, fields)]
    if not wanted:
        return None
    if len(wanted) == 1:
        return wanted[0]
    return lambda tree: all(one(tree) for one in wanted)


def _labels(text: str) -> list[Selector]:
    found: list[Selector] = []
    for term in _terms(text):
        key, operator, value = _split(term)
        found.append(_label(key, operator, value))
    return found


def _terms(text: str) -> list[str]:
    terms, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            terms.append(text[start:at])
            start = at + 1
    terms.append(text[start:])
    return [term.strip() for term in terms if term.strip()]


def _split(term: str) -> tuple[str, str, str]:
    for operator in ("!=", "==", "="):
        key, found, value = term.partition(operator)
        if found:
            return key.strip(), "!=" if operator == "!=" else "=", value.strip()
    for operator in (" notin ", " in "):
        key, found, value = term.partition(operator)
        if found:
            return key.strip(), operator.strip(), value.strip().strip("()")
    return (term[1:].strip(), "absent", "") if term[0] == "!" else (term, "present", "")


def _label(key: str, operator: str, value: str) -> Selector:
    def labels(tree: Mapping[str, Any]) -> Mapping[str, str]:
        return tree["metadata"].get("labels") or {}

    if operator == "=":
        return lambda tree: labels(tree).get(key) == value
    if operator == "!=":
        return lambda tree: labels(tree).get(key) != value
    if operator == "present":
        return lambda tree: key in labels(tree)
    if operator == "absent":
        return lambda tree: key not in labels(tree)
    values = {one.strip() for one in value.split(",")}
    if operator == "in":
        return lambda tree: labels(tree).get(key) in values
    return lambda tree: labels(tree).get(key) not in values


def _fields(resource: str, text: str) -> list[Selector]:
    found: list[Selector] = []
    for term in _terms(text):
        key, operator, value = _split(term)
        if operator not in ("=", "!="):
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if key not in ("metadata.name", "metadata.namespace", *_FIELDS.get(resource, ())):
            raise bad_request(f'field label not supported: "{key}"')
        found.append(_field(tuple(key.split(".")), value, equal=operator == "="))
    return found


def _field(path: tuple[str, ...], value: str, *, equal: bool) -> Selector:
    def fits(tree: Mapping[str, Any]) -> bool:
        at: Any = tree
        for part in path:
            at = at.get(part) if isinstance(at, dict) else None
        return (("" if at is None else str(at)) == value) is equal

    return fits
