"""An honest account of who may talk to whom: what the policies of a set allow together, and what they do not narrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from policies.network.addresses import (
    METADATA_RANGES,
    PRIVATE,
    WORLD,
    Span,
    contains,
    holds,
    minus,
    networks,
    span,
    within,
    written,
)
from policies.network.egress import reaches_world
from policies.network.isolation import cut_off_from_dns
from policies.network.reach import Reach, Side, names
from policies.network.terms import (
    EGRESS,
    EVERY_PORT,
    INGRESS,
    NAMESPACE_NAME,
    POD_NAMESPACE,
    Anyone,
    Block,
    Doc,
    Entity,
    Name,
    Peer,
    Pods,
    Ports,
    Rule,
    ServicePods,
    Subject,
    covers,
    every_port,
    overlap,
    ports_text,
    selector_text,
    selects_all,
)
from policies.world import mapping

_ENTITIES = {
    "world": "the world: every address outside of the cluster, private ones too",
    "all": "everybody",
    "cluster": "everything in the cluster",
    "host": "the node that it runs on",
    "remote-node": "the other nodes",
    "kube-apiserver": "the API server",
}
_API_PORTS = (443, 6443)
_OF_API = frozenset({"all", "cluster", "host", "remote-node", "kube-apiserver"})
_SHOWN = 4
# Never on a wire to another machine: loopback, "this network", multicast and reserved.
_NOWHERE = (
    "0.0.0.0/8",
    "127.0.0.0/8",
    "192.0.0.0/24",
    "198.18.0.0/15",
    "224.0.0.0/3",
    "::/96",
    "fe80::/10",
    "ff00::/8",
)


@dataclass(frozen=True)
class Line:
    """One peer with its ports, and the policies that say so."""

    peer: str
    ports: str
    policies: tuple[str, ...]


@dataclass(frozen=True)
class Direction:
    """`open`: no policy isolates the pods, so everybody may talk but whom `denies` names."""

    open: bool
    isolated_by: tuple[str, ...]
    allows: tuple[Line, ...]
    denies: tuple[Line, ...]


@dataclass(frozen=True)
class Workload:
    """`reaches` are (question, answer); `enforced` is what the way out goes by; `notes` what one would not expect."""

    name: str
    namespace: str
    egress: Direction
    ingress: Direction
    reaches: tuple[tuple[str, str], ...]
    enforced: str
    notes: tuple[str, ...]


def report(reach: Reach) -> list[Workload]:
    """Of everything in the set that starts pods, by name."""
    found = [workload(one, reach) for one in reach.subjects if one.entry is not None]
    return sorted(found, key=lambda one: (one.namespace, one.name))


def workload(subject: Subject, reach: Reach) -> Workload:
    return Workload(
        subject.name,
        subject.namespace,
        direction(subject, EGRESS, reach),
        direction(subject, INGRESS, reach),
        tuple(_answers(subject, reach)),
        _enforced(subject, reach),
        tuple(dict.fromkeys(_notes(subject, reach))),
    )


def direction(subject: Subject, which: str, reach: Reach) -> Direction:
    side = reach.side(subject, which)
    isolated_by = tuple(dict.fromkeys(doc.title for doc in side.isolated_by))
    return Direction(not side.isolated, isolated_by, _lines(side.allows, reach), _lines(side.denies, reach))


def _lines(rules: Iterable[tuple[Doc, Rule]], reach: Reach) -> tuple[Line, ...]:
    """One line for each peer on the same ports; several policies may say the same."""
    found: dict[tuple[str, str], list[str]] = {}
    for doc, rule in rules:
        ports = ports_text(rule.ports) + (f" ({rule.layer7} inspected)" if rule.layer7 else "")
        for peer in rule.peers:
            said = found.setdefault((peer_text(peer, reach), ports), [])
            if doc.title not in said:
                said.append(doc.title)
    return tuple(Line(peer, ports, tuple(said)) for (peer, ports), said in found.items())


def peer_text(peer: Peer, reach: Reach) -> str:
    """Who it is: a workload of the set by name, anybody else by what selects him."""
    if isinstance(peer, Anyone):
        return "everybody"
    if isinstance(peer, Entity):
        return _ENTITIES.get(peer.name, f"the entity {peer.name}")
    if isinstance(peer, Name):
        return f"name {peer.pattern}"
    if isinstance(peer, ServicePods):
        chosen = peer.name or f"with {selector_text(peer.selector)}"
        return f"Service {peer.namespace or 'any namespace'}/{chosen}"
    if isinstance(peer, Block):
        return _block_text(peer, reach)
    return _pods_text(peer, reach) if isinstance(peer, Pods) else peer.text


def _block_text(block: Block, reach: Reach) -> str:
    count = len(block.excepts)
    text = str(block.network) + (f" minus {count} range{'s' if count != 1 else ''}" if count else "")
    if block.wide:
        return f"the world: {text}"
    for known, what in (
        (networks(METADATA_RANGES), "metadata of the cloud"),
        (reach.cluster, "of the cluster"),
        (networks(PRIVATE), "private"),
    ):
        if any(contains(one, block.network) for one in known):
            return f"{text} ({what})"
    return text


def _pods_text(peer: Pods, reach: Reach) -> str:
    if peer.everywhere:
        return "every pod of the cluster"
    where, labels = _place(peer)
    if not labels:
        return f"every pod of {where}"
    found = [one for one in reach.subjects if peer.picks(one)]
    return names(found) if found else f"pods with {labels} of {where}"


def _place(peer: Pods) -> tuple[str, str]:
    """(which namespaces, which labels) of pods, as text; no labels: all of them."""
    selector = dict(peer.selector)
    if peer.extended and peer.namespace is None:
        chosen = mapping(selector.get("matchLabels"))
        selector["matchLabels"] = {key: value for key, value in chosen.items() if key != POD_NAMESPACE}
        named = chosen.get(POD_NAMESPACE)
        where = f"namespace {named}" if named else "every namespace"
    elif peer.namespace is not None:
        where = f"namespace {peer.namespace}"
    else:
        name = mapping((peer.namespaces or {}).get("matchLabels")).get(NAMESPACE_NAME)
        text = selector_text(peer.namespaces)
        where = f"namespace {name}" if name else f"the namespaces with {text}" if text != "all" else "every namespace"
    return where, "" if selects_all(selector) else selector_text(selector)


@dataclass(frozen=True)
class _Way:
    """Addresses that a rule allows, after the denies."""

    spans: tuple[Span, ...]
    ports: Ports
    wide: bool


def _rules(side: Side) -> list[Rule]:
    """What is allowed, as rules: where nothing isolates, one rule to everybody."""
    return [rule for _, rule in side.allows] if side.isolated else [Rule("", (Anyone(),), EVERY_PORT)]


def _ways(side: Side, reach: Reach) -> list[_Way]:
    out = [
        one for _, rule in side.denies if every_port(rule.ports) for peer in rule.peers for one in _spans(peer, reach)
    ]
    found = []
    for rule in _rules(side):
        for peer in rule.peers:
            left = minus(_spans(peer, reach), out)
            if left:
                found.append(_Way(left, rule.ports, not isinstance(peer, Block) or peer.wide))
    return found


def _spans(peer: Peer, reach: Reach) -> tuple[Span, ...]:
    whole = tuple(span(one) for one in networks(WORLD))
    if isinstance(peer, Anyone) or peer == Entity("all"):
        return whole
    if isinstance(peer, Entity) and peer.name.startswith("world"):
        outside = minus(whole, map(span, reach.cluster))
        return tuple(one for one in outside if not peer.name.endswith(("4", "6")) or peer.name.endswith(str(one[0])))
    return peer.spans if isinstance(peer, Block) else ()


def _answers(subject: Subject, reach: Reach) -> Iterator[tuple[str, str]]:
    if subject.host_network:
        yield "anything", "yes: it is on the network of its node, where no policy counts"
        return
    side = reach.side(subject, EGRESS)
    ways = _ways(side, reach)
    metadata = [way for way in ways if any(holds(way.spans, one) for one in reach.metadata())]
    yield "cloud metadata", f"yes ({_ports_of(metadata)})" if metadata else "no"
    yield "private networks", _ranges(ways, PRIVATE)
    if reach.cluster:
        yield "cluster addresses", _cluster(side, ways, reach)
    yield "API server", _api_server(side, ways, reach)
    yield "internet", _internet(side, ways, reach)


def _ports_of(ways: Iterable[_Way]) -> str:
    return ports_text(port for way in ways for port in way.ports)


def _ranges(ways: Iterable[_Way], ranges: Iterable[str]) -> str:
    by_ports: dict[Ports, list[Span]] = {}
    for way in ways:
        found = within(way.spans, networks(ranges))
        if found:
            by_ports.setdefault(way.ports, []).extend(found)
    if not by_ports:
        return "no"
    parts = []
    for ports, left in by_ports.items():
        cidrs = written(left)
        whole = set(cidrs) >= set(ranges)
        more = f" and {len(cidrs) - _SHOWN} more" if len(cidrs) > _SHOWN else ""
        parts.append(f"{'all' if whole else 'only ' + ', '.join(cidrs[:_SHOWN]) + more} ({ports_text(ports)})")
    return "; ".join(parts)


def _cluster(side: Side, ways: list[_Way], reach: Reach) -> str:
    broad = [rule.ports for rule in _rules(side) for one in rule.peers if _all_pods(one)]
    if broad:
        return f"all ({ports_text(port for ports in broad for port in ports)})"
    # With Cilium a range of addresses means neither pods nor nodes.
    text = "no" if reach.cilium else _ranges(ways, [str(one) for one in reach.cluster])
    pods = any(isinstance(one, Pods | ServicePods) for rule in _rules(side) for one in rule.peers)
    if not pods:
        return text
    return "only the pods that are named" if text == "no" else f"the pods that are named, and {text}"


def _all_pods(peer: Peer) -> bool:
    return (
        isinstance(peer, Anyone)
        or (isinstance(peer, Entity) and peer.name in {"all", "cluster"})
        or (isinstance(peer, Pods) and peer.everywhere)
    )


def _api_server(side: Side, ways: list[_Way], reach: Reach) -> str:
    entity = [
        port
        for rule in _rules(side)
        for one in rule.peers
        if isinstance(one, Anyone) or (isinstance(one, Entity) and one.name in _OF_API)
        for port in rule.ports
    ]
    denied = any(isinstance(one, Entity) and one.name in _OF_API for _, rule in side.denies for one in rule.peers)
    if entity:
        return f"yes ({ports_text(entity)})" + (", but for what is denied" if denied else "")
    likely = [way for way in ways if any(covers(way.ports, "TCP", port) for port in _API_PORTS)]
    near = [way for way in likely if not way.wide and not reach.cilium]
    if near:
        cidrs = written(one for way in near for one in way.spans)
        return f"only if it is at {', '.join(cidrs[:_SHOWN])} ({_ports_of(near)})"
    wide = [way for way in likely if way.wide]
    return f"no, unless its address is public ({_ports_of(wide)})" if wide else "no"


def _internet(side: Side, ways: list[_Way], reach: Reach) -> str:
    own = [*map(span, networks((*PRIVATE, *METADATA_RANGES, *_NOWHERE))), *map(span, reach.cluster)]
    parts = []
    public = [(way, minus(way.spans, own)) for way in ways]
    wide = [(way, left) for way, left in public if way.wide and left]
    for ports in dict.fromkeys(way.ports for way, _ in wide):
        families = {one[0] for way, left in wide if way.ports == ports for one in left}
        parts.append(ports_text(ports) + ("" if len(families) == 2 else f" (IPv{min(families)} alone)"))
    for way, left in public:
        if left and not way.wide:
            cidrs = written(left)
            parts.append(f"{', '.join(cidrs[:_SHOWN])} ({ports_text(way.ports)})")
    by_ports: dict[Ports, list[str]] = {}
    for rule in _rules(side):
        for one in rule.peers:
            if isinstance(one, Name):
                by_ports.setdefault(rule.ports, []).append(one.pattern)
    for ports, patterns in by_ports.items():
        hidden = any(overlap(ports, way.ports) for way, _ in wide)
        more = f" and {len(patterns) - _SHOWN} more" if len(patterns) > _SHOWN else ""
        said = f"the names {', '.join(patterns[:_SHOWN])}{more} ({ports_text(ports)})"
        parts.append(f"{said}, which narrow nothing" if hidden else said)
    return "; ".join(parts) if wide else f"only {'; '.join(parts)}" if parts else "no"


def _enforced(subject: Subject, reach: Reach) -> str:
    """By what the way to the outside is held: names, addresses, or not at all."""
    side = reach.side(subject, EGRESS)
    if not side.isolated:
        return "not at all: no policy selects it"
    ways = _ways(side, reach)
    named = any(isinstance(one, Name) for _, rule in side.allows for one in rule.peers)
    if any(way.wide for way in ways):
        return "by address alone: the world is open" + (", whatever names are allowed besides" if named else "")
    held = [*(["by name (Cilium)"] if named else []), *(["by address"] if ways else [])]
    return " and ".join(held) or "nothing outside the cluster is allowed"


def _notes(subject: Subject, reach: Reach) -> Iterator[str]:
    if subject.host_network:
        return
    side = reach.side(subject, EGRESS)
    named = [(doc, rule) for doc, rule in side.allows if any(isinstance(one, Name) for one in rule.peers)]
    for doc, rule in side.allows:
        hidden = [other for other, names_ in named if reaches_world(rule) and overlap(rule.ports, names_.ports)]
        for other in hidden:
            yield (
                f"{doc.title} allows the whole world on {ports_text(rule.ports)}; the names in {other.title} "
                "narrow nothing, for policies add up"
            )
        if any(isinstance(one, Anyone) for one in rule.peers) and every_port(rule.ports):
            yield f"{doc.title} allows everybody on every port, so no other rule for egress narrows anything"
    if reach.cilium and any(isinstance(one, Block) for _, rule in side.allows for one in rule.peers):
        yield "the set is for Cilium: there addresses never mean pods, nodes or the API server, whatever they are"
    lacking = cut_off_from_dns(subject, reach) if side.allows else []
    if lacking:
        yield f"it cannot look names up: {' and '.join(lacking)} to the DNS pods is denied"
