"""The standards as policies: one for each thing that a pod may get wrong, whichever checks find it.

Checks of baseline are judged everywhere but in namespaces that declare `privileged`; checks of restricted where the
namespace declares it, or where its Namespace object is not in the set. `hostProbesAndHostLifecycle` is the policy
`probe-host-unset`.
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.model import Fault
from policies.podsecurity import expressions
from policies.podsecurity.levels import faults, finds
from policies.registry import policy
from policies.world import PODS, Entry, World

STANDARDS = "https://kubernetes.io/docs/concepts/security/pod-security-standards/"
_CONTEXT = "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/"
_REFUSED = "Pod admission refuses it, and then the workload only waits: its controller cannot make a pod."

policy(
    "pss-privileged",
    title="No container is privileged",
    rationale=f"A privileged container is root on its node, whatever else its securityContext says. {_REFUSED}",
    remedy="take privileged out, and add the one capability that is needed",
    kinds=PODS,
    links=(f"{STANDARDS}#baseline",),
    cel=expressions.PRIVILEGED,
)(finds("privileged"))

policy(
    "pss-host-namespaces",
    title="No pod shares its node's namespaces",
    rationale="On the node's network a pod passes by every NetworkPolicy; among the node's processes it reads the "
    "secrets of its neighbours.",
    remedy="take hostNetwork, hostPID and hostIPC out",
    kinds=PODS,
    links=(f"{STANDARDS}#baseline",),
    cel=expressions.HOST_NAMESPACES,
)(finds("hostNamespaces"))


@policy(
    "pss-hostpath",
    title="No volume is a path of the node",
    rationale="With the node's files a container owns the node: the socket of the container runtime is one of them.",
    remedy="use a claim, an emptyDir or a projected volume",
    kinds=PODS,
    links=(f"{STANDARDS}#baseline", "https://kubernetes.io/docs/concepts/storage/volumes/#hostpath"),
    cel=expressions.HOST_PATH,
)
def pss_hostpath(entry: Entry, world: World) -> Iterator[Fault]:
    for fault in faults(entry, world, "hostPathVolumes", "restrictedVolumes"):
        if fault.pointer.endswith("/hostPath"):
            yield fault


@policy(
    "pss-host-ports",
    title="No container takes a port of its node",
    rationale="A port of the node goes round Services and their policies, and only one pod a node can have it.",
    remedy="take hostPort out; reach the pod through a Service",
    kinds=PODS,
    links=(f"{STANDARDS}#baseline",),
    cel=expressions.HOST_PORTS,
)
def pss_host_ports(entry: Entry, world: World) -> Iterator[Fault]:
    # With hostNetwork every port is one of the node: that is one defect, and pss-host-namespaces names it.
    if entry.pod is not None and entry.pod.spec.get("hostNetwork") is not True:
        yield from faults(entry, world, "hostPorts")


policy(
    "pss-capabilities",
    title="Containers keep only the capabilities that they need",
    rationale="The default capabilities let root in a container forge packets and take over files of others; "
    f"restricted wants all of them dropped. {_REFUSED}",
    remedy="set capabilities.drop to [ALL], and add at most NET_BIND_SERVICE",
    kinds=PODS,
    links=(f"{STANDARDS}#restricted", _CONTEXT),
    cel=expressions.CAPABILITIES,
)(finds("capabilities_baseline", "capabilities_restricted"))

policy(
    "pss-privilege-escalation",
    title="No process gains more rights than its parent",
    rationale="Without an explicit false, a setuid binary in the image makes its user root. Unset counts as true.",
    remedy="set allowPrivilegeEscalation to false in each container",
    kinds=PODS,
    links=(f"{STANDARDS}#restricted", _CONTEXT),
    cel=expressions.PRIVILEGE_ESCALATION,
)(finds("allowPrivilegeEscalation"))

policy(
    "pss-run-as-non-root",
    title="Containers say that they do not run as root",
    rationale="Only runAsNonRoot makes the kubelet refuse an image whose user is root. From Kubernetes 1.35 on a pod "
    "with hostUsers: false may do without.",
    remedy="set securityContext.runAsNonRoot to true in the pod, and set it nowhere to false",
    kinds=PODS,
    links=(f"{STANDARDS}#restricted", "https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/"),
    cel=expressions.run_as_non_root,
)(finds("runAsNonRoot"))

policy(
    "pss-run-as-user",
    title="No container asks for user 0",
    rationale="User 0 contradicts runAsNonRoot: the kubelet never starts the container.",
    remedy="choose a user other than 0, or leave runAsUser to the image",
    kinds=PODS,
    links=(f"{STANDARDS}#restricted", _CONTEXT),
    cel=expressions.run_as_user,
)(finds("runAsUser"))

policy(
    "pss-seccomp",
    title="System calls are filtered",
    rationale="Without a seccomp profile a container may make every system call of the kernel, and most ways out of a "
    "container begin with a rare one.",
    remedy="set securityContext.seccompProfile.type of the pod to RuntimeDefault",
    kinds=PODS,
    links=(f"{STANDARDS}#restricted", "https://kubernetes.io/docs/tutorials/security/seccomp/"),
    cel=expressions.SECCOMP,
)(finds("seccompProfile_baseline", "seccompProfile_restricted"))


@policy(
    "pss-volume-types",
    title="Volumes are of the types that restricted allows",
    rationale=f"Any other type names storage of the network or the node past its PersistentVolume. {_REFUSED}",
    remedy="mount the storage through a PersistentVolumeClaim",
    kinds=PODS,
    links=(f"{STANDARDS}#restricted", "https://kubernetes.io/docs/concepts/storage/volumes/"),
    cel=expressions.VOLUME_TYPES,
)
def pss_volume_types(entry: Entry, world: World) -> Iterator[Fault]:
    # A hostPath is refused at every level, by a policy of its own.
    for fault in faults(entry, world, "restrictedVolumes"):
        if not fault.pointer.endswith("/hostPath"):
            yield fault


policy(
    "pss-kernel-knobs",
    title="No pod loosens the kernel's own fences",
    rationale="Unmasked /proc, unsafe sysctls, SELinux or AppArmor switched off and Windows host processes each reach "
    "past the container to the node and its other pods.",
    remedy="take the field out, or choose one of the values that the message names",
    kinds=PODS,
    links=(f"{STANDARDS}#baseline", "https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster/"),
    cel=expressions.kernel_knobs,
)(
    finds(
        "appArmorProfile",
        "procMount",
        "procMount_restricted",
        "seLinuxOptions",
        "sysctls",
        "windowsHostProcess",
    )
)
