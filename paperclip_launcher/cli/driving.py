"""Drives one run to its end for a person or a script, or lets go of it: Ctrl-C detaches and never stops an agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from paperclip_launcher.cli.place import Place
from paperclip_launcher.cli.printing import Printer
from paperclip_launcher.cli.readers import LogFile, Screen, Silence
from paperclip_launcher.cli.usage import DETACHED, UNKNOWN
from paperclip_launcher.errors import LauncherError
from paperclip_launcher.journal import FolderJournal
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.lifecycle import Phase
from paperclip_launcher.metrics import Metrics
from paperclip_launcher.outcome import RunResult
from paperclip_launcher.run import Run
from paperclip_launcher.settings import Settings

Begin = Callable[[Launcher], Awaitable[Run]]
_HALF_MADE = frozenset({Phase.ADMITTED, Phase.CREATED, Phase.LOCKED})
"""A run that is left in one of these can only be gone on with by the same request."""
_MADE_SECONDS = 5.0
_CLEARED_SECONDS = 60.0


class Failed(LauncherError):
    """The run could not be driven on, and its Job is kept."""

    exit_code = UNKNOWN
    remedy = "`paperclip-launcher describe` says how it stands; the same request, or attach, goes on with it"


@dataclass
class Drive:
    """One run under one launcher; `keep` stores its result before the Job goes."""

    place: Place
    printer: Printer
    settings: Settings
    journal: FolderJournal
    sink: Screen | LogFile | Silence
    keep: Callable[[RunResult], None]
    run: Run | None = field(default=None, init=False)

    async def to_end(self, begin: Begin) -> int:
        """The exit code: that of the result, or DETACHED. LauncherError."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop, stop)
        work = asyncio.create_task(self._driven(begin))
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(self.printer.gone.wait())]
        try:
            await asyncio.wait([work, *ends], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            await self._make_whole(work)
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                return await work
            if self.sink.failure is not None:
                raise Failed(f"the log cannot be written: {self.sink.failure.strerror}; the run goes on")
            self._say_detached()
            return DETACHED
        finally:
            for one in ends:
                one.cancel()
            self.sink.close()

    async def _driven(self, begin: Begin) -> int:
        metrics = Metrics()
        async with self.place.cluster(metrics, patient=True) as cluster:
            launcher = Launcher(
                cluster,
                self.settings,
                self.place.templates,
                journal=self.journal,
                metrics=metrics,
                mask=self.printer.mask,
            )
            async with launcher:
                self.run = await begin(launcher)
                try:
                    result = await self.run.result
                except LauncherError as error:
                    raise Failed(str(error)) from error
                self.sink.finish()
                self.keep(result)
                self.run.acknowledge()
                if isinstance(self.sink, LogFile):
                    self.sink.forget()
                await self._cleared(launcher, self.run)
        return result.exit

    async def _cleared(self, launcher: Launcher, run: Run) -> None:
        """The Job is being deleted; what is left of it is no reason to wait long."""
        try:
            async with asyncio.timeout(_CLEARED_SECONDS):
                while run.own_key in launcher.runs:  # noqa: ASYNC110  it lasts some moments, and there is no event
                    await asyncio.sleep(0.01)
        except TimeoutError:
            self.printer.note("the Job could not be deleted yet: `paperclip-launcher gc` does it", "warning")

    async def _make_whole(self, work: asyncio.Task[int]) -> None:
        """A Job without its Secrets cannot start: they are made first."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _MADE_SECONDS
        while self._half_made() and loop.time() < end and not work.done():  # noqa: ASYNC110  as above
            await asyncio.sleep(0.02)

    def _half_made(self) -> bool:
        return self.run is not None and self.run.phase in _HALF_MADE

    def _say_detached(self) -> None:
        run = self.run
        if self.printer.gone.is_set():
            return
        if run is None or not run.has_job:
            self.printer.note("detached: nothing has been started")
            return
        self.printer.note(f"detached: the run goes on as Job {run.record.job_name}")
        self.printer.note(f"  go on:  paperclip-launcher attach {run.record.run_id}")
        self.printer.note(f"  end it: paperclip-launcher cancel {run.record.run_id}")


def _stop(stop: asyncio.Event) -> None:
    """The first signal detaches in good order, the second one at once."""
    if stop.is_set():
        os._exit(DETACHED)
    stop.set()


def write_whole(path: Path, text: str) -> None:
    """The file is the old one or the new one, whatever happens."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with fresh.open("w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
