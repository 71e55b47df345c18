"""The checks of level restricted: what a pod must say to give up all that it does not need.

Source of all facts: k8s.io/pod-security-admission v0.35.4, policy/check_*.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubekit import pointers
from policies.podsecurity.baseline import added_capabilities, seccomp_profile
from policies.podsecurity.subject import Place, Pod, nearest, shown
from policies.world import mapping, sequence

VOLUMES = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)


def allow_privilege_escalation(pod: Pod) -> Iterator[Place]:
    for one in pod.containers:
        value = one.security.get("allowPrivilegeEscalation")
        if value is not False:
            pointer = nearest(one, "securityContext", "allowPrivilegeEscalation")
            message = f"{one.title} securityContext.allowPrivilegeEscalation must be false (is {shown(value)})"
            yield Place(pointer, message)


def capabilities(pod: Pod) -> Iterator[Place]:
    for one in pod.containers:
        dropped = sequence(mapping(one.security.get("capabilities")).get("drop"))
        if "ALL" not in dropped:
            said = ", ".join(shown(name) for name in dropped) or "nothing"
            pointer = nearest(one, "securityContext", "capabilities", "drop")
            yield Place(pointer, f'{one.title} securityContext.capabilities.drop must hold "ALL" (holds {said})')
        yield from added_capabilities(one, ("NET_BIND_SERVICE",))


def volumes(pod: Pod) -> Iterator[Place]:
    for index, volume in enumerate(sequence(pod.spec.get("volumes"))):
        if not isinstance(volume, Mapping):
            continue
        kinds = [str(key) for key, value in volume.items() if key != "name" and value is not None]
        # One without a source is an emptyDir by default (SetDefaults_Volume).
        if kinds and not any(kind in VOLUMES for kind in kinds):
            message = f"volume {shown(volume.get('name'))} must be one of {', '.join(VOLUMES)} (is {kinds[0]})"
            yield Place(pointers.join(f"/spec/volumes/{index}", kinds[0]), message)


def run_as_non_root(pod: Pod) -> Iterator[Place]:
    whole = pod.whole.security.get("runAsNonRoot")
    if whole is False:
        message = "the pod securityContext.runAsNonRoot must be true (is false)"
        yield Place("/spec/securityContext/runAsNonRoot", message)
    for one in pod.containers:
        own = one.security.get("runAsNonRoot")
        if own is False:
            message = f"{one.title} securityContext.runAsNonRoot must be true (is false)"
            yield Place(f"{one.pointer}/securityContext/runAsNonRoot", message)
        elif own is not True and not isinstance(whole, bool):
            message = f"{one.title} or the pod must set securityContext.runAsNonRoot to true (both leave it unset)"
            yield Place(nearest(one, "securityContext", "runAsNonRoot"), message)


def run_as_user(pod: Pod) -> Iterator[Place]:
    for one in pod.setters:
        user = one.security.get("runAsUser")
        if type(user) is int and user == 0:
            message = f"{one.title} securityContext.runAsUser must not be 0 (root)"
            yield Place(f"{one.pointer}/securityContext/runAsUser", message)


def seccomp(pod: Pod) -> Iterator[Place]:
    yield from seccomp_profile(pod)
    if isinstance(pod.whole.security.get("seccompProfile"), Mapping):
        return  # it covers the containers, or is found wrong itself
    for one in pod.containers:
        if not isinstance(one.security.get("seccompProfile"), Mapping):
            wanted = 'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
            yield Place(nearest(one, "securityContext"), f"{one.title} or the pod must set {wanted}")
