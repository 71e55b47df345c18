"""What agents may take, all together and each container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from charts_py.config.agents import ContainerLimits, Quota
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.containers import amounts
from charts_py.constructs.metadata import metadata
from kubekit.identity import Manifest


class AgentQuotas(Concept):
    """A ResourceQuota and a LimitRange."""

    concept = "quotas"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        agents = environment.agents
        name = "paperclip-agents"
        described = metadata(environment, "ResourceQuota", name, agents.namespace, "agents")
        yield resource_quota(described, agents.quota)
        described = metadata(environment, "LimitRange", name, agents.namespace, "agents")
        yield limit_range(described, agents.container_limits)


def resource_quota(described: dict[str, Any], quota: Quota) -> Manifest:
    """`described` is its metadata."""
    hard = {
        "pods": str(quota.pods),
        "count/jobs.batch": str(quota.jobs),
        **amounts(quota.requests, "requests."),
        **amounts(quota.limits, "limits."),
    }
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": described, "spec": {"hard": hard}}


def limit_range(described: dict[str, Any], bounds: ContainerLimits) -> Manifest:
    """`described` is its metadata."""
    of_container = {
        "type": "Container",
        "min": amounts(bounds.minimum),
        "max": amounts(bounds.maximum),
        "defaultRequest": amounts(bounds.default_requests),
        "default": amounts(bounds.default_limits),
    }
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": described, "spec": {"limits": [of_container]}}
