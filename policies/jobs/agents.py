"""Which Jobs are those of agents, in Python and in CEL."""

from __future__ import annotations

from collections.abc import Mapping

from kubekit import labels
from policies.world import Entry, PodView

AGENT: Mapping[str, str] = {
    "agent": " && ".join(
        f"variables.podLabels[?'{key}'].orValue('') == '{value}'" for key, value in sorted(labels.AGENT_JOB.items())
    )
}
"""The variable `agent` for expressions: whether the Job is one of an agent."""


def agent_pods(entry: Entry) -> PodView | None:
    """The pods of an agent's Job; None for any other Job."""
    pod = entry.pod
    if pod is None or any(pod.labels.get(key) != value for key, value in labels.AGENT_JOB.items()):
        return None
    return pod
