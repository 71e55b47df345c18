"""Runs policies over a set of objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from policies.model import Finding, Policy
from policies.registry import all_policies
from policies.world import World


def run(world: World, policies: Sequence[Policy] | None = None) -> list[Finding]:
    """Every finding, in a fixed order; no waiver is applied here."""
    findings: list[Finding] = []
    for policy in all_policies() if policies is None else policies:
        entries = (
            [entry for kind in sorted(policy.kinds) for entry in world.by_kind.get(kind, ())]
            if policy.kinds
            else world.entries
        )
        for entry in entries:
            for pointer, message in policy.check(entry, world):
                findings.append(
                    Finding(policy.id, policy.severity, entry.id, pointer, message, policy.remedy, entry.source)
                )
    return ordered(findings)


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """By object, then pointer, then policy."""
    return sorted(
        findings,
        key=lambda one: (one.object.identity if one.object else (), one.pointer, one.policy, one.message),
    )
