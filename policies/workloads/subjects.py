"""Which objects are Paperclip's own: some policies are about nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubekit import labels
from policies.world import Entry, mapping, sequence

SERVER_CEL = " && ".join(
    f"variables.podLabels[?'{key}'].orValue('') == '{value}'" for key, value in labels.SERVER.items()
)
"""Whether the object starts the server's pod, in CEL."""
AGENT_CEL = " && ".join(
    f"variables.podLabels[?'{key}'].orValue('') == '{value}'" for key, value in labels.AGENT_JOB.items()
)
"""Whether it starts an agent's pod, in CEL."""
OURS_CEL = f"variables.labels[?'{labels.PART_OF}'].orValue('') == '{labels.PART_OF_PAPERCLIP}'"
"""Whether the object itself is one of ours, in CEL."""


def carries(found: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    return all(found.get(key) == value for key, value in wanted.items())


def is_server(entry: Entry) -> bool:
    """Whether it starts the server's pod."""
    return entry.pod is not None and carries(entry.pod.labels, labels.SERVER)


def is_agent(entry: Entry) -> bool:
    """Whether it starts an agent's pod."""
    return entry.pod is not None and carries(entry.pod.labels, labels.AGENT_JOB)


def is_ours(entry: Entry) -> bool:
    """Whether the object says that it is part of Paperclip."""
    return entry.labels.get(labels.PART_OF) == labels.PART_OF_PAPERCLIP


def is_owned(entry: Entry) -> bool:
    """Whether a controller made it, as the ReplicaSet of a Deployment in an export of a cluster: it counts no more."""
    owners = sequence(mapping(entry.manifest.get("metadata")).get("ownerReferences"))
    return any(mapping(one).get("controller") is True for one in owners)
