"""References: what a pod names must be there, with the key that it asks for."""

from __future__ import annotations

from policies.references import external_secrets, optional, plain, resolves, unread

__all__ = ["external_secrets", "optional", "plain", "resolves", "unread"]
