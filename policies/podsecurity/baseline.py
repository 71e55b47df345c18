"""The checks of level baseline: what lets a pod out of its node's fence.

Source of all facts: k8s.io/pod-security-admission v0.35.4, policy/check_*.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import pointers
from policies.podsecurity.subject import Judge, Part, Place, Pod, nearest, shown
from policies.world import mapping, sequence

CAPABILITIES = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
SELINUX_TYPES = {
    0: ("container_t", "container_init_t", "container_kvm_t"),
    31: ("container_t", "container_init_t", "container_kvm_t", "container_engine_t"),
}
"""By the minor version that they begin with."""
_SYSCTLS_0 = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_syncookies",
)
_SYSCTLS_27 = (*_SYSCTLS_0, "net.ipv4.ip_local_reserved_ports")
_SYSCTLS_29 = (
    *_SYSCTLS_27,
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
)
SYSCTLS = {
    0: _SYSCTLS_0,
    27: _SYSCTLS_27,
    29: _SYSCTLS_29,
    32: (*_SYSCTLS_29, "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
}
"""By the minor version that they begin with."""
PROFILES = ("RuntimeDefault", "Localhost")
"""Types of seccomp and AppArmor profiles that confine."""
APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
HOST_FLAGS = ("hostNetwork", "hostPID", "hostIPC")
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_HOSTED = ("httpGet", "tcpSocket")


def privileged(pod: Pod) -> Iterator[Place]:
    for one in pod.containers:
        if one.security.get("privileged") is True:
            yield _security(one, "must be false or unset (is true)", "privileged")


def host_namespaces(pod: Pod) -> Iterator[Place]:
    for flag in HOST_FLAGS:
        if pod.spec.get(flag) is True:
            yield Place(f"/spec/{flag}", f"{flag} must be false or unset (is true)")


def host_path_volumes(pod: Pod) -> Iterator[Place]:
    for index, volume in enumerate(sequence(pod.spec.get("volumes"))):
        if isinstance(volume, Mapping) and volume.get("hostPath") is not None:
            message = f"volume {shown(volume.get('name'))} must not be a hostPath: it opens the node's file system"
            yield Place(f"/spec/volumes/{index}/hostPath", message)


def host_ports(pod: Pod) -> Iterator[Place]:
    # On the host's network every port is one of the host: the API server writes it down so (SetDefaults_PodSpec).
    field = "containerPort" if pod.spec.get("hostNetwork") is True else "hostPort"
    for one in pod.containers:
        for index, port in enumerate(sequence(one.spec.get("ports"))):
            number = mapping(port).get("hostPort") or mapping(port).get(field)
            if type(number) is int and number != 0:
                message = f"{one.title} port {index} hostPort must be 0 or unset (is {shown(number)})"
                yield Place(f"{one.pointer}/ports/{index}/{field}", message)


def host_probes_and_lifecycle(pod: Pod) -> Iterator[Place]:
    for one in pod.containers:
        handlers = [(name, one.spec[name]) for name in _PROBES if name in one.spec]
        lifecycle = mapping(one.spec.get("lifecycle"))
        handlers += [(f"lifecycle/{name}", lifecycle[name]) for name in _HOOKS if name in lifecycle]
        for name, handler in handlers:
            for action in _HOSTED:
                if not isinstance(handler, Mapping) or action not in handler:
                    continue
                host = mapping(handler[action]).get("host")
                if isinstance(host, str) and host:
                    field = f"{name}/{action}/host"
                    message = f"{one.title} {field.replace('/', '.')} must be unset: it sends the kubelet elsewhere"
                    yield Place(f"{one.pointer}/{field}", message)


def app_armor_profile(pod: Pod) -> Iterator[Place]:
    for one in pod.setters:
        profile = one.security.get("appArmorProfile")
        if isinstance(profile, Mapping) and profile.get("type") not in PROFILES:
            yield _profile(one, "appArmorProfile", profile)
    for key, value in pod.annotations.items():
        if not isinstance(key, str) or not key.startswith(APPARMOR_ANNOTATION) or not isinstance(value, str):
            continue
        if value and value != "runtime/default" and not value.startswith("localhost/"):
            yield _annotation(key, '"runtime/default" or "localhost/PROFILE"')


def capabilities(pod: Pod) -> Iterator[Place]:
    for one in pod.containers:
        yield from added_capabilities(one, CAPABILITIES)


def added_capabilities(one: Part, allowed: tuple[str, ...]) -> Iterator[Place]:
    """Those that the container adds and may not."""
    for index, name in enumerate(sequence(mapping(one.security.get("capabilities")).get("add"))):
        if isinstance(name, str) and name not in allowed:
            wanted = f"must be one of {', '.join(allowed)}" if len(allowed) > 1 else f"must be {allowed[0]}"
            pointer = f"{one.pointer}/securityContext/capabilities/add/{index}"
            yield Place(pointer, f"{one.title} securityContext.capabilities.add {wanted} (adds {shown(name)})")


def proc_mount(pod: Pod) -> Iterator[Place]:
    for one in pod.containers:
        kind = one.security.get("procMount")
        if isinstance(kind, str) and kind != "Default":
            yield _security(one, f'must be "Default" or unset (is {shown(kind)})', "procMount")


def selinux_options(allowed: tuple[str, ...]) -> Judge:
    """The check with the types that a version knows."""

    def judge(pod: Pod) -> Iterator[Place]:
        for one in pod.setters:
            options = mapping(one.security.get("seLinuxOptions"))
            kind = options.get("type")
            if isinstance(kind, str) and kind and kind not in allowed:
                wanted = f"must be one of {', '.join(allowed)}, or unset (is {shown(kind)})"
                yield _security(one, wanted, "seLinuxOptions", "type")
            for field in ("user", "role"):
                if isinstance(options.get(field), str) and options[field]:
                    yield _security(one, f"must be unset (is {shown(options[field])})", "seLinuxOptions", field)

    return judge


def seccomp_annotations(pod: Pod) -> Iterator[Place]:
    """Before 1.19 profiles were annotations."""
    names = (one.spec.get("name") for one in pod.containers)
    for key in (_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{name}" for name in names)):
        value = pod.annotations.get(key)
        if not isinstance(value, str) or value in {"runtime/default", "docker/default"}:
            continue
        if not value.startswith("localhost/"):
            yield _annotation(key, '"runtime/default" or "localhost/PROFILE"')


def seccomp_profile(pod: Pod) -> Iterator[Place]:
    for one in pod.setters:
        profile = one.security.get("seccompProfile")
        if isinstance(profile, Mapping) and profile.get("type") not in PROFILES:
            yield _profile(one, "seccompProfile", profile)


def sysctls(allowed: tuple[str, ...]) -> Judge:
    """The check with the names that a version takes for safe."""

    def judge(pod: Pod) -> Iterator[Place]:
        for index, item in enumerate(sequence(pod.whole.security.get("sysctls"))):
            name = mapping(item).get("name")
            if isinstance(name, str) and name not in allowed:
                message = f"the pod must not set sysctl {shown(name)}; safe are {', '.join(allowed)}"
                yield Place(f"/spec/securityContext/sysctls/{index}/name", message)

    return judge


def windows_host_process(pod: Pod) -> Iterator[Place]:
    for one in pod.setters:
        if mapping(one.security.get("windowsOptions")).get("hostProcess") is True:
            yield _security(one, "must be false or unset (is true)", "windowsOptions", "hostProcess")


def _security(part: Part, wanted: str, *path: str) -> Place:
    return Place(
        pointers.join(f"{part.pointer}/securityContext", *path),
        f"{part.title} securityContext.{'.'.join(path)} {wanted}",
    )


def _profile(part: Part, field: str, profile: Mapping[str, Any]) -> Place:
    wanted = f'must be "RuntimeDefault" or "Localhost" (is {shown(profile.get("type"))})'
    pointer = nearest(part, "securityContext", field, "type")
    return Place(pointer, f"{part.title} securityContext.{field}.type {wanted}")


def _annotation(key: str, wanted: str) -> Place:
    return Place(pointers.join("/metadata/annotations", key), f"annotation {key} must be {wanted}")
