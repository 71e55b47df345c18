"""Going on with a log exactly where it stopped, though the server can only be asked for whole seconds.

It is asked for again from two seconds before the last line, and what was delivered already is taken out as often as it
was: by a hash of stamp and text. Only the node's own stamps count, so no clock of ours matters.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import overload
from zlib import adler32, crc32

from paperclip_launcher.clock import rfc3339
from paperclip_launcher.log.position import LogPosition
from paperclip_launcher.log.stamps import BILLION, stamp_of, strip_alike

Note = Callable[[str], None]

_OVERLAP = 2
"""Seconds. Lines of standard output and standard error may come in another order than that of their stamps."""
_MANY = 4096
"""Hashes that are kept at least. A log that writes more in two seconds is remembered for a shorter while,"""
_JITTER = BILLION // 10
"""but never for less than these nanoseconds."""
_PART = 8192
"""Runtimes write a long line to the file in parts of 16 KiB, some of 8."""
_PART_AGE = 60 * BILLION
_LONGEST_QUOTE = 256
# What the kubelet and the runtime write into a log when they cannot go on; any other text may be the agent's.
_OF_KUBELET = (b"rpc error:", b"unable to retrieve container logs", b"failed to ", b"Internal error occurred")


class Hashes(Sequence[int]):
    """Of the lines delivered up to one moment. Made with every batch at no cost; only who stores it reads it."""

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[tuple[array[int], int], ...]) -> None:
        self._parts = parts  # each with its length at that moment: arrays only ever grow

    def __len__(self) -> int:
        return sum(length for _, length in self._parts)

    def __iter__(self) -> Iterator[int]:
        for hashes, length in self._parts:
            yield from hashes[:length]

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def hashes_of(lines: list[bytes]) -> array[int]:
    """64 bits a line, the same in every process. No defence against lines made to collide: an agent that did so would
    only harm its own log.
    """
    return array("Q", [high << 32 | low for high, low in zip(map(crc32, lines), map(adler32, lines), strict=True)])


class Window:
    """The lines delivered last, as far as the server may send them again. `note` is told what is odd."""

    def __init__(self, position: LogPosition, note: Note) -> None:
        self.offset = position.offset
        self.since = position.since
        self.note = note
        self.gap = False
        """Whether lines may be missing: those delivered last were not there any more."""
        begin = stamp_of(position.since.encode())
        self._second = begin.at // BILLION if begin else -1
        self.floor = max(position.floor, self._second * BILLION)
        self._buckets: deque[tuple[int, array[int]]] = deque()
        self._count = 0
        if position.seen:
            self._append(self.horizon, array("Q", position.seen))

    @property
    def horizon(self) -> int:
        """Every line delivered has an earlier stamp."""
        return (self._second + _OVERLAP + 1) * BILLION

    def position(self) -> LogPosition:
        seen = Hashes(tuple((hashes, len(hashes)) for _, hashes in self._buckets))
        return LogPosition(self.offset, self.since, seen, self.floor)

    def seen(self) -> Counter[int]:
        counts: Counter[int] = Counter()
        for _, hashes in self._buckets:
            counts.update(hashes)
        return counts

    def add(self, hashes: array[int], earliest: int, latest: int, size: int) -> None:
        """Lines that are delivered now, with their stamps, and the bytes of their texts."""
        self.offset += size
        if earliest < self.floor:
            # By seconds, so no matter of two outputs. What was written in that time would be asked for twice or never.
            self.note("the node's clock was set back; should the connection break now, lines may come twice")
            self._buckets.clear()
            self._count, self._second, self.floor = 0, -1, 0
            newest = earliest
        else:
            newest = latest
        self._append(latest, hashes)
        second = newest // BILLION - _OVERLAP
        if second > self._second:
            self._second, self.since = second, rfc3339(second)
            self.floor = max(self.floor, second * BILLION)
        buckets = self._buckets
        while buckets[0][0] < self.floor:
            self._count -= len(buckets.popleft()[1])
        while self._count - len(buckets[0][1]) >= _MANY and buckets[0][0] < latest - _JITTER:
            end, old = buckets.popleft()
            self._count -= len(old)
            self.floor = max(self.floor, end + 1)

    def _append(self, latest: int, hashes: array[int]) -> None:
        self._count += len(hashes)
        if self._buckets:
            end, last = self._buckets[-1]
            if len(last) < _MANY // 4 and end // BILLION == latest // BILLION:
                last.extend(hashes)
                self._buckets[-1] = (max(end, latest), last)
                return
        self._buckets.append((latest, hashes))


class Reading:
    """One answer of the log endpoint, asked for from the window's `since` on. Fed with whole stamped lines."""

    def __init__(self, window: Window) -> None:
        self.fresh = 0
        """Lines that were new."""
        self._window = window
        self._known = window.seen()
        self._missing = bool(self._known)
        self._floor = window.floor
        self._horizon = window.horizon
        self._first = True

    def take(self, block: bytes) -> bytes:
        """The texts of the lines that were not delivered yet; the window counts them as delivered from now on.

        `block` ends with a line feed, but for the very last line of a log that has none.
        """
        lines = block.split(b"\n")
        ended = not lines[-1]
        if ended:
            lines.pop()
        stripped = None
        if ended and max(map(len, lines)) < _PART:
            stripped = strip_alike(block, lines)
        if stripped is None:
            return self._take_slowly(lines, ended=ended)
        text, earliest, latest = stripped
        if self._known and latest >= min(self._floor, self._horizon):
            return self._take_slowly(lines, ended=True)
        self._first = False
        if self._known:
            # All of them were delivered. At its end a log is read again, from two seconds before: that may be much.
            self._missing = False
            return b""
        self._keep(lines, earliest, latest, len(text))
        return text

    def end(self, rest: bytes) -> bytes:
        """What stands after the last line feed, if it is the begin of a line of the log."""
        if stamp_of(rest):
            return rest
        if not rest[:1].isdigit():  # else a stamp that was cut
            self._put_aside(rest)
        return b""

    def _take_slowly(self, lines: list[bytes], *, ended: bool) -> bytes:
        fresh, texts, stamps = [], [], []
        for line in lines:
            stamp = stamp_of(line)
            if stamp is None:
                self._put_aside(line)
            elif not self._delivered(line, stamp.at):
                fresh.append(line)
                stamps.append(stamp.at)
                text = line[stamp.width :]
                texts.append(text if len(text) <= _PART else _joined(text, stamp.at))
            self._first = False
        if not fresh:
            return b""
        if ended:
            texts.append(b"")
        whole = b"\n".join(texts)
        self._keep(fresh, min(stamps), max(stamps), len(whole))
        return whole

    def _keep(self, lines: list[bytes], earliest: int, latest: int, size: int) -> None:
        if self._missing:
            self._missing = False
            self._window.gap = True
            self._window.note("the lines delivered last are not there any more; some after them may be missing")
        self.fresh += len(lines)
        self._window.add(hashes_of(lines), earliest, latest, size)

    def _delivered(self, line: bytes, at: int) -> bool:
        if not self._known:
            return False
        if at >= self._horizon:
            self._known.clear()
            return False
        if at < self._floor:
            self._missing = False
            return True
        code = crc32(line) << 32 | adler32(line)  # as hashes_of makes it, at a tenth of its cost for one
        count = self._known.get(code, 0)
        if not count:
            return False
        self._missing = False
        if count > 1:
            self._known[code] = count - 1
        else:
            del self._known[code]
        return True

    def _put_aside(self, line: bytes) -> None:
        """What has no stamp is no line of the log."""
        if not line:
            return
        if line.startswith(_OF_KUBELET):
            quote = line[:_LONGEST_QUOTE].decode(errors="replace")
            self._window.note(f"instead of a line came: {quote}")
        elif not (self._first and self._known):
            # It may quote the agent, so its text is not shown.
            self._window.note(f"{len(line)} bytes without a time stamp are no line of the log")
        # Else it is the end of a long line that began before the time that was asked for.


def _joined(text: bytes, at: int) -> bytes:
    """Kubelets before 1.27 write a stamp before every part of a long line (kubernetes#77603). These are taken out only
    if they stand before every part, and are of the minute after the first: the agent itself may print stamps.
    """
    for size in (2 * _PART, _PART):
        parts, begin = [text[:size]], size
        while begin < len(text):
            stamp = stamp_of(text, begin)
            if stamp is None or not at <= stamp.at < at + _PART_AGE:
                break
            begin += stamp.width
            parts.append(text[begin : begin + size])
            begin += size
        else:
            return b"".join(parts)
    return text
