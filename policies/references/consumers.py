"""Which Secrets and ConfigMaps an object reads, and where it says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kubekit.podspec import ContainerView
from policies.references.made import CONFIG_MAP, SECRET, names_of, text
from policies.references.operators import EXTERNAL_SECRETS
from policies.world import PODS, Entry, PodView, World, mapping, sequence

_IN_GROUP = {
    "ServiceAccount": ("",),
    "Ingress": ("networking.k8s.io",),
    "IngressRoute": ("traefik.io", "traefik.containo.us"),
    "ExternalSecret": (EXTERNAL_SECRETS,),
}
READERS = (*PODS, *_IN_GROUP)
"""The kinds whose references are known."""
# Volumes of other systems that log in with a Secret of the pod's namespace: volume to the field that names it.
_VOLUME_SECRETS = ("cephfs", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")


class Key(NamedTuple):
    """A key that is asked for, and where. `mount` says which one asks by its subPath, "" where none does."""

    pointer: str
    name: str
    mount: str = ""


@dataclass(frozen=True)
class Reference:
    """One place that names a Secret or ConfigMap.

    `reader` says for people what reads it: `container "x" env "Y"`. `keys` are those that must be in it; `left_out`
    those that a volume cannot show, since its items are others. What is `optional` may be absent, with its keys;
    `said` is where it says so or not, "" where it says nothing.
    """

    kind: str
    name: str
    pointer: str
    reader: str
    keys: tuple[Key, ...] = ()
    optional: bool = False
    left_out: tuple[Key, ...] = ()
    said: str = ""


def references_of(entry: Entry) -> tuple[Reference, ...]:
    """Everything that `entry` reads."""
    if entry.pod is not None:
        return tuple(_of_pod(entry.pod))
    read = _READ.get(entry.id.kind)
    if read is None or entry.id.group not in _IN_GROUP[entry.id.kind]:
        return ()
    return tuple(read(entry))


def references(world: World) -> Mapping[int, tuple[Reference, ...]]:
    """By the id() of each entry that reads anything; ask for it with `world.index(references)`."""
    found = ((id(entry), references_of(entry)) for kind in READERS for entry in world.by_kind.get(kind, ()))
    return {key: value for key, value in found if value}


def _of_pod(pod: PodView) -> Iterator[Reference]:
    for container in pod.containers:
        yield from _of_container(container)
    for pointer, volume in pod.items("volumes"):
        yield from _of_volume(pointer, volume, pod)
    yield from _pull_secrets(pod.spec, pod.pointer)


def _of_container(container: ContainerView) -> Iterator[Reference]:
    where = f'container "{container.name}"'
    for index, one in enumerate(sequence(container.spec.get("env"))):
        source = mapping(mapping(one).get("valueFrom"))
        for field, kind in (("secretKeyRef", SECRET), ("configMapKeyRef", CONFIG_MAP)):
            reference = mapping(source.get(field))
            place = f"{container.pointer}/env/{index}/valueFrom/{field}"
            keys = tuple(Key(f"{place}/key", key) for key in names_of([reference.get("key")]))
            reader = f'{where} env "{text(one.get("name"))}"' if reference else ""
            yield from _reference(kind, reference, f"{place}/name", reader, keys)
    for index, one in enumerate(sequence(container.spec.get("envFrom"))):
        for field, kind in (("secretRef", SECRET), ("configMapRef", CONFIG_MAP)):
            reference = mapping(mapping(one).get(field))
            yield from _reference(
                kind, reference, f"{container.pointer}/envFrom/{index}/{field}/name", f"{where} envFrom"
            )


def _of_volume(pointer: str, volume: Mapping[str, Any], pod: PodView) -> Iterator[Reference]:
    name = text(volume.get("name"))
    where = f'volume "{name}"'
    for field, kind, named in (("secret", SECRET, "secretName"), ("configMap", CONFIG_MAP, "name")):
        source = mapping(volume.get(field))
        if source:
            keys, mounted = tuple(_items(source, f"{pointer}/{field}")), tuple(_sub_paths(name, pod))
            shown = list(names_of(mapping(item).get("path") for item in sequence(source.get("items"))))
            found = _reference(kind, source, f"{pointer}/{field}/{named}", where, keys if shown else mounted, named)
            lost = tuple(key for key in mounted if not any(_leads_to(key.name, path) for path in shown))
            yield from (replace(one, left_out=lost) if shown and lost else one for one in found)
    for index, one in enumerate(sequence(mapping(volume.get("projected")).get("sources"))):
        for field, kind in (("secret", SECRET), ("configMap", CONFIG_MAP)):
            source = mapping(mapping(one).get(field))
            place = f"{pointer}/projected/sources/{index}/{field}"
            yield from _reference(kind, source, f"{place}/name", where, tuple(_items(source, place)))
    publish = mapping(mapping(volume.get("csi")).get("nodePublishSecretRef"))
    yield from _reference(SECRET, publish, f"{pointer}/csi/nodePublishSecretRef/name", where)
    for field in _VOLUME_SECRETS:
        login = mapping(mapping(volume.get(field)).get("secretRef"))
        yield from _reference(SECRET, login, f"{pointer}/{field}/secretRef/name", where)
    azure = mapping(volume.get("azureFile"))
    yield from _reference(SECRET, azure, f"{pointer}/azureFile/secretName", where, named="secretName")


def _items(source: Mapping[str, Any], pointer: str) -> Iterator[Key]:
    for index, item in enumerate(sequence(source.get("items"))):
        for key in names_of([mapping(item).get("key")]):
            yield Key(f"{pointer}/items/{index}/key", key)


def _leads_to(sub_path: str, path: str) -> bool:
    """Whether the subPath is the file of an item, or a folder above it."""
    return path == sub_path or path.startswith(f"{sub_path.rstrip('/')}/")


def _sub_paths(volume: str, pod: PodView) -> Iterator[Key]:
    """What mounts of the volume name by subPath.

    The kubelet makes an empty folder of a subPath that is not there: the program then finds a folder for a file.
    """
    for container in pod.containers:
        for index, mount in enumerate(sequence(container.spec.get("volumeMounts"))):
            path = text(mapping(mount).get("subPath"))
            if path and mount.get("name") == volume:
                where = f'container "{container.name}" mount "{text(mount.get("mountPath"))}"'
                yield Key(f"{container.pointer}/volumeMounts/{index}/subPath", path, where)


def _pull_secrets(holder: Mapping[str, Any], pointer: str) -> Iterator[Reference]:
    for index, one in enumerate(sequence(holder.get("imagePullSecrets"))):
        yield from _reference(SECRET, mapping(one), f"{pointer}/imagePullSecrets/{index}/name", "imagePullSecrets")


def _reference(
    kind: str,
    source: Mapping[str, Any],
    pointer: str,
    reader: str,
    keys: tuple[Key, ...] = (),
    named: str = "name",
) -> Iterator[Reference]:
    if name := text(source.get(named)):
        said = f"{pointer.rpartition('/')[0]}/optional" if "optional" in source else ""
        yield Reference(kind, name, pointer, reader, keys, source.get("optional") is True, said=said)


def _of_account(entry: Entry) -> Iterator[Reference]:
    yield from _pull_secrets(entry.manifest, "")


def _of_ingress(entry: Entry) -> Iterator[Reference]:
    for index, one in enumerate(sequence(entry.spec.get("tls"))):
        yield from _certificate(one, f"/spec/tls/{index}/secretName")


def _of_route(entry: Entry) -> Iterator[Reference]:
    yield from _certificate(entry.spec.get("tls"), "/spec/tls/secretName")


def _certificate(holder: object, pointer: str) -> Iterator[Reference]:
    keys = (Key(pointer, "tls.crt"), Key(pointer, "tls.key"))
    yield from _reference(SECRET, mapping(holder), pointer, "tls", keys, "secretName")


def _of_external_secret(entry: Entry) -> Iterator[Reference]:
    """The ConfigMaps and Secrets that hold its templates."""
    template = mapping(mapping(entry.spec.get("target")).get("template"))
    for index, one in enumerate(sequence(template.get("templateFrom"))):
        for field, kind in (("configMap", CONFIG_MAP), ("secret", SECRET)):
            source = mapping(mapping(one).get(field))
            place = f"/spec/target/template/templateFrom/{index}/{field}"
            yield from _reference(kind, source, f"{place}/name", "templateFrom", tuple(_items(source, place)))


_READ: Mapping[str, Callable[[Entry], Iterator[Reference]]] = {
    "ServiceAccount": _of_account,
    "Ingress": _of_ingress,
    "IngressRoute": _of_route,
    "ExternalSecret": _of_external_secret,
}
