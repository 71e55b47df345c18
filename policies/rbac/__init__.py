"""Rights: an account may do what it needs and no more."""

from __future__ import annotations

from policies.rbac import bindings, launcher, roles

__all__ = ["bindings", "launcher", "roles"]
