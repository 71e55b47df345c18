"""Who makes which Secret and ConfigMap, and with which keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from policies.references import operators
from policies.references.made import ANYWHERE, CONFIG_MAP, SECRET, Made, names_of
from policies.world import Entry, World, mapping

_OF_ACCOUNT = "kubernetes.io/service-account-token"
_TOKEN_KEYS = frozenset({"token", "ca.crt", "namespace"})
_ROOT_CA = Made(CONFIG_MAP, ANYWHERE, "kube-root-ca.crt", frozenset({"ca.crt"}))
"""The controller manager puts it into every namespace."""
_KINDS_OF_EXTERNAL = {"ExternalSecret": SECRET, "SealedSecret": SECRET}
"""A declared object that makes another one of its name."""


@dataclass(frozen=True)
class Known:
    """All that is known of one Secret or ConfigMap.

    `complete`: it has `keys` and no others. `doubts` are the makers that may put other keys into it.
    """

    makers: tuple[Made, ...]

    @property
    def keys(self) -> frozenset[str]:
        return frozenset[str]().union(*(one.keys for one in self.makers))

    @property
    def complete(self) -> bool:
        return all(one.complete for one in self.makers)

    @property
    def doubts(self) -> tuple[Made, ...]:
        return tuple(one for one in self.makers if one.doubt)


class Producers:
    """By namespace and name; a maker without a namespace is one for every namespace."""

    def __init__(self, made: Iterable[Made]) -> None:
        self._by_place: dict[tuple[str, str, str], list[Made]] = defaultdict(list)
        self._namespaces: dict[tuple[str, str], set[str]] = defaultdict(set)
        for one in made:
            self._by_place[one.kind, one.namespace, one.name].append(one)
            self._namespaces[one.kind, one.name].add(one.namespace)

    def find(self, kind: str, namespace: str, name: str) -> Known | None:
        """What is known of it; None if nothing makes it.

        Manifests without a namespace are applied to one that is said later: they may meet in any.
        """
        places = self._namespaces.get((kind, name), set()) if not namespace else {namespace, ANYWHERE}
        makers = [one for place in sorted(places) for one in self._by_place.get((kind, place, name), ())]
        return Known(tuple(makers)) if makers else None

    def elsewhere(self, kind: str, name: str) -> list[str]:
        """The namespaces in which something of that name is made."""
        return sorted(self._namespaces.get((kind, name), set()) - {ANYWHERE})

    def names(self, kind: str, namespace: str) -> list[str]:
        """What is made in a namespace."""
        return sorted({name for known, place, name in self._by_place if known == kind and place == namespace})

    def makers(self, kind: str, namespace: str, name: str) -> tuple[Made, ...]:
        """What makes it in exactly that namespace, in the order of the set."""
        return tuple(self._by_place.get((kind, namespace, name), ()))


def producers(world: World) -> Producers:
    """The index of a world; ask for it with `world.index(producers)`."""
    return Producers(_all(world))


def _all(world: World) -> Iterator[Made]:
    yield _ROOT_CA
    for entry in world.entries:
        yield from _of_entry(entry)
    for one in world.facts.externals:
        kind = _KINDS_OF_EXTERNAL.get(one.kind, one.kind)
        if kind in (SECRET, CONFIG_MAP):
            keys = one.keys if one.kind == kind else None
            yield Made(kind, one.namespace, one.name, keys or frozenset(), complete=keys is not None)


def _of_entry(entry: Entry) -> Iterator[Made]:
    if not entry.id.name:
        return
    if entry.id.kind in (SECRET, CONFIG_MAP) and not entry.id.group:
        yield _plain(entry)
        return
    yield from operators.made_by(entry)


def _plain(entry: Entry) -> Made:
    """A Secret or ConfigMap of the set. One without any key is a vessel that something else fills."""
    manifest: Mapping[str, object] = entry.manifest
    fields = ("data", "stringData") if entry.id.kind == SECRET else ("data", "binaryData")
    keys = frozenset(names_of(key for field in fields for key in mapping(manifest.get(field))))
    if entry.id.kind == SECRET and manifest.get("type") == _OF_ACCOUNT:
        return Made(entry.id.kind, entry.id.namespace, entry.id.name, keys | _TOKEN_KEYS, entry=entry)
    return Made(entry.id.kind, entry.id.namespace, entry.id.name, keys, complete=bool(keys), entry=entry)
