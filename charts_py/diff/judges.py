"""What must be looked at to be judged: guards that fall, sizes that shrink, whole objects that come or go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from charts_py.diff import access
from charts_py.diff.verdict import Verdict, at, items_at, kind_key
from kubekit import quantity
from kubekit.identity import Manifest

_SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
_KEEP = ("Prune=false", "Delete=false", "Prune=confirm", "Delete=confirm")
_REPLACE = ("Replace=true", "Force=true")
_CASCADE = "resources-finalizer.argocd.argoproj.io"
_DATABASE_WORDS = ("postgres", "-db", "db-", "database")
_LEVELS = ("privileged", "baseline", "restricted")

_REMOVED: dict[str, tuple[str, str]] = {
    "PersistentVolumeClaim": ("data loss", "the claim goes, and with it its volume"),
    "PersistentVolume": ("data loss", "the volume goes"),
    "Namespace": ("data loss", "everything in the namespace goes, its volumes too"),
    "apiextensions.k8s.io/CustomResourceDefinition": ("data loss", "every object of the kind goes"),
    "postgresql.cnpg.io/Cluster": ("data loss", "the database goes"),
    "postgresql.cnpg.io/ScheduledBackup": ("data loss", "no more backups are made"),
    "Service": ("traffic", "nothing answers under its name or address any more"),
    "networking.k8s.io/Ingress": ("traffic", "its hosts are no longer served"),
    "gateway.networking.k8s.io/HTTPRoute": ("traffic", "its hosts are no longer served"),
    "traefik.io/IngressRoute": ("traffic", "its hosts are no longer served"),
    "cilium.io/CiliumLoadBalancerIPPool": ("traffic", "its addresses are taken back"),
    "cilium.io/CiliumL2AnnouncementPolicy": ("traffic", "its addresses are no longer announced"),
    "apps/Deployment": ("traffic", "its pods are stopped"),
    "apps/StatefulSet": ("traffic", "its pods are stopped"),
    "apps/DaemonSet": ("traffic", "its pods are stopped"),
    "networking.k8s.io/NetworkPolicy": ("access widened", "what it held back may pass"),
    "cilium.io/CiliumNetworkPolicy": ("access widened", "what it held back may pass"),
    "cilium.io/CiliumClusterwideNetworkPolicy": ("access widened", "what it held back may pass"),
    "admissionregistration.k8s.io/ValidatingAdmissionPolicy": (
        "access widened",
        "what it refused is admitted",
    ),
    "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding": (
        "access widened",
        "what it refused is admitted",
    ),
}


def is_hook(manifest: Manifest) -> bool:
    """A hook is deleted and made anew at every sync, so nothing in it is immutable."""
    return at(manifest, "metadata", "annotations", "argocd.argoproj.io/hook") is not None


def removed(manifest: Manifest) -> Iterator[Verdict]:
    kind = kind_key(manifest)
    if kind in _REMOVED:
        yield Verdict(*_REMOVED[kind])
    if kind in {"argoproj.io/Application", "argoproj.io/ApplicationSet"}:
        if _CASCADE in _texts(at(manifest, "metadata", "finalizers")):
            yield Verdict("data loss", "its finalizer makes Argo CD delete all that it deployed")
        elif _names_database(manifest):
            yield Verdict("data loss", "nobody keeps the database any more")


def added(manifest: Manifest) -> Iterator[Verdict]:
    return access.added(manifest)


def changed(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    yield from _guards(old, new)
    judge = _CHANGED.get(kind_key(new))
    if judge is not None:
        yield from judge(old, new)
    yield from access.changed(old, new)


def _guards(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    pointer = "/metadata/annotations/argocd.argoproj.io~1sync-options"
    before, after = _options(old), _options(new)
    kept_by = {option.partition("=")[0] for option in after if option in _KEEP}
    dropped = [option for option in before if option in _KEEP and option.partition("=")[0] not in kept_by]
    if dropped:
        yield Verdict("data loss", f"no longer kept: {', '.join(dropped)} is gone", pointer)
    forced = [option for option in after if option in _REPLACE and option not in before]
    if forced:
        yield Verdict("data loss", f"{', '.join(forced)} deletes the object and makes it anew", pointer)
    policy = ("metadata", "annotations", "helm.sh/resource-policy")
    if at(old, *policy) == "keep" and at(new, *policy) != "keep":
        yield Verdict("data loss", "no longer kept by Helm", "/metadata/annotations/helm.sh~1resource-policy")


def _claim(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    path = ("spec", "resources", "requests", "storage")
    if _shrinks(at(old, *path), at(new, *path)):
        yield Verdict("data loss", "a volume cannot shrink: it must be made anew, empty", "/" + "/".join(path))


def _database(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    if _shrinks(at(old, "spec", "storage", "size"), at(new, "spec", "storage", "size")):
        yield Verdict("data loss", "a volume cannot shrink: it must be made anew, empty", "/spec/storage/size")
    for field in ("backup", "plugins"):
        if at(old, "spec", field) and not at(new, "spec", field):
            yield Verdict("data loss", "the database is no longer backed up", f"/spec/{field}")


def _stateful_set(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    for field in ("whenDeleted", "whenScaled"):
        path = ("spec", "persistentVolumeClaimRetentionPolicy", field)
        if at(new, *path) == "Delete" and at(old, *path) != "Delete":
            yield Verdict("data loss", "the claims are deleted with the pods", "/" + "/".join(path))
    yield from _scaled_away(old, new)


def _scaled_away(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    if at(new, "spec", "replicas") == 0 and at(old, "spec", "replicas") != 0:
        yield Verdict("traffic", "no pod is left", "/spec/replicas")


def _volume(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    for path in (("spec", "persistentVolumeReclaimPolicy"), ("reclaimPolicy",)):
        if at(old, *path) == "Retain" and at(new, *path) != "Retain":
            yield Verdict("data loss", "volumes are deleted with their claims", "/" + "/".join(path))


def _frozen_data(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    if at(old, "immutable") is not True:
        return
    for field in ("data", "binaryData", "stringData", "immutable"):
        if old.get(field) != new.get(field):
            yield Verdict("recreates", "marked immutable: the API server refuses this change", f"/{field}")


def _external_secret(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    path = ("spec", "target", "deletionPolicy")
    if at(new, *path) == "Delete" and at(old, *path) != "Delete":
        yield Verdict("data loss", "the Secret is deleted when its source is gone", "/" + "/".join(path))


def _application(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    """An Application in front of a database is where its password and volume are kept alive."""
    if _CASCADE in _texts(at(new, "metadata", "finalizers")) and _CASCADE not in _texts(
        at(old, "metadata", "finalizers")
    ):
        yield Verdict("data loss", "deleting it will delete all that it deployed", "/metadata/finalizers")
    automated = ("spec", "syncPolicy", "automated", "prune")
    if at(new, *automated) is True and at(old, *automated) is not True:
        yield Verdict("data loss", "objects that leave git are now deleted", "/" + "/".join(automated))
    before, after = (_texts(at(side, "spec", "syncPolicy", "syncOptions")) for side in (old, new))
    dropped = [
        option for option in before if option not in after and option in (*_KEEP, "RespectIgnoreDifferences=true")
    ]
    forced = [option for option in after if option not in before and option in _REPLACE]
    if dropped or forced:
        what = f"{', '.join(dropped)} is gone" if dropped else f"{', '.join(forced)} re-creates objects"
        yield Verdict("data loss", f"a guard falls: {what}", "/spec/syncPolicy/syncOptions")
    ignored = [item for item in items_at(old, "spec", "ignoreDifferences") if at(item, "kind") == "Secret"]
    if ignored and not [item for item in items_at(new, "spec", "ignoreDifferences") if at(item, "kind") == "Secret"]:
        yield Verdict("data loss", "Argo CD may overwrite a generated password", "/spec/ignoreDifferences")


def _namespace(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    label = "pod-security.kubernetes.io/enforce"
    before, after = (_level(at(side, "metadata", "labels", label)) for side in (old, new))
    if after < before:
        yield Verdict("access widened", "less is asked of pods", "/metadata/labels/pod-security.kubernetes.io~1enforce")


def _values(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    path = ("primary", "persistence", "size")
    if _shrinks(at(old, *path), at(new, *path)):
        yield Verdict("data loss", "a volume cannot shrink: it must be made anew, empty", "/" + "/".join(path))
    enabled = ("primary", "persistence", "enabled")
    if at(new, *enabled) is False and at(old, *enabled) is not False:
        yield Verdict("data loss", "the database no longer has a volume", "/" + "/".join(enabled))


_CHANGED: dict[str, Callable[[Manifest, Manifest], Iterator[Verdict]]] = {
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "storage.k8s.io/StorageClass": _volume,
    "postgresql.cnpg.io/Cluster": _database,
    "apps/StatefulSet": _stateful_set,
    "apps/Deployment": _scaled_away,
    "ConfigMap": _frozen_data,
    "Secret": _frozen_data,
    "external-secrets.io/ExternalSecret": _external_secret,
    "argoproj.io/Application": _application,
    "Namespace": _namespace,
    "File": _values,
}


def _level(label: Any) -> int:
    """A namespace without the label enforces nothing."""
    return _LEVELS.index(label) if label in _LEVELS else 0


def _shrinks(old: Any, new: Any) -> bool:
    try:
        return new is not None and quantity.parse(new) < quantity.parse(old)
    except (ValueError, TypeError):
        return False


def _options(manifest: Manifest) -> list[str]:
    text = at(manifest, "metadata", "annotations", _SYNC_OPTIONS)
    return [option.strip() for option in text.split(",")] if isinstance(text, str) else []


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _names_database(manifest: Manifest) -> bool:
    sources = items_at(manifest, "spec", "sources") or [at(manifest, "spec", "source")]
    texts = [
        at(manifest, "metadata", "name"),
        *(at(source, key) for source in sources for key in ("chart", "path")),
    ]
    return any(word in text for text in texts if isinstance(text, str) for word in _DATABASE_WORDS)
