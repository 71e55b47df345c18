"""Where this program may keep what it can make or fetch again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/paperclip-gitops`, else `~/.cache/paperclip-gitops`. Nothing is created.

    The XDG rules say that a relative XDG_CACHE_HOME is to be ignored.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    home = named if named.is_absolute() else Path.home() / ".cache"
    return home / "paperclip-gitops"
