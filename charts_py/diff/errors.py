"""What can go wrong when two states are compared."""

from __future__ import annotations

from charts_py.errors import UsageError


class DiffError(UsageError):
    """One of the two states cannot be read: a bad ref, a missing folder, broken YAML."""
