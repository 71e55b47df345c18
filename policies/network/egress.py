"""What single policies leave open: the world without exceptions, the metadata service, rules without a peer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kubekit import labels, tenants
from policies.cel import Cel
from policies.facts import Facts
from policies.model import Fault, Scope, Severity
from policies.network.addresses import METADATA_RANGES, PRIVATE, Network, contains, networks
from policies.network.reach import Reach, reach_of
from policies.network.reading import KUBERNETES, POLICIES
from policies.network.terms import (
    DIRECTIONS,
    EGRESS,
    Anyone,
    Block,
    Doc,
    Entity,
    Rule,
    every_port,
    overlap,
    ports_text,
    selects_all,
)
from policies.registry import policy
from policies.world import Entry, World, mapping, sequence

_POLICY_DOCS = "https://kubernetes.io/docs/concepts/services-networking/network-policies/"
_ENTITIES = "https://docs.cilium.io/en/stable/security/policy/language/#entities-based"
_AGENT = labels.AGENT_JOB[labels.COMPONENT]
_METADATA = networks(METADATA_RANGES)
_WORLD = frozenset({"all", "world", "world-ipv4", "world-ipv6"})

_KUBERNETES = frozenset({KUBERNETES})
_UNSEEN = "the policies of Cilium are not looked at"
_CEL_VARIABLES = {
    f"{one}Rules": f"size(object.spec.?policyTypes.orValue([])) == 0 || '{one.title()}' in object.spec.policyTypes"
    f" ? object.spec.?{one}.orValue([]) : []"
    for one in DIRECTIONS
} | {
    "ofAgents": f"object.spec.?podSelector.?matchLabels[?'{labels.COMPONENT}'].orValue('') == '{_AGENT}'"
    + "".join(
        f" || object.spec.?podSelector.?matchLabels[?'{key}'].orValue('') == '{value}'"
        for key, value in tenants.AGENT.items()
    )
    + " || object.spec.?podSelector.?matchExpressions.orValue([]).exists(e,"
    f" e.key == '{labels.COMPONENT}' && e.operator == 'In' && '{_AGENT}' in e.?values.orValue([]))"
}
"""The rules that count, and whether the policy is about agents."""
_CEL_BARE = "(p.ipBlock.cidr.endsWith('/0') && size(p.ipBlock.?except.orValue([])) == 0)"


def _cel(expression: str, partly: str = _UNSEEN) -> Cel:
    used = {name: text for name, text in _CEL_VARIABLES.items() if f"variables.{name}" in expression}
    return Cel(expression, kinds=_KUBERNETES, variables=used, partly=partly)


def _cel_blocks(facts: Facts, condition: str) -> Cel | None:
    """The condition must hold for each block of addresses `p` in a rule `r` of agents, but for those without except."""
    if not facts.reaches("1.31"):  # CEL has no functions for addresses before
        return None
    each = f"r.?to.orValue([]).all(p, !has(p.ipBlock) || {_CEL_BARE} || ({condition}))"
    return _cel(f"!variables.ofAgents || variables.egressRules.all(r, {each})")


def _cel_takes_out(text: str) -> str:
    """In CEL: a block that holds more than the range takes all of the range out."""
    return (
        f"(!cidr(p.ipBlock.cidr).containsCIDR('{text}') || cidr('{text}').containsCIDR(p.ipBlock.cidr)"
        f" || p.ipBlock.?except.orValue([]).exists(e, cidr(e).containsCIDR('{text}')))"
    )


def of_agents(doc: Doc) -> bool:
    """Whether a policy names the pods of agents, ours or those of a tenant."""
    selector = mapping(doc.selector)
    wanted = mapping(selector.get("matchLabels"))
    if wanted.get(labels.COMPONENT) == _AGENT or any(wanted.get(key) == one for key, one in tenants.AGENT.items()):
        return True
    return any(
        one.get("key") == labels.COMPONENT and one.get("operator") == "In" and _AGENT in sequence(one.get("values"))
        for one in map(mapping, sequence(selector.get("matchExpressions")))
    )


def bare(block: Block) -> bool:
    """A whole address family."""
    return block.wide and not block.excepts


@policy(
    "netpol-no-open-egress",
    title="No egress rule opens everything",
    rationale="A rule to everybody, or to a whole address family without exceptions, also allows the cluster, the "
    "networks around it and the metadata service; with Cilium, rules about names no longer narrow anything.",
    remedy="name the peers; of the world take out private ranges and 169.254.0.0/16 by except",
    kinds=POLICIES,
    links=(f"{_POLICY_DOCS}#allow-all-egress-traffic", _ENTITIES),
    cel=_cel(
        "variables.egressRules.all(r, (size(r.?to.orValue([])) > 0 || size(r.?ports.orValue([])) > 0)"
        f" && !r.?to.orValue([]).exists(p, has(p.ipBlock) && {_CEL_BARE}))"
    ),
)
def netpol_no_open_egress(entry: Entry, world: World) -> Iterator[Fault]:
    for rule in (one for doc in reach_of(world).docs_of(entry) for one in doc.parts[EGRESS].allows):
        for peer in rule.peers:
            if isinstance(peer, Anyone) and every_port(rule.ports):
                yield Fault(rule.pointer, "the egress rule allows everything to everybody, and must name peers")
            elif isinstance(peer, Block) and bare(peer):
                yield Fault(
                    rule.pointer, f"the egress rule allows {peer.network} without any except, and must have some"
                )
            elif isinstance(peer, Entity) and peer.name in _WORLD:
                message = f'the egress rule allows the entity "{peer.name}", private ranges and metadata too'
                yield Fault(rule.pointer, f"{message}; it must be names, or CIDRs with except")


@policy(
    "netpol-rule-without-peer",
    title="A rule says with whom",
    rationale="A rule of ports without a peer means everybody: an ingress rule lets in every pod and every address, "
    "an egress rule lets out to the cluster, its nodes and the metadata service.",
    remedy="name the peers of the rule: from (ingress) or to (egress)",
    kinds=POLICIES,
    links=("https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/network-policy-v1/",),
    # Not of ingress: that is a warning, and what is refused by the rest may be denied.
    cel=_cel(
        "variables.egressRules.all(r, size(r.?to.orValue([])) > 0"
        " || r.?ports.orValue([]).all(p, p.?port.orValue(0) == 53))",
        f"{_UNSEEN}, nor rules for ingress",
    ),
)
def netpol_rule_without_peer(entry: Entry, world: World) -> Iterator[Fault]:
    for doc in reach_of(world).docs_of(entry):
        for direction, part in doc.parts.items():
            for rule in part.allows:
                if Anyone() not in rule.peers:
                    continue
                if direction != EGRESS:
                    message = f"the ingress rule lets everybody in on {ports_text(rule.ports)}, and must name who"
                    yield Fault(rule.pointer, message, Severity.WARNING)
                elif not every_port(rule.ports) and not only_dns(rule):
                    yield Fault(
                        rule.pointer,
                        f"the egress rule allows {ports_text(rule.ports)} to everybody, and must name whom",
                    )


def only_dns(rule: Rule) -> bool:
    """Whether it is about lookups of names alone, which may go to whichever resolver there is."""
    return all(one.first == one.last == 53 for one in rule.ports)


def _metadata_cel(facts: Facts) -> Cel | None:
    inside = " || ".join(f"cidr('{text}').containsCIDR(p.ipBlock.cidr)" for text in METADATA_RANGES)
    dns = "size(r.?ports.orValue([])) > 0 && r.ports.all(q, q.?port.orValue(0) == 53)"
    return _cel_blocks(facts, f"{' && '.join(map(_cel_takes_out, METADATA_RANGES))} && (!({inside}) || ({dns}))")


@policy(
    "netpol-block-metadata",
    title="Agents do not reach the metadata service",
    rationale="The metadata service of a cloud hands the machine's credentials to every process that asks; an agent "
    "runs what strangers have written.",
    remedy="add 169.254.0.0/16 to the except of the block, and of IPv6 fd00:ec2::254/128 or fc00::/7",
    kinds=POLICIES,
    links=(
        "https://kubernetes.io/docs/concepts/security/security-checklist/#network-security",
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html",
    ),
    cel=_metadata_cel,
)
def netpol_block_metadata(entry: Entry, world: World) -> Iterator[Fault]:
    for rule, block in _blocks_of_agents(entry, world):
        for one in _METADATA:
            if contains(one, block.network):
                if not only_dns(rule):
                    yield Fault(
                        rule.pointer, f"the rule allows {block.network}, where clouds keep the metadata service"
                    )
            elif not takes_out(block, one):
                yield Fault(
                    rule.pointer, f"{block.network} holds {one}, the metadata service of clouds: an except must hold it"
                )


def takes_out(block: Block, one: Network) -> bool:
    """Whether a block that holds more than the range has an except over all of the range."""
    return not contains(block.network, one) or any(contains(out, one) for out in block.excepts)


def _blocks_of_agents(entry: Entry, world: World) -> Iterator[tuple[Rule, Block]]:
    """The blocks that policies of agents allow, but for those that netpol-no-open-egress refuses as a whole."""
    for doc in reach_of(world).docs_of(entry):
        for rule in doc.parts[EGRESS].allows if of_agents(doc) else ():
            yield from ((rule, one) for one in rule.peers if isinstance(one, Block) and not bare(one))


def inner(facts: Facts) -> tuple[Network, ...]:
    """The ranges that are no part of the world, but for those that lie in others."""
    return _outermost(facts.cluster_cidrs)


@lru_cache(maxsize=16)
def _outermost(own: tuple[str, ...]) -> tuple[Network, ...]:
    found = networks((*PRIVATE, *own))
    return tuple(one for one in found if not any(contains(other, one) for other in found if other != one))


def _world_cel(facts: Facts) -> Cel | None:
    return _cel_blocks(facts, " && ".join(_cel_takes_out(str(one)) for one in inner(facts)))


@policy(
    "netpol-agents-egress",
    title="The world of agents ends before the private networks",
    rationale="A wide block of addresses lets an agent, which runs what strangers have written, also into the cluster "
    "and the networks around it.",
    remedy="take the private ranges and the cluster's out by except, or allow the one destination by its own CIDR",
    kinds=POLICIES,
    links=(
        f"{_POLICY_DOCS}#behavior-of-to-and-from-selectors",
        "https://www.iana.org/assignments/iana-ipv4-special-registry/",
    ),
    cel=_world_cel,
)
def netpol_agents_egress(entry: Entry, world: World) -> Iterator[Fault]:
    private = inner(world.facts)
    for rule, block in _blocks_of_agents(entry, world):
        # A block that lies inside is a destination that somebody has chosen; agents-reach-no-more judges it.
        left = [str(one) for one in private if not contains(one, block.network) and not takes_out(block, one)]
        if left:
            yield Fault(rule.pointer, f"{block.network} holds {', '.join(left)}: an except must hold each")


@policy(
    "netpol-wide-hides-narrow",
    title="No wide rule hides a narrow one",
    rationale="Policies add up: where one allows the world, names that another one allows narrow nothing.",
    remedy="take the rule to the world out, or the policy by names",
    severity=Severity.WARNING,
    scope=Scope.SET,
    kinds=POLICIES,
    links=(
        f"{_POLICY_DOCS}#the-two-sorts-of-pod-isolation",
        "https://docs.cilium.io/en/stable/security/policy/language/#dns-based",
    ),
)
def netpol_wide_hides_narrow(entry: Entry, world: World) -> Iterator[Fault]:
    reach = reach_of(world)
    for doc in reach.docs_of(entry) if reach.by_name else ():
        for rule in doc.parts[EGRESS].allows:
            if not reaches_world(rule):
                continue
            for other, named in reach.by_name:
                if overlap(rule.ports, named.ports) and share_pods(doc, other, reach):
                    yield Fault(
                        rule.pointer,
                        f"the rule allows the world on {ports_text(rule.ports)}, so the names in {other.title} "
                        "narrow nothing",
                    )
                    break


def reaches_world(rule: Rule) -> bool:
    """Whether it allows addresses all over the world, whatever it takes out."""
    return any(
        isinstance(one, Anyone)
        or (isinstance(one, Block) and one.wide)
        or (isinstance(one, Entity) and one.name in _WORLD)
        for one in rule.peers
    ) and not only_dns(rule)


def share_pods(one: Doc, other: Doc, reach: Reach) -> bool:
    """Whether both select some pods; of pods that the set does not hold, whether they must."""
    if one.namespace is not None and other.namespace is not None and one.namespace != other.namespace:
        return False
    first = reach.selected(one)
    if first or reach.selected(other):
        return any(other.selects(subject) for subject in first)
    if one.selector is None or other.selector is None:
        return False
    return one.selector == other.selector or selects_all(one.selector) or selects_all(other.selector)
