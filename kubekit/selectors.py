"""Label selectors with the meaning they have upstream (k8s.io/apimachinery, meta/v1 LabelSelector)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FIELDS = frozenset({"matchLabels", "matchExpressions"})


class SelectorError(ValueError):
    """A selector that the API server would refuse, so that it selects nothing in particular."""


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether `selector` picks an object with `labels`: {} picks all, None picks none.

    All conditions must hold. NotIn and DoesNotExist hold for an object without the key.
    """
    if selector is None:
        return False
    unknown = sorted(set(selector) - _FIELDS)
    if unknown:
        wanted = "a selector holds matchLabels and matchExpressions"
        raise SelectorError(f'the selector has the field "{unknown[0]}"; {wanted}')
    wanted_labels = selector.get("matchLabels") or {}
    if not isinstance(wanted_labels, Mapping):
        raise SelectorError("matchLabels is no map; write each label as key: value")
    # All expressions are judged, so that a wrong one is found whatever the labels are.
    results = [_holds(expression, labels) for expression in selector.get("matchExpressions") or ()]
    return all(labels.get(key) == value for key, value in wanted_labels.items()) and all(results)


def _holds(expression: Any, labels: Mapping[str, str]) -> bool:
    if not isinstance(expression, Mapping) or not isinstance(expression.get("key"), str):
        raise SelectorError("an item of matchExpressions has no key; write key, operator and values")
    key, operator, values = expression["key"], expression.get("operator"), expression.get("values") or []
    if operator in {"In", "NotIn"}:
        if not values or not isinstance(values, list | tuple):
            raise SelectorError(f'{operator} for the label "{key}" needs a list of values; write at least one')
        return bool(key in labels and labels[key] in values) is (operator == "In")
    if operator in {"Exists", "DoesNotExist"}:
        if values:
            raise SelectorError(f'{operator} for the label "{key}" takes no values; take them out')
        return (key in labels) is (operator == "Exists")
    known = "In, NotIn, Exists or DoesNotExist"
    raise SelectorError(f'the label "{key}" has the operator "{operator}"; write {known}')
