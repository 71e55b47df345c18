"""Objects that are declared to be made elsewhere, though nothing here needs them any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import pointers
from kubekit.identity import ObjectId
from policies.documents.elsewhere import FAMILY
from policies.facts import External
from policies.model import Finding, Policy, Scope, Severity, Source
from policies.registry import add
from policies.world import World, mapping

POLICY = Policy(
    "external-live",
    "What is declared to be made elsewhere is needed here",
    Severity.WARNING,
    Scope.SET,
    FAMILY,
    frozenset(),
    "A declaration that nothing refers to any more waits for the next reference of that name, and lets it pass though "
    "the object is long gone.",
    "take it out of checks.externals, or out of --external; what all sets of a cluster share goes into --facts",
    ("https://github.com/stackrox/kube-linter/issues/76", "https://github.com/stackrox/kube-linter/issues/179"),
    waivable=True,
    since="",
    check=None,
    cel=None,
)
add(POLICY)


def stale_externals(world: World, source: Source) -> Iterator[Finding]:
    """A finding for each object that was declared for this set and that nothing in it names; `source` is where."""
    if not world.facts.declared:
        return
    texts, selectors = _texts(world), _selectors(world)
    everything = "\n".join(sorted({text for _, text in texts}))
    for one in world.facts.declared:
        if not _needed(one, texts, selectors, everything):
            identity = ObjectId("", one.kind, one.namespace, one.name)
            message = f"{one} is declared to be made elsewhere, and nothing in this set refers to it"
            yield Finding(POLICY.id, POLICY.severity, identity, "", message, POLICY.remedy, source)


def _needed(one: External, texts: set[tuple[str, str]], selectors: list[Mapping[str, Any]], everything: str) -> bool:
    if any(set(selector.items()) <= set(one.labels.items()) for selector in selectors if selector):
        return True
    # A Service or a StatefulSet is named in an address.
    if f"{one.name}.{one.namespace}" in everything:
        return True
    names = {one.name, f"system:serviceaccount:{one.namespace}:{one.name}"}
    places = {one.namespace, ""} if one.namespace else None
    return any(text in names and (places is None or place in places) for place, text in texts)


def _texts(world: World) -> set[tuple[str, str]]:
    """(namespace, text) of every text in the set, without the names of the objects themselves."""
    found: set[tuple[str, str]] = set()
    for entry in world.entries:
        for pointer, value in pointers.walk(entry.manifest):
            if isinstance(value, str) and pointer != "/metadata/name":
                found.add((entry.id.namespace, value))
    return found


def _selectors(world: World) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    waiting: list[Any] = [entry.manifest for entry in world.entries]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            one = mapping(value.get("matchLabels") or value.get("selector"))
            if all(isinstance(text, str) for text in one.values()):
                found.append(one)
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found
