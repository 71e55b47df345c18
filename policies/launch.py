"""What the launcher asks before it creates a Job: would the policies, and the namespace, have it?

Needs no cluster and no config: the Job, what is known, and what was read of the namespace. Neither cdk8s nor pydantic
is imported by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from kubekit.identity import Manifest
from policies.facts import Facts
from policies.model import Finding, Policy
from policies.registry import by_id
from policies.run import about, object_policies
from policies.world import World

_OF_NAMESPACE = ("limitrange-admits", "quota-admits")


def judge_job(job: Manifest, facts: Facts, namespace_objects: Sequence[Manifest] = ()) -> list[Finding]:
    """Every finding about the Job, in a fixed order; one that `stops` means that it must not be created.

    `namespace_objects` are those of the Job's namespace that decide on admission: the Namespace itself for the level of
    pod security, LimitRanges, ResourceQuotas. Without them only the Job itself is judged. A quota is judged as though
    nothing ran yet: a run that has to wait for room is no finding, one that never fits is. No waiver is applied.
    """
    world = World([(job, None), *((one, None) for one in namespace_objects)], facts)
    return about(world.entries[0], world, _policies(bool(namespace_objects)))


@cache
def _policies(with_namespace: bool) -> tuple[Policy, ...]:  # noqa: FBT001  private, and a key of the cache
    """Those that judge one Job; the registry does not change once it is read."""
    known = by_id()
    return (*object_policies(), *((known[policy_id] for policy_id in _OF_NAMESPACE) if with_namespace else ()))
