"""Addresses as the network policies speak of them: ranges, what is taken out of them, and the ranges one must know."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias

Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"
Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
Span: TypeAlias = tuple[int, int, int]
"""(IP version, first, last), both ends included."""

METADATA = ("169.254.169.254", "fd00:ec2::254")
"""Where clouds serve the credentials of the machine (AWS, Azure and Google use the first, AWS also the second)."""
METADATA_RANGES = ("169.254.0.0/16", "fd00:ec2::254/128")
PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
"""RFC 1918, RFC 6598 (carriers), RFC 4193 (ULA)."""
NODE_LOCAL_DNS = "169.254.20.10"
"""Where NodeLocal DNSCache listens by default."""
WORLD = ("0.0.0.0/0", "::/0")


@lru_cache(maxsize=4096)
def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def network(value: object) -> Network | None:
    """The range that is written; None for what is none, which the schema or the API server says."""
    return _network(value) if isinstance(value, str) else None


def address(text: str) -> Address | None:
    found = _network(text) if "/" not in text else None
    return found[0] if found is not None else None


def contains(outer: Network, inner: Network) -> bool:
    """Whether all of `inner` lies in `outer`."""
    return (
        outer.version == inner.version
        and outer.prefixlen <= inner.prefixlen
        and int(outer.network_address) <= int(inner.network_address) <= int(outer.broadcast_address)
    )


def span(one: Network) -> Span:
    return one.version, int(one.network_address), int(one.broadcast_address)


def spans(block: Network, excepts: Iterable[Network]) -> tuple[Span, ...]:
    """What is left of `block`, in order."""
    left = [span(block)]
    for out in excepts:
        left = [piece for one in left for piece in _without(one, span(out))]
    return tuple(sorted(left))


def minus(all_of: Iterable[Span], out: Iterable[Span]) -> tuple[Span, ...]:
    left = list(all_of)
    for one in out:
        left = [piece for old in left for piece in _without(old, one)]
    return tuple(sorted(left))


def _without(one: Span, out: Span) -> Iterator[Span]:
    version, first, last = one
    if version != out[0] or out[2] < first or out[1] > last:
        yield one
        return
    if first < out[1]:
        yield version, first, out[1] - 1
    if out[2] < last:
        yield version, out[2] + 1, last


def within(all_of: Iterable[Span], ranges: Iterable[Network]) -> tuple[Span, ...]:
    """The parts of the spans that lie in one of the ranges."""
    found = []
    for one in all_of:
        for each in ranges:
            version, first, last = span(each)
            if version == one[0] and first <= one[2] and one[1] <= last:
                found.append((version, max(first, one[1]), min(last, one[2])))
    return tuple(sorted(set(found)))


def written(all_of: Iterable[Span]) -> tuple[str, ...]:
    """The spans as CIDRs, as few as possible, IPv4 first."""
    v4: list[ipaddress.IPv4Network] = []
    v6: list[ipaddress.IPv6Network] = []
    for version, first, last in all_of:
        if version == 4:
            v4 += ipaddress.summarize_address_range(ipaddress.IPv4Address(first), ipaddress.IPv4Address(last))
        else:
            v6 += ipaddress.summarize_address_range(ipaddress.IPv6Address(first), ipaddress.IPv6Address(last))
    return tuple(map(str, (*ipaddress.collapse_addresses(v4), *ipaddress.collapse_addresses(v6))))


def holds(all_of: Iterable[Span], one: Address) -> bool:
    number = int(one)
    return any(version == one.version and first <= number <= last for version, first, last in all_of)


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Those that are ranges."""
    return tuple(found for text in texts if (found := network(text)) is not None)
