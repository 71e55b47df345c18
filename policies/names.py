"""Names and labels: what the API server, DNS and selectors take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import names, pointers
from kubekit.podspec import pod_metadata
from policies.model import Fault
from policies.registry import policy
from policies.world import Entry, World

# Kinds whose names are DNS subdomains (Kubernetes "Object Names and IDs"); every other name becomes a label somewhere.
_SUBDOMAIN_KINDS = frozenset(
    {
        "CiliumL2AnnouncementPolicy",
        "CiliumLoadBalancerIPPool",
        "ConfigMap",
        "CustomResourceDefinition",
        "ExternalSecret",
        "Secret",
        "StorageClass",
    },
)
_RBAC_GROUP = "rbac.authorization.k8s.io"


@policy(
    "name-dns-label",
    title="Names fit where Kubernetes puts them",
    rationale="A name becomes a label value, a host name or part of a pod's name: over 63 characters is refused.",
    remedy="shorten the name to 63 characters of a-z, 0-9 and `-`, starting and ending with a letter or digit",
    waivable=False,
)
def name_dns_label(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    name = entry.id.name
    if entry.id.group == _RBAC_GROUP:
        return
    explain = names.explain_dns_subdomain if entry.id.kind in _SUBDOMAIN_KINDS else names.explain_dns_label
    if problem := explain(name):
        yield Fault("/metadata/name", f"name {name!r} {problem}")


@policy(
    "label-syntax",
    title="Labels and selectors are legal",
    rationale="The API server refuses an object with a single illegal label, wherever in it the label stands.",
    remedy="use at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
    waivable=False,
)
def label_syntax(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for pointer, labels in _label_maps(entry.manifest):
        for key, value in labels.items():
            if problem := names.explain_label_key(str(key)):
                yield Fault(pointers.join(pointer, str(key)), f"label key {key!r} {problem}")
            if not isinstance(value, str):
                yield Fault(pointers.join(pointer, str(key)), f"label value must be text, and is {value!r}")
            elif problem := names.explain_label_value(value):
                yield Fault(pointers.join(pointer, str(key)), f"label value {value!r} {problem}")


def _label_maps(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    metadata = manifest.get("metadata")
    if isinstance(metadata, Mapping) and isinstance(metadata.get("labels"), Mapping):
        yield "/metadata/labels", metadata["labels"]
    pods = pod_metadata(manifest)
    if pods is not None and isinstance(pods[1].get("labels"), Mapping):
        yield f"{pods[0]}/labels", pods[1]["labels"]
    yield from _selectors(manifest.get("spec"), "/spec")


def _selectors(tree: object, pointer: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            here = pointers.join(pointer, str(key))
            if key in {"matchLabels", "nodeSelector"} and isinstance(value, Mapping):
                # Cilium writes the source of a label before its key: k8s:app.
                yield (
                    here,
                    {
                        str(name).removeprefix("k8s:"): text
                        for name, text in value.items()
                        if "io.kubernetes.pod" not in name
                    },
                )
            else:
                yield from _selectors(value, here)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _selectors(value, pointers.join(pointer, str(index)))


@policy(
    "unique-identity",
    title="No object stands twice",
    rationale="Of two objects with one identity the later one wins, and which is later depends on the tool.",
    remedy="rename one of them, or remove it",
    waivable=False,
)
def unique_identity(entry: Entry, world: World) -> Iterator[Fault]:
    same = world.by_identity[entry.id.identity]
    if len(same) > 1 and same[0] is not entry:
        first = f" (first: {same[0].source})" if same[0].source else ""
        yield Fault("", f"{entry.id} stands {len(same)} times in this set{first}")
