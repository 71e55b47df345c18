"""The launcher in a container of its own beside the server: what both need of their pod."""

from __future__ import annotations

from policies.sidecar import lifetime, placing, rights, socket

__all__ = ["lifetime", "placing", "rights", "socket"]
