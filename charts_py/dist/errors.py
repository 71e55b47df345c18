"""What can go wrong with the rendered state. Kept apart so that the skip check loads nothing else."""

from __future__ import annotations

from charts_py.errors import GitopsError


class DistError(GitopsError):
    """The rendered state cannot be read or written as asked; nothing was changed."""


class RemovalRefused(DistError):
    """The publish would take objects away and nobody said that it may."""


class DistBusy(DistError):
    """Another process is publishing to the same folder."""
