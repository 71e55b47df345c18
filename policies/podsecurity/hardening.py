"""What goes beyond the standards: files that nothing rewrites, users of one's own, starts that do not crawl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policies.cel import Cel
from policies.model import Fault, Severity
from policies.podsecurity.expressions import at_restricted
from policies.podsecurity.levels import judged
from policies.podsecurity.subject import nearest, shown
from policies.registry import policy
from policies.world import PODS, Entry, World, mapping, sequence

_CONTEXT = "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/"
FIRST_ORDINARY_ID = 1000
"""Below it, distributions number the accounts of their own services (login.defs(5): UID_MIN and GID_MIN)."""
_CLAIMS = (
    "variables.volumes.exists(v, has(v.persistentVolumeClaim) && !v.persistentVolumeClaim.?readOnly.orValue(false))"
)


@policy(
    "read-only-rootfs",
    title="Containers cannot write to their image's files",
    rationale="Who gets into a container with a writable root plants a program there, and what fills it fills the "
    "node's disk. Namespaces of a level below restricted are not judged.",
    remedy="set readOnlyRootFilesystem to true, and mount an emptyDir where the program writes",
    severity=Severity.WARNING,
    kinds=PODS,
    links=(_CONTEXT, "https://kubernetes.io/docs/concepts/storage/volumes/#emptydir"),
    cel=at_restricted(
        "variables.onWindows || variables.containers.all(c, c.?securityContext.?readOnlyRootFilesystem.orValue(false))",
    ),
)
def read_only_rootfs(entry: Entry, world: World) -> Iterator[Fault]:
    found = judged(entry, world)
    if found is None or not found.hardened or found.pod.windows:
        return
    for one in found.pod.containers:
        value = one.security.get("readOnlyRootFilesystem")
        if value is not True:
            pointer = f"{found.outside}{nearest(one, 'securityContext', 'readOnlyRootFilesystem')}"
            yield Fault(pointer, f"{one.title} securityContext.readOnlyRootFilesystem must be true (is {shown(value)})")


def _ordinary(context: str) -> str:
    return " && ".join(
        f"({context}.?{field}.orValue({FIRST_ORDINARY_ID}) >= {FIRST_ORDINARY_ID}"
        f" || {context}.?{field}.orValue({FIRST_ORDINARY_ID}) == 0)"
        for field in ("runAsUser", "runAsGroup")
    )


@policy(
    "high-uid",
    title="Containers run as no account of the node",
    rationale="Without a user namespace a user id means the same on the node: a process that breaks out as 1 to "
    f"{FIRST_ORDINARY_ID - 1} owns what a system service of that number owns there. Id 0 is pss-run-as-user's, and ids "
    "from 1000 on are left alone, since what a volume already holds belongs to its first user.",
    remedy=f"choose a user and a group of {FIRST_ORDINARY_ID} or more, or set hostUsers to false",
    severity=Severity.INFO,
    kinds=PODS,
    links=(_CONTEXT, "https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/"),
    cel=at_restricted(
        f"variables.userNamespace || ({_ordinary('variables.podSpec.?securityContext')}"
        f" && variables.containers.all(c, {_ordinary('c.?securityContext')}))",
    ),
)
def high_uid(entry: Entry, world: World) -> Iterator[Fault]:
    found = judged(entry, world)
    if found is None or not found.hardened or found.pod.user_namespace:
        return
    for one in found.pod.setters:
        for field in ("runAsUser", "runAsGroup"):
            number = one.security.get(field)
            if type(number) is int and 0 < number < FIRST_ORDINARY_ID:
                message = f"{one.title} securityContext.{field} must be {FIRST_ORDINARY_ID} or more (is {number})"
                yield Fault(f"{found.outside}{one.pointer}/securityContext/{field}", message)


@policy(
    "fsgroup-on-root-mismatch",
    title="A volume's owner is changed only when it must be",
    rationale="With fsGroup the kubelet walks through every file of the volume at each start, which takes minutes on a "
    "full workspace, unless it may stop where the root of the volume fits.",
    remedy="set securityContext.fsGroupChangePolicy of the pod to OnRootMismatch",
    severity=Severity.WARNING,
    kinds=PODS,
    links=(f"{_CONTEXT}#configure-volume-permission-and-ownership-change-policy-for-pods",),
    cel=Cel(
        "!variables.podSpec.?securityContext.?fsGroup.hasValue()"
        " || variables.podSpec.?securityContext.?fsGroupChangePolicy.orValue('Always') == 'OnRootMismatch'"
        f" || !({_CLAIMS}"
        " || (object.kind == 'StatefulSet' && dyn(object).spec.?volumeClaimTemplates.orValue([]).size() > 0))",
    ),
)
def fsgroup_on_root_mismatch(entry: Entry, world: World) -> Iterator[Fault]:
    found = judged(entry, world)
    if found is None or entry.pod is None:
        return
    whole = found.pod.whole
    how = whole.security.get("fsGroupChangePolicy")
    if whole.security.get("fsGroup") is None or how == "OnRootMismatch":
        return
    claims = [name for _, volume in entry.pod.items("volumes") if (name := _writable_claim(volume))]
    claims += [_name(one) for one in sequence(entry.spec.get("volumeClaimTemplates")) if entry.id.kind == "StatefulSet"]
    if claims:
        pointer = nearest(whole, "securityContext", "fsGroupChangePolicy")
        message = (
            f"the pod securityContext.fsGroupChangePolicy must be OnRootMismatch (is {shown(how)}): it sets an fsGroup "
            f"and mounts the claim {shown(claims[0])}"
        )
        yield Fault(f"{found.outside}{pointer}", message)


def _writable_claim(volume: Any) -> object:
    """The claim's name; None where nothing is to be owned. A volume that is only read keeps its owner."""
    claim = mapping(mapping(volume).get("persistentVolumeClaim"))
    return claim.get("claimName") if claim and claim.get("readOnly") is not True else None


def _name(claim: object) -> object:
    return mapping(mapping(claim).get("metadata")).get("name")
