"""Time as the launcher sees it. Waits go through asyncio, whose loop may be a virtual one; this is the time of day."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970."""
        ...


class SystemClock:
    def now(self) -> float:
        return time.time()


def rfc3339(seconds: float, *, micro: bool = False) -> str:
    """2026-11-21T06:00:00Z, or with microseconds as a Lease wants its times."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds" if micro else "seconds")
    return text.replace("+00:00", "Z")
