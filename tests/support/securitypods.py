"""Pods that say something about security: a valid one of level restricted, changed in each way that a check looks at.

`corners` changes one thing at a time, `mixtures` several by chance, from a seed. What pod validation would refuse
whatever the level is (such as a privileged container without escalation) is kept out where that is simple.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

Pod = dict[str, Any]
Change = Callable[[Pod], None]

_PROFILES = (
    {"type": "RuntimeDefault"},
    {"type": "Unconfined"},
    {"type": "Localhost", "localhostProfile": "a.json"},
    None,
)
_SYSCTLS = {
    "kernel.shm_rmid_forced": "1",
    "net.ipv4.ip_local_port_range": "1024 65535",
    "net.ipv4.ip_local_reserved_ports": "8080",
    "net.ipv4.ip_unprivileged_port_start": "0",
    "net.ipv4.ping_group_range": "0 0",
    "net.ipv4.tcp_syncookies": "1",
    "net.ipv4.tcp_keepalive_time": "600",
    "net.ipv4.tcp_fin_timeout": "60",
    "net.ipv4.tcp_keepalive_intvl": "30",
    "net.ipv4.tcp_keepalive_probes": "5",
    "net.ipv4.tcp_rmem": "4096 131072 6291456",
    "net.ipv4.tcp_wmem": "4096 16384 4194304",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_syncookies": "1",
    "kernel.msgmax": "65536",
    "fs.mqueue.msg_max": "10",
    "vm.swappiness": "10",
}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_VOLUMES: tuple[dict[str, Any], ...] = (
    {},
    {"emptyDir": {}},
    {"configMap": {"name": "a"}},
    {"secret": {"secretName": "a"}},
    {"projected": {"sources": [{"configMap": {"name": "a"}}]}},
    {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    {"persistentVolumeClaim": {"claimName": "a"}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}}},
    {"csi": {"driver": "csi.example"}},
    {"image": {"reference": "a:1"}},
    {"hostPath": {"path": "/var/run/docker.sock"}},
    {"hostPath": {"path": "/", "type": "Directory"}},
    {"nfs": {"server": "a.example", "path": "/"}},
    {"iscsi": {"targetPortal": "192.0.2.1", "iqn": "iqn.2001-04.com.example:a", "lun": 0}},
    {"gcePersistentDisk": {"pdName": "a"}},
    {"awsElasticBlockStore": {"volumeID": "a"}},
    {"glusterfs": {"endpoints": "a", "path": "a"}},
    {"rbd": {"monitors": ["a"], "image": "a"}},
    {"cephfs": {"monitors": ["a"]}},
    {"fc": {"targetWWNs": ["a"], "lun": 0}},
    {"azureFile": {"secretName": "a", "shareName": "a"}},
    {"azureDisk": {"diskName": "a", "diskURI": "https://a.example/blob"}},
    {"vsphereVolume": {"volumePath": "[a] b"}},
    {"quobyte": {"registry": "a:1", "volume": "a"}},
    {"portworxVolume": {"volumeID": "a"}},
    {"scaleIO": {"gateway": "a", "system": "a", "secretRef": {"name": "a"}, "volumeName": "a"}},
    {"storageos": {"volumeName": "a"}},
    {"flexVolume": {"driver": "a/b"}},
    {"flocker": {"datasetName": "a"}},
    {"cinder": {"volumeID": "a"}},
    {"photonPersistentDisk": {"pdID": "a"}},
)  # fmt: skip
_SELINUX = (
    {"level": "s0:c1,c2"},
    {"type": ""},
    {"type": "container_t"},
    {"type": "container_init_t"},
    {"type": "container_kvm_t"},
    {"type": "container_engine_t"},
    {"type": "spc_t"},
    {"user": "root"},
    {"role": "sysadm_r"},
    {"user": "", "role": ""},
    {"type": "spc_t", "user": "root", "role": "sysadm_r"},
)
_CAPABILITIES = (
    None,
    {},
    {"drop": []},
    {"drop": ["ALL"]},
    {"drop": ["all"]},
    {"drop": ["NET_RAW", "ALL"]},
    {"drop": ["NET_RAW"]},
    {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
    {"drop": ["ALL"], "add": ["CHOWN"]},
    {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "NET_ADMIN"]},
    {"add": ["AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"]},
    {"add": ["SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "NET_BIND_SERVICE"]},
    {"add": ["NET_RAW"]},
    {"add": ["CAP_CHOWN"]},
    {"add": ["ALL"]},
)
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_HANDLERS = (
    {"httpGet": {"port": 80}},
    {"httpGet": {"port": 80, "host": "192.0.2.1"}},
    {"httpGet": {"port": 80, "host": "127.0.0.1"}},
    {"tcpSocket": {"port": 80}},
    {"tcpSocket": {"port": 80, "host": "a.example"}},
)


def restricted() -> Pod:
    """The least that restricted takes, with an init container that stays (so that it may have probes)."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    main = {"name": "main", "image": "a:1", "securityContext": security}
    side = {"name": "side", "image": "a:1", "restartPolicy": "Always", "securityContext": copy.deepcopy(security)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried", "annotations": {}},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "initContainers": [side],
            "containers": [main],
        },
    }


def bare() -> Pod:
    """One that says nothing."""
    container = {"name": "main", "image": "a:1"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"}, "spec": {"containers": [container]}}


def worst() -> Pod:
    """One that does everything wrong that a pod can at a time."""
    pod = bare()
    security = {"privileged": True, "runAsUser": 0, "procMount": "Default", "runAsGroup": 5}
    pod["spec"] |= {
        "hostNetwork": True,
        "securityContext": {"fsGroup": 1, "windowsOptions": {"hostProcess": True}},
        "containers": [{"name": "main", "image": "a:1", "securityContext": security}],
        "volumes": [
            {"name": "claim", "persistentVolumeClaim": {"claimName": "a"}},
            {"name": "share", "nfs": {"server": "a.example", "path": "/"}},
            {"name": "root", "hostPath": {"path": "/"}},
        ],
    }
    return pod


def windows() -> Pod:
    pod = bare()
    pod["spec"] |= {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}}
    return pod


def _set(place: tuple[str | int, ...], value: Any) -> Change:
    """None takes the field out."""

    def change(pod: Pod) -> None:
        here: Any = pod
        for step in place[:-1]:
            here = here.setdefault(step, {}) if isinstance(here, dict) else here[step]
        if value is None:
            here.pop(place[-1], None)
        else:
            here[place[-1]] = copy.deepcopy(value)

    return change


def _both(*changes: Change) -> Change:
    def change(pod: Pod) -> None:
        for one in changes:
            one(pod)

    return change


_POD = ("spec", "securityContext")
_OF = tuple(("spec", field, 0) for field in ("containers", "initContainers"))


def _topics() -> dict[str, list[Change]]:
    """Ways to change a pod, by what they are about."""
    found: dict[str, list[Change]] = {
        "host": [
            _set(("spec", flag), value) for flag in ("hostNetwork", "hostPID", "hostIPC") for value in (True, False)
        ],
        "users": [
            *(_set(("spec", "hostUsers"), value) for value in (True, False)),
            _both(_set(("spec", "hostUsers"), False), _set((*_POD, "runAsNonRoot"), None)),
            _both(_set(("spec", "hostUsers"), False), _set((*_POD, "runAsUser"), 0)),
        ],
        "volumes": [_set(("spec", "volumes"), [{"name": "a", **one}]) for one in _VOLUMES],
        "sysctls": [_set((*_POD, "sysctls"), [{"name": key, "value": value}]) for key, value in _SYSCTLS.items()],
        "selinux": [_set((*_POD, "seLinuxOptions"), one) for one in _SELINUX],
        "seccomp": [_set((*_POD, "seccompProfile"), one) for one in _PROFILES],
        "apparmor": [_set((*_POD, "appArmorProfile"), one) for one in _PROFILES],
        "nonroot": [_set((*_POD, "runAsNonRoot"), one) for one in (True, False, None)],
        "user": [_set((*_POD, field), one) for field in ("runAsUser", "runAsGroup") for one in (0, 1, 999, 1000)],
        "group": [
            _both(
                _set((*_POD, "fsGroup"), 1000),
                _set((*_POD, "fsGroupChangePolicy"), one),
                _set(
                    ("spec", "volumes"), [{"name": "a", "persistentVolumeClaim": {"claimName": "a", "readOnly": only}}]
                ),
            )
            for one in ("OnRootMismatch", "Always", None)
            for only in (True, False)
        ],
        "windows": [_set((*_POD, "windowsOptions"), one) for one in ({"hostProcess": False}, {"runAsUserName": "a"})],
    }
    found["windows"].append(
        _both(_set(("spec", "hostNetwork"), True), _set((*_POD, "windowsOptions"), {"hostProcess": True}))
    )
    found["annotation"] = [
        _set(("metadata", "annotations", f"{_APPARMOR}main"), value)
        for value in ("runtime/default", "unconfined", "localhost/a")
    ] + [_set(("metadata", "annotations", "seccomp.security.alpha.kubernetes.io/pod"), "unconfined")]
    for place in _OF:
        for topic, changes in _of_container(place).items():
            found[f"{topic} {place[1]}"] = changes
    return found


def _of_container(place: tuple[str | int, ...]) -> dict[str, list[Change]]:
    security = (*place, "securityContext")
    unsafe = _both(_set((*security, "privileged"), True), _set((*security, "allowPrivilegeEscalation"), None))
    unmasked = _both(_set((*security, "procMount"), "Unmasked"), _set(("spec", "hostUsers"), False))
    port = {"containerPort": 80}
    probes = [
        _set((*place, name), handler)
        for name in ("livenessProbe", "readinessProbe", "startupProbe")
        for handler in _HANDLERS
    ]
    hooks = [_set((*place, "lifecycle", name), handler) for name in ("preStop", "postStart") for handler in _HANDLERS]
    return {
        "all": [_set(security, None), _set(security, {})],
        "privileged": [unsafe, _set((*security, "privileged"), False)],
        "escalation": [_set((*security, "allowPrivilegeEscalation"), one) for one in (True, False, None)],
        "capabilities": [_set((*security, "capabilities"), one) for one in _CAPABILITIES],
        "proc": [unmasked, _set((*security, "procMount"), "Default")],
        "selinux": [_set((*security, "seLinuxOptions"), one) for one in _SELINUX],
        "seccomp": [_set((*security, "seccompProfile"), one) for one in _PROFILES],
        "apparmor": [_set((*security, "appArmorProfile"), one) for one in _PROFILES],
        "nonroot": [_set((*security, "runAsNonRoot"), one) for one in (True, False, None)],
        "user": [_set((*security, "runAsUser"), one) for one in (0, 1, 1000)],
        "files": [_set((*security, "readOnlyRootFilesystem"), one) for one in (True, False)],
        "ports": [_set((*place, "ports"), [one]) for one in (port, {**port, "hostPort": 0}, {**port, "hostPort": 80})],
        "probes": probes,
        "hooks": hooks,
    }


def corners() -> Iterator[Pod]:
    """A pod for each single change, of the restricted one and (of those on the pod as a whole) of the bare one."""
    for topic, changes in _topics().items():
        for change in changes:
            for start in (restricted(), bare()):
                if "initContainers" in topic and start == bare():
                    continue
                change(start)
                yield start
    yield from (restricted(), bare(), windows())
    for option in ({"hostProcess": False}, {"runAsUserName": "a"}):
        pod = windows()
        pod["spec"]["containers"][0]["securityContext"] = {"windowsOptions": option}
        yield pod
    process = windows()
    process["spec"] |= {"hostNetwork": True}
    process["spec"]["securityContext"]["windowsOptions"] = {"hostProcess": True}
    yield process


def mixtures(count: int, seed: int) -> Iterator[Pod]:
    """Restricted pods with two to five changes, each about something else."""
    chance = random.Random(seed)
    topics = _topics()
    for _ in range(count):
        pod = restricted()
        for topic in chance.sample(sorted(topics), chance.randint(2, 5)):
            chance.choice(topics[topic])(pod)
        yield pod
