"""What is read must exist: Secrets and ConfigMaps, and the keys in them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from policies.model import Fault, Scope, Severity
from policies.references.consumers import READERS, Key, Reference, references
from policies.references.made import CONFIG_MAP, SECRET
from policies.references.producers import Known, producers
from policies.registry import policy
from policies.world import Entry, World

_SHOWN = 10
"""Names in one message."""
_NEAR = 0.88
"""How alike a name must be to be meant; those of one application are alike anyway."""


@policy(
    "secret-ref-resolves",
    title="Every Secret that is read is made by something",
    rationale=(
        "A pod that names a Secret which is not there stays in CreateContainerConfigError or ContainerCreating for as"
        " long as it takes, and a missing pull secret shows as an image that cannot be pulled."
    ),
    remedy="correct the name, add what makes the Secret to its namespace, or declare it as external",
    scope=Scope.SET,
    kinds=READERS,
    links=(
        "https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets",
        "https://github.com/stackrox/kube-linter/issues/705",
    ),
)
def secret_ref_resolves(entry: Entry, world: World) -> Iterator[Fault]:
    for one in _required(entry, world, SECRET):
        if _known(one, entry, world) is None:
            yield _unresolved(one, entry, world)


@policy(
    "secret-key-exists",
    title="Every key that is read is in its Secret",
    rationale=(
        "A container whose variable asks for a key that its Secret does not have never starts, and a volume with such"
        " an item is never mounted; both wait without ending."
    ),
    remedy="correct the key, or add it to what makes the Secret",
    scope=Scope.SET,
    kinds=READERS,
    links=(
        "https://kubernetes.io/docs/tasks/inject-data-application/distribute-credentials-secure/",
        "https://external-secrets.io/latest/guides/templating/",
    ),
)
def secret_key_exists(entry: Entry, world: World) -> Iterator[Fault]:
    for one in _required(entry, world, SECRET):
        known = _known(one, entry, world)
        if known is None:
            continue
        yield from _left_out(one)
        for key in _missing(one, known):
            if known.complete:
                yield _without_key(one, key, known)
            for maker in known.doubts[:1]:
                place = f"{maker.entry.id} fills it from {maker.doubt}" if maker.entry else maker.doubt
                yield Fault(
                    key.pointer,
                    f'{one.reader} asks for the key "{key.name}" of Secret "{one.name}"; {place}, so nobody can tell'
                    " whether it will be there",
                    Severity.INFO,
                    "list the key under data, or make it in the template",
                )


@policy(
    "configmap-ref-resolves",
    title="Every ConfigMap that is read is there, with the keys that are asked for",
    rationale=(
        "A pod that names a ConfigMap or a key which is not there does not start; a subPath that is no key is mounted"
        " as an empty folder where the program looks for a file."
    ),
    remedy="correct the name or the key, add the ConfigMap to the pod's namespace, or declare it as external",
    scope=Scope.SET,
    kinds=READERS,
    links=("https://kubernetes.io/docs/concepts/configuration/configmap/#using-configmaps",),
)
def configmap_ref_resolves(entry: Entry, world: World) -> Iterator[Fault]:
    for one in _required(entry, world, CONFIG_MAP):
        known = _known(one, entry, world)
        if known is None:
            yield _unresolved(one, entry, world)
            continue
        yield from _left_out(one)
        if known.complete:
            yield from (_without_key(one, key, known) for key in _missing(one, known))


def _required(entry: Entry, world: World, kind: str) -> Iterator[Reference]:
    for one in world.index(references).get(id(entry), ()):
        if one.kind == kind and not one.optional:
            yield one


def _known(one: Reference, entry: Entry, world: World) -> Known | None:
    return world.index(producers).find(one.kind, entry.id.namespace, one.name)


def _missing(one: Reference, known: Known) -> Iterator[Key]:
    for key in one.keys:
        if key.name not in known.keys:
            yield key


def _unresolved(one: Reference, entry: Entry, world: World) -> Fault:
    makers = world.index(producers)
    message = f'{one.reader} reads {one.kind} "{one.name}", which nothing makes in namespace "{entry.id.namespace}"'
    others = makers.elsewhere(one.kind, one.name)
    if others:
        return Fault(
            one.pointer,
            f"{message}; there is one in {_listed(others)}, and a pod sees only those of its own namespace",
        )
    near = difflib.get_close_matches(one.name, makers.names(one.kind, entry.id.namespace), 1, _NEAR)
    return Fault(one.pointer, f'{message}; did it mean "{near[0]}"?' if near else message)


def _without_key(one: Reference, key: Key, known: Known) -> Fault:
    message = f'{key.mount or one.reader} asks for the key "{key.name}" of {one.kind} "{one.name}", which has'
    outcome = "; it gets an empty folder" if key.mount else ""
    return Fault(key.pointer, f"{message} {_listed(sorted(known.keys)) or 'none'}{outcome}")


def _left_out(one: Reference) -> Iterator[Fault]:
    for key in one.left_out:
        message = (
            f'{key.mount} asks for "{key.name}" of {one.reader}, whose items leave it out; it gets an empty folder'
        )
        yield Fault(key.pointer, message)


def _listed(names: Iterable[str]) -> str:
    given = list(names)
    more = len(given) - _SHOWN
    return ", ".join(f'"{one}"' for one in given[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
