"""Whom a tenant's agents reach: the server where it really is, and nobody through a policy beside the tenant's own."""

from __future__ import annotations

from collections.abc import Iterator

from kubekit import labels, tenants
from policies.model import Fault, Scope
from policies.network.egress import bare, only_dns, reaches_world
from policies.network.reach import Reach, reach_of
from policies.network.reading import POLICIES
from policies.network.terms import (
    EGRESS,
    NAMESPACE_NAME,
    POD_NAMESPACE,
    Anyone,
    Block,
    Doc,
    Entity,
    Pods,
    Rule,
    Subject,
    covers,
    every_port,
    ports_text,
)
from policies.registry import policy
from policies.tenants.whose import SOURCE, agents, is_tenant
from policies.world import Entry, World, mapping

_ADD_UP = "https://kubernetes.io/docs/concepts/services-networking/network-policies/#the-two-sorts-of-pod-isolation"
_OWN = frozenset({tenants.EGRESS, tenants.EGRESS_CILIUM})
_INSIDE = frozenset({"cluster", "host", "remote-node", "kube-apiserver"})
_WORLD = frozenset({"all", "world", "world-ipv4", "world-ipv6"})


@policy(
    "tenant-reaches-server",
    title="A tenant's agents reach the server where it is",
    rationale=f"The plugin takes the server to be in the namespace {tenants.SERVER_NAMESPACE}, under the label "
    f"app={tenants.SERVER_LABELS['app']}, and no setting moves it: anywhere else its egress rule finds nobody, and a "
    "run can report nothing.",
    remedy="render the tenant before the plugin comes: `tenants` of the config names the server's own namespace",
    scope=Scope.SET,
    kinds=("Namespace",),
    links=(SOURCE,),
)
def tenant_reaches_server(entry: Entry, world: World) -> Iterator[Fault]:
    if not is_tenant(entry):
        return
    reach = reach_of(world)
    servers = [one for one in reach.subjects if _is_server(one)]
    agent = world.index(agents)[entry.id.name]
    answers = [reach.connects(agent, one, "TCP", tenants.SERVER_PORT) for one in servers]
    if not servers or any(out and into for out, into in answers):
        return
    where = " or ".join(sorted({one.namespace for one in servers}))
    if not any(out for out, _ in answers):
        named = sorted(_named(agent, reach))
        told = f"; policies name the server in {', '.join(named)}" if named else ""
        yield Fault("", f"no egress policy of the tenant {entry.id.name} allows the server, which is in {where}{told}")
    else:
        message = f"no ingress policy allows the agents of {entry.id.name} at the server in {where}"
        yield Fault("", message, remedy=f"allow pods of {entry.id.name} on TCP {tenants.SERVER_PORT} at the server")


def _is_server(subject: Subject) -> bool:
    found = subject.labels.items()
    return labels.SERVER.items() <= found or tenants.SERVER_LABELS.items() <= found


def _named(agent: Subject, reach: Reach) -> Iterator[str]:
    """The namespaces of pods that the agents may reach on the server's port."""
    for _, rule in reach.side(agent, EGRESS).allows:
        if covers(rule.ports, "TCP", tenants.SERVER_PORT):
            for peer in rule.peers:
                if isinstance(peer, Pods):
                    yield from _places(peer)


def _places(peer: Pods) -> Iterator[str]:
    if peer.namespace is not None:
        yield peer.namespace
    for selector, key in ((peer.selector, POD_NAMESPACE), (mapping(peer.namespaces), NAMESPACE_NAME)):
        name = mapping(selector.get("matchLabels")).get(key)
        if isinstance(name, str):
            yield name


@policy(
    "tenant-deny-stands",
    title="No policy beside the tenant's own opens its egress",
    rationale="Policies add up: what one allows no deny takes back. A second one that allows the world, left by a "
    "change of the plugin's egress mode or made for a single run, is what then holds for its pods.",
    remedy=f"take the policy out; where the agents may go stands in {tenants.EGRESS} and {tenants.EGRESS_CILIUM}",
    scope=Scope.SET,
    kinds=POLICIES,
    links=(_ADD_UP, SOURCE),
)
def tenant_deny_stands(entry: Entry, world: World) -> Iterator[Fault]:
    reach = reach_of(world)
    for doc in reach.docs_of(entry):
        meant = [one for one in world.index(agents).values() if _is_about(doc, one)]
        if not meant:
            continue
        for rule in doc.parts[EGRESS].allows:
            if entry.id.name == tenants.DENY:
                yield Fault(rule.pointer, f"{tenants.DENY} must allow nothing, and allows {ports_text(rule.ports)}")
            elif entry.id.name not in _OWN and (what := _wide(rule)):
                places = ", ".join(one.namespace for one in meant)
                message = f"allows {what} on {ports_text(rule.ports)} beside the policies of the tenant {places}"
                yield Fault(rule.pointer, f"the rule {message}; these must say all that is allowed")


def _is_about(doc: Doc, agent: Subject) -> bool:
    """Whether it selects the agents of the tenant, or those of single runs, whose labels nobody knows yet."""
    if doc.namespace is None:
        return doc.selects(agent)
    return doc.namespace == agent.namespace and doc.selector is not None


def _wide(rule: Rule) -> str:
    """What a rule opens that is no single destination; "" for nothing, and for what netpol-no-open-egress refuses."""
    if only_dns(rule) or _refused(rule):
        return ""
    if reaches_world(rule):
        return "the world"
    for peer in rule.peers:
        if isinstance(peer, Pods) and peer.everywhere:
            return "the pods of every namespace"
        if isinstance(peer, Entity) and peer.name in _INSIDE:
            return f'the entity "{peer.name}"'
    return ""


def _refused(rule: Rule) -> bool:
    return any(
        (isinstance(one, Anyone) and every_port(rule.ports))
        or (isinstance(one, Block) and bare(one))
        or (isinstance(one, Entity) and one.name in _WORLD)
        for one in rule.peers
    )
