"""An event loop whose time is virtual: it jumps when nothing is ready. Every run of a seed is the same run.

Beyond asyncio it knows processes: what a `Process` runs, and all that this starts, stops at its `kill()` as if by
SIGKILL. Nothing of it runs on, no `finally` either, until the history is over; then its tasks are cancelled as ghosts,
so that Python can forget them in peace. A transport serves no ghost; what else a ghost touches must not matter.

A process can be frozen as well, as by SIGSTOP or by a machine that pauses: what would run waits until it thaws.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import sys
from asyncio import events
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

_CLEANING = 200_000
"""Callbacks that the cancelled rest of a history may take."""


class Deadlock(AssertionError):
    """Everybody waits and nothing will happen any more."""


class TooLong(AssertionError):
    """The history went beyond its limit of time or of callbacks."""


class Process:
    """A launcher that can be killed, or frozen for a while. `alive` is false once it was killed; `ghost` is true while
    its remains are cleared away; `held` is what waits in a frozen one, None where it is not frozen.
    """

    def __init__(self, name: str = "process") -> None:
        self.name = name
        self.alive = True
        self.ghost = False
        self.held: list[_Handle] | None = None

    def kill(self) -> None:
        """At once. The callback that is under way, if it is of this process, goes on to its next await."""
        self.alive = False

    def freeze(self) -> None:
        """At once, as `kill`, until the loop thaws it. What it has sent is on its way all the same."""
        if self.held is None:
            self.held = []

    @property
    def frozen(self) -> bool:
        return self.held is not None


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class _Handle:
    __slots__ = ("_when", "args", "callback", "context")

    def __init__(self, callback: Any, args: tuple[Any, ...], context: Any, when: float = 0.0) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self._when = when

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self._when


class VirtualLoop(asyncio.AbstractEventLoop):
    """Runs tasks, timers and futures; no sockets, no threads, no signals.

    `seed` and `shuffle`: with `shuffle` any ready callback may be the next one, chosen by the seed; without, they run
    in the order of asyncio. `steps` bounds the callbacks of one `run`, `problems` collects what nobody awaited.
    """

    def __init__(self, seed: int = 0, *, shuffle: bool = False, start: float = 0.0, steps: int = 5_000_000) -> None:
        self.random = Random(seed)
        self.shuffle = shuffle
        self.steps = steps
        self.done = 0
        self.problems: list[dict[str, Any]] = []
        self._now = start
        self._ready: list[_Handle] = []
        self._timers: list[tuple[float, int, _Handle]] = []
        self._number = 0
        self._graves: list[_Handle] = []
        self._processes: set[Process] = set()
        self._closed = False
        self._running = False

    # What asyncio calls.

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> _Handle:  # type: ignore[override]
        handle = _Handle(callback, args, contextvars.copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> _Handle:  # type: ignore[override]
        handle = _Handle(callback, args, contextvars.copy_context() if context is None else context, when)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, handle))
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> _Handle:  # type: ignore[override]
        # As call_at, which would cost every timer a call more.
        when = self._now + delay
        handle = _Handle(callback, args, contextvars.copy_context() if context is None else context, when)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        return task

    get_debug = staticmethod(bool)  # False; asked for each future, so it must be quick

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        self._graves.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.problems.append(context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        raise AssertionError(f"a thread for {func!r}: the launcher has none")

    async def shutdown_asyncgens(self) -> None: ...

    async def shutdown_default_executor(self) -> None: ...

    # What a test calls.

    def spawn(self, coro: Coroutine[Any, Any, Any], process: Process) -> asyncio.Task[Any]:
        """A task of the process; so is all that it starts."""
        self._processes.add(process)
        context = contextvars.copy_context()
        context.run(PROCESS.set, process)
        return self.create_task(coro, name=process.name, context=context)

    def thaw(self, process: Process) -> None:
        """All that has become due meanwhile runs now, in its order."""
        held, process.held = process.held or [], None
        self._ready.extend(held)

    def run(self, main: Coroutine[Any, Any, Any], *, limit: float = float("inf")) -> Any:
        """Its result. Whatever else still runs then is cancelled. `limit` in virtual seconds from now.

        Deadlock, TooLong, or what `main` raises.
        """
        if events._get_running_loop() is not None:
            raise RuntimeError("a loop inside a loop")
        hooks = sys.get_asyncgen_hooks()
        self._running = True
        events._set_running_loop(self)
        try:
            task = self.create_task(main, name="main")
            try:
                self._spin(task.done, self._now + limit, self.steps)
            finally:
                self._clear_away()
            return task.result()
        finally:
            events._set_running_loop(None)
            self._running = False
            sys.set_asyncgen_hooks(*hooks)

    def _spin(self, finished: Callable[[], bool], limit: float, steps: int) -> None:
        ready, timers = self._ready, self._timers
        random = self.random.random if self.shuffle else None
        process_of = PROCESS
        batch: list[_Handle] = []
        while not finished():
            if not ready:
                self._jump(limit)
            if timers and timers[0][0] <= self._now:
                self._ring()
            if random is None:
                batch, self._ready = ready, batch
                ready = self._ready
            elif ready:
                at = int(random() * len(ready))
                batch.append(ready[at])
                ready[at] = ready[-1]
                ready.pop()
            self.done += len(batch)
            steps -= len(batch)
            for handle in batch:
                callback = handle.callback
                if callback is None:
                    continue
                process = handle.context.get(process_of)
                if process is not None and not process.alive:
                    self._graves.append(handle)
                    continue
                if process is not None and process.held is not None:
                    process.held.append(handle)
                    continue
                try:
                    handle.context.run(callback, *handle.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 as asyncio does
                    self.call_exception_handler({"message": f"in {callback!r}", "exception": error})
            batch.clear()
            if steps < 0:
                raise TooLong(self._waiting(f"too many callbacks; now is {self._now:.3f} s"))

    def _jump(self, limit: float) -> None:
        """To the time of the next timer. Deadlock where there is none, TooLong where it is beyond the limit."""
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(self._waiting("everybody waits, and nothing will happen any more"))
        if timers[0][0] > limit:
            raise TooLong(self._waiting(f"not done at {limit:.3f} s"))
        self._now = max(timers[0][0], self._now)

    def _ring(self) -> None:
        """Makes the timers that are due ready."""
        timers, ready, now, pop = self._timers, self._ready, self._now, heapq.heappop
        while timers and timers[0][0] <= now:
            handle = pop(timers)[2]
            if handle.callback is not None:
                ready.append(handle)

    def _waiting(self, why: str) -> str:
        lines = [why]
        for task in sorted(asyncio.all_tasks(self), key=lambda one: one.get_name())[:40]:
            frames = task.get_stack(limit=1)
            where = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "not started"
            lines.append(f"  {task.get_name()}: {task.get_coro().__qualname__} at {where}")  # type: ignore[union-attr]
        return "\n".join(lines)

    def _clear_away(self) -> None:
        """Cancels all tasks and lets them end; ghosts too. What swallows its cancellation is a problem."""
        for process in self._processes:
            process.ghost = not process.alive
            process.alive = True
            self.thaw(process)
        self._processes.clear()
        self._ready.extend(self._graves)
        self._graves.clear()
        tasks = sorted((task for task in asyncio.all_tasks(self) if not task.done()), key=_age)
        for task in tasks:
            task.cancel()
        try:
            self._spin(lambda: all(task.done() for task in tasks), float("inf"), _CLEANING)
        except (Deadlock, TooLong) as error:
            self.problems.append({"message": "tasks that do not end when cancelled", "exception": error})
            for task in tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]


def _age(task: asyncio.Task[Any]) -> tuple[int, str]:
    """Oldest first by asyncio's own names, Task-1 and so on: the set of all tasks has another order every time."""
    return len(task.get_name()), task.get_name()


class LoopClock:
    """The time of day that goes with a loop: `epoch` at the loop's time 0, and `skew` seconds wrong."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, epoch: float = 1_790_000_000.0, skew: float = 0.0) -> None:
        self.loop = loop
        self.epoch = epoch
        self.skew = skew

    def now(self) -> float:
        return self.epoch + self.loop.time() + self.skew
