"""Secrets that are fetched for nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubekit import labels
from policies.model import Fault, Scope, Severity
from policies.references.consumers import READERS, references
from policies.references.made import SECRET
from policies.references.operators import target_of
from policies.registry import policy
from policies.world import Entry, World, mapping, sequence

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_SILENT = frozenset(
    {"Certificate", "Namespace", "Secret", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
)
"""They name a Secret that they make or judge, or none."""
_CHARTS = ("Application", "ApplicationSet", "HelmRelease")


@policy(
    "es-consumed",
    title="Somebody reads each Secret that is fetched",
    rationale=(
        "A Secret that nobody reads any more is a copy of a credential for nothing: it is forgotten when the"
        " credential changes, and found by whoever looks around."
    ),
    remedy="remove the ExternalSecret, or correct the name where it was to be read",
    severity=Severity.INFO,
    scope=Scope.SET,
    kinds=("ExternalSecret",),
    links=("https://kubernetes.io/docs/concepts/security/secrets-good-practices/",),
)
def es_consumed(entry: Entry, world: World) -> Iterator[Fault]:
    target = mapping(entry.spec.get("target"))
    name, namespace = target_of(entry), entry.id.namespace
    if target.get("creationPolicy") in ("Merge", "None") or target.get("manifest"):
        return
    metadata = mapping(mapping(target.get("template")).get("metadata"))
    if metadata.get("labels") or metadata.get("annotations"):
        return  # found by its labels, as Argo CD finds repositories and Grafana its sources
    if (namespace, name) in world.index(_read) or ("", name) in world.index(_read):
        return
    if namespace in world.index(_of_runs) or (not _our(entry) and namespace in world.index(_of_charts)):
        return
    if not _mentioned(name, namespace, world):
        yield Fault("", f'nothing in the set reads Secret "{name}" of namespace "{namespace}"')


def _our(entry: Entry) -> bool:
    return bool(entry.labels.get(labels.PART_OF) == labels.PART_OF_PAPERCLIP)


def _read(world: World) -> frozenset[tuple[str, str]]:
    """(namespace, name) of each Secret that is read by something that we know."""
    by_id = world.index(references)
    return frozenset(
        (entry.id.namespace, one.name)
        for entry in world.entries
        for one in by_id.get(id(entry), ())
        if one.kind == SECRET
    )


def _of_runs(world: World) -> frozenset[str]:
    """The namespaces of the launcher, whose Jobs read Secrets and stand in no set."""
    return frozenset(
        entry.id.namespace
        for entry in world.by_kind.get("Role", ())
        if entry.labels.get(labels.COMPONENT) == "launcher" and _our(entry)
    )


def _of_charts(world: World) -> frozenset[str]:
    """The namespaces into which charts are installed: what those read stands in their templates."""
    found = set()
    for kind in _CHARTS:
        for entry in world.by_kind.get(kind, ()):
            destination = mapping(entry.spec.get("destination")).get("namespace")
            found.add(destination or entry.spec.get("targetNamespace") or entry.id.namespace)
    return frozenset(one for one in found if isinstance(one, str))


def _mentioned(name: str, namespace: str, world: World) -> bool:
    """Whether an object names it in a way of its own: one of its namespace or of none, or one that names that too."""
    return any(
        name in words and (place in ("", namespace) or namespace in words) for place, words in world.index(_vocabulary)
    )


def _vocabulary(world: World) -> tuple[tuple[str, frozenset[str]], ...]:
    """(namespace, all that could be a name) of each object whose references we do not know."""
    result = []
    for entry in world.entries:
        if entry.id.kind in _SILENT or (entry.id.kind in READERS and entry.pod is None):
            continue
        found: set[str] = set()
        if entry.pod is not None:
            # What is left are operators that are told a name.
            for container in entry.pod.containers:
                for field in ("args", "command", "env"):
                    _words(container.spec.get(field), found)
        else:
            _words({key: value for key, value in entry.manifest.items() if key != "metadata"}, found)
        result.append((entry.id.namespace, frozenset(found)))
    return tuple(result)


def _words(tree: object, found: set[str]) -> None:
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.update(_NAME.findall(value))
        elif isinstance(value, dict):
            waiting.extend(value.values())
        else:
            waiting.extend(sequence(value))
