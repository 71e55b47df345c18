"""Who may talk to whom, against an oracle: a second, slow reading of the documentation over concrete packets."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.facts import External, Facts
from policies.network.addresses import address, network, spans, within, written
from policies.network.reach import reach_of
from policies.world import World

PORTS = [("UDP", 53), ("TCP", 80), ("TCP", 443)]
CLUSTER = "10.244.0.0/16"
OUTSIDE = ["1.1.1.1", "10.0.0.5", "169.254.169.254", "2001:db8::1"]
NAMESPACES = {"one": {"team": "x"}, "two": {"team": "y"}}
PODS = [
    ("one", "web", {"app": "web", "tier": "front"}, {"http": 80}),
    ("one", "db", {"app": "db"}, {"http": 443}),
    ("two", "web", {"app": "web"}, {}),
]


def pod(namespace, name, labels, ports):
    listed = [{"name": key, "containerPort": number} for key, number in ports.items()]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "x", "ports": listed}]},
    }


def base():
    made = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in NAMESPACES.items()
    ]
    return made + [pod(*one) for one in PODS]


def reach(policies):
    return reach_of(World([(one, None) for one in [*base(), *policies]], Facts(cluster_cidrs=(CLUSTER,))))


# --- what is drawn

keys, values = st.sampled_from(["app", "tier"]), st.sampled_from(["web", "db", "front"])
expressions = st.one_of(
    st.fixed_dictionaries(
        {"key": keys, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(values, min_size=1, max_size=2)}
    ),
    st.fixed_dictionaries({"key": keys, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)
selectors = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(keys, values, max_size=1),
        "matchExpressions": st.lists(expressions, max_size=1),
    },
)
namespace_selectors = st.sampled_from(
    [{}, {"matchLabels": {"team": "x"}}, {"matchLabels": {"kubernetes.io/metadata.name": "two"}}]
)
# Ranges hold all pods or none: what lies between cannot be judged without the pods' addresses.
blocks = st.sampled_from(
    [
        {"cidr": "0.0.0.0/0"},
        {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "169.254.0.0/16"]},
        {"cidr": "10.0.0.0/8"},
        {"cidr": "1.1.1.1/32"},
        {"cidr": "::/0", "except": ["fc00::/7"]},
    ]
)
peers = st.one_of(
    st.fixed_dictionaries({"ipBlock": blocks}),
    st.fixed_dictionaries({"podSelector": selectors}),
    st.fixed_dictionaries({"namespaceSelector": namespace_selectors}, optional={"podSelector": selectors}),
)
ports = st.sampled_from(
    [
        {"port": 80},
        {"port": 53, "protocol": "UDP"},
        {"protocol": "UDP"},
        {"port": 79, "endPort": 442},
        {"port": "http"},
    ]
)


def rules(side):
    return st.fixed_dictionaries({}, optional={side: st.lists(peers, max_size=2), "ports": st.lists(ports, max_size=2)})


network_policies = st.fixed_dictionaries(
    {"podSelector": selectors},
    optional={
        "policyTypes": st.sampled_from([[], ["Ingress"], ["Egress"], ["Ingress", "Egress"]]),
        "ingress": st.lists(rules("from"), max_size=2),
        "egress": st.lists(rules("to"), max_size=2),
    },
)


def named(kind, specs, namespace="one"):
    api = "networking.k8s.io/v1" if kind == "NetworkPolicy" else "cilium.io/v2"
    return [
        {"apiVersion": api, "kind": kind, "metadata": {"name": f"p{index}", "namespace": namespace}, "spec": spec}
        for index, spec in enumerate(specs)
    ]


# --- the oracle: each packet is held against the raw manifests


class Packet:
    """From or to a pod of PODS; the other end is a pod or an address."""

    def __init__(self, own, other, direction, protocol, port):
        self.own, self.other, self.direction = own, other, direction
        self.protocol, self.port = protocol, port

    @property
    def receiver(self):
        return self.own if self.direction == "ingress" else self.other


def selected(selector, labels):
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for one in selector.get("matchExpressions") or []:
        there, fits = one["key"] in labels, labels.get(one["key"]) in one.get("values", [])
        wanted = {"In": fits, "NotIn": not fits, "Exists": there, "DoesNotExist": not there}[one["operator"]]
        if not wanted:
            return False
    return True


def in_block(block, other, cilium):
    if not isinstance(other, str):
        if cilium:
            return False
        other = "10.244.0.7"
    here = ipaddress.ip_address(other)
    nets = [ipaddress.ip_network(one) for one in (block["cidr"], *block.get("except", []))]
    return here in nets[0] and not any(here in one for one in nets[1:])


def on_port(said, packet):
    if not said:
        return True
    for one in said:
        if one.get("protocol", "TCP") != packet.protocol:
            continue
        first = one.get("port")
        if isinstance(first, str):
            first = packet.receiver[3].get(first) if isinstance(packet.receiver, tuple) else None
            if first == packet.port:
                return True
        elif first is None or first <= packet.port <= one.get("endPort", first):
            return True
    return False


def is_peer(peer, packet, cilium):
    other = packet.other
    if "ipBlock" in peer:
        return in_block(peer["ipBlock"], other, cilium)
    if isinstance(other, str):
        return False
    if "namespaceSelector" in peer:
        labels = {**NAMESPACES[other[0]], "kubernetes.io/metadata.name": other[0]}
        return selected(peer["namespaceSelector"], labels) and selected(peer.get("podSelector", {}), other[2])
    return other[0] == "one" and selected(peer["podSelector"], other[2])


def types(spec):
    return spec.get("policyTypes") or (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])


def kubernetes_says(spec, packet, cilium):
    """(isolates, allows)."""
    about = packet.direction.title() in types(spec)
    if packet.own[0] != "one" or not selected(spec["podSelector"], packet.own[2]) or not about:
        return False, False
    side = "from" if packet.direction == "ingress" else "to"
    for rule in spec.get(packet.direction) or []:
        who = not rule.get(side) or any(is_peer(one, packet, cilium) for one in rule[side])
        if who and on_port(rule.get("ports"), packet):
            return True, True
    return True, False


def verdict(said):
    return not any(isolates for isolates, _ in said) or any(allows for _, allows in said)


def packets():
    for own in PODS:
        for other in [*PODS, *OUTSIDE]:
            for direction in ("ingress", "egress"):
                for protocol, port in PORTS:
                    yield Packet(own, other, direction, protocol, port)


def asked(index, packet):
    by_place = {(one.namespace, one.name.rpartition("/")[2]): one for one in index.subjects}
    own = by_place[packet.own[:2]]
    other = by_place[packet.other[:2]] if isinstance(packet.other, tuple) else address(packet.other)
    return index.allows(own, packet.direction, other, packet.protocol, packet.port)


@settings(max_examples=120, deadline=None)
@given(st.lists(network_policies, max_size=3))
def test_network_policies_mean_what_the_documentation_says(specs):
    index = reach(named("NetworkPolicy", specs))
    for packet in packets():
        expected = verdict([kubernetes_says(spec, packet, cilium=False) for spec in specs])
        assert asked(index, packet) == expected, vars(packet)


# --- Cilium

cilium_selectors = st.sampled_from(
    [
        {},
        {"matchLabels": {"app": "web"}},
        {"matchLabels": {"k8s:app": "db"}},
        {"matchExpressions": [{"key": "any:tier", "operator": "Exists"}]},
        {"matchLabels": {"k8s:io.kubernetes.pod.namespace": "two"}},
        {"matchLabels": {"k8s:io.cilium.k8s.namespace.labels.team": "x", "app": "web"}},
    ]
)
cilium_ports = st.sampled_from(
    [
        [{"ports": [{"port": "80", "protocol": "TCP"}]}],
        [{"ports": [{"port": "53", "protocol": "ANY"}]}],
        [{"ports": [{"port": "0", "protocol": "UDP"}]}],
        [{"ports": [{"port": "79", "endPort": 442, "protocol": "TCP"}]}],
        [],
    ]
)


def cilium_rules(side):
    peers = st.one_of(
        st.fixed_dictionaries({f"{side}Endpoints": st.lists(cilium_selectors, max_size=2)}),
        st.fixed_dictionaries({f"{side}Entities": st.sampled_from([["world"], ["cluster"], ["all"], ["host"]])}),
        st.fixed_dictionaries({f"{side}CIDRSet": st.lists(blocks, min_size=1, max_size=1)}),
        st.just({}),
    )
    extra = st.fixed_dictionaries({}, optional={"toPorts": cilium_ports})
    return st.lists(st.builds(lambda one, more: {**one, **more}, peers, extra), max_size=2)


cilium_policies = st.fixed_dictionaries(
    {"endpointSelector": st.sampled_from([{}, {"matchLabels": {"app": "web"}}, {"matchLabels": {"any:app": "db"}}])},
    optional={
        "ingress": cilium_rules("from"),
        "egress": cilium_rules("to"),
        "ingressDeny": cilium_rules("from"),
        "egressDeny": cilium_rules("to"),
        "enableDefaultDeny": st.fixed_dictionaries({}, optional={"ingress": st.booleans(), "egress": st.booleans()}),
    },
)


def as_cilium(one):
    labels = {f"io.cilium.k8s.namespace.labels.{key}": value for key, value in NAMESPACES[one[0]].items()}
    return {**one[2], **labels, "io.kubernetes.pod.namespace": one[0]}


def unprefixed(selector):
    plain = {key.partition(":")[2] or key: value for key, value in (selector.get("matchLabels") or {}).items()}
    listed = [
        {**one, "key": one["key"].partition(":")[2] or one["key"]} for one in selector.get("matchExpressions") or []
    ]
    return {"matchLabels": plain, "matchExpressions": listed}


def cilium_rule_fits(rule, packet):
    side = "from" if packet.direction == "ingress" else "to"
    inside = isinstance(packet.other, tuple)
    who = not any(key.startswith(side) and key != "toPorts" for key in rule) and "toPorts" in rule
    for selector in rule.get(f"{side}Endpoints", []):
        plain = unprefixed(selector)
        elsewhere = any("kubernetes.pod.namespace" in key or "namespace.labels" in key for key in plain["matchLabels"])
        if inside and (elsewhere or packet.other[0] == "one"):
            who = who or selected(plain, as_cilium(packet.other))
    for entity in rule.get(f"{side}Entities", []):
        who = who or entity in {"all", "cluster" if inside else "world"}
    for block in rule.get(f"{side}CIDRSet", []):
        who = who or in_block(block, packet.other, cilium=True)
    if not rule.get("toPorts"):
        return who
    for one in rule["toPorts"][0]["ports"]:
        first = int(one["port"])
        if one["protocol"] in ("ANY", packet.protocol) and (
            not first or first <= packet.port <= one.get("endPort", first)
        ):
            return who
    return False


def cilium_says(spec, packet):
    """(isolates, allows, denies)."""
    if packet.own[0] != "one" or not selected(unprefixed(spec["endpointSelector"]), as_cilium(packet.own)):
        return False, False, False
    allows, denies = spec.get(packet.direction, []), spec.get(f"{packet.direction}Deny", [])
    isolates = spec.get("enableDefaultDeny", {}).get(packet.direction, bool(allows or denies))
    return (
        isolates,
        any(cilium_rule_fits(one, packet) for one in allows),
        any(cilium_rule_fits(one, packet) for one in denies),
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(cilium_policies, min_size=1, max_size=2), st.lists(network_policies, max_size=1))
def test_policies_of_cilium_and_of_kubernetes_add_up_and_denies_win(specs, others):
    index = reach([*named("CiliumNetworkPolicy", specs), *named("NetworkPolicy", others)])
    for packet in packets():
        said = [cilium_says(spec, packet) for spec in specs]
        allowed = verdict([one[:2] for one in said] + [kubernetes_says(spec, packet, cilium=True) for spec in others])
        assert asked(index, packet) == (allowed and not any(one[2] for one in said)), vars(packet)


# --- addresses

small = st.integers(0, 255)


@settings(max_examples=150, deadline=None)
@given(
    block=st.tuples(small, st.integers(24, 32)),
    excepts=st.lists(st.tuples(small, st.integers(25, 32)), max_size=4),
    ranges=st.lists(st.tuples(small, st.integers(24, 32)), max_size=2),
)
def test_ranges_less_others_are_the_addresses_that_are_left(block, excepts, ranges):
    def net(one):
        return network(f"192.0.2.{one[0]}/{one[1]}")

    out, inner = [net(one) for one in excepts], [net(one) for one in ranges]
    left = spans(net(block), out)
    expected = {one for one in net(block) if not any(one in each for each in out)}
    assert {one for text in written(left) for one in ipaddress.ip_network(text)} == expected
    both = {one for text in written(within(left, inner)) for one in ipaddress.ip_network(text)}
    assert both == {one for one in expected if any(one in each for each in inner)}


# --- what the drawn policies do not reach


def subject_of(index, name):
    return next(one for one in index.subjects if one.name.endswith(f"/{name}"))


def test_clusterwide_policies_select_by_namespace_and_their_peers_are_everywhere():
    spec = {
        "endpointSelector": {"matchLabels": {"k8s:io.kubernetes.pod.namespace": "two"}},
        "ingress": [{"fromEndpoints": [{"matchLabels": {"app": "db"}}]}],
    }
    policy = {"apiVersion": "cilium.io/v2", "kind": "CiliumClusterwideNetworkPolicy", "metadata": {"name": "p"}}
    index = reach([{**policy, "spec": spec}])
    inside, outside = index.by_namespace["two"][0], index.by_namespace["one"]
    assert [index.allows(inside, "ingress", one, "TCP", 80) for one in outside] == [False, True]
    assert not index.side(outside[0], "ingress").isolated


def test_several_policies_in_one_object_count_each():
    specs = [
        {"endpointSelector": {"matchLabels": {"app": "web"}}, "egress": [{}]},
        {"endpointSelector": {"matchLabels": {"app": "db"}}, "ingress": [{}]},
    ]
    (policy,) = named("CiliumNetworkPolicy", [None])
    del policy["spec"]
    index = reach([{**policy, "specs": specs}])
    web, db = index.by_namespace["one"]
    assert [index.side(web, "egress").isolated, index.side(web, "ingress").isolated] == [True, False]
    assert [index.side(db, "egress").isolated, index.side(db, "ingress").isolated] == [False, True]
    assert [doc.selector_pointer for doc in index.docs] == ["/specs/0/endpointSelector", "/specs/1/endpointSelector"]


@pytest.mark.parametrize(
    "rule",
    [
        {"toFQDNs": [{"matchName": "example.com"}]},
        {"toGroups": [{"aws": {}}]},
        {"toNodes": [{"matchLabels": {"a": "b"}}]},
        {"toCIDRSet": [{"cidrGroupRef": "office"}]},
        {"icmps": [{"fields": [{"type": 8}]}]},
        {"toEndpoints": [{"matchLabels": {"reserved:host": ""}}]},
    ],
)
def test_what_manifests_do_not_tell_allows_nobody_that_they_do(rule):
    index = reach(named("CiliumNetworkPolicy", [{"endpointSelector": {}, "egress": [rule]}]))
    web, db = index.by_namespace["one"]
    assert not index.allows(web, "egress", db, "TCP", 80)
    assert not index.allows(web, "egress", address("1.1.1.1"), "TCP", 80)


def test_pods_on_the_network_of_their_node_are_no_ones():
    host = pod("one", "agent", {"app": "web"}, {})
    host["spec"]["hostNetwork"] = True
    deny = named("NetworkPolicy", [{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}])
    index = reach([host, *deny, *named("CiliumNetworkPolicy", [{"endpointSelector": {}, "egress": [{}]}])])
    agent, web = subject_of(index, "agent"), subject_of(index, "db")
    assert not index.side(agent, "egress").isolated
    assert index.allows(agent, "egress", web, "TCP", 80)
    assert not index.allows(web, "egress", agent, "TCP", 80)


def test_services_stand_for_their_pods():
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "one"}}
    service["spec"] = {"selector": {"app": "db"}, "ports": [{"port": 80}]}
    rule = {"toServices": [{"k8sService": {"serviceName": "db"}}]}
    policy = named("CiliumNetworkPolicy", [{"endpointSelector": {"matchLabels": {"app": "web"}}, "egress": [rule]}])
    index = reach([service, *policy])
    web, db = index.by_namespace["one"]
    assert index.allows(web, "egress", db, "TCP", 80)
    assert not index.allows(web, "egress", index.by_namespace["two"][0], "TCP", 80)


def test_pods_that_are_declared_are_selected_by_their_labels():
    outside = External("StatefulSet", "one", "queue", labels={"app": "queue"})
    spec = {"podSelector": {"matchLabels": {"app": "queue"}}, "ingress": [{"from": [{"podSelector": {}}]}]}
    manifests = [*base(), *named("NetworkPolicy", [spec])]
    index = reach_of(World([(one, None) for one in manifests], Facts(externals=(outside,))))
    queue = next(one for one in index.subjects if one.labels == {"app": "queue"})
    assert index.side(queue, "ingress").isolated
    assert index.allows(queue, "ingress", index.by_namespace["one"][0], "TCP", 80)
    assert not index.allows(queue, "ingress", index.by_namespace["two"][0], "TCP", 80)
