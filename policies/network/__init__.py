"""Who may talk to whom: what policies of a set allow together, and what must hold of it."""

from __future__ import annotations

from policies.network import agents, egress, isolation

__all__ = ["agents", "egress", "isolation"]
