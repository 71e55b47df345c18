"""Services: they find pods and ports, and their load balancers get the address that they ask for."""

from __future__ import annotations

from policies.services import backends, balancers

__all__ = ["backends", "balancers"]
