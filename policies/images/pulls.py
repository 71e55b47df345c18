"""Pull secrets: a private image needs one, and of the right type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from policies.images.uses import Use, parsed, under, uses
from policies.model import Fault, Scope
from policies.registry import policy
from policies.world import PODS, Entry, PodView, World, mapping, sequence

_TYPES = frozenset({"kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"})
_OPAQUE = "Opaque"


@policy(
    "pull-secret-resolves",
    title="A private image has a pull secret",
    rationale=(
        "Without one, or with one of another type, the kubelet asks the registry as nobody: the pod waits in"
        " ImagePullBackOff, on the first node that does not have the image yet."
    ),
    remedy="name in imagePullSecrets a Secret that an ExternalSecret makes with type kubernetes.io/dockerconfigjson",
    scope=Scope.SET,
    kinds=PODS,
    links=(
        "https://kubernetes.io/docs/tasks/configure-pod-container/pull-image-private-registry/",
        "https://external-secrets.io/latest/guides/common-k8s-secret-types/",
    ),
)
def pull_secret_resolves(entry: Entry, world: World) -> Iterator[Fault]:
    private = world.facts.private_registries
    pod = entry.pod
    if not private or pod is None:
        return
    use = next((one for one in uses(entry) if _private(one, private)), None)
    if use is None:
        return
    account = _account_secrets(entry, pod, world)
    if account is None:
        return
    named = [*_names(pod.spec), *account]
    if not named:
        yield Fault(
            pod.pointer, f"{use.where} has an image of a private registry, and the pod must name an imagePullSecret"
        )
        return
    types = {name: _type(entry.id.namespace, name, world) for name in named}
    if all(kind is not None and kind not in _TYPES for kind in types.values()):
        shown = ", ".join(f"{name} is of type {kind}" for name, kind in types.items())
        place = f"{pod.pointer}/imagePullSecrets" if _names(pod.spec) else pod.pointer
        yield Fault(
            place,
            f"{use.where} has an image of a private registry, and a pull secret must be of type"
            f" kubernetes.io/dockerconfigjson ({shown})",
        )


def _private(use: Use, private: tuple[str, ...]) -> bool:
    ref = parsed(use.text)
    return ref is not None and any(under(ref, one) for one in private)


def _names(holder: Mapping[str, Any]) -> list[str]:
    found = (mapping(one).get("name") for one in sequence(holder.get("imagePullSecrets")))
    return [name for name in found if isinstance(name, str) and name]


def _account_secrets(entry: Entry, pod: PodView, world: World) -> list[str] | None:
    """The pull secrets that the pod's account brings; None: it is made elsewhere, so nobody knows."""
    name = pod.spec.get("serviceAccountName") or pod.spec.get("serviceAccount") or "default"
    account = world.find("ServiceAccount", entry.id.namespace, name) if isinstance(name, str) else None
    if account is not None:
        return _names(account.manifest)
    return [] if name == "default" else None


def _type(namespace: str, name: str, world: World) -> str | None:
    """The type of a Secret; None where it cannot be told, or where secret-ref-resolves says that there is none."""
    if world.facts.external("Secret", namespace, name) is not None:
        return None
    types = world.index(_types).get((namespace, name))
    if not types:
        return None
    return next((one for one in types if one in _TYPES), types[0])


def _types(world: World) -> Mapping[tuple[str, str], list[str]]:
    """(namespace, name) of each Secret of the set to the types that its makers give it."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in world.by_kind.get("Secret", ()):
        found[entry.id.namespace, entry.id.name].append(_text(entry.manifest.get("type")))
    for entry in world.by_kind.get("ExternalSecret", ()):
        target = mapping(entry.spec.get("target"))
        name = target.get("name") or entry.id.name
        if isinstance(name, str):
            found[entry.id.namespace, name].append(_text(mapping(target.get("template")).get("type")))
    return found


def _text(kind: object) -> str:
    return kind if isinstance(kind, str) and kind else _OPAQUE
