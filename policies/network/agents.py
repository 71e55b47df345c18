"""What runs may reach: the Paperclip API surely, and nothing of the cluster besides."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from kubekit import labels
from policies.model import Fault, Scope
from policies.network.addresses import (
    METADATA_RANGES,
    Network,
    Span,
    contains,
    networks,
    within,
    written,
)
from policies.network.egress import bare, inner, of_agents
from policies.network.isolation import labels_pointer
from policies.network.reach import Reach, declared_ports, reach_of
from policies.network.terms import (
    EGRESS,
    Block,
    Doc,
    Entity,
    Pods,
    Rule,
    ServicePods,
    Subject,
    covers,
    every_port,
    ports_text,
)
from policies.registry import policy
from policies.world import Entry, World, mapping, sequence

API_URL = "PAPERCLIP_API_URL"
_RUNS = ("Job", "CronJob", "Pod")
_DATABASE_PORT = 5432
_DATABASES = frozenset({"postgresql", "postgres"})
_OWN_MACHINES = frozenset({"cluster", "host", "remote-node", "kube-apiserver"})


def is_agent(subject: Subject) -> bool:
    """Whether the launcher starts these pods."""
    return all(subject.labels.get(key) == value for key, value in labels.AGENT_JOB.items())


@policy(
    "agents-reach-server",
    title="A run reaches the Paperclip API",
    rationale="A run whose calls are dropped works for its whole time and can report nothing: both ends must allow "
    "the port that the Service leads to.",
    remedy="allow the port in the egress policy of the agents and in the ingress policy of the server",
    scope=Scope.SET,
    kinds=_RUNS,
    links=("https://kubernetes.io/docs/concepts/services-networking/network-policies/#the-two-sorts-of-pod-isolation",),
)
def agents_reach_server(entry: Entry, world: World) -> Iterator[Fault]:
    reach = reach_of(world)
    subject = reach.subject(entry)
    if subject is None or not is_agent(subject):
        return
    for pointer, namespace, name, port in _asked(subject):
        service = world.find("Service", namespace, name)
        if service is None:
            if world.find("Namespace", "", namespace) and not world.exists("Service", namespace, name):
                yield Fault(
                    pointer, f"{API_URL} names the Service {namespace}/{name}, and the set has none of that name"
                )
            continue
        found = [one for one in map(mapping, sequence(service.spec.get("ports"))) if one.get("port") == port]
        if not found:
            yield Fault(pointer, f"{API_URL} asks for port {port}, which Service {namespace}/{name} does not have")
            continue
        yield from _cut_off(subject, service, found[0].get("targetPort", port), reach)


def _asked(subject: Subject) -> Iterator[tuple[str, str, str, int]]:
    """(pointer, namespace, Service, port) of each container that is told an address inside the cluster."""
    for one in subject.pod.containers if subject.pod else ():
        for index, variable in enumerate(map(mapping, sequence(one.spec.get("env")))):
            value = variable.get("value")
            if variable.get("name") != API_URL or not isinstance(value, str):
                continue
            place = _service_of(value)
            if place is not None:
                yield (f"{one.pointer}/env/{index}/value", *place)


def _service_of(url: str) -> tuple[str, str, int] | None:
    """(namespace, Service, port) of a URL; None if it is none, or of a host outside the cluster."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return None
    names = (parts.hostname or "").split(".")
    inside = len(names) == 2 or (len(names) > 2 and names[2] == "svc")
    return (names[1], names[0], port) if inside and all(names[:2]) else None


def _cut_off(agent: Subject, service: Entry, target: object, reach: Reach) -> Iterator[Fault]:
    chosen = mapping(service.spec.get("selector"))
    if not chosen:
        return
    selected = Pods({"matchLabels": chosen}, service.id.namespace)
    for server in reach.by_namespace.get(service.id.namespace, ()):
        number = target if isinstance(target, int) else (server.ports or {}).get((str(target), "TCP"))
        if number is None or not selected.picks(server):
            continue
        out, into = reach.connects(agent, server, "TCP", number)
        where = f"{server.name} on TCP {number} (Service {service.id.namespace}/{service.id.name})"
        if not out:
            yield Fault(labels_pointer(agent), f"no egress policy of the run allows {where}, and one must")
        if not into:
            yield Fault(labels_pointer(agent), f"no ingress policy allows the run at {where}, and one must")


@policy(
    "agents-reach-no-more",
    title="A run reaches nothing of the cluster but the Paperclip API",
    rationale="An agent runs what strangers have written: from the nodes, the API server, the metadata service or the "
    "database it could take over all the rest.",
    remedy="take the peer out of the egress rules of the agents, or waive the finding with a reason",
    scope=Scope.SET,
    kinds=_RUNS,
    links=(
        "https://kubernetes.io/docs/concepts/security/security-checklist/#network-security",
        "https://docs.cilium.io/en/stable/security/policy/language/#entities-based",
    ),
)
def agents_reach_no_more(entry: Entry, world: World) -> Iterator[Fault]:
    reach = reach_of(world)
    subject = reach.subject(entry)
    if subject is None or not is_agent(subject) or subject.host_network:
        return
    side = reach.side(subject, EGRESS)
    if not side.isolated:  # netpol-covers-pods says it
        return
    for message in (*reach.kept(subject, _farther), *reach.kept(subject, _databases)):
        yield Fault(labels_pointer(subject), message)


def _farther(agent: Subject, reach: Reach) -> list[str]:
    """What rules allow beyond pods that they name."""
    side = reach.side(agent, EGRESS)
    denied = [rule for _, rule in side.denies]
    found: dict[str, str] = {}
    for doc, rule in side.allows:
        for message in _too_far(doc, rule, denied, reach):
            found.setdefault(message, f"{doc.title} lets the run reach {message}")
    return list(found.values())


def _too_far(doc: Doc, rule: Rule, denied: list[Rule], reach: Reach) -> Iterator[str]:
    on = ports_text(rule.ports)
    for peer in rule.peers:
        if isinstance(peer, Entity) and peer.name in _OWN_MACHINES and not _denies_entity(peer, denied):
            yield f'the entity "{peer.name}" on {on}: the cluster itself'
        elif isinstance(peer, Pods) and peer.everywhere:
            yield f"the pods of every namespace on {on}"
        elif isinstance(peer, Block) and not bare(peer) and (left := _left(doc, rule, peer, denied, reach)):
            more = " ..." if len(left) > 4 else ""
            yield f"{', '.join(left[:4])}{more} on {on}: addresses of the cluster or of metadata"


def _denies_entity(entity: Entity, denied: list[Rule]) -> bool:
    return any(
        every_port(rule.ports)
        and any(isinstance(one, Entity) and one.name in {entity.name, "all"} for one in rule.peers)
        for rule in denied
    )


def _left(doc: Doc, rule: Rule, block: Block, denied: list[Rule], reach: Reach) -> tuple[str, ...]:
    """The addresses of a block that are the cluster's or metadata's."""
    dns = all(one.first == one.last == 53 for one in rule.ports)  # a resolver may be anywhere
    closed: list[Network] = [] if dns else [*networks(METADATA_RANGES), *reach.cluster]
    if of_agents(doc):
        # netpol-block-metadata and, of what reaches further, netpol-agents-egress have judged it.
        judged = [one for one in inner(reach.facts) if not contains(one, block.network)]
        closed = [] if dns else [one for one in reach.cluster if not any(contains(each, one) for each in judged)]
    found = within(block.spans, closed)
    for other in denied:
        if every_port(other.ports):
            found = _minus(found, other)
    return written(found)


def _minus(found: tuple[Span, ...], denied: Rule) -> tuple[Span, ...]:
    out = [one for peer in denied.peers if isinstance(peer, Block) for one in peer.spans]
    return tuple(one for one in found if not any(o[0] == one[0] and o[1] <= one[1] and one[2] <= o[2] for o in out))


def is_database(subject: Subject) -> bool:
    """Whether PostgreSQL runs in the pods, by what charts and operators call it or by the port."""
    if subject.labels.get(labels.NAME) in _DATABASES or "cnpg.io/cluster" in subject.labels:
        return True
    return subject.pod is not None and any(
        one.get("containerPort") == _DATABASE_PORT for one in declared_ports(subject.pod)
    )


def _databases(agent: Subject, reach: Reach) -> list[str]:
    """Those that a rule names; a rule to everybody or to a whole network is found as such."""
    found = []
    rules = [rule for _, rule in reach.side(agent, EGRESS).allows if covers(rule.ports, "TCP", _DATABASE_PORT)]
    peers = [one for rule in rules for one in rule.peers if isinstance(one, Pods | ServicePods)]
    named = [one for one in peers if isinstance(one, ServicePods) or not one.everywhere]
    for one in reach.subjects if named else ():
        if not is_database(one) or not any(reach.means(peer, one) for peer in named):
            continue
        if reach.allows(agent, EGRESS, one, "TCP", _DATABASE_PORT):
            found.append(f"the run may reach the database {one.name} on TCP {_DATABASE_PORT}")
    return found
