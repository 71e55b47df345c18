"""Workloads: what restarts, deadlocks or starves a pod."""

from policies.workloads import (
    accounts,
    availability,
    environment,
    exclusive,
    resources,
    secrets,
    server,
)

__all__ = ["accounts", "availability", "environment", "exclusive", "resources", "secrets", "server"]
