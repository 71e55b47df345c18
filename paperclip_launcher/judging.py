"""The policies over the Job of a run, before it is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from kubekit.identity import Manifest
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.errors import ApiError, Forbidden
from paperclip_launcher.errors import PolicyRefused, Unreachable
from paperclip_launcher.manifest import Plan
from paperclip_launcher.templates import Template, Templates
from policies.facts import Facts
from policies.launch import judge_job

_LOG = logging.getLogger(__name__)
_RULES_SECONDS = 600.0
_RULES = ("resourcequotas", "limitranges")


def of_template(template: Template, facts: Facts, rules: Sequence[Manifest] = ()) -> frozenset[tuple[str, str]]:
    """Policy and message of each finding that a template has by itself, whatever a run adds to it."""
    bare = template.job.fill(template.job.values("smallest"))
    return frozenset((one.policy, one.message) for one in judge_job(bare, facts, rules))


class Judge:
    """`cluster` is asked for the LimitRanges and ResourceQuotas of the namespace every ten minutes."""

    def __init__(self, templates: Templates, cluster: Cluster | None = None) -> None:
        self._templates = templates
        self._cluster = cluster
        self._rules: tuple[Manifest, ...] = ()
        self._rules_at = float("-inf")
        self._waived: dict[str, frozenset[tuple[str, str]]] = {}

    async def judge(self, plan: Plan) -> None:
        """PolicyRefused with every finding that stops the Job.

        What the template has by itself was judged, and waived where need be, when it was rendered.
        """
        rules = await self._namespace_rules()
        known = self._waived.get(plan.template.name)
        if known is None:
            known = self._waived[plan.template.name] = of_template(plan.template, self._templates.facts, rules)
        stopping = [one for one in judge_job(plan.job, self._templates.facts, rules) if one.stops]
        problems = [f"{one.policy}: {one.message}" for one in stopping if (one.policy, one.message) not in known]
        if problems:
            raise PolicyRefused(problems, "change the config of the agent; paperclip-gitops explain POLICY says why")

    async def _namespace_rules(self) -> tuple[Manifest, ...]:
        """Without the right to read them, or an answer, the API server alone decides."""
        now = asyncio.get_running_loop().time()
        if self._cluster is None or now - self._rules_at < _RULES_SECONDS:
            return self._rules
        self._rules_at = now
        found: list[Manifest] = []
        for resource in _RULES:
            try:
                items, _ = await self._cluster.list(resource, retry_seconds=10)
            except Forbidden as error:
                _LOG.info("%s are not judged: %s", resource, error)
            except (ApiError, Unreachable) as error:
                _LOG.warning("%s are not judged: %s", resource, error)
                self._rules_at = float("-inf")
            else:
                found += items
        self._rules = tuple(found)
        return self._rules
