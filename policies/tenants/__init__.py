"""Tenants of upstream's Kubernetes plugin: what it adopts is whole, apart, and bounded by what stands there."""

from __future__ import annotations

from policies.tenants import bounds, flows

__all__ = ["bounds", "flows"]
