"""A file that the agent writes in its workspace, shown to the run's reader beside the log.

It is no part of the log: its lines are notes of the kind "file", so that offsets in the log stay what the container
wrote. Only a launcher that has the agents' claim mounted can read it.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from paperclip_launcher.log.tail import FileTail
from paperclip_launcher.manifest import workspace_of

if TYPE_CHECKING:
    from paperclip_launcher.run import Run

_LOG = logging.getLogger(__name__)


class FileNotes:
    """`path` is that of the file below the agent's workspace on `claim`; the run's record says how far it was told."""

    def __init__(self, run: Run, claim: Path, path: str) -> None:
        self._run = run
        self._claim = claim
        self._path = f"{workspace_of(run.agent_id)}/{path}"
        self._tail: FileTail | None = None
        self._task: asyncio.Task[int] | None = None

    def begin(self) -> None:
        """From where it was read to. To begin twice is to begin once."""
        if self._task is not None:
            return
        offset = self._run.record.file_offset
        self._tail = FileTail(self._claim, self._path, self._deliver, offset=offset, note=self._say)
        self._task = asyncio.create_task(self._tail.run())

    async def finish(self) -> None:
        """The agent has ended: what is left is told, within a few seconds."""
        if self._tail is None or self._task is None:
            return
        self._tail.finish()
        await asyncio.wait({self._task})
        if not self._task.cancelled() and self._task.exception() is not None:
            _LOG.error("reading %s failed", self._path, exc_info=self._task.exception())

    def stop(self) -> None:
        """Nobody reads any more."""
        if self._task is not None:
            self._task.cancel()

    async def _deliver(self, lines: bytes, offset: int) -> None:
        await self._run.note("file", lines.decode(errors="replace").removesuffix("\n"))
        self._run.record.file_offset = offset

    def _say(self, text: str) -> None:
        _LOG.warning("%s of Job %s: %s", self._path, self._run.record.job_name, text)
