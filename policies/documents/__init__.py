"""Documents: files that are read as they were meant, and a set that can be synced."""

from policies.documents import declared, elsewhere, served, waves

__all__ = ["declared", "elsewhere", "served", "waves"]
