"""The log of one container as the kubelet serves it, and those who follow it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from random import Random

from tests.fakeapi.store import Source, rfc3339


class ContainerLog:
    """Stamped lines. The stamps of a container's two streams may be out of order."""

    __slots__ = (
        "_last",
        "_prefix",
        "_second",
        "data",
        "disordered",
        "ended",
        "followers",
        "offsets",
        "peaks",
        "random",
        "seconds",
    )

    def __init__(self, random: Random) -> None:
        self.random = random
        self.data = bytearray()
        self.seconds = array("q")
        self.peaks = array("q")
        """For each line, the latest second up to it: in order also where the stamps are not."""
        self.offsets = array("q")
        self.disordered = False
        self.ended = False
        self.followers: dict[LogSource, None] = {}
        self._second = -1
        self._prefix = b""
        self._last = 0

    def write(self, texts: Iterable[bytes], stamp: int, *, equal: float = 0.0, disorder: float = 0.0) -> None:
        """`stamp` in nanoseconds since 1970. `equal`: how many get the stamp of the line before; `disorder` in seconds:
        how much too early some are."""
        random = self.random.random
        data, last = self.data, max(self._last, stamp)
        peak = self.peaks[-1] if self.peaks else 0
        for text in texts:
            if random() >= equal:
                last += 1 + int(random() * 2000)
            shown = last
            if disorder and random() < 0.3:
                shown -= int(random() * disorder * 1e9)
            second, nanos = divmod(shown, 1_000_000_000)
            if second != self._second:
                if second < self._second:
                    self.disordered = True
                self._second = second
                self._prefix = rfc3339(second)[:-1].encode()
            peak = max(peak, second)
            self.seconds.append(second)
            self.peaks.append(peak)
            self.offsets.append(len(data))
            data += b"%b.%09dZ %b\n" % (self._prefix, nanos, text)
        self._last = last
        for follower in tuple(self.followers):
            follower.notify()

    def end(self) -> None:
        self.ended = True
        for follower in tuple(self.followers):
            follower.finish()

    def error(self, text: bytes) -> None:
        """Ends those who follow with a text that is no line of the log."""
        for follower in tuple(self.followers):
            follower.tail = text
            follower.finish()

    def lines(self) -> list[bytes]:
        """The texts without their stamps: what a launcher must deliver."""
        return [line.partition(b" ")[2] for line in bytes(self.data).split(b"\n")[:-1]]


class LogSource(Source):
    """One request for a log. `since` in whole seconds since 1970: what is stamped before is left out."""

    __slots__ = ("_line", "_log", "_position", "_since", "tail")

    def __init__(self, log: ContainerLog, *, since: int = 0, follow: bool = False) -> None:
        super().__init__()
        self._log = log
        self._since = since
        self._position = 0
        self._line = 0
        self.tail = b""
        if follow and not log.ended:
            log.followers[self] = None
        else:
            self.ended = True

    def waiting(self) -> bool:
        """The kubelet sends no head before the first line."""
        return not self.ended and self._position >= len(self._log.data)

    def take(self) -> bytes:
        log = self._log
        if self._line < len(log.offsets) and self._since:
            data = self._chosen()
        else:
            data = bytes(memoryview(log.data)[self._position :]) if self._position < len(log.data) else b""
        self._position = len(log.data)
        self._line = len(log.offsets)
        if self.ended and self.tail:
            data, self.tail = data + self.tail, b""
        return data

    def _chosen(self) -> bytes:
        """The kubelet looks at each line, and does not stop at the first that is late enough."""
        log, since = self._log, self._since
        start = bisect_left(log.peaks, since, self._line)
        if not log.disordered:
            return bytes(memoryview(log.data)[log.offsets[start] :]) if start < len(log.offsets) else b""
        ends = [*log.offsets[start + 1 :], len(log.data)]
        wanted = zip(log.offsets[start:], ends, log.seconds[start:], strict=True)
        return b"".join(bytes(memoryview(log.data)[at:end]) for at, end, second in wanted if second >= since)

    def finish(self) -> None:
        self.ended = True
        self._log.followers.pop(self, None)
        self.notify()

    def detach(self) -> None:
        self._log.followers.pop(self, None)
