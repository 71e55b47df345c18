"""Manifests may hold anything anywhere: no policy about the network stops at it, and neither does the report."""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.facts import Facts
from policies.network.reach import reach_of
from policies.network.report import report
from policies.registry import all_policies
from policies.run import run
from policies.world import World
from tests.support import fixtures

MINE = [one for one in all_policies() if one.family in {"network", "services"}]
KINDS = ("NetworkPolicy", "CiliumNetworkPolicy", "Service", "Deployment", "Job", "Namespace")
scalars = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "53", "http", "10.0.0.0/8", "k8s:app"])
words = st.sampled_from(
    ["ports", "port", "to", "from", "cidr", "except", "ipBlock", "matchLabels", "matchExpressions", "key", "values"]
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


OBJECTS, FACTS = fixtures.base()
OBJECTS = [one for one in OBJECTS if one["kind"] in KINDS]
PLACES = [
    (index, path)
    for index, one in enumerate(OBJECTS)
    for path in places(one)
    if path and path[0] in {"spec", "metadata"} and path[:2] not in {("metadata", "name"), ("metadata", "namespace")}
]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), trees), min_size=1, max_size=3), st.booleans())
def test_no_tree_whatever_stops_them(changes, known):
    objects = list(OBJECTS)
    for (index, path), tree in changes:
        objects[index] = copy.deepcopy(objects[index])
        *way, last = path
        target = objects[index]
        for part in way:
            target = target[part] if _has(target, part) else {}
        if _has(target, last):
            target[last] = tree
    world = World([(one, None) for one in objects], FACTS if known else Facts())
    run(world, MINE)
    report(reach_of(world))


def _has(target, part):
    return part in target if isinstance(target, dict) else isinstance(target, list) and part in range(len(target))


def test_policies_of_cilium_may_hold_anything_too():
    for junk in (None, 1, "x", [1, None], {"a": 1}, [[]], [{"ports": [{"port": {}}]}], [{"matchLabels": 3}]):
        for key in (
            *("ingress", "egress", "ingressDeny", "egressDeny", "endpointSelector", "enableDefaultDeny"),
            *(
                "toEndpoints",
                "toEntities",
                "toCIDR",
                "toCIDRSet",
                "toFQDNs",
                "toServices",
                "toPorts",
                "icmps",
                "toNodes",
            ),
        ):
            rule = {key: junk} if key.startswith(("to", "icmps")) else {}
            spec = {"endpointSelector": {}, "egress": [rule], **({} if rule else {key: junk})}
            policy = {
                "apiVersion": "cilium.io/v2",
                "kind": "CiliumNetworkPolicy",
                "metadata": {"name": "odd", "namespace": "paperclip-agents"},
                "spec": spec,
            }
            world = World([(one, None) for one in [*OBJECTS, policy, {**policy, "spec": None, "specs": junk}]], FACTS)
            run(world, MINE)
            report(reach_of(world))
