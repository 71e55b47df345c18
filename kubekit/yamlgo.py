"""What a plain word of YAML means to Go's reader (sigs.k8s.io/yaml), which kubectl, Argo CD and Helm read with.

It is YAML 1.1 for booleans and numbers in octal, takes underscores out of numbers, and knows no numbers in base 60.
Held against kubectl by tests/kubekit/test_yaml_of_others.py.
"""

from __future__ import annotations

import re
from math import isfinite

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {
    form: truth
    for truth, words in ((True, ("y", "yes", "on", "true")), (False, ("n", "no", "off", "false")))
    for word in words
    for form in (word, word.title(), word.upper())
}
_INT = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)")
_OCTAL = re.compile(r"([-+]?)0([0-7]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_INTEGERS = range(-(2**63), 2**64)
# What all words with a meaning begin with; the rest is text without a further look.
_MEANINGFUL = frozenset("0123456789+-.~nNtTfFyYoO")
# More digits than any integer of 64 bits has in any base; int() refuses thousands of them with an error of its own.
_LONGEST = 100


def plain_value(text: str) -> str | int | float | bool | None:
    """The value of a plain word. Raises ValueError for a number that JSON has no form for."""
    if text and text[0] not in _MEANINGFUL:
        return text
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _NOT_FINITE.fullmatch(text):
        raise ValueError("a number that is not finite has no form in JSON")
    digits = text.replace("_", "")
    if len(digits) <= _LONGEST and _INT.fullmatch(digits):
        whole = int(_OCTAL.sub(r"\g<1>0o\2", digits) if _OCTAL.fullmatch(digits) else digits, 0)
        if whole in _INTEGERS:
            return whole
    if _FLOAT.fullmatch(digits) and isfinite(number := float(digits)):
        return number
    return text
