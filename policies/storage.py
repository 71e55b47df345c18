"""Claims and volumes: what waits for ever, what is lost, and what fills a node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import labels, quantity
from policies.cel import Cel
from policies.facts import Facts
from policies.model import Fault, Scope, Severity
from policies.registry import policy
from policies.workloads import claims
from policies.workloads.claims import MANY, ONCE, ONCE_POD
from policies.workloads.subjects import AGENT_CEL, OURS_CEL, SERVER_CEL, is_agent, is_ours, is_server
from policies.world import PODS, Entry, World, mapping, sequence

_VOLUMES = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/"
_SYNC = "https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/"
_KEEP = (("Prune", frozenset({"false", "confirm"})), ("Delete", frozenset({"false", "confirm"})))
_SEGMENT = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_FOLDER = rf"workspaces/{_SEGMENT}"
_BUNDLE = rf"bundles/{_SEGMENT}/{_SEGMENT}"
_DATA, _WORKSPACE = "paperclip-data", "paperclip-agent-workspace"


def _component(entry: Entry) -> str:
    """Whose claim it is, "server" or "agents"; "" for a claim that is not ours."""
    known = {_DATA: "server", _WORKSPACE: "agents"}.get(entry.id.name)
    return known or (str(entry.labels.get(labels.COMPONENT)) if is_ours(entry) else "")


_COMPONENT_CEL = (
    f"object.metadata.name == '{_DATA}' ? 'server' : object.metadata.name == '{_WORKSPACE}' ? 'agents'"
    f" : {OURS_CEL} ? variables.labels[?'{labels.COMPONENT}'].orValue('') : ''"
)


def _shared(facts: Facts) -> tuple[str, ...]:
    """The modes in which all agents reach a claim."""
    return (MANY, ONCE) if facts.single_node else (MANY,)


def _access_mode_cel(facts: Facts) -> Cel:
    shared = ", ".join(f"'{one}'" for one in _shared(facts))
    return Cel(
        "(variables.component != 'server' || variables.modes.size() > 0 &&"
        f" variables.modes.all(m, m in ['{ONCE}', '{ONCE_POD}']))"
        f" && (variables.component != 'agents' || variables.modes.exists(m, m in [{shared}]))",
        variables={"component": _COMPONENT_CEL, "modes": "object.spec.?accessModes.orValue([])"},
    )


@policy(
    "pvc-access-mode",
    title="The server's claims have one writer, and the agents' workspace many",
    rationale=(
        "Two servers on one data folder destroy it, and a claim for one node keeps them apart; agents run on any node,"
        " so a workspace for one node leaves those on the others waiting for ever."
    ),
    remedy="use [ReadWriteOnce] for the server's claims and [ReadWriteMany] for the workspace",
    kinds=("PersistentVolumeClaim",),
    links=(f"{_VOLUMES}#access-modes",),
    cel=_access_mode_cel,
)
def pvc_access_mode(entry: Entry, world: World) -> Iterator[Fault]:
    modes = sequence(entry.spec.get("accessModes"))
    shown = ", ".join(str(one) for one in modes) or "none"
    component = _component(entry)
    if component == "server" and (not modes or any(one not in (ONCE, ONCE_POD) for one in modes)):
        yield Fault("/spec/accessModes", f"a claim of the server must be {ONCE} or {ONCE_POD} (is {shown})")
    elif component == "agents" and not any(one in modes for one in _shared(world.facts)):
        remedy = f"use [{MANY}]; on a cluster of one node, say so" if modes == [ONCE] else ""
        yield Fault("/spec/accessModes", f"the workspace of the agents must be {MANY} (is {shown})", remedy=remedy)


@policy(
    "pvc-exists",
    title="The claim of a volume exists",
    rationale="A pod whose claim is not there stays Pending, without any other sign than an event.",
    remedy="add the PersistentVolumeClaim to the set, correct the name, or declare it as external",
    scope=Scope.SET,
    kinds=PODS,
    links=(f"{_VOLUMES}#claims-as-volumes",),
)
def pvc_exists(entry: Entry, world: World) -> Iterator[Fault]:
    known = claims.of(world)
    for one in known.mounts.get(id(entry), ()):
        place = (entry.id.namespace, one.claim)
        if world.exists("PersistentVolumeClaim", *place) or place in known.templated:
            continue
        if "/".join(place) not in world.facts.committed:
            yield Fault(
                f"{one.pointer}/persistentVolumeClaim/claimName",
                f"claim {one.claim!r} must exist in namespace {place[0]!r} (is neither in the set nor external)",
            )


def _class_cel(facts: Facts) -> Cel | None:
    """None where nobody knows the classes."""
    if not facts.storage_classes:
        return None
    known = ", ".join(
        f"'{name}': [{', '.join(repr(mode) for mode in sorted(modes))}]"
        for name, modes in sorted(facts.storage_classes.items())
    )
    return Cel(
        "object.spec.?storageClassName.orValue('') == ''"
        " || object.spec.storageClassName in variables.classes && object.spec.?accessModes.orValue([]).all(m,"
        " m in variables.classes[object.spec.storageClassName])",
        kinds=frozenset({"PersistentVolumeClaim"}),
        variables={"classes": f"{{{known}}}"},
        message="the claim's class must be one that supports its access modes: "
        + "; ".join(f"{name} ({', '.join(sorted(modes))})" for name, modes in sorted(facts.storage_classes.items())),
        partly="It judges neither the claims that a StatefulSet makes nor (a warning) those without a class.",
    )


@policy(
    "pvc-storageclass",
    title="A claim names its class, which is known and supports its access mode",
    rationale="A claim that its class cannot serve stays Pending, or is bound and then refused on the second node.",
    remedy="choose a class that supports the mode, or add the class with its modes to cluster.storageClasses",
    kinds=("PersistentVolumeClaim", "StatefulSet"),
    links=("https://kubernetes.io/docs/concepts/storage/storage-classes/", f"{_VOLUMES}#class-1"),
    cel=_class_cel,
)
def pvc_storageclass(entry: Entry, world: World) -> Iterator[Fault]:
    if not world.facts.storage_classes:
        return
    if entry.id.kind == "StatefulSet":
        for pointer, template in claims.templates(entry):
            yield from _class_faults(pointer, template, world.facts.storage_classes)
    else:
        yield from _class_faults("", entry.manifest, world.facts.storage_classes)


def _class_faults(pointer: str, claim: Mapping[str, Any], classes: Mapping[str, frozenset[str]]) -> Iterator[Fault]:
    spec = mapping(claim.get("spec"))
    name = spec.get("storageClassName")
    known = ", ".join(sorted(classes))
    if name is None:
        # The default class serves it, today.
        told = f"storageClassName must be written out (is absent; there are: {known})"
        yield Fault(f"{pointer}/spec/storageClassName", told, Severity.WARNING)
    elif isinstance(name, str) and name and name not in classes:
        told = f"class {name!r} is not among cluster.storageClasses: {known}"
        yield Fault(f"{pointer}/spec/storageClassName", told)
    elif isinstance(name, str) and name:
        for index, mode in enumerate(sequence(spec.get("accessModes"))):
            if str(mode) not in classes[name]:
                can = ", ".join(sorted(classes[name]))
                told = f"class {name!r} supports {can}, and the claim wants {mode}"
                yield Fault(f"{pointer}/spec/accessModes/{index}", told)


@policy(
    "workspace-subpath",
    title="An agent mounts its own folder of a claim, and no other",
    rationale=(
        "Without a subPath an agent reads and writes the work of every other agent; a subPath from free text can lead"
        " anywhere in the claim. Skills are shared, and so read-only."
    ),
    remedy="set subPath to workspaces/ and one segment that names the agent; mount bundles/ of skills with readOnly",
    kinds=PODS,
    links=("https://kubernetes.io/docs/concepts/storage/volumes/#using-subpath",),
    cel=Cel(
        f"!({AGENT_CEL}) || variables.containers.all(c, c.?volumeMounts.orValue([]).all(m,"
        " !variables.volumes.exists(v, v.name == m.name && has(v.persistentVolumeClaim))"
        f" || !has(m.subPathExpr) && (m.?subPath.orValue('').matches(r'^{_FOLDER}$')"
        f" || m.?readOnly.orValue(false) && m.?subPath.orValue('').matches(r'^{_BUNDLE}$'))"
        " && !m.?subPath.orValue('').contains('..')))",
    ),
)
def workspace_subpath(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.pod is None or not is_agent(entry):
        return
    shared = {
        volume["name"]
        for _, volume in entry.pod.items("volumes")
        if isinstance(volume.get("name"), str) and isinstance(volume.get("persistentVolumeClaim"), Mapping)
    }
    for container in entry.pod.containers:
        for place, one in enumerate(sequence(container.spec.get("volumeMounts"))):
            mount = mapping(one)
            name = mount.get("name")
            if not isinstance(name, str) or name not in shared:
                continue
            pointer = f"{container.pointer}/volumeMounts/{place}"
            told = f"container {container.name!r} mounts claim volume {name!r}, and must do so with"
            if mount.get("subPathExpr") is not None:
                yield Fault(f"{pointer}/subPathExpr", f"{told} a fixed subPath (has subPathExpr)")
            elif not _is_folder(mount.get("subPath"), bundle=mount.get("readOnly") is True):
                found = "has none" if mount.get("subPath") is None else "has another"
                yield Fault(f"{pointer}/subPath", f"{told} a subPath of workspaces/ and one clean segment ({found})")


def _is_folder(path: object, *, bundle: bool) -> bool:
    """Whether `path` is the folder of one agent, or, where it is read-only, a bundle of skills."""
    if not isinstance(path, str) or ".." in path:
        return False
    return bool(re.fullmatch(_FOLDER, path) or (bundle and re.fullmatch(_BUNDLE, path)))


def _kept_cel(*options: str) -> str:
    given = f"variables.annotations[?'{labels.SYNC_OPTIONS}'].orValue('').split(',').map(o, o.trim())"
    return " && ".join(f"{given}.exists(o, o in ['{one}=false', '{one}=confirm'])" for one in options)


_WHEN = ("whenDeleted", "whenScaled")
_RETAINED_CEL = " && ".join(
    f"dyn(object).spec.?persistentVolumeClaimRetentionPolicy.?{one}.orValue('Retain') == 'Retain'" for one in _WHEN
)


@policy(
    "pvc-keep",
    title="Argo CD neither prunes nor deletes what holds data",
    rationale=(
        "A claim that leaves git, or goes with its Application, takes the volume with it: classes delete it by default."
    ),
    remedy=f"annotate it with {labels.SYNC_OPTIONS}: {labels.KEEP}",
    kinds=("PersistentVolumeClaim", "StatefulSet"),
    links=(
        f"{_SYNC}#no-prune-resources",
        f"{_SYNC}#no-resource-deletion",
        "https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#persistentvolumeclaim-retention",
    ),
    cel=Cel(
        f"!({OURS_CEL}) || (object.kind == 'StatefulSet' ? {_RETAINED_CEL} : {_kept_cel('Prune', 'Delete')})",
    ),
)
def pvc_keep(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if not is_ours(entry):
        return
    if entry.id.kind == "StatefulSet":
        policy_ = mapping(entry.spec.get("persistentVolumeClaimRetentionPolicy"))
        for field in _WHEN:
            if policy_.get(field, "Retain") != "Retain":
                pointer = f"/spec/persistentVolumeClaimRetentionPolicy/{field}"
                yield Fault(pointer, f"{field} must be Retain (is {policy_[field]}): the claims go with it")
        return
    yield from _unkept(entry)


@policy(
    "namespace-keep",
    title="Argo CD neither prunes nor deletes a namespace of Paperclip",
    rationale=(
        "A namespace that goes with its Application takes all claims in it along, those of other Applications too: what"
        " their own annotations say does not help them."
    ),
    remedy=f"annotate it with {labels.SYNC_OPTIONS}: {labels.KEEP}",
    severity=Severity.WARNING,
    kinds=("Namespace",),
    links=(f"{_SYNC}#no-prune-resources", f"{_SYNC}#no-resource-deletion"),
    cel=Cel(f"!({OURS_CEL}) || {_kept_cel('Prune', 'Delete')}"),
)
def namespace_keep(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if is_ours(entry):
        yield from _unkept(entry)


def _unkept(entry: Entry) -> Iterator[Fault]:
    given = entry.annotations.get(labels.SYNC_OPTIONS)
    options = {one.strip() for one in given.split(",")} if isinstance(given, str) else set()
    missing = [key for key, values in _KEEP if not options & {f"{key}={value}" for value in values}]
    if missing:
        told = " and ".join(f"{key}=false" for key in missing)
        yield Fault(
            f"/metadata/annotations/{labels.SYNC_OPTIONS.replace('/', '~1')}",
            f"annotation {labels.SYNC_OPTIONS} must hold {told} (has {'others' if options else 'none'})",
        )


_SIZE = "quantity(string({0}.spec.?resources.?requests[?'storage'].orValue('0')))"


@policy(
    "pvc-no-shrink",
    title="A claim never shrinks, and keeps its class and mode",
    rationale=(
        "The API server refuses a smaller size, another class and another mode: the sync fails for ever, and who forces"
        " it deletes the volume."
    ),
    remedy="keep what is committed; to move data, make a new claim and copy",
    kinds=("PersistentVolumeClaim",),
    links=(f"{_VOLUMES}#expanding-persistent-volumes-claims",),
    cel=Cel(
        f"{_SIZE.format('dyn(object)')}.compareTo({_SIZE.format('dyn(oldObject)')}) >= 0"
        " && object.spec.?storageClassName.orValue('') == oldObject.spec.?storageClassName.orValue(object.spec"
        ".?storageClassName.orValue(''))"
        " && object.spec.?volumeMode.orValue('Filesystem') == oldObject.spec.?volumeMode.orValue('Filesystem')"
        " && sets.equivalent(object.spec.?accessModes.orValue([]), oldObject.spec.?accessModes.orValue([]))",
        operations=("UPDATE",),
    ),
)
def pvc_no_shrink(entry: Entry, world: World) -> Iterator[Fault]:
    before = mapping(mapping(world.facts.committed.get(f"{entry.id.namespace}/{entry.id.name}")).get("spec"))
    if not before:
        return
    old, new = (mapping(mapping(one.get("resources")).get("requests")).get("storage") for one in (before, entry.spec))
    if _less(new, old):
        yield Fault("/spec/resources/requests/storage", f"the size must be at least {old}, as committed (is {new})")
    for field, default in (("storageClassName", None), ("volumeMode", "Filesystem")):
        was, now = (one.get(field, default) for one in (before, entry.spec))
        if was is not None and was != now:
            yield Fault(f"/spec/{field}", f"{field} must stay {was}, as committed (is {now or 'absent'})")
    was_modes, modes = ({str(mode) for mode in sequence(one.get("accessModes"))} for one in (before, entry.spec))
    if was_modes != modes:
        was_shown, shown = (", ".join(sorted(one)) or "none" for one in (was_modes, modes))
        yield Fault("/spec/accessModes", f"the access modes must stay {was_shown}, as committed (are {shown})")


def _less(new: object, old: object) -> bool:
    """Whether both are amounts and the new one is smaller."""
    if not isinstance(old, str | int | float) or not isinstance(new, str | int | float):
        return False
    try:
        return quantity.compare(new, old) < 0
    except quantity.QuantityError:
        return False


@policy(
    "emptydir-limit",
    title="Every emptyDir of an agent has a size",
    rationale="An agent that fills an emptyDir without a limit fills the node's disk, and every pod there is evicted.",
    remedy="set emptyDir.sizeLimit",
    severity=Severity.WARNING,
    kinds=PODS,
    links=("https://kubernetes.io/docs/concepts/storage/volumes/#emptydir",),
    cel=Cel(
        f"!({AGENT_CEL}) || variables.volumes.all(v, !has(v.emptyDir) || has(v.emptyDir.sizeLimit))",
    ),
)
def emptydir_limit(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.pod is None or not is_agent(entry):
        return
    for pointer, volume in entry.pod.items("volumes"):
        if "emptyDir" in volume and mapping(volume["emptyDir"]).get("sizeLimit") is None:
            told = f"volume {str(volume.get('name', ''))!r} must have emptyDir.sizeLimit (has none)"
            yield Fault(f"{pointer}/emptyDir", told)


@policy(
    "fsgroup-with-claim",
    title="The server and agents with a claim have an fsGroup",
    rationale=(
        "A fresh volume belongs to root and the programs run as another user: without an fsGroup they cannot write, and"
        " the server ends with EACCES at its first start."
    ),
    remedy="set securityContext.fsGroup of the pod to the group of the program, 1000 in the server's image",
    kinds=PODS,
    links=("https://kubernetes.io/docs/tasks/configure-pod-container/security-context/",),
    cel=Cel(
        f"!({SERVER_CEL} || {AGENT_CEL}) || !variables.volumes.exists(v, has(v.persistentVolumeClaim))"
        " || has(variables.podSpec.securityContext) && has(variables.podSpec.securityContext.fsGroup)"
    ),
)
def fsgroup_with_claim(entry: Entry, world: World) -> Iterator[Fault]:
    if entry.pod is None or not (is_server(entry) or is_agent(entry)):
        return
    mounts = claims.of(world).mounts.get(id(entry), ())
    if mounts and mapping(entry.pod.spec.get("securityContext")).get("fsGroup") is None:
        yield Fault(
            f"{entry.pod.pointer}/securityContext",
            f"the pod mounts claim {mounts[0].claim!r}, and must have securityContext.fsGroup (has none)",
        )
