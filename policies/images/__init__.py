"""Images: which bytes will really run, where they come from, and who may fetch them."""

from policies.images import origins, pins, pulls

__all__ = ["origins", "pins", "pulls"]
