"""Many short waits of one task with a time limit each, and one timer for them all.

asyncio.timeout costs more than a line of a log does, and leaves a timer behind for every one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from math import inf
from typing import TypeVar

_T = TypeVar("_T")


class TooLate(Exception):
    """A wait has lasted as long as it may."""


class Patience:
    """Of one task and one wait at a time. The timer is set anew only when it is due, or when a wait ends before it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._until = inf
        self._late = False

    async def wait(self, what: Awaitable[_T], until: float) -> _T:
        """TooLate at the loop's time `until`; `what` is cancelled then. A cancellation from outside comes through."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("no task to wait in")
        self._task = task
        before = task.cancelling()
        self._set(until)
        try:
            return await what
        except asyncio.CancelledError:
            if self._late and task.cancelling() == before + 1:
                raise TooLate from None
            raise
        finally:
            self._until = inf
            if self._late:
                self._late = False
                task.uncancel()

    def shorten(self, until: float) -> None:
        """The wait that is under way, if one is."""
        if self._task is not None and not self._late and until < self._until:
            self._set(until)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at, self._task = None, inf, None

    def _set(self, until: float) -> None:
        self._until = until
        if until < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(until, self._fire)
            self._timer_at = until

    def _fire(self) -> None:
        self._timer, self._timer_at = None, inf
        if self._until == inf:
            return
        if asyncio.get_running_loop().time() < self._until:
            self._set(self._until)
        elif self._task is not None:
            self._until = inf
            self._late = True
            self._task.cancel()
