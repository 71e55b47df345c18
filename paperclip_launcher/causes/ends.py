"""Why a container or its pod ended, where the cause is not the agent's own."""

from __future__ import annotations

from types import MappingProxyType

from paperclip_launcher.causes.cause import Cause

_EVICTED, _LOST = "k8s_pod_evicted", "k8s_node_lost"
_AGAIN = "start the run again; its session goes on where it has one"

EVICTIONS = (
    Cause(
        r'Usage of EmptyDir volume "(?P<volume>[^"]+)" exceeds the limit "(?P<limit>[^"]+)"',
        _EVICTED,
        True,
        "The agent wrote more than {limit} to the volume {volume}",
        "raise the volume's size in the environment, or let the agent write to its workspace",
    ),
    Cause(
        r"ephemeral (?:local )?storage (?:limit|usage)",
        _EVICTED,
        True,
        "The agent used up its disk space on the node",
        "raise the ephemeral-storage limit, or let the agent write to its workspace",
    ),
    Cause(
        r"(?:low on resource|had condition): \[?(?P<what>[\w./-]+)",
        _EVICTED,
        True,
        "The node ran short of {what}, and the pod had to go",
        f"let requests say what agents really use; {_AGAIN}",
    ),
    Cause(r"shut(?:ting )?down", _EVICTED, True, "The node was shut down", _AGAIN),
    Cause(
        r"critical pod|preempt",
        _EVICTED,
        True,
        "A more important pod took the place of the run",
        f"give agents a priority class; {_AGAIN}",
    ),
    Cause("", _EVICTED, True, "The pod was evicted", _AGAIN),
)
"""Of the message of a pod that its kubelet ended."""

DISRUPTIONS = MappingProxyType(
    {
        "PreemptionByScheduler": (_EVICTED, "A pod of higher priority took the place of the run"),
        "EvictionByEvictionAPI": (_EVICTED, "The pod was evicted, as when its node is drained"),
        "DeletionByTaintManager": (_EVICTED, "The node was tainted against the pod, as when it does not answer"),
        "DeletionByPodGC": (_LOST, "The node was removed while the pod was on it"),
    }
)
"""By the reason of the condition DisruptionTarget; for any other the message is looked at."""
DISRUPTION_REMEDY = _AGAIN

NOT_ADMITTED = (
    r"OutOf|NodeAffinity|NodePorts|NodeShutdown|UnexpectedAdmissionError|TopologyAffinityError|InvalidNodeInfo"
    r"|AdmissionFailed|NotSupported|AppArmor|UnknownReason|SysctlForbidden"
)
"""Reasons with which a kubelet turns a pod away that the scheduler has sent to it."""

STARTS = (
    Cause(
        r"exec format error",
        "k8s_container_start_failed",
        True,
        "The image is built for another architecture",
        "build it for the nodes' architecture, or choose nodes with `nodeSelector`",
    ),
    Cause(
        r"/bin/sh.*no such file|no such file.*/bin/sh",
        "k8s_container_start_failed",
        True,
        "The image has no /bin/sh, which every run starts with",
        "use an image with a shell: dash and busybox will do",
    ),
    Cause(
        r"permission denied|no such file",
        "k8s_container_start_failed",
        True,
        "The runtime cannot start the program of the container",
        "check the image, its user and the folders that are mounted",
    ),
    Cause("", "k8s_container_start_failed", True, "The runtime cannot start the container", "read the message"),
)
"""Of a container that ended with StartError or ContainerCannotRun: nothing of it ever ran."""

ENTRY_LINE = "paperclip-entry:"
ENTRY_REMEDIES = MappingProxyType(
    {
        64: "render the Job templates of the environment again",
        66: "start the run again; where it stays so, look at the run's Secret and the user of the pod",
        73: "check that the claim has room, and that the user of the pod may write to it",
        126: "make the program executable in the image, or name another one",
        127: "use an image that holds the program, or correct its name",
        143: "start the run again",
    }
)
"""By the exit code of entry.sh (templates/README.md)."""
