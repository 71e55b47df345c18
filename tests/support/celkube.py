"""What Kubernetes adds to CEL, in Python: quantities, URLs, IP addresses, regular expressions, lists.

An opaque value of Kubernetes is a map with one key here. The engine picks a function by the types of its arguments at
run time, so all of them are concrete: a quantity of a number is an error, as on an API server.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from cel_expr_python import cel as engine

Type = engine.Type
_QUANTITY = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)((?:[KMGTPE]i)|[numkMGTPE]|[eE][+-]?\d+)?")
_SUFFIX = {suffix: Decimal(1024) ** (1 + power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
_SUFFIX |= {suffix: Decimal(1000) ** (1 + power) for power, suffix in enumerate("kMGTPE")}
_SUFFIX |= {"": Decimal(1), "m": Decimal("1e-3"), "u": Decimal("1e-6"), "n": Decimal("1e-9")}


def functions() -> list[engine.FunctionDecl]:
    """Every function, to be declared in an environment."""
    overloads: dict[str, list[engine.Overload]] = {}
    for name, member, parameters, result, run in (*_strings(), *_texts(), *_addresses(), *_lists()):
        overloads.setdefault(name, []).append(
            engine.Overload(
                f"kube_{name}_{len(overloads.get(name, ()))}",
                result,
                list(parameters),
                is_member=member,
                impl=run,
            )
        )
    return [engine.FunctionDecl(name, ones) for name, ones in overloads.items()]


_Table = list[tuple[str, bool, tuple[engine.Type, ...], engine.Type, Callable[..., Any]]]


def _strings() -> _Table:
    """The extension of CEL itself, version 2; the engine has it, but then no `indexOf` of a list beside."""
    text, number, many = Type.STRING, Type.INT, Type.LIST
    return [
        (
            "charAt",
            True,
            (text, number),
            text,
            lambda one, at: one[at : at + 1] if 0 <= at <= len(one) else _beyond(at),
        ),
        ("indexOf", True, (text, text), number, lambda one, part: one.find(part)),
        ("indexOf", True, (text, text, number), number, lambda one, part, start: one.find(part, start)),
        ("lastIndexOf", True, (text, text), number, lambda one, part: one.rfind(part)),
        ("join", True, (many,), text, "".join),
        ("join", True, (many, text), text, lambda one, between: between.join(one)),
        ("lowerAscii", True, (text,), text, lambda one: re.sub("[A-Z]+", lambda match: match[0].lower(), one)),
        ("upperAscii", True, (text,), text, lambda one: re.sub("[a-z]+", lambda match: match[0].upper(), one)),
        ("replace", True, (text, text, text), text, lambda one, old, new: one.replace(old, new)),
        ("replace", True, (text, text, text, number), text, lambda one, old, new, most: one.replace(old, new, most)),
        ("split", True, (text, text), many, _split),
        ("split", True, (text, text, number), many, _split),
        ("substring", True, (text, number), text, lambda one, start: _substring(one, start, len(one))),
        ("substring", True, (text, number, number), text, _substring),
        ("trim", True, (text,), text, str.strip),
    ]


def _texts() -> _Table:
    text, number, flag, some, many = Type.STRING, Type.INT, Type.BOOL, Type.MAP, Type.LIST
    return [
        ("quantity", False, (text,), some, lambda one: {"quantity": str(_amount(one))}),
        ("isQuantity", False, (text,), flag, _is(_amount)),
        ("isGreaterThan", True, (some, some), flag, lambda one, other: _value(one) > _value(other)),
        ("isLessThan", True, (some, some), flag, lambda one, other: _value(one) < _value(other)),
        ("compareTo", True, (some, some), number, lambda one, other: int(_value(one).compare(_value(other)))),
        ("add", True, (some, some), some, lambda one, other: {"quantity": str(_value(one) + _value(other))}),
        ("sub", True, (some, some), some, lambda one, other: {"quantity": str(_value(one) - _value(other))}),
        ("sign", True, (some,), number, lambda one: int(_value(one).compare(Decimal(0)))),
        ("isInteger", True, (some,), flag, lambda one: _value(one) == _value(one).to_integral_value()),
        ("asInteger", True, (some,), number, lambda one: int(_value(one))),
        ("asApproximateFloat", True, (some,), Type.DOUBLE, lambda one: float(_value(one))),
        ("find", True, (text, text), text, _find),
        ("findAll", True, (text, text), many, lambda one, pattern: [m[0] for m in re.finditer(pattern, one)]),
        (
            "findAll",
            True,
            (text, text, number),
            many,
            lambda one, pattern, most: [m[0] for m in re.finditer(pattern, one)][: most if most >= 0 else None],
        ),
        ("url", False, (text,), some, lambda one: {"url": _url(one).geturl()}),
        ("isURL", False, (text,), flag, _is(_url)),
        ("getScheme", True, (some,), text, lambda one: _url(one["url"]).scheme),
        ("getHost", True, (some,), text, lambda one: _url(one["url"]).netloc.rpartition("@")[2]),
        ("getHostname", True, (some,), text, lambda one: _url(one["url"]).hostname or ""),
        ("getPort", True, (some,), text, lambda one: str(_url(one["url"]).port or "")),
        ("getEscapedPath", True, (some,), text, lambda one: _url(one["url"]).path),
        ("getQuery", True, (some,), some, lambda one: parse_qs(_url(one["url"]).query, keep_blank_values=True)),
    ]


def _addresses() -> _Table:
    text, number, flag, some = Type.STRING, Type.INT, Type.BOOL, Type.MAP
    return [
        ("ip", False, (text,), some, lambda one: {"ip": str(_ip(one))}),
        ("isIP", False, (text,), flag, _is(_ip)),
        ("ip.isCanonical", False, (text,), flag, lambda one: str(_ip(one)) == one),
        ("family", True, (some,), number, lambda one: _ip(one["ip"]).version),
        ("isUnspecified", True, (some,), flag, lambda one: _ip(one["ip"]).is_unspecified),
        ("isLoopback", True, (some,), flag, lambda one: _ip(one["ip"]).is_loopback),
        (
            "isLinkLocalMulticast",
            True,
            (some,),
            flag,
            lambda one: _ip(one["ip"]) in ipaddress.ip_network("224.0.0.0/24"),
        ),
        ("isLinkLocalUnicast", True, (some,), flag, lambda one: _ip(one["ip"]).is_link_local),
        ("isGlobalUnicast", True, (some,), flag, _is_unicast),
        ("cidr", False, (text,), some, lambda one: {"cidr": _cidr(one)}),
        ("isCIDR", False, (text,), flag, _is(_cidr)),
        ("containsIP", True, (some, text), flag, lambda one, other: _ip(other) in _net(one)),
        ("containsIP", True, (some, some), flag, lambda one, other: _ip(other["ip"]) in _net(one)),
        ("containsCIDR", True, (some, text), flag, lambda one, other: _within(_net({"cidr": other}), _net(one))),
        ("containsCIDR", True, (some, some), flag, lambda one, other: _within(_net(other), _net(one))),
        ("ip", True, (some,), some, lambda one: {"ip": one["cidr"].partition("/")[0]}),
        ("masked", True, (some,), some, lambda one: {"cidr": str(_net(one))}),
        ("prefixLength", True, (some,), number, lambda one: _net(one).prefixlen),
    ]


def _lists() -> _Table:
    many, flag, number = Type.LIST, Type.BOOL, Type.INT
    items = (Type.STRING, Type.INT, Type.DOUBLE, Type.BOOL, Type.MAP, Type.LIST)
    return [
        *(("indexOf", True, (many, item), number, _index) for item in items),
        *(("lastIndexOf", True, (many, item), number, _last_index) for item in items),
        ("isSorted", True, (many,), flag, lambda one: all(a <= b for a, b in pairwise(one))),
        ("sum", True, (many,), Type.DYN, sum),
        ("min", True, (many,), Type.DYN, min),
        ("max", True, (many,), Type.DYN, max),
    ]


def _index(items: list[Any], wanted: Any) -> int:
    return items.index(wanted) if wanted in items else -1


def _last_index(items: list[Any], wanted: Any) -> int:
    return len(items) - 1 - items[::-1].index(wanted) if wanted in items else -1


def _split(text: str, separator: str, most: int = -1) -> list[str]:
    if most in (0, 1):
        return [text][:most]
    if not separator:
        return list(text)
    return text.split(separator, most - 1 if most > 0 else -1)


def _substring(text: str, start: int, end: int) -> str:
    if not 0 <= start <= end <= len(text):
        return _beyond(end)
    return text[start:end]


def _beyond(index: int) -> str:
    raise ValueError(f"index out of range: {index}")


def _is(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def run(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return run


def _amount(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError("quantities must match the regular expression of resource.Quantity")
    sign, digits, suffix = match[1], match[2], match[3] or ""
    scale = _SUFFIX.get(suffix) or Decimal(10) ** int(suffix[1:])
    return (Decimal(sign + digits) * scale).normalize()


def _value(one: Mapping[str, str]) -> Decimal:
    return Decimal(one["quantity"])


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


def _url(text: str) -> SplitResult:
    found = urlsplit(text)
    if not found.scheme and not text.startswith("/"):
        raise ValueError("no absolute URL")
    found.port  # noqa: B018  reading it is the check
    return found


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(text)
    if isinstance(found, ipaddress.IPv6Address) and (found.ipv4_mapped or found.scope_id):
        raise ValueError("IPv4-mapped IPv6 addresses and zones are not allowed")
    return found


def _cidr(text: str) -> str:
    address, slash, bits = text.partition("/")
    if not slash or not bits.isdecimal():
        raise ValueError("no CIDR")
    ipaddress.ip_network(text, strict=False)
    return f"{_ip(address)}/{int(bits)}"


def _net(one: Mapping[str, str]) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(_cidr(one["cidr"]), strict=False)


def _within(inner: Any, outer: Any) -> bool:
    return inner.version == outer.version and inner.subnet_of(outer)


def _is_unicast(one: Mapping[str, str]) -> bool:
    address = _ip(one["ip"])
    return (
        not (address.is_multicast or address.is_loopback or address.is_link_local or address.is_unspecified)
        and str(address) != "255.255.255.255"
    )
