"""The log of one run, from its pod to its reader, to its parser and to the journal: the three always agree."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from paperclip_launcher import running
from paperclip_launcher.log.follow import LogEnd, LogFollower
from paperclip_launcher.log.position import LogPosition
from paperclip_launcher.masking import Mask
from paperclip_launcher.services import Sink

if TYPE_CHECKING:
    from paperclip_launcher.run import Run

_LOG = logging.getLogger(__name__)
_TAIL = 64 << 10  # bytes of the log's end that are kept for diagnoses


class RunLog:
    """`parser` has been fed with all that was read, up to `position`. What the reader does decides nothing here."""

    def __init__(self, run: Run, sink: Sink) -> None:
        self.parser = run.dialect.parser()
        self.position = LogPosition()
        self.complete = True
        self.heard_at = asyncio.get_running_loop().time()
        self._run = run
        self._sink = sink
        self._reader_has = sink.offset
        self._reader_failed = False
        self._tail = bytearray()
        self._checkpoint: asyncio.TimerHandle | None = None
        self._follower: LogFollower | None = None
        self._task: asyncio.Task[LogEnd] | None = None
        # Of its own: one for all runs would search the log of each for the secrets of all.
        self._mask = Mask(run.secrets)

    @property
    def tail(self) -> str:
        """The end of the log."""
        return self._tail.decode(errors="replace")

    @property
    def followed(self) -> bool:
        """Whether it was begun to be read in this life."""
        return self._task is not None

    @property
    def is_behind(self) -> bool:
        """Whether the reader of a run that has ended knows that it has less of the log than was read."""
        return self._reader_has is not None and self._reader_has < self._run.record.position.offset

    def follow(self) -> None:
        """Begins to follow it, from where it was read to."""
        if self._task is not None:
            return
        position = self._run.record.position
        if self._sink.offset is not None and self._sink.offset < position.offset:
            position = LogPosition()  # the reader has less than we know: all of it again, less what it has
        if position.offset:
            self.parser.restore(self._run.record.parser)
        self.position = position
        self._follower = running.follower(self._run, position)
        self._task = asyncio.create_task(self._follower.run())

    def stop(self) -> None:
        """Reads no further."""
        if self._checkpoint is not None:
            self._checkpoint.cancel()
            self._checkpoint = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def finish(self) -> None:
        """The container has ended: reads the rest, for a bounded time. `complete` says whether that was all."""
        while self._task is not None and self._follower is not None:
            task = self._task
            self._follower.finish()
            await asyncio.wait({task})
            if task is not self._task:
                continue  # another reader came meanwhile, and it is read anew
            if task.cancelled() or task.exception() is not None:
                _LOG.error("following the log of %s failed", self._run.record.job_name, exc_info=_cause(task))
                self.complete = False
            else:
                end = task.result()
                self.complete = end.complete and not self._reader_failed
                self._run.services.metrics.log_reconnects += end.reconnects
            break

    def replace(self, sink: Sink, *, again: bool) -> None:
        """Another reader, which gets all that it does not have. `again`: it is still being read, so it goes on at once.

        Lines may be on their way to the last reader, who does not take them any more.
        """
        self._sink = sink
        self._reader_has = sink.offset
        self._reader_failed = False
        if not again:
            self.stop()
        elif self._task is not None and not self._task.done():
            self.checkpoint()
            self.stop()
            self.parser = self._run.dialect.parser()
            self._tail.clear()
            self.follow()

    async def catch_up(self) -> None:
        """A reader that has less of the log than was read gets the rest, while its pod is there to be asked."""
        while self.is_behind:
            sink = self._sink
            self.stop()
            if self._run.look_for_pod() is not None:
                self.follow()
            if self._task is not None and self._follower is not None:
                self._follower.finish()
                await asyncio.wait({self._task})
            if self.is_behind and sink is self._sink:
                missing, had = self._run.record.position.offset, self._reader_has
                self._reader_has = None
                await self.note("warning", f"the log cannot be read again: bytes {had} to {missing} are missing here")

    async def note(self, kind: str, text: str) -> None:
        """Tells the reader, if it still hears."""
        try:
            await self._sink.note(kind, self._run.services.mask.text(text))
        except Exception:  # noqa: BLE001  a reader decides nothing about its run
            _LOG.exception("the reader of run %s does not take a note", self._run.run_id)

    async def deliver(self, data: bytes, position: LogPosition) -> None:
        """Lines of the log, in order, each once."""
        self.heard_at = asyncio.get_running_loop().time()
        begin = position.offset - len(data)
        known = self._sink.offset or 0
        fresh = data[max(0, known - begin) :] if known > begin else data
        if fresh and not self._reader_failed:
            await self._hand_over(fresh, position.offset)
        # All at once: a reader that is replaced, or a checkpoint, must find them at the same place.
        self.parser.feed(data)
        self._tail += data[-_TAIL:]
        del self._tail[:-_TAIL]
        self.position = position
        if self._reader_has is not None:
            self._reader_has = max(self._reader_has, position.offset)
        if self._checkpoint is None:
            loop = asyncio.get_running_loop()
            due = self._run.kept_at + self._run.services.settings.journal_seconds
            self._checkpoint = loop.call_at(max(due, loop.time()), self.checkpoint)

    async def _hand_over(self, data: bytes, offset: int) -> None:
        try:
            await self._sink.log(self._mask.whole(data), offset)
        except Exception:  # noqa: BLE001  as above; the result is still made of the whole log
            _LOG.exception("the reader of run %s does not take its log; it gets no more of it", self._run.run_id)
            self._reader_failed, self._reader_has = True, None
        else:
            self._run.services.metrics.logged(len(data), data.count(b"\n"))

    def checkpoint(self) -> None:
        """The journal as of the last line that was delivered."""
        if self._checkpoint is not None:
            self._checkpoint.cancel()
            self._checkpoint = None
        record = self._run.record
        if self._follower is not None and record.result is None:
            record.position = self.position
            record.parser = self._mask.tree(self.parser.snapshot())
        self._run.keep()


def _cause(task: asyncio.Task[LogEnd]) -> BaseException | None:
    return None if task.cancelled() else task.exception()
