"""The tail of a file on the shared claim, for agents that write more of themselves there than to their output.

The claim is the agents' own: the path is walked from its root without following a link, and only a regular file is
read.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paperclip_launcher.log.lines import LONGEST_LINE, LineSplitter, blocks

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, to open a FIFO would wait for its writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class TailSettings:
    """Times in seconds, sizes in bytes."""

    poll: float = 0.25
    poll_longest: float = 1.0
    settle: float = 1.0
    """After the agent's end the file must rest for so long: a network file system shows the last lines late."""
    drain: float = 5.0
    batch: int = 256 << 10
    line: int = LONGEST_LINE


class FileTail:
    """Delivers whole lines, each with the offset in the file after it; `offset` is where it begins.

    `path` is relative to `root`: ValueError where it could lead elsewhere. A file that gets shorter, or gives way to
    another of its name, is read from its beginning, and `note` says so.
    """

    def __init__(
        self,
        root: Path,
        path: str,
        deliver: Callable[[bytes, int], Awaitable[None]],
        *,
        offset: int = 0,
        note: Callable[[str], None],
        settings: TailSettings = TailSettings(),
    ) -> None:
        self._steps = path.split("/")
        if "\0" in path or any(step in ("", ".", "..") for step in self._steps):
            raise ValueError(f"{path!r} is no plain relative path")
        self._root = root
        self._deliver = deliver
        self._note = note
        self._settings = settings
        self._file = -1
        self._at = offset
        self._lines = LineSplitter(settings.line)
        self._said = ""
        self._ended = asyncio.Event()

    def finish(self) -> None:
        """The agent has ended: read what is left, and stop."""
        self._ended.set()

    async def run(self) -> int:
        """Ends after `finish`, with the offset that was delivered to. What `deliver` raises comes through."""
        pause = self._settings.poll
        try:
            while not self._ended.is_set():
                new = await self._read()
                pause = self._settings.poll if new else min(2 * pause, self._settings.poll_longest)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._ended.wait()
            await self._settle()
            if rest := self._lines.rest():
                await self._deliver(rest, self._at)
            return self._at
        finally:
            self._close()

    async def _settle(self) -> None:
        loop, settings = asyncio.get_running_loop(), self._settings
        changed_at = loop.time()
        until = changed_at + settings.drain
        while True:
            if await self._read():
                changed_at = loop.time()
            if loop.time() >= min(until, changed_at + settings.settle):
                return
            await asyncio.sleep(settings.poll)

    async def _read(self) -> bool:
        """Whether anything new was there."""
        found = self._open()
        try:
            if self._file >= 0:
                new = await self._read_open()
                if found < 0 or _same(found, self._file):
                    return new
                await self._begin_again("there is another file of its name")
            if found < 0:
                return False
            self._file, found = found, -1
            return await self._read_open()
        finally:
            if found >= 0:
                os.close(found)

    async def _read_open(self) -> bool:
        begin = self._at
        if os.fstat(self._file).st_size < self._at:
            await self._begin_again("it was made shorter", reopen=False)
            begin = -1
        while chunk := os.pread(self._file, self._settings.batch, self._at):
            self._at += len(chunk)
            whole = self._lines.feed(chunk)
            left = len(whole)
            for block in blocks(whole, self._settings.batch):
                left -= len(block)
                await self._deliver(block, self._at - self._lines.held - left)
            await asyncio.sleep(0)  # a file is always ready: others want to run as well
        return self._at != begin

    async def _begin_again(self, why: str, *, reopen: bool = True) -> None:
        self._say(f"the file is read from its beginning: {why}")
        if rest := self._lines.rest():
            await self._deliver(rest, self._at)
        self._lines = LineSplitter(self._settings.line)
        self._at = 0
        if reopen:
            self._close()

    def _open(self) -> int:
        """-1 while there is no such file, or none that may be read."""
        folder = -1
        try:
            folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for step in self._steps[:-1]:
                inner = os.open(step, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            file = os.open(self._steps[-1], _FILE, dir_fd=folder)
        except FileNotFoundError:
            return -1
        except OSError as error:
            self._say(f"the file cannot be read: {error.strerror}")
            return -1
        finally:
            if folder >= 0:
                os.close(folder)
        if stat.S_ISREG(os.fstat(file).st_mode):
            return file
        os.close(file)
        self._say("the file cannot be read: it is no regular file")
        return -1

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._note(text)


def _same(one: int, other: int) -> bool:
    first, second = os.fstat(one), os.fstat(other)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
