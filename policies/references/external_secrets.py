"""ExternalSecrets: which store, how often, and who owns the Secret that comes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from kubekit import labels
from policies.cel import Cel
from policies.facts import Facts
from policies.model import Fault, Scope, Severity
from policies.references.made import SECRET, text
from policies.references.operators import EXTERNAL_SECRETS, target_of
from policies.references.producers import producers
from policies.registry import policy
from policies.world import Entry, World, mapping, sequence

_KINDS = ("ExternalSecret", "SecretStore", "ClusterSecretStore", "ClusterExternalSecret")
_STORES = ("SecretStore", "ClusterSecretStore")
_SERVED = "v1"
_OLD = ("v1alpha1", "v1beta1")
# Go, time.ParseDuration.
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_PART = re.compile(r"([0-9.]+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_DEFAULT_INTERVAL = "1h"
_SHORTEST, _LONGEST = 60, 3600


def _stores(facts: Facts) -> frozenset[str]:
    """The stores that may be used, as Kind/name; empty: not known."""
    declared = {f"{one.kind}/{one.name}" for one in facts.externals if one.kind in _STORES}
    return facts.secret_stores | declared if facts.secret_stores else frozenset()


def _store_cel(facts: Facts) -> Cel:
    names = ", ".join(f"'{one}'" for one in sorted(_stores(facts)))
    listed = f"(s.kind + '/' + s.?name.orValue('')) in [{names}]" if names else "true"
    ours = f"variables.labels[?'{labels.PART_OF}'].orValue('') == '{labels.PART_OF_PAPERCLIP}'"
    return Cel(
        expression=f"variables.stores.all(s, has(s.kind) ? {listed} : !({ours}))",
        variables={
            "stores": (
                "(has(object.spec.secretStoreRef) ? [dyn(object.spec.secretStoreRef)] : [])"
                " + object.spec.?data.orValue([]).filter(d, has(d.sourceRef) && has(d.sourceRef.storeRef))"
                ".map(d, dyn(d.sourceRef.storeRef))"
                " + object.spec.?dataFrom.orValue([]).filter(d, has(d.sourceRef) && has(d.sourceRef.storeRef))"
                ".map(d, dyn(d.sourceRef.storeRef))"
            )
        },
        partly="whether a SecretStore stands behind a reference without a kind",
    )


@policy(
    "es-store-explicit",
    title="An ExternalSecret says which kind of store it means, and means one that is there",
    rationale=(
        "Without a kind it means a SecretStore of its own namespace: next to a ClusterSecretStore of that name it"
        " waits for one that never comes, and the Secret is never made."
    ),
    remedy="write secretStoreRef.kind (ClusterSecretStore for one of the cluster), with the name of a known store",
    scope=Scope.SET,
    kinds=("ExternalSecret",),
    links=("https://external-secrets.io/latest/api/externalsecret/",),
    cel=_store_cel,
)
def es_store_explicit(entry: Entry, world: World) -> Iterator[Fault]:
    known = _stores(world.facts)
    for pointer, kind, name in _store_refs(entry):
        if not kind:
            if _our(entry) or not _own_store(entry, name, known, world):
                means = f'means a SecretStore "{name}" of namespace "{entry.id.namespace}"'
                yield Fault(pointer, f"store {name!r} has no kind, so it {means}; it must say its kind")
        elif known and f"{kind}/{name}" not in known:
            listed = ", ".join(sorted(known))
            yield Fault(f"{pointer}/name", f"store {kind}/{name} is not among the known ones, and must be: {listed}")


def _store_refs(entry: Entry) -> Iterator[tuple[str, str, str]]:
    """(pointer, kind, name) of every store that it fetches from."""
    places = [("/spec/secretStoreRef", entry.spec.get("secretStoreRef"))]
    for field in ("data", "dataFrom"):
        for index, one in enumerate(sequence(entry.spec.get(field))):
            source = mapping(mapping(one).get("sourceRef"))
            places.append((f"/spec/{field}/{index}/sourceRef/storeRef", source.get("storeRef")))
    for pointer, found in places:
        if isinstance(found, dict):
            yield pointer, text(found.get("kind")), text(found.get("name"))


def _own_store(entry: Entry, name: str, known: frozenset[str], world: World) -> bool:
    """Whether the namespace has a SecretStore of that name."""
    return f"SecretStore/{name}" in known or world.exists("SecretStore", entry.id.namespace, name)


def _our(entry: Entry) -> bool:
    return bool(entry.labels.get(labels.PART_OF) == labels.PART_OF_PAPERCLIP)


@policy(
    "es-refresh-bounds",
    title="A Secret is fetched again every minute to every hour",
    rationale=(
        "More often and the store throttles all of us; more rarely and a key that was changed keeps failing for hours;"
        ' never ("0") and it fails until somebody deletes the Secret.'
    ),
    remedy="write a refreshInterval from 1m to 1h, such as 5m",
    severity=Severity.WARNING,
    kinds=("ExternalSecret",),
    links=("https://external-secrets.io/latest/api/externalsecret/#update-behavior",),
    cel=Cel(
        expression=(
            "object.spec.?refreshPolicy.orValue('Periodic') != 'Periodic'"
            f" || (duration(object.spec.?refreshInterval.orValue('{_DEFAULT_INTERVAL}')) >= duration('{_SHORTEST}s')"
            f" && duration(object.spec.?refreshInterval.orValue('{_DEFAULT_INTERVAL}')) <= duration('{_LONGEST}s'))"
        )
    ),
)
def es_refresh_bounds(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    interval = entry.spec.get("refreshInterval", _DEFAULT_INTERVAL)
    if entry.spec.get("refreshPolicy", "Periodic") != "Periodic" or not isinstance(interval, str):
        return
    pointer = "/spec/refreshInterval"
    seconds = duration(interval)
    if seconds is None:
        yield Fault(pointer, f"refreshInterval {interval!r} is no duration, and must be one such as 5m")
    elif seconds == 0:
        yield Fault(pointer, f"refreshInterval {interval!r} fetches once and never again, and must be from 1m to 1h")
    elif not _SHORTEST <= seconds <= _LONGEST:
        yield Fault(pointer, f"refreshInterval {interval!r} is {float(seconds):g} s, and must be from 1m to 1h")


def duration(written: str) -> Fraction | None:
    """Seconds of a duration of Go; None for what is none."""
    if len(written) > 64 or not _DURATION.fullmatch(written):
        return None
    total = sum(
        (Fraction(number.rstrip(".") or "0") * _SECONDS[unit] for number, unit in _PART.findall(written)), Fraction()
    )
    return -total if written.startswith("-") else total


@policy(
    "es-target-unique",
    title="One thing owns a Secret",
    rationale=(
        "Two that write one Secret take turns, so its keys come and go with every refresh; when the owner is deleted,"
        " the Secret goes with it, under everybody who reads it."
    ),
    remedy="give each its own target.name, or creationPolicy: Merge to those that only add keys",
    scope=Scope.SET,
    kinds=("ExternalSecret",),
    links=("https://external-secrets.io/latest/guides/ownership-deletion-policy/",),
)
def es_target_unique(entry: Entry, world: World) -> Iterator[Fault]:
    name = target_of(entry)
    manifest = mapping(mapping(entry.spec.get("target")).get("manifest"))
    kind = text(manifest.get("kind")) or SECRET
    makers = world.index(producers).makers(kind, entry.id.namespace, name)
    mine = next((one for one in makers if one.entry is entry), None)
    if mine is None or not mine.owns:
        return
    others = [
        one.entry for one in makers if one.entry is not None and one.owns and one.entry.id.identity != entry.id.identity
    ]
    # Of several ExternalSecrets the later ones are told: the first one may stay as it is.
    order = {id(one.entry): rank for rank, one in enumerate(makers)}
    rivals = [one for one in others if one.id.kind != entry.id.kind or order[id(one)] < order[id(entry)]]
    if rivals:
        pointer = "/spec/target/name" if mapping(entry.spec.get("target")).get("name") else "/metadata/name"
        yield Fault(pointer, f'{kind} "{name}" is also made by {rivals[0].id}, and must have one owner')


@policy(
    "es-api-version",
    title="External Secrets objects are of version v1",
    rationale=(
        "The operator stopped serving v1alpha1 and v1beta1: such a manifest is refused, and all that is synced with it"
        " waits."
    ),
    remedy="write apiVersion: external-secrets.io/v1",
    kinds=_KINDS,
    links=(
        "https://external-secrets.io/latest/introduction/stability-support/",
        "https://github.com/external-secrets/external-secrets/releases/tag/v0.17.0",
    ),
    cel=Cel(
        expression="!(object.apiVersion in [" + ", ".join(f"'{EXTERNAL_SECRETS}/{version}'" for version in _OLD) + "])",
        partly="what an API server that still serves the old version has made a v1 of before it asks",
    ),
)
def es_api_version(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.id.group == EXTERNAL_SECRETS and entry.id.version in _OLD:
        yield Fault("/apiVersion", f"version {entry.id.version} is no longer served, and must be {_SERVED}")
