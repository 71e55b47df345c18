"""What agents may take, all together and each container."""

from __future__ import annotations

from collections.abc import Iterator

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
        hard = {
            "pods": str(agents.quota.pods),
            "count/jobs.batch": str(agents.quota.jobs),
            **amounts(agents.quota.requests, "requests."),
            **amounts(agents.quota.limits, "limits."),
        }
        yield {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata(environment, "ResourceQuota", "paperclip-agents", agents.namespace, "agents"),
            "spec": {"hard": hard},
        }
        bounds = agents.container_limits
        yield {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": metadata(environment, "LimitRange", "paperclip-agents", agents.namespace, "agents"),
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "min": amounts(bounds.minimum),
                        "max": amounts(bounds.maximum),
                        "defaultRequest": amounts(bounds.default_requests),
                        "default": amounts(bounds.default_limits),
                    },
                ],
            },
        }
