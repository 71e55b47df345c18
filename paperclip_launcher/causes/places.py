"""Why a pod gets no node, or no volume."""

from __future__ import annotations

from paperclip_launcher.causes.cause import Cause
from paperclip_launcher.causes.starts import CONFIGS

MOUNTS = (
    *CONFIGS[1:5],
    Cause(
        r"Multi-Attach error.*(?:used by pod\(s\) (?P<pods>\S+))",
        "k8s_volume_failed",
        False,
        "The claim is still in use on another node, by {pods}",
        "wait until that pod is gone, or use a claim of ReadWriteMany",
    ),
    Cause(
        r"Multi-Attach error",
        "k8s_volume_failed",
        False,
        "The claim is still attached to another node",
        "wait until the pod there is gone, or use a claim of ReadWriteMany",
    ),
    Cause(
        r"timed out waiting for the condition|context deadline exceeded",
        "k8s_volume_failed",
        False,
        "A volume is not mounted in time",
        "look at the storage driver's pods on the node, and at the events of the claim",
    ),
    Cause(
        r"permission denied|access denied",
        "k8s_volume_failed",
        False,
        "The storage refuses the node a volume",
        "check the exports and rights of the storage",
    ),
    Cause(
        "",
        "k8s_volume_failed",
        False,
        "A volume cannot be mounted",
        "look at the claim and at the storage driver's pods on the node",
    ),
)
"""Of the events FailedMount, FailedAttachVolume and FailedMapVolume."""

PLACES = (
    Cause(
        r'persistentvolumeclaim "(?P<name>[^"]+)" not found',
        "k8s_volume_failed",
        False,
        "The claim {name} does not exist",
        "apply the rendered manifests of the environment; they hold the claim",
    ),
    Cause(
        r'persistentvolumeclaim "(?P<name>[^"]+)" is being deleted',
        "k8s_volume_failed",
        False,
        "The claim {name} is being deleted",
        "wait until it is gone and create it again: its data may be lost",
    ),
    Cause(
        r"unbound immediate|available persistent volumes to bind|non-existent p",
        "k8s_volume_failed",
        False,
        "The claim has no volume",
        "check its storage class, and that volumes of this size and mode can be had",
    ),
    Cause(
        r"ReadWriteOncePod",
        "k8s_unschedulable",
        False,
        "Only one pod may use the claim, and another one does",
        "wait until that run ends, or use a claim of ReadWriteMany",
    ),
    Cause(
        r"(?P<nodes>\d+/\d+) nodes are available.*?Insufficient (?P<what>[\w./-]+)",
        "k8s_unschedulable",
        False,
        "No node has enough {what} free ({nodes} fit)",
        "wait for other pods to end or a node to be added, or ask for less in `resources`",
    ),
    Cause(
        r"Too many pods",
        "k8s_unschedulable",
        False,
        "The nodes run as many pods as they may",
        "wait for other pods to end, or add a node",
    ),
    Cause(
        r"node affinity/selector|requested node name",
        "k8s_unschedulable",
        False,
        "No free node has the labels that the run asks for",
        "correct `nodeSelector`, or label a node",
    ),
    Cause(
        r"volume node affinity|PersistentVolume's node affinity|volume zone|volume count|free storage",
        "k8s_unschedulable",
        False,
        "The claim's volume cannot be used on any node that is free",
        "free the node that holds the volume, or use a claim that all nodes reach",
    ),
    Cause(
        r"untolerated taint|taints that the pod didn't",
        "k8s_unschedulable",
        False,
        "Every node that is free is tainted against the run",
        "add `tolerations`, or take the taint away; a node that is not ready is tainted as well",
    ),
    Cause(
        r"no nodes available",
        "k8s_unschedulable",
        False,
        "The cluster has no node for pods",
        "add a node, or wait for the autoscaler",
    ),
    Cause(
        "",
        "k8s_unschedulable",
        False,
        "No node takes the pod",
        "wait, or change what the message names",
    ),
)
"""Of the condition PodScheduled with the reason Unschedulable."""
