"""Load balancer addresses: one outside its pool is never assigned, and nothing says so but a condition."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from kubekit import labels, pointers
from policies.model import Fault
from policies.registry import policy
from policies.world import Entry, World

_ADDRESS = ipaddress.ip_address
_POINTER = pointers.join("/metadata/annotations", labels.LOAD_BALANCER_IPS)


def _requested(entry: Entry) -> list[str]:
    return [part.strip() for part in _annotation(entry, labels.LOAD_BALANCER_IPS).split(",") if part.strip()]


def _annotation(entry: Entry, name: str) -> str:
    """Its text; "" where anything on the way is not what it should be, which the schema says."""
    metadata = entry.manifest.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(name) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""


@policy(
    "lb-ip-in-pool",
    title="A load balancer's address lies in a pool",
    rationale="Cilium never assigns an address outside its pools: the Service stays pending without an event.",
    remedy="choose an address of the pool, or widen the pool",
    kinds=("Service",),
)
def lb_ip_in_pool(entry: Entry, world: World) -> Iterator[Fault]:
    pools = [*world.facts.address_pools, *_rendered_pools(world)]
    for text in _requested(entry):
        try:
            address = _ADDRESS(text)
        except ValueError:
            yield Fault(_POINTER, f"{text!r} is no IP address")
            continue
        if not any(_within(address, first, last) for first, last in pools):
            known = ", ".join(f"{first} to {last}" for first, last in pools) or "there is no pool"
            yield Fault(_POINTER, f"{text} lies in no address pool ({known})")


@policy(
    "lb-ip-unique",
    title="No two Services ask for one address",
    rationale="The second Service stays pending for ever, unless both carry the same sharing key.",
    remedy="give each Service its own address, or the same lbipam.cilium.io/sharing-key and different ports",
    kinds=("Service",),
)
def lb_ip_unique(entry: Entry, world: World) -> Iterator[Fault]:
    mine = _annotation(entry, labels.SHARING_KEY)
    for text in _requested(entry):
        for other in world.by_kind.get("Service", ()):
            if other is entry:
                break
            if text in _requested(other) and (not mine or mine != _annotation(other, labels.SHARING_KEY)):
                yield Fault(_POINTER, f"{text} is also asked for by {other.id}")


def _rendered_pools(world: World) -> Iterator[tuple[str, str]]:
    for pool in world.by_kind.get("CiliumLoadBalancerIPPool", ()):
        spec = pool.manifest.get("spec")
        blocks = spec.get("blocks") if isinstance(spec, dict) else None
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict):
                yield from _range(block)


def _range(block: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(first, last) of a block; nothing of one that is broken, which the schema says."""
    try:
        if "cidr" in block:
            network = ipaddress.ip_network(str(block["cidr"]), strict=False)
            yield str(network[0]), str(network[-1])
        else:
            first = str(_ADDRESS(str(block.get("start"))))
            yield first, str(_ADDRESS(str(block.get("stop", first))))
    except ValueError:
        return


def _within(address: Any, first: str, last: str) -> bool:
    low, high = _ADDRESS(first), _ADDRESS(last)
    return bool(low.version == address.version == high.version and low <= address <= high)
