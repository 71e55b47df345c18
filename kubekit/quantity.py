"""Kubernetes quantities ("500m", "2Gi", "1e3") as exact numbers.

The grammar is that of k8s.io/apimachinery/pkg/api/resource: a signed decimal number with a binary suffix, a
decimal suffix or a decimal exponent.
"""

from __future__ import annotations

import re
from fractions import Fraction

_QUANTITY = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+|[A-Za-z]*)")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_OFTEN_MEANT = {
    "K": "k",
    "ki": "Ki",
    "KI": "Ki",
    "mi": "Mi",
    "gi": "Gi",
    "g": "G",
    "t": "T",
    "KB": "k",
    "kB": "k",
}
_OFTEN_MEANT |= {
    "MB": "M",
    "GB": "G",
    "KiB": "Ki",
    "MiB": "Mi",
    "GiB": "Gi",
    "TiB": "Ti",
    "TB": "T",
    "µ": "u",
}

_LONGEST = 100
_LARGEST_EXPONENT = 100
_NANO = 10**9
_LARGEST_BINARY = Fraction(2**63 - 1)
"""Where a quantity with a binary suffix ends, in the API server and here: 8Ei is this."""


class QuantityError(ValueError):
    """Text that Kubernetes does not take for a quantity."""


def parse(text: str | float) -> Fraction:
    """The exact number that `text` means; a number of YAML means itself. QuantityError says what is wrong."""
    return _split(text)[0]


def compare(left: str | float, right: str | float) -> int:
    """-1, 0 or 1, as `left` is less than, equal to or more than `right`."""
    a, b = parse(left), parse(right)
    return (a > b) - (a < b)


def canonical(text: str | float) -> str:
    """The same number in the form of the API server: "0.5" is "500m", "2048Mi" is "2Gi".

    As there, a binary quantity that is no whole number becomes a decimal one, and less than a nano-unit is
    rounded away from zero.
    """
    value, suffix = _split(text)
    sign = "-" if value < 0 else ""
    value = Fraction(-(-abs(value) * _NANO // 1), _NANO)
    if suffix in _BINARY and value.denominator == 1 and value >= 1024:
        power = 0
        while value % 1024 == 0 and power < 6:
            value, power = value / 1024, power + 1
        return f"{sign}{value}{_BINARY_SUFFIX.get(power, '')}"
    if not value:
        return "0"
    has_exponent = suffix not in _BINARY and suffix not in _DECIMAL
    value, power = value * _NANO, -9
    while value % 1000 == 0 and (power < 18 or has_exponent):
        value, power = value / 1000, power + 3
    if has_exponent and power:
        return f"{sign}{value}e{power}"
    return f"{sign}{value}{_DECIMAL_SUFFIX[power]}"


def _split(text: str | float) -> tuple[Fraction, str]:
    """The number, and the suffix or exponent that it was written with."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise QuantityError(f'a quantity is text or a number, not {type(text).__name__}; write for example "500m"')
    written = text if isinstance(text, str) else repr(text)
    if len(written) > _LONGEST:
        raise QuantityError(f"a quantity of {len(written)} characters; at most {_LONGEST} are read")
    match = _QUANTITY.fullmatch(written)
    if not match:
        raise QuantityError(f'{written!r} is no quantity; write a number and a unit, for example "500m" or "2Gi"')
    sign, number, suffix = match.groups()
    value = Fraction(number) * (-1 if sign == "-" else 1)
    if suffix in _BINARY:
        value *= 1024 ** _BINARY[suffix]
        return max(-_LARGEST_BINARY, min(value, _LARGEST_BINARY)), suffix
    if suffix in _DECIMAL:
        return value * Fraction(10) ** _DECIMAL[suffix], suffix
    exponent = suffix[1:]
    if suffix[0] not in "eE" or not exponent.lstrip("+-").isdigit():
        meant = _OFTEN_MEANT.get(suffix)
        remedy = f'write "{number}{meant}"' if meant else "units are n u m k M G T P E and Ki Mi Gi Ti Pi Ei"
        raise QuantityError(f'{written!r} has the unit "{suffix}", which Kubernetes does not know; {remedy}')
    if abs(int(exponent)) > _LARGEST_EXPONENT:
        raise QuantityError(f"{written!r} has an exponent beyond {_LARGEST_EXPONENT}; write a smaller one")
    return value * Fraction(10) ** int(exponent), suffix
