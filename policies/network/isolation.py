"""Every pod is isolated in both directions, by policies that select something and leave its lookups of names alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import labels
from policies.model import Fault, Scope, Severity
from policies.network.addresses import NODE_LOCAL_DNS, address, holds
from policies.network.reach import Reach, Side, names, reach_of
from policies.network.reading import POLICIES
from policies.network.terms import (
    ANY,
    DIRECTIONS,
    EGRESS,
    NAMESPACE_LABELS,
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
    picks,
    selector_text,
    selects_all,
)
from policies.registry import policy
from policies.world import PODS, Entry, World, mapping

_POLICY_DOCS = "https://kubernetes.io/docs/concepts/services-networking/network-policies/"
_CILIUM_DOCS = "https://docs.cilium.io/en/stable/security/policy/"


@policy(
    "netpol-default-deny",
    title="A namespace denies what no policy allows",
    rationale="A pod that no policy selects may talk to everybody; only a policy over all pods keeps the next one, "
    "whatever its labels are, from being open.",
    remedy="add a NetworkPolicy with podSelector: {} and policyTypes [Ingress, Egress] and without rules",
    scope=Scope.SET,
    kinds=("Namespace",),
    links=(
        f"{_POLICY_DOCS}#default-policies",
        "https://kyverno.io/policies/best-practices/add-network-policy/add-network-policy/",
    ),
)
def netpol_default_deny(entry: Entry, world: World) -> Iterator[Fault]:
    reach = reach_of(world)
    ours = entry.labels.get(labels.PART_OF) == labels.PART_OF_PAPERCLIP
    if not ours and not any(one.entry for one in reach.by_namespace.get(entry.id.name, ())):
        return
    docs = reach.docs_over(entry.id.name)
    lacking = [one for one in DIRECTIONS if not any(_denies_all(doc, entry, one, reach) for doc in docs)]
    if lacking:
        yield Fault(
            "", f"the namespace {entry.id.name} has no policy over all of its pods that denies {' and '.join(lacking)}"
        )


def _denies_all(doc: Doc, namespace: Entry, direction: str, reach: Reach) -> bool:
    part = doc.parts[direction]
    if doc.selector is None or not part.isolates or any(_opens(rule) for rule in part.allows):
        return False
    if selects_all(doc.selector):
        return doc.namespace in (None, namespace.id.name)
    return doc.cilium and doc.namespace in (None, namespace.id.name) and _is_of(doc.selector, namespace.id.name, reach)


def _opens(rule: Rule) -> bool:
    """Whether it allows everything to everybody, as `egress: [{}]` does."""
    everybody = any(isinstance(one, Anyone) or one == Entity("all") for one in rule.peers)
    return everybody and covers(rule.ports, "TCP", 1) and covers(rule.ports, "UDP", 1)


def _is_of(selector: Mapping[str, Any], namespace: str, reach: Reach) -> bool:
    """Whether a selector of Cilium asks for nothing but this namespace."""
    keys = [str(key) for key in mapping(selector.get("matchLabels"))]
    keys += [str(mapping(one).get("key")) for one in selector.get("matchExpressions") or ()]
    if not all(key == POD_NAMESPACE or key.startswith(NAMESPACE_LABELS) for key in keys):
        return False
    return picks(selector, Subject("", namespace, {}, reach.labels_of(namespace), None).extended)


@policy(
    "netpol-covers-pods",
    title="Pods are isolated in both directions",
    rationale="A direction in which no policy selects a pod is open to and from everybody, however strict the "
    "policies of its neighbours are.",
    remedy="select the pods by a policy for that direction, or deny it for the whole namespace",
    scope=Scope.SET,
    kinds=PODS,
    links=(f"{_POLICY_DOCS}#the-two-sorts-of-pod-isolation", f"{_CILIUM_DOCS}intro/"),
)
def netpol_covers_pods(entry: Entry, world: World) -> Iterator[Fault]:
    reach = reach_of(world)
    subject = reach.subject(entry)
    if subject is None or subject.host_network:  # the network of the node is no policy's business
        return
    open_ = [one for one in DIRECTIONS if not reach.side(subject, one).isolated]
    if open_:
        place = f"namespace {entry.id.namespace}" if entry.id.namespace else "their namespace"
        message = f"no policy of {place} selects the pods for {' and '.join(open_)}, and one must for each direction"
        yield Fault(labels_pointer(subject), message)


def labels_pointer(subject: Subject) -> str:
    """Where the labels of its pods stand; their spec where they have none."""
    if subject.pod is None:
        return ""
    return f"{subject.pod.pointer.removesuffix('/spec')}/metadata/labels" if subject.labels else subject.pod.pointer


@policy(
    "netpol-not-dangling",
    title="A policy's selectors find pods",
    rationale="A selector that finds nothing restricts or allows nothing: what it was written for is open or cut off.",
    remedy="mend the labels of the selector, or declare the pods that are made elsewhere under externals",
    severity=Severity.WARNING,
    scope=Scope.SET,
    kinds=POLICIES,
    links=("https://docs.kubelinter.io/#/generated/checks?id=dangling-networkpolicy",),
)
def netpol_not_dangling(entry: Entry, world: World) -> Iterator[Fault]:
    reach = reach_of(world)
    for doc in reach.docs_of(entry):
        known = world.pods if doc.namespace is None else reach.complete(doc.namespace)
        if known and doc.selector is not None and not reach.selected(doc) and not _on_nodes(doc, reach):
            yield Fault(
                doc.selector_pointer,
                f"the selector ({selector_text(doc.selector)}) finds no pod of {doc.namespace or 'the set'}",
            )
        for rule in _rules(doc):
            for peer in rule.peers:
                if isinstance(peer, Pods) and (lost := _lost(peer, reach)):
                    yield Fault(rule.pointer, f"the peer ({selector_text(peer.selector)}) finds no pod of {lost}")


def _on_nodes(doc: Doc, reach: Reach) -> bool:
    """Whether it would select pods, were they not on the network of their node."""
    return any(
        one.host_network and doc.namespace in (None, one.namespace) and picks(doc.selector, one.labels)
        for one in reach.subjects
    )


def _rules(doc: Doc) -> Iterator[Rule]:
    for part in doc.parts.values():
        yield from (*part.allows, *part.denies)


def _lost(peer: Pods, reach: Reach) -> str:
    """The namespace in which a peer finds nothing; "" where it finds something, or that cannot be known."""
    namespace = _namespace_of(peer)
    if namespace is None or namespace == reach.facts.dns_namespace or not reach.complete(namespace):
        return ""
    if any(peer.picks(one) or one.host_network for one in reach.by_namespace[namespace]):
        return ""
    return namespace


def _namespace_of(peer: Pods) -> str | None:
    """The one namespace that it is about, None if that is not told by name."""
    if peer.namespace is not None:
        return peer.namespace
    selector, key = (peer.selector, POD_NAMESPACE) if peer.extended else (peer.namespaces or {}, NAMESPACE_NAME)
    found = mapping(selector.get("matchLabels")).get(key)
    return found if isinstance(found, str) else None


@policy(
    "netpol-dns",
    title="Pods with restricted egress reach DNS",
    rationale="A pod that may reach its peers but not the DNS pods cannot find them: every call by name hangs until it "
    "times out. Answers that do not fit into a datagram come over TCP.",
    remedy="allow egress to the DNS pods on UDP 53 and TCP 53",
    scope=Scope.SET,
    kinds=POLICIES,
    links=(
        "https://kyverno.io/policies/best-practices/add-networkpolicy-dns/add-networkpolicy-dns/",
        "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/",
    ),
)
def netpol_dns(entry: Entry, world: World) -> Iterator[Fault]:
    reach = reach_of(world)
    for doc in reach.docs_of(entry):
        if not doc.parts[EGRESS].allows:
            continue
        cut: dict[str, list[Subject]] = {}
        for subject in reach.selected(doc):
            lacking = " and ".join(reach.kept(subject, cut_off_from_dns)) if _asks(subject) else ""
            if lacking and _first(reach.side(subject, EGRESS)) is doc:
                cut.setdefault(lacking, []).append(subject)
        for lacking, subjects in sorted(cut.items()):
            where = f"the DNS pods ({reach.facts.dns_namespace}: {_labels_text(reach)})"
            yield Fault(
                f"{doc.pointer}/egress", f"{names(subjects)} may reach others, but not {where} on {lacking}, and must"
            )


def _first(side: Side) -> Doc | None:
    """The policy that is told of it: one is enough."""
    return next((doc for doc, _ in side.allows), None)


def _labels_text(reach: Reach) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(reach.facts.dns_labels.items()))


def _asks(subject: Subject) -> bool:
    """Whether the pods look names up in the cluster's DNS at all."""
    return subject.pod is None or subject.pod.spec.get("dnsPolicy") not in ("None", "Default")


def cut_off_from_dns(subject: Subject, reach: Reach) -> list[str]:
    """The ports of DNS that its policies deny; all of them may be meant where it may reach nobody."""
    side = reach.side(subject, EGRESS)
    if not side.isolated:
        return []
    facts = reach.facts
    pods = Subject("DNS", facts.dns_namespace, facts.dns_labels, reach.labels_of(facts.dns_namespace), None)
    return [
        f"{protocol} 53"
        for protocol in ("UDP", "TCP")
        if not any(_to_dns(rule, protocol, pods, reach) for _, rule in side.allows)
        or any(covers(rule.ports, protocol, 53) and _meant(rule, pods, reach) for _, rule in side.denies)
    ]


def _meant(rule: Rule, pods: Subject, reach: Reach) -> bool:
    return any(reach.means(peer, pods) for peer in rule.peers)


def _to_dns(rule: Rule, protocol: str, pods: Subject, reach: Reach) -> bool:
    if not covers(rule.ports, protocol, 53):
        # The port may be named; the containers of the DNS pods are not in the set.
        named = any(one.name.startswith("dns") and one.protocol in (ANY, protocol) for one in rule.ports)
        return named and _meant(rule, pods, reach)
    node_local = address(NODE_LOCAL_DNS)
    if _meant(rule, pods, reach):
        return True
    for peer in rule.peers:
        # A rule about port 53 alone means a resolver, wherever it is: that of the node, or one outside.
        if isinstance(peer, Block | Entity) and all(one.first == one.last == 53 for one in rule.ports):
            return True
        if isinstance(peer, Block) and node_local is not None and holds(peer.spans, node_local):
            return True
    return False
