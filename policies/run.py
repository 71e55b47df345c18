"""Runs policies over a set of objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kubekit.resources import group_of
from policies.model import Fault, Finding, Policy, Scope
from policies.registry import all_policies
from policies.world import Entry, World


def run(world: World, policies: Sequence[Policy] | None = None) -> list[Finding]:
    """Every finding, in a fixed order; no waiver is applied here."""
    findings: list[Finding] = []
    for policy in all_policies() if policies is None else policies:
        if policy.check is None or not world.facts.reaches(policy.since):
            continue
        for entry in _entries(policy, world):
            findings += [_finding(policy, entry, fault) for fault in policy.check(entry, world)]
    return ordered(findings)


def about(entry: Entry, world: World, policies: Sequence[Policy]) -> list[Finding]:
    """What `policies` find in one object of the world, in a fixed order."""
    group = group_of(entry.id.kind)
    known = group is None or group == entry.id.group
    return ordered(
        _finding(policy, entry, fault)
        for policy in policies
        if policy.check is not None and (not policy.kinds or (known and entry.id.kind in policy.kinds))
        if world.facts.reaches(policy.since)
        for fault in policy.check(entry, world)
    )


def object_policies() -> tuple[Policy, ...]:
    """Those that need nothing but the object: what a Job is judged by before it is created."""
    return tuple(policy for policy in all_policies() if policy.scope is Scope.OBJECT)


def _entries(policy: Policy, world: World) -> Iterator[Entry]:
    if not policy.kinds:
        yield from world.entries
    for kind in sorted(policy.kinds):
        yield from world.by_kind.get(kind, ())


def _finding(policy: Policy, entry: Entry, fault: Fault) -> Finding:
    return Finding(
        policy.id,
        fault.severity or policy.severity,
        entry.id,
        fault.pointer,
        fault.message,
        fault.remedy or policy.remedy,
        entry.source,
        container=entry.container_at(fault.pointer),
    )


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """By object, then pointer, then policy."""
    return sorted(
        findings,
        key=lambda one: (one.object.identity if one.object else (), one.pointer, one.policy, one.message),
    )
