"""Load balancer addresses: one outside its pool is never assigned, and nothing says so but a condition.

Source of what Cilium does: docs.cilium.io, "LoadBalancer IP Address Management" and "L2 Announcements".
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import labels, pointers
from policies.cel import Cel
from policies.facts import Facts
from policies.model import Fault, Scope, Severity
from policies.network.addresses import Address, address
from policies.network.terms import picks, selector_text
from policies.registry import policy
from policies.world import Entry, World, mapping, sequence

_ANNOTATIONS = (labels.LOAD_BALANCER_IPS, "io.cilium/lb-ipam-ips")
_KEYS = (labels.SHARING_KEY, "io.cilium/lb-ipam-sharing-key")
# metallb.io/usage, "IP address sharing".
_KEYS_OF_METALLB = ("metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip")
_ACROSS = "lbipam.cilium.io/sharing-cross-namespace"
_POINTER = pointers.join("/metadata/annotations", labels.LOAD_BALANCER_IPS)
_IPAM = "https://docs.cilium.io/en/stable/network/lb-ipam/"
_CLASSES = ("", "io.cilium/l2-announcer", "io.cilium/bgp-control-plane", "io.cilium/node")


def _requested(entry: Entry) -> list[str]:
    """What it asks Cilium for: by the annotation, by that of old, or by the field that Kubernetes has given up."""
    text = next((said for name in _ANNOTATIONS if (said := _annotation(entry, name))), "")
    found = [part.strip() for part in text.split(",") if part.strip()]
    field = entry.spec.get("loadBalancerIP")
    if entry.spec.get("type") == "LoadBalancer" and isinstance(field, str) and field:
        found.append(field.strip())
    return list(dict.fromkeys(found))


def _pointer(entry: Entry) -> str:
    for name in _ANNOTATIONS:
        if _annotation(entry, name):
            return pointers.join("/metadata/annotations", name)
    return "/spec/loadBalancerIP" if "loadBalancerIP" in entry.spec else "/metadata"


def _annotation(entry: Entry, name: str) -> str:
    """Its text; "" where anything on the way is not what it should be, which the schema says."""
    text = entry.annotations.get(name)
    return text if isinstance(text, str) else ""


def _of_cilium(entry: Entry) -> bool:
    return entry.spec.get("loadBalancerClass") in (None, *_CLASSES)


def _pinned_cel(facts: Facts) -> Cel | None:
    if not facts.load_balancers:
        return None
    known = ", ".join(f"'{service}': '{ip}'" for service, ip in sorted(facts.load_balancers.items()))
    place = "object.metadata.?namespace.orValue('default') + '/' + object.metadata.name"
    asked = (
        f"variables.annotations[?'{_ANNOTATIONS[0]}'].orValue(variables.annotations[?'{_ANNOTATIONS[1]}'].orValue(''))"
    )
    return Cel(
        "object.spec.?type.orValue('ClusterIP') != 'LoadBalancer' || !(variables.place in variables.pinned)"
        " || ((variables.asked != '' || variables.field != '')"
        " && (variables.asked == '' || variables.asked == variables.pinned[variables.place])"
        " && (variables.field == '' || variables.field == variables.pinned[variables.place]))",
        variables={
            "place": place,
            "pinned": f"{{{known}}}",
            "asked": f"{asked}.trim()",
            "field": "object.spec.?loadBalancerIP.orValue('')",
        },
    )


@policy(
    "lb-ip-pinned",
    title="A load balancer asks for the address of the config",
    rationale="DNS, certificates and bookmarks name the address; a Service that asks for another one, or for none, "
    "gets whichever is free.",
    remedy="write the address of the config into the annotation lbipam.cilium.io/ips",
    kinds=("Service",),
    links=(f"{_IPAM}#requesting-ips",),
    cel=_pinned_cel,
)
def lb_ip_pinned(entry: Entry, world: World) -> Iterator[Fault]:
    pinned = world.facts.load_balancers.get(f"{entry.id.namespace}/{entry.id.name}")
    if pinned is None or entry.spec.get("type") != "LoadBalancer":
        return
    asked = _requested(entry)
    if asked != [pinned]:
        said = ", ".join(asked) or "none"
        yield Fault(_pointer(entry), f"the Service must ask for {pinned}, the address of the config (asks for {said})")


@policy(
    "lb-ip-in-pool",
    title="A load balancer's address lies in a pool and is announced",
    rationale="Cilium never assigns an address outside its pools: the Service stays pending without an event. One "
    "that no policy announces is assigned, and nobody in the network finds it.",
    remedy="choose an address of a pool, or widen the pool; select the Service by an L2 policy",
    scope=Scope.SET,
    kinds=("Service",),
    links=(_IPAM, "https://docs.cilium.io/en/stable/network/l2-announcements/"),
)
def lb_ip_in_pool(entry: Entry, world: World) -> Iterator[Fault]:
    asked = _requested(entry)
    if not asked or not _of_cilium(entry):
        return
    pools = [*world.facts.address_pools, *_rendered_pools(entry, world)]
    unknown = not world.facts.address_pools and not world.by_kind.get("CiliumLoadBalancerIPPool")
    for text in asked:
        found = address(text)
        if found is None:
            yield Fault(_pointer(entry), f"{text!r} is no IP address")
        elif not unknown and not any(_within(found, first, last) for first, last in pools):
            known = ", ".join(f"{first} to {last}" for first, last in pools) or "no pool is for this Service"
            yield Fault(_pointer(entry), f"{text} lies in no address pool ({known}), and must lie in one")
    yield from _unannounced(entry, world)


def _unannounced(entry: Entry, world: World) -> Iterator[Fault]:
    """Without an L2 policy in the set something else announces, such as BGP."""
    known = world.by_kind.get("CiliumL2AnnouncementPolicy", ())
    if not known or world.facts.announced or entry.spec.get("type") != "LoadBalancer":
        return
    for one in known:
        selector = one.spec.get("serviceSelector", {})
        if one.spec.get("loadBalancerIPs") is True and picks(selector, _seen(entry)):
            return
    said = ", ".join(f"{one.id.name}: {selector_text(one.spec.get('serviceSelector'))}" for one in known)
    yield Fault(_pointer(entry), f"no L2 policy with loadBalancerIPs: true selects the Service ({said}), and one must")


def _seen(entry: Entry) -> Mapping[str, Any]:
    """The labels of a Service as the selectors of Cilium see them."""
    own = {"io.kubernetes.service.namespace": entry.id.namespace, "io.kubernetes.service.name": entry.id.name}
    return {**entry.labels, **own}


def _rendered_pools(entry: Entry, world: World) -> Iterator[tuple[str, str]]:
    """(first, last) of the pools in the set that may serve this Service."""
    for pool in world.by_kind.get("CiliumLoadBalancerIPPool", ()):
        if pool.spec.get("disabled") is True or not picks(pool.spec.get("serviceSelector", {}), _seen(entry)):
            continue
        whole = pool.spec.get("allowFirstLastIPs") != "No"
        for block in sequence(pool.spec.get("blocks")):
            if isinstance(block, Mapping):
                yield from _range(block, whole=whole)


def _range(block: Mapping[str, Any], *, whole: bool) -> Iterator[tuple[str, str]]:
    """(first, last) of a block; nothing of one that is broken, which the schema says."""
    try:
        if "cidr" in block:
            network = ipaddress.ip_network(str(block["cidr"]), strict=False)
            few = network.num_addresses <= 2
            yield (str(network[0]), str(network[-1])) if whole or few else (str(network[1]), str(network[-2]))
        else:
            first = str(ipaddress.ip_address(str(block.get("start"))))
            yield first, str(ipaddress.ip_address(str(block.get("stop", first))))
    except ValueError:
        return


def _within(found: Address, first: str, last: str) -> bool:
    low, high = address(first), address(last)
    if low is None or high is None or not low.version == found.version == high.version:
        return False
    return int(low) <= int(found) <= int(high)


@policy(
    "lb-ip-unique",
    title="No two Services ask for one address",
    rationale="The second Service stays pending for ever, unless both carry the same sharing key and different ports.",
    remedy="give each Service its own address, or the same lbipam.cilium.io/sharing-key and different ports",
    scope=Scope.SET,
    kinds=("Service",),
    links=(f"{_IPAM}#sharing-keys",),
)
def lb_ip_unique(entry: Entry, world: World) -> Iterator[Fault]:
    asking = world.index(_asking)
    for text in _requested(entry):
        for other in asking.get(text, ()):
            if other is entry:
                break
            if why := _clash(entry, other):
                yield Fault(_pointer(entry), f"{text} is also asked for by {other.id}, and {why}")
                break


def _asking(world: World) -> Mapping[str, list[Entry]]:
    """Address to the Services that ask for it."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in world.by_kind.get("Service", ()):
        for text in _requested(entry):
            found[text].append(entry)
    return found


def _clash(one: Entry, other: Entry) -> str:
    """Why two Services cannot share an address; "" if they can."""
    for names, within in ((_KEYS, True), (_KEYS_OF_METALLB, False)):
        keys = [next((said for name in names if (said := _annotation(each, name))), "") for each in (one, other)]
        if not keys[0] or keys[0] != keys[1]:
            continue
        apart = within and one.id.namespace != other.id.namespace
        if apart and not (_shares_with(one, other) and _shares_with(other, one)):
            return f"each must name the other's namespace in {_ACROSS}"
        both = sorted(_ports(one) & _ports(other))
        return f"both have port {both[0][1]}/{both[0][0]}, which must differ" if both else ""
    return f"both must carry the same {labels.SHARING_KEY}"


def _shares_with(one: Entry, other: Entry) -> bool:
    named = [part.strip() for part in _annotation(one, _ACROSS).split(",")]
    return "*" in named or other.id.namespace in named


def _ports(entry: Entry) -> set[tuple[str, int]]:
    found = [mapping(port) for port in sequence(entry.spec.get("ports"))]
    return {
        (str(one.get("protocol") or "TCP"), one["port"])
        for one in found
        if isinstance(one.get("port"), int) and not isinstance(one["port"], bool)
    }


@policy(
    "no-nodeport",
    title="No Service opens a port on every node",
    rationale="A NodePort answers on each address of each node, past the load balancer and whatever filters before "
    "it; Cilium's load balancers need none.",
    remedy="use ClusterIP or LoadBalancer, the latter with allocateLoadBalancerNodePorts: false",
    severity=Severity.WARNING,
    kinds=("Service",),
    links=(
        "https://kubernetes.io/docs/concepts/services-networking/service/#load-balancer-nodeport-allocation",
        "https://kyverno.io/policies/best-practices/restrict-node-port/restrict-node-port/",
    ),
    cel=Cel(
        "object.spec.?type.orValue('ClusterIP') != 'NodePort' && (object.spec.?type.orValue('ClusterIP') !="
        " 'LoadBalancer' || !variables.direct || object.spec.?allocateLoadBalancerNodePorts.orValue(true) == false)",
        variables={
            "direct": f"'{_ANNOTATIONS[0]}' in variables.annotations || '{_ANNOTATIONS[1]}' in variables.annotations"
        },
    ),
)
def no_nodeport(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    kind = entry.spec.get("type")
    if kind == "NodePort":
        yield Fault("/spec/type", "the Service opens a port on every node (type NodePort), and must not")
    # The balancers of clouds forward to NodePorts; those of Cilium do not need any.
    direct = any(one in entry.annotations for one in _ANNOTATIONS)
    if kind == "LoadBalancer" and direct and entry.spec.get("allocateLoadBalancerNodePorts") is not False:
        yield Fault("/spec", "allocateLoadBalancerNodePorts must be false (is true, by default too)")
