"""Bytes that were cut anywhere, as whole lines again; in bounded memory, whatever comes."""

from __future__ import annotations

from collections.abc import Iterator

LONGEST_LINE = 64 << 20


class LineSplitter:
    """Of one stream. A line of more than `longest` bytes loses its end, and says so."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._held: list[bytes] = []
        self._size = 0
        self._cut = 0

    def feed(self, chunk: bytes) -> bytes:
        """The lines that are whole by now, b"" for none."""
        if len(chunk) <= self._longest:
            return self._feed(chunk)
        steps = range(0, len(chunk), self._longest)
        return b"".join([self._feed(chunk[at : at + self._longest]) for at in steps])

    @property
    def held(self) -> int:
        """How many bytes came since the last line feed."""
        return self._size + self._cut

    def rest(self) -> bytes:
        """The line that has no end yet, b"" for none."""
        return self._with(b"")

    def _feed(self, chunk: bytes) -> bytes:
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._hold(chunk)
            return b""
        if not self._held:
            whole = chunk[:end]
        else:
            first = chunk.index(b"\n")
            self._hold(chunk[:first])
            whole = self._with(chunk[first:end])
            self._held, self._size, self._cut = [], 0, 0
        self._hold(chunk[end:])
        return whole

    def _with(self, more: bytes) -> bytes:
        marker = b" [... %d bytes cut by paperclip]" % self._cut if self._cut else b""
        return b"".join((*self._held, marker, more))

    def _hold(self, part: bytes) -> None:
        room = self._longest - self._size
        if len(part) > room:
            self._cut += len(part) - room
            part = part[:room]
        if part:
            self._held.append(part)
            self._size += len(part)


def blocks(lines: bytes, size: int) -> Iterator[bytes]:
    """Whole lines in pieces of whole lines, each as large as `size` allows; a longer line is a piece of its own."""
    begin, end = 0, len(lines)
    while end - begin > size:
        cut = lines.rfind(b"\n", begin, begin + size) + 1 or lines.index(b"\n", begin + size) + 1
        yield lines[begin:cut] if cut - begin < end else lines
        begin = cut
    if begin < end:
        yield lines[begin:] if begin else lines
