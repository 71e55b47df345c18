"""Reads NetworkPolicy and the policies of Cilium into the same words, each with the meaning its project gives it.

Sources: kubernetes.io/docs/concepts/services-networking/network-policies and the API reference of NetworkPolicySpec;
docs.cilium.io/en/stable/security/policy (layer 3, layer 4, deny policies) and pkg/policy/api of cilium/cilium.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.network.addresses import network
from policies.network.terms import (
    ANY,
    DIRECTIONS,
    EGRESS,
    EVERY_PORT,
    INGRESS,
    NAMESPACE_LABELS,
    POD_NAMESPACE,
    Anyone,
    Block,
    Doc,
    Entity,
    Name,
    Part,
    Peer,
    Pods,
    PortRange,
    Ports,
    Rule,
    ServicePods,
    Unknown,
)
from policies.world import Entry, mapping, sequence

KUBERNETES = "NetworkPolicy"
CILIUM = ("CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy")
POLICIES = (KUBERNETES, *CILIUM)
_PREFIXES = ("k8s:", "any:")
_SIDES = {INGRESS: "from", EGRESS: "to"}


def documents(entry: Entry) -> Iterator[Doc]:
    """The policies in an object: one of Cilium may hold several."""
    if entry.id.kind == KUBERNETES:
        yield _kubernetes(entry)
        return
    if isinstance(entry.manifest.get("spec"), Mapping):
        yield _cilium(entry, "/spec", entry.spec)
    for index, spec in enumerate(sequence(entry.manifest.get("specs"))):
        if isinstance(spec, Mapping):
            yield _cilium(entry, f"/specs/{index}", spec)


def policy_types(spec: Mapping[str, Any]) -> frozenset[str]:
    """The directions it is about: ingress always, egress only where it has rules, unless it says so itself."""
    said = sequence(spec.get("policyTypes"))
    if said:
        return frozenset(one.lower() for one in said if isinstance(one, str))
    return frozenset(DIRECTIONS if sequence(spec.get(EGRESS)) else (INGRESS,))


def _kubernetes(entry: Entry) -> Doc:
    spec, namespace = entry.spec, entry.id.namespace
    types = policy_types(spec)
    parts = {}
    for direction in DIRECTIONS:
        rules = tuple(_kubernetes_rules(spec, direction, namespace)) if direction in types else ()
        parts[direction] = Part(direction in types, rules)
    # Since 1.34 it may be left out, and means every pod; before that the API server refuses the object.
    selector = spec.get("podSelector", {})
    return Doc(
        entry,
        "/spec",
        "/spec/podSelector" if "podSelector" in spec else "/spec",
        namespace,
        selector if isinstance(selector, Mapping) else None,
        cilium=False,
        parts=parts,
    )


def _kubernetes_rules(spec: Mapping[str, Any], direction: str, namespace: str) -> Iterator[Rule]:
    for index, rule in enumerate(sequence(spec.get(direction))):
        if isinstance(rule, Mapping):
            said = sequence(rule.get(_SIDES[direction]))
            peers = tuple(found for one in said for found in _kubernetes_peer(one, namespace)) if said else (Anyone(),)
            yield Rule(f"/spec/{direction}/{index}", peers, _kubernetes_ports(rule))


def _kubernetes_peer(peer: object, namespace: str) -> Iterator[Peer]:
    one = mapping(peer)
    if "ipBlock" in one:
        yield from _block(mapping(one["ipBlock"]))
        return
    selector, namespaces = one.get("podSelector"), one.get("namespaceSelector")
    if isinstance(namespaces, Mapping):
        yield Pods(selector if isinstance(selector, Mapping) else {}, namespaces=namespaces)
    elif isinstance(selector, Mapping):
        yield Pods(selector, namespace)


def _block(block: Mapping[str, Any]) -> Iterator[Peer]:
    found = network(block.get("cidr"))
    if found is not None:
        taken = (network(one) for one in sequence(block.get("except")))
        yield Block(found, tuple(one for one in taken if one is not None))


def _kubernetes_ports(rule: Mapping[str, Any]) -> Ports:
    said = sequence(rule.get("ports"))
    return tuple(found for one in said for found in _port(mapping(one), "TCP")) if said else EVERY_PORT


def _port(port: Mapping[str, Any], protocol: str) -> Iterator[PortRange]:
    protocol = str(port.get("protocol") or protocol)
    first, last = port.get("port"), port.get("endPort")
    if isinstance(first, str) and first.isdecimal() and len(first) < 6:
        first = int(first)
    if first is None or (first == 0 and not isinstance(first, bool)):  # Cilium writes 0 for all
        yield PortRange(protocol, 0, 65535)
    elif isinstance(first, str):
        yield PortRange(protocol, 0, 0, first)
    elif isinstance(first, int):
        yield PortRange(protocol, first, last if isinstance(last, int) and last > first else first)


def _cilium(entry: Entry, pointer: str, spec: Mapping[str, Any]) -> Doc:
    namespace = entry.id.namespace if entry.id.kind == CILIUM[0] else None
    default = mapping(spec.get("enableDefaultDeny"))
    parts = {}
    for direction in DIRECTIONS:
        allows = tuple(_cilium_rules(spec, pointer, direction, direction, namespace))
        denies = tuple(_cilium_rules(spec, pointer, direction, f"{direction}Deny", namespace))
        # A list with a rule in it isolates, be the rule empty; an empty list says nothing.
        said = default.get(direction)
        isolates = said if isinstance(said, bool) else bool(allows or denies)
        parts[direction] = Part(isolates, allows, denies)
    selector = spec.get("endpointSelector")
    chosen = _plain(selector) if isinstance(selector, Mapping) else None
    place = f"{pointer}/endpointSelector" if isinstance(selector, Mapping) else pointer
    return Doc(entry, pointer, place, namespace, chosen, cilium=True, parts=parts)


def _cilium_rules(
    spec: Mapping[str, Any], pointer: str, direction: str, key: str, namespace: str | None
) -> Iterator[Rule]:
    side = _SIDES[direction]
    for index, rule in enumerate(sequence(spec.get(key))):
        if not isinstance(rule, Mapping):
            continue
        named = [one for one in rule if isinstance(one, str) and one.startswith(side) and one != "toPorts"]
        peers = tuple(found for one in named for found in _cilium_peers(one.removeprefix(side), rule[one], namespace))
        ports, layer7 = _cilium_ports(rule)
        if not named and ("toPorts" in rule or "icmps" in rule):
            peers = (Anyone(),)
        yield Rule(f"{pointer}/{key}/{index}", peers, ports, layer7)


def _cilium_peers(kind: str, value: object, namespace: str | None) -> Iterator[Peer]:
    for one in sequence(value):
        if kind == "Endpoints":
            yield from _endpoints(one, namespace)
        elif kind == "Entities":
            yield Entity(str(one))
        elif kind == "CIDR":
            yield from _block({"cidr": one})
        elif kind == "CIDRSet":
            item = mapping(one)
            group = item.get("cidrGroupRef") or item.get("cidrGroupSelector")
            yield from _block(item) if "cidr" in item else iter([Unknown(f"the group of addresses {group}")])
        elif kind == "FQDNs":
            item = mapping(one)
            yield Name(str(item.get("matchName") or item.get("matchPattern") or ""))
        elif kind == "Services":
            yield from _services(mapping(one), namespace)
        elif kind != "Requires":
            yield Unknown({"Nodes": "nodes by label", "Groups": "a group of the cloud"}.get(kind, kind))


def _endpoints(selector: object, namespace: str | None) -> Iterator[Peer]:
    if not isinstance(selector, Mapping):
        return
    keys = [str(key) for key in mapping(selector.get("matchLabels"))]
    keys += [str(mapping(one).get("key")) for one in sequence(selector.get("matchExpressions"))]
    reserved = next((key for key in keys if key.startswith("reserved:")), "")
    if reserved:
        yield Entity(reserved.removeprefix("reserved:"))
        return
    plain = [_without_prefix(key) for key in keys]
    elsewhere = any(key == POD_NAMESPACE or key.startswith(NAMESPACE_LABELS) for key in plain)
    yield Pods(_plain(selector), None if elsewhere else namespace, extended=True)


def _services(item: Mapping[str, Any], namespace: str | None) -> Iterator[Peer]:
    by_name, by_selector = mapping(item.get("k8sService")), mapping(item.get("k8sServiceSelector"))
    if by_name:
        said = by_name.get("namespace")
        yield ServicePods(str(said) if said else namespace, str(by_name.get("serviceName", "")), None)
    if by_selector:
        said, selector = by_selector.get("namespace"), by_selector.get("selector")
        chosen = _plain(selector) if isinstance(selector, Mapping) else {}
        yield ServicePods(str(said) if said else None, "", chosen)


def _cilium_ports(rule: Mapping[str, Any]) -> tuple[Ports, str]:
    """The ports, and what looks into the traffic on them."""
    if "icmps" in rule and "toPorts" not in rule:
        return (PortRange("ICMP", 0, 65535),), ""
    found: list[PortRange] = []
    layer7: list[str] = []
    for one in map(mapping, sequence(rule.get("toPorts"))):
        ports = sequence(one.get("ports"))
        found += [port for each in ports for port in _port(mapping(each), ANY)] if ports else EVERY_PORT
        layer7 += [str(key) for key in mapping(one.get("rules"))]
    return (tuple(found) if sequence(rule.get("toPorts")) else EVERY_PORT), ", ".join(dict.fromkeys(layer7))


def _plain(selector: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the sources that Cilium writes before its keys."""
    result = dict(selector)
    if isinstance(selector.get("matchLabels"), Mapping):
        result["matchLabels"] = {_without_prefix(key): value for key, value in selector["matchLabels"].items()}
    if isinstance(selector.get("matchExpressions"), list):
        result["matchExpressions"] = [
            {**one, "key": _without_prefix(one["key"])} if isinstance(one, Mapping) and "key" in one else one
            for one in selector["matchExpressions"]
        ]
    return result


def _without_prefix(key: Any) -> Any:
    if isinstance(key, str):
        for prefix in _PREFIXES:
            if key.startswith(prefix):
                return key.removeprefix(prefix)
    return key
