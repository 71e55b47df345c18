"""The words of network policies, the same for NetworkPolicy and for those of Cilium: ports, peers, rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from kubekit.selectors import SelectorError, matches
from policies.network.addresses import Network, Span, spans
from policies.world import Entry, PodView, mapping, sequence

INGRESS, EGRESS = "ingress", "egress"
DIRECTIONS = (INGRESS, EGRESS)
ANY = "ANY"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
NAMESPACE_LABELS = "io.cilium.k8s.namespace.labels."
SERVICE_ACCOUNT = "io.cilium.k8s.policy.serviceaccount"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that the API server sets on each namespace."""


@dataclass(frozen=True)
class PortRange:
    """Ports of a protocol, or of ANY. A `name` means the port of that name of the pod that receives."""

    protocol: str
    first: int
    last: int
    name: str = ""

    def __str__(self) -> str:
        protocol = "" if self.protocol == ANY else f"{self.protocol} "
        if self.name:
            return f'{protocol}"{self.name}"'
        if (self.first, self.last) == (0, 65535):
            return f"{protocol}all ports"
        return f"{protocol}{self.first}" if self.first == self.last else f"{protocol}{self.first}-{self.last}"


Ports: TypeAlias = tuple[PortRange, ...]
"""None at all where it is empty."""
EVERY_PORT: Ports = (PortRange(ANY, 0, 65535),)


@dataclass(frozen=True)
class Subject:
    """Pods that are alike: those of one template in the set, or those that are declared to be elsewhere.

    `ports` leads from (name, protocol) to the number; None where the containers are not known.
    """

    name: str
    namespace: str
    labels: Mapping[str, Any]
    namespace_labels: Mapping[str, Any]
    ports: Mapping[tuple[str, str], int] | None
    host_network: bool = False
    service_account: str = "default"
    entry: Entry | None = None
    pod: PodView | None = None

    @cached_property
    def alike(self) -> object:
        """Equal for pods that policies cannot tell apart."""
        seen = (self.namespace, self.service_account, self.host_network)
        try:
            return (*seen, frozenset(self.labels.items()))
        except TypeError:  # a value is no text
            return id(self)

    @cached_property
    def extended(self) -> Mapping[str, Any]:
        """Its labels as Cilium sees them: with its namespace, that one's labels, and its account."""
        seen = {f"{NAMESPACE_LABELS}{key}": value for key, value in self.namespace_labels.items()}
        own = {POD_NAMESPACE: self.namespace, SERVICE_ACCOUNT: self.service_account}
        return {**self.labels, **seen, **own}


@dataclass(frozen=True)
class Anyone:
    """No peer is named: everybody."""


@dataclass(frozen=True)
class Pods:
    """Pods by labels. `namespace` pins their namespace; None: `namespaces` selects it by labels, None: any.

    `extended`: the selector of Cilium, which sees the namespace among the labels.
    """

    selector: Mapping[str, Any]
    namespace: str | None = None
    namespaces: Mapping[str, Any] | None = None
    extended: bool = False

    def picks(self, subject: Subject) -> bool:
        if subject.host_network or self.namespace not in (None, subject.namespace):
            return False
        if self.namespaces is not None and not picks(self.namespaces, subject.namespace_labels):
            return False
        return picks(self.selector, subject.extended if self.extended else subject.labels)

    @property
    def everywhere(self) -> bool:
        """Whether it means each pod of the cluster."""
        pinned = self.namespace is not None or not selects_all(self.namespaces or {})
        return not pinned and selects_all(self.selector)


@dataclass(frozen=True)
class Block:
    """A range of addresses without some."""

    network: Network
    excepts: tuple[Network, ...] = ()

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        return spans(self.network, self.excepts)

    @property
    def wide(self) -> bool:
        """Whether it starts from a whole address family."""
        return self.network.prefixlen == 0


@dataclass(frozen=True)
class Entity:
    """What Cilium has a word for: world, cluster, host, remote-node, kube-apiserver, all ..."""

    name: str


@dataclass(frozen=True)
class Name:
    """A DNS name or a pattern of names."""

    pattern: str


@dataclass(frozen=True)
class ServicePods:
    """The pods behind Services: of a name, or of a selector over their labels."""

    namespace: str | None
    name: str
    selector: Mapping[str, Any] | None


@dataclass(frozen=True)
class Unknown:
    """A peer that manifests do not tell: groups of a cloud, groups of addresses, nodes."""

    text: str


Peer: TypeAlias = "Anyone | Pods | Block | Entity | Name | ServicePods | Unknown"


@dataclass(frozen=True)
class Rule:
    """All of `peers` may (or, of a deny, must not) talk on `ports`. `layer7` says what narrows it further."""

    pointer: str
    peers: tuple[Peer, ...]
    ports: Ports
    layer7: str = ""


@dataclass(frozen=True)
class Part:
    """What a policy says of one direction. `isolates`: what no policy allows is denied."""

    isolates: bool = False
    allows: tuple[Rule, ...] = ()
    denies: tuple[Rule, ...] = ()


@dataclass(frozen=True, eq=False)
class Doc:
    """One policy, read. `namespace` is None for one of the whole cluster; `selector` None selects no pod."""

    entry: Entry
    pointer: str
    selector_pointer: str
    namespace: str | None
    selector: Mapping[str, Any] | None
    cilium: bool
    parts: Mapping[str, Part] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return str(self.entry.id)

    def selects(self, subject: Subject) -> bool:
        """Whether it is about these pods; the network of a node is no policy's business."""
        if self.selector is None or subject.host_network or self.namespace not in (None, subject.namespace):
            return False
        return picks(self.selector, subject.extended if self.cilium else subject.labels)


def picks(selector: object, labels: Mapping[str, Any]) -> bool:
    """The one selector function, for manifests that may be broken: such a selector selects nothing."""
    if not isinstance(selector, Mapping):
        return False
    try:
        return matches(selector, labels)
    except (SelectorError, TypeError):
        return False


def selects_all(selector: Mapping[str, Any]) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def covers(ports: Ports, protocol: str, number: int, receiver: Subject | None = None) -> bool:
    """Whether the port is among them; names are looked up in the receiving pod."""
    return any(
        one.protocol in (ANY, protocol)
        and (
            receiver is not None and (receiver.ports or {}).get((one.name, protocol)) == number
            if one.name
            else one.first <= number <= one.last
        )
        for one in ports
    )


def overlap(some: Ports, others: Ports) -> bool:
    """Whether a port is in both; a name counts as any port of its protocol."""
    return any(
        (one.protocol == other.protocol or ANY in (one.protocol, other.protocol))
        and (bool(one.name or other.name) or (one.first <= other.last and other.first <= one.last))
        for one in some
        for other in others
    )


def every_port(ports: Ports) -> bool:
    return any(one.protocol == ANY and not one.name and one.first <= 1 and one.last == 65535 for one in ports)


def ports_text(ports: Iterable[PortRange]) -> str:
    """TCP 80, 443; UDP 53."""
    by_protocol: dict[str, list[str]] = {}
    for one in dict.fromkeys(ports):
        if every_port((one,)):
            return "all ports"
        text = str(one).removeprefix(f"{one.protocol} ")
        by_protocol.setdefault(one.protocol if one.protocol != ANY else "any protocol", []).append(text)
    return "; ".join(f"{protocol} {', '.join(texts)}" for protocol, texts in by_protocol.items()) or "no port"


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """app=x, tier in (a, b); "all" for the empty one."""
    found = mapping(selector)
    parts = [f"{key}={value}" for key, value in sorted(mapping(found.get("matchLabels")).items(), key=str)]
    for one in map(mapping, sequence(found.get("matchExpressions"))):
        values = ", ".join(map(str, sequence(one.get("values"))))
        operator = str(one.get("operator"))
        words = {"In": f" in ({values})", "NotIn": f" not in ({values})", "Exists": " set", "DoesNotExist": " not set"}
        parts.append(f"{one.get('key')}{words.get(operator, ' ' + operator)}")
    return ", ".join(parts) or "all"
