"""Who may talk to whom by all policies of a set together: rules add up, denies of Cilium win."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, cast

from policies.network.addresses import METADATA, Address, Network, address, contains, holds, networks
from policies.network.reading import CILIUM, POLICIES, documents
from policies.network.terms import (
    EGRESS,
    INGRESS,
    NAMESPACE_NAME,
    Anyone,
    Block,
    Doc,
    Entity,
    Name,
    Peer,
    Pods,
    Rule,
    ServicePods,
    Subject,
    covers,
    picks,
)
from policies.world import PODS, Entry, PodView, World, mapping, sequence

T = TypeVar("T")
Target: TypeAlias = "Subject | Address | Entity"
# What the entity `cluster` holds besides pods (docs.cilium.io, "Entities Based").
_OF_CLUSTER = frozenset({"host", "remote-node", "kube-apiserver", "health", "init", "ingress", "unmanaged"})


@dataclass(frozen=True)
class Side:
    """One direction of some pods. Nothing isolates them: everything is allowed but what `denies` says."""

    isolated_by: tuple[Doc, ...]
    allows: tuple[tuple[Doc, Rule], ...]
    denies: tuple[tuple[Doc, Rule], ...]

    @property
    def isolated(self) -> bool:
        return bool(self.isolated_by)


class Reach:
    """An index of a world; made once, through `reach_of`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.facts = world.facts
        self.cluster: tuple[Network, ...] = networks(world.facts.cluster_cidrs)
        self.cilium = any(world.by_kind.get(kind) for kind in CILIUM)
        self.namespaces = _namespace_labels(world)
        self.subjects = tuple(self._subjects(world))
        self.by_namespace: dict[str, list[Subject]] = defaultdict(list)
        for one in self.subjects:
            self.by_namespace[one.namespace].append(one)
        self.docs = tuple(doc for kind in POLICIES for entry in world.by_kind.get(kind, ()) for doc in documents(entry))
        self._docs: dict[str | None, list[Doc]] = defaultdict(list)
        for doc in self.docs:
            self._docs[doc.namespace].append(doc)
        self._sides: dict[tuple[object, str], Side] = {}
        self._kept: dict[tuple[object, object], object] = {}
        self._of_entry = {id(one.entry): one for one in self.subjects if one.entry is not None}
        self._docs_of: dict[int, list[Doc]] = defaultdict(list)
        for doc in self.docs:
            self._docs_of[id(doc.entry)].append(doc)

    def _subjects(self, world: World) -> Iterator[Subject]:
        for entry, pod in world.pods:
            yield Subject(
                str(entry.id),
                entry.id.namespace,
                pod.labels,
                self.labels_of(entry.id.namespace),
                named_ports(pod),
                host_network=pod.spec.get("hostNetwork") is True,
                service_account=str(pod.spec.get("serviceAccountName") or "default"),
                entry=entry,
                pod=pod,
            )
        for one in world.facts.externals:
            if one.kind in PODS and one.labels:
                name = f"{one.kind} {one.namespace}/{one.name}"
                yield Subject(name, one.namespace, one.labels, self.labels_of(one.namespace), None)

    def labels_of(self, namespace: str) -> Mapping[str, Any]:
        return self.namespaces.get(namespace) or {NAMESPACE_NAME: namespace}

    def subject(self, entry: Entry) -> Subject | None:
        """The pods of an object of the set."""
        return self._of_entry.get(id(entry))

    def docs_of(self, entry: Entry) -> list[Doc]:
        """What is in one policy object."""
        return self._docs_of.get(id(entry), [])

    def docs_over(self, namespace: str) -> list[Doc]:
        """Those that may select pods of a namespace."""
        return [*self._docs.get(namespace, ()), *self._docs.get(None, ())]

    @cached_property
    def by_name(self) -> tuple[tuple[Doc, Rule], ...]:
        """The rules that allow names, but for the name of everything."""
        return tuple(
            (doc, rule)
            for doc in self.docs
            for rule in (doc.parts[EGRESS].allows if doc.cilium else ())
            if any(isinstance(one, Name) and one.pattern not in {"*", "**"} for one in rule.peers)
        )

    def complete(self, namespace: str) -> bool:
        """Whether the pods of a namespace are known: there are some, and none is declared without its labels."""
        hidden = any(one.kind in PODS and one.namespace == namespace and not one.labels for one in self.facts.externals)
        return bool(self.by_namespace.get(namespace)) and not hidden

    def selected(self, doc: Doc) -> list[Subject]:
        among = self.subjects if doc.namespace is None else self.by_namespace.get(doc.namespace, [])
        return [one for one in among if doc.selects(one)]

    def side(self, subject: Subject, direction: str) -> Side:
        key = (subject.alike, direction)
        if key not in self._sides:
            docs = self.docs_over(subject.namespace)
            parts = [(doc, doc.parts[direction]) for doc in docs if doc.selects(subject)]
            self._sides[key] = Side(
                tuple(doc for doc, part in parts if part.isolates),
                tuple((doc, rule) for doc, part in parts for rule in part.allows),
                tuple((doc, rule) for doc, part in parts for rule in part.denies),
            )
        return self._sides[key]

    def kept(self, subject: Subject, make: Callable[[Subject, Reach], T]) -> T:
        """What `make` says of pods, made once for all that are alike."""
        key = (subject.alike, make)
        if key not in self._kept:
            self._kept[key] = make(subject, self)
        return cast("T", self._kept[key])

    def allows(self, subject: Subject, direction: str, other: Target, protocol: str, port: int) -> bool:
        """Whether the policies of `subject` let the traffic pass; what those of the other end say is its own matter."""
        side = self.side(subject, direction)
        receiver = subject if direction == INGRESS else other if isinstance(other, Subject) else None
        if any(self._fits(rule, other, protocol, port, receiver) for _, rule in side.denies):
            return False
        return not side.isolated or any(self._fits(rule, other, protocol, port, receiver) for _, rule in side.allows)

    def connects(self, sender: Subject, receiver: Subject, protocol: str, port: int) -> tuple[bool, bool]:
        """(whether the sender's policies let it out, whether the receiver's let it in)."""
        return (
            self.allows(sender, EGRESS, receiver, protocol, port),
            self.allows(receiver, INGRESS, sender, protocol, port),
        )

    def _fits(self, rule: Rule, other: Target, protocol: str, port: int, receiver: Subject | None) -> bool:
        return covers(rule.ports, protocol, port, receiver) and any(self.means(peer, other) for peer in rule.peers)

    def means(self, peer: Peer, other: Target) -> bool:
        """Whether `peer` includes `other`; what cannot be known is not included."""
        if isinstance(peer, Anyone):
            return True
        if isinstance(peer, Entity):
            return self._entity(peer.name, other)
        if isinstance(peer, Block):
            if isinstance(other, Subject):
                return self.blankets(peer)
            return not isinstance(other, Entity) and holds(peer.spans, other)
        if isinstance(other, Subject):
            if isinstance(peer, Pods):
                return peer.picks(other)
            return isinstance(peer, ServicePods) and self._behind(peer, other)
        return False

    def _entity(self, name: str, other: Target) -> bool:
        if name == "all" or (isinstance(other, Entity) and name == other.name):
            return True
        if isinstance(other, Subject):
            return name == "cluster"
        if isinstance(other, Entity):
            # The API server runs on nodes in most clusters, so who reaches nodes reaches it.
            return (name == "cluster" and other.name in _OF_CLUSTER) or (
                other.name == "kube-apiserver" and name in {"host", "remote-node"}
            )
        inside = any(contains(one, own) for one in self.cluster for own in networks([str(other)]))
        return name in ({"cluster"} if inside else {"world", f"world-ipv{other.version}"})

    def blankets(self, block: Block) -> bool:
        """Whether a range of addresses takes in each pod. With Cilium none does: there pods are no addresses."""
        if self.cilium:
            return False
        if not self.cluster:
            return block.wide and not block.excepts
        return all(
            contains(block.network, one) and not any(_meet(one, out) for out in block.excepts)
            for one in self.cluster
            if one.version == block.network.version
        ) and any(one.version == block.network.version for one in self.cluster)

    def _behind(self, peer: ServicePods, subject: Subject) -> bool:
        for service in self._world.within("Service", subject.namespace):
            if peer.namespace not in (None, subject.namespace) or (peer.name and peer.name != service.id.name):
                continue
            if peer.selector is not None and not picks(peer.selector, service.labels):
                continue
            chosen = mapping(service.spec.get("selector"))
            if chosen and picks({"matchLabels": chosen}, subject.labels):
                return True
        return False

    def metadata(self) -> tuple[Address, ...]:
        """The addresses of the metadata service of clouds."""
        return tuple(one for text in METADATA if (one := address(text)) is not None)


def reach_of(world: World) -> Reach:
    """The index of this world."""
    return world.index(Reach)


def _meet(one: Network, other: Network) -> bool:
    return contains(one, other) or contains(other, one)


def _namespace_labels(world: World) -> dict[str, Mapping[str, Any]]:
    """Of those that the set holds or that are declared with labels; each has its name among them."""
    found: dict[str, Mapping[str, Any]] = {
        one.name: {**one.labels, NAMESPACE_NAME: one.name} for one in world.facts.externals if one.kind == "Namespace"
    }
    for entry in world.by_kind.get("Namespace", ()):
        found[entry.id.name] = {**entry.labels, NAMESPACE_NAME: entry.id.name}
    return found


def named_ports(pod: PodView) -> dict[tuple[str, str], int]:
    """(name, protocol) to number, of the containers that stay: those, and init containers that are restarted."""
    found: dict[tuple[str, str], int] = {}
    for port in declared_ports(pod):
        name, number = port.get("name"), port.get("containerPort")
        if isinstance(name, str) and isinstance(number, int):
            found.setdefault((name, str(port.get("protocol") or "TCP")), number)
    return found


def declared_ports(pod: PodView) -> Iterator[Mapping[str, Any]]:
    """The ports that the pod's lasting containers declare."""
    for one in pod.containers:
        lasting = one.list_name == "containers" or (
            one.list_name == "initContainers" and one.spec.get("restartPolicy") == "Always"
        )
        if lasting:
            yield from (port for port in sequence(one.spec.get("ports")) if isinstance(port, Mapping))


def names(subjects: Iterable[Subject]) -> str:
    """Up to three of them, for a message."""
    found = [one.name for one in subjects]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return ", ".join(found[:3]) + more
