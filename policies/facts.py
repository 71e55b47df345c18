"""What manifests do not say of the cluster and of what else is in it.

An environment's config knows all of it; for manifests of others it can be said in a document of `kind: Facts`, among
the manifests or in a file of its own (`check --facts FILE`). What is not said is not judged.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

API_VERSION = "paperclip-gitops/v1"
KIND = "Facts"
_MINOR = re.compile(r"v?1\.([0-9]{1,3})(?:\..*)?")


class FactsError(ValueError):
    """What is wrong in a document of facts; each line of the text is one problem."""


@dataclass(frozen=True)
class External:
    """An object that is made elsewhere. `keys` of a Secret or ConfigMap; None: not known. `modes` of a claim."""

    kind: str
    namespace: str
    name: str
    keys: frozenset[str] | None = None
    modes: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


@dataclass(frozen=True)
class Facts:
    """What manifests do not say. Empty: not known, so not judged."""

    kubernetes_version: str = "1.35"
    """The minor version of the API servers."""
    namespaces: frozenset[str] = frozenset()
    """The namespaces that objects may stand in."""
    externals: tuple[External, ...] = ()
    """What exists outside the set."""
    declared: tuple[External, ...] = ()
    """Those of them that were named for this set alone, so that it must need them."""
    unchecked_kinds: frozenset[str] = frozenset()
    """Kinds, as group/Kind, that may pass though no schema of them is on the machine."""
    storage_classes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Class name to the access modes that it supports."""
    single_node: bool = False
    """Whether all pods run on one node, so that a claim for one node reaches them all."""
    address_pools: tuple[tuple[str, str], ...] = ()
    """(first, last) address of pools that exist but are not in the set."""
    announced: bool = False
    """Whether something outside the set announces the addresses of load balancers."""
    load_balancers: Mapping[str, str] = field(default_factory=dict)
    """Service, as namespace/name, to the address that it must ask for."""
    registries: tuple[str, ...] = ()
    """What images must begin with, such as ghcr.io/paperclipai."""
    private_registries: tuple[str, ...] = ()
    """The same, of images that need a pull secret."""
    pinned_images: Mapping[str, str] = field(default_factory=dict)
    """Image without digest to the digest that images.lock holds."""
    secret_stores: frozenset[str] = frozenset()
    """Stores that ExternalSecrets may use, as Kind/name."""
    cluster_cidrs: tuple[str, ...] = ()
    """The ranges of pods, Services and nodes: where agents may not go."""
    dns_namespace: str = "kube-system"
    """The namespace of the DNS pods."""
    dns_labels: Mapping[str, str] = field(default_factory=lambda: {"k8s-app": "kube-dns"})
    """The labels of the DNS pods."""
    api_clients: frozenset[str] = frozenset()
    """Service accounts, as namespace/name, whose pods call the Kubernetes API."""
    committed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """PersistentVolumeClaims, as namespace/name, as they stand in the cluster or in the committed state."""

    def external(self, kind: str, namespace: str, name: str) -> External | None:
        """The declared object, None if there is none."""
        return next(
            (one for one in self.externals if (one.kind, one.namespace, one.name) == (kind, namespace, name)), None
        )

    def reaches(self, since: str) -> bool:
        """Whether the cluster is of the minor version `since` or newer; "" is any."""
        return not since or minor(self.kubernetes_version) >= minor(since)


def minor(version: str) -> int:
    """35 for "1.35", "v1.35" and "v1.35.4"; a very large number for "latest", and for what is no version."""
    match = _MINOR.fullmatch(version)
    return int(match[1]) if match else 1_000_000


def is_facts(manifest: Mapping[str, Any]) -> bool:
    return manifest.get("kind") == KIND and manifest.get("apiVersion") == API_VERSION


def of(document: Mapping[str, Any], onto: Facts | None = None) -> Facts:
    """Facts from a document, in the place of those of `onto`. Raises FactsError with every problem."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for key, value in document.items():
        if key in {"apiVersion", "kind"}:
            continue
        reader = _READERS.get(key)
        if reader is None:
            near = difflib.get_close_matches(str(key), _READERS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(_READERS))}"
            problems.append(f"there is no fact {key!r}; {hint}")
            continue
        name, read = reader
        try:
            values[name] = read(value)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            problems.append(f"{key}: {error}")
    if problems:
        raise FactsError("\n".join(problems))
    result = dataclasses.replace(onto or Facts(), **values)
    return with_declared(result, values.get("declared", ()))


def with_declared(known: Facts, declared: tuple[External, ...]) -> Facts:
    """`known`, and what was named for this set alone."""
    others = (*known.externals, *(one for one in declared if one not in known.externals))
    every = (*known.declared, *(one for one in declared if one not in known.declared))
    return dataclasses.replace(known, externals=others, declared=every)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be text, and is {type(value).__name__}")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TypeError("must be a list of texts")
    return tuple(_text(one) for one in value)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("must be a mapping")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("must be true or false")
    return value


def _version(value: Any) -> str:
    if not _MINOR.fullmatch(_text(value)):
        raise ValueError(f'must be a version such as "1.35", and is {value!r}')
    return f"1.{minor(value)}"


def _external(value: Any) -> External:
    if isinstance(value, str):
        return external_of(value)
    given = _mapping(value)
    known = {"object", "keys", "modes", "labels"}
    if unknown := sorted(set(given) - known):
        raise ValueError(f"there is no field {unknown[0]!r}; known: {', '.join(sorted(known))}")
    one = external_of(_text(given.get("object")))
    keys = frozenset(_texts(given["keys"])) if "keys" in given else None
    labels = {key: _text(text) for key, text in _mapping(given.get("labels", {})).items()}
    return dataclasses.replace(one, keys=keys, modes=frozenset(_texts(given.get("modes", ()))), labels=labels)


def external_of(text: str) -> External:
    """From Kind/namespace/name or Kind/name; `:a,b` at the end names keys. Raises ValueError."""
    place, _, keys = text.partition(":")
    parts = place.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError(f"{text!r} is no object; write Kind/namespace/name, or Kind/name for one of the cluster")
    kind, *namespace, name = parts
    return External(kind, "".join(namespace), name, frozenset(keys.split(",")) if keys else None)


def _pools(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple((_text(_mapping(one).get("start")), _text(_mapping(one).get("stop"))) for one in value)


def _frozen(value: Any) -> frozenset[str]:
    return frozenset(_texts(value))


def _named(value: Any) -> dict[str, str]:
    return {key: _text(text) for key, text in _mapping(value).items()}


_READERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "kubernetesVersion": ("kubernetes_version", _version),
    "namespaces": ("namespaces", _frozen),
    "externals": ("externals", lambda value: tuple(_external(one) for one in value)),
    "declaredExternals": ("declared", lambda value: tuple(_external(one) for one in value)),
    "uncheckedKinds": ("unchecked_kinds", _frozen),
    "storageClasses": ("storage_classes", lambda value: {k: _frozen(v) for k, v in _mapping(value).items()}),
    "addressPools": ("address_pools", _pools),
    "singleNode": ("single_node", _flag),
    "announced": ("announced", _flag),
    "loadBalancers": ("load_balancers", _named),
    "registries": ("registries", _texts),
    "privateRegistries": ("private_registries", _texts),
    "pinnedImages": ("pinned_images", _named),
    "secretStores": ("secret_stores", _frozen),
    "clusterCIDRs": ("cluster_cidrs", _texts),
    "dnsNamespace": ("dns_namespace", _text),
    "dnsLabels": ("dns_labels", _named),
    "apiClients": ("api_clients", _frozen),
    "committed": ("committed", lambda value: {k: _mapping(v) for k, v in _mapping(value).items()}),
}
