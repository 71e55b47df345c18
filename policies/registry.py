"""All policies by id. A family registers its policies when its module is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from policies.model import Check, Policy, Scope, Severity

if TYPE_CHECKING:
    from policies.cel import Cel
    from policies.facts import Facts

_POLICIES: dict[str, Policy] = {}
FAMILIES = (
    "names",
    "workloads",
    "probes",
    "sidecar",
    "images",
    "podsecurity",
    "storage",
    "references",
    "rbac",
    "network",
    "tenants",
    "services",
    "jobs",
    "admission",
    "documents",
)


def policy(  # noqa: PLR0913  each is a field of Policy
    policy_id: str,
    *,
    title: str,
    rationale: str,
    remedy: str,
    severity: Severity = Severity.ERROR,
    scope: Scope = Scope.OBJECT,
    kinds: Iterable[str] = (),
    links: Iterable[str] = (),
    waivable: bool = True,
    since: str = "",
    cel: Cel | Callable[[Facts], Cel | None] | None = None,
) -> Callable[[Check], Check]:
    """Makes a policy of the decorated function."""

    def register(check: Check) -> Check:
        family = check.__module__.split(".")[1]
        add(
            Policy(
                policy_id,
                title,
                severity,
                scope,
                family,
                frozenset(kinds),
                rationale,
                remedy,
                tuple(links),
                waivable,
                since,
                check,
                cel,
            )
        )
        return check

    return register


def add(one: Policy) -> None:
    """For policies without a function: those that a check of documents finds."""
    if one.id in _POLICIES:
        raise ValueError(f"two policies are called {one.id}")
    _POLICIES[one.id] = one


def all_policies() -> tuple[Policy, ...]:
    """Every policy, by id."""
    known = by_id()
    return tuple(known[policy_id] for policy_id in sorted(known))


def by_id() -> Mapping[str, Policy]:
    """Every policy under its id."""
    for family in FAMILIES:
        importlib.import_module(f"policies.{family}")
    return _POLICIES
