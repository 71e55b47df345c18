"""All policies by id. A family registers its policies when its module is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from policies.model import Check, Policy, Severity

_POLICIES: dict[str, Policy] = {}


def policy(
    policy_id: str,
    *,
    title: str,
    rationale: str,
    remedy: str,
    severity: Severity = Severity.ERROR,
    kinds: Iterable[str] = (),
    waivable: bool = True,
) -> Callable[[Check], Check]:
    """Makes a policy of the decorated function."""

    def register(check: Check) -> Check:
        if policy_id in _POLICIES:
            raise ValueError(f"two policies are called {policy_id}")
        _POLICIES[policy_id] = Policy(policy_id, title, severity, frozenset(kinds), rationale, remedy, waivable, check)
        return check

    return register


def all_policies() -> tuple[Policy, ...]:
    """Every policy, by id."""
    from policies import images, metadata, probes, services, storage  # noqa: F401, PLC0415  they register themselves

    return tuple(_POLICIES[policy_id] for policy_id in sorted(_POLICIES))
