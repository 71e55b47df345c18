"""One answer of HTTP/1.1, read from bytes that are cut anywhere. Pure: no socket, no time."""

from __future__ import annotations

import re
from collections.abc import Mapping

from paperclip_launcher.cluster.transport import Broken

_LONGEST_HEAD = 64 << 10
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?\r\n")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*?)[ \t]*\r\n")
# More digits than any chunk has; extensions are legal and mean nothing to us.
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]{0,1000})?\r\n")
_LONGEST_CHUNK_LINE = 1100
_LENGTH = re.compile(r"[0-9]{1,18}")

_UNTIL_CLOSE = -1


class Answer:
    """`status` is 0 until the whole head has come. Broken where the bytes are no answer."""

    __slots__ = ("_chunked", "_left", "_rest", "_trailer", "complete", "headers", "keep_alive", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.complete = False
        self.keep_alive = False
        """Whether the connection may serve another exchange, once this one is complete."""
        self._chunked = False
        # Bytes to come: of the body, or of the present chunk with its line feed (0 before a chunk's head).
        self._left = 0
        self._rest = b""
        self._trailer = False

    def feed(self, data: bytes) -> list[bytes]:
        """The pieces of the body in these bytes."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        if self.complete:
            self.keep_alive = self.keep_alive and not data
            return []
        start = 0
        while not self.status:
            end = data.find(b"\r\n\r\n", start)
            if end < 0:
                self._keep(data[start:], _LONGEST_HEAD, "a head without an end")
                return []
            self._read_head(data[start : end + 4])
            start = end + 4
        if start:
            data = data[start:]
        if self._chunked:
            return self._chunks(data)
        return self._plain(data)

    def end(self) -> bool:
        """The connection ended in order. Whether that is an end of the answer too."""
        if self.status and self._left == _UNTIL_CLOSE:
            self.complete = True
        return self.complete

    def _read_head(self, head: bytes) -> None:
        status = _STATUS.match(head)
        if status is None:
            raise Broken("the answer is not HTTP/1.1")
        headers: dict[str, str] = {}
        at = status.end()
        while at < len(head) - 2:
            field = _FIELD.match(head, at)
            if field is None:
                raise Broken("the head of the answer has a line that is no field")
            name, value = field[1].decode().lower(), field[2].decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
            at = field.end()
        code = int(status[2])
        if 100 <= code < 200:  # an interim answer; the real one follows
            if code == 101:
                raise Broken("the server switched to another protocol")
            return
        self.status, self.headers = code, headers
        self.keep_alive = status[1] == b"1" and "close" not in headers.get("connection", "").lower()
        self._measure()

    def _measure(self) -> None:
        """How the end of the body shows."""
        coding, length = self.headers.get("transfer-encoding", ""), self.headers.get("content-length", "")
        if self.status in (204, 304):
            self.complete = True
        elif coding:
            if coding.lower() != "chunked":
                raise Broken(f"an answer coded as {coding[:40]!r}")
            self._chunked = True
        elif length:
            if not _LENGTH.fullmatch(length):
                raise Broken(f"an answer of {length[:40]!r} bytes")
            self._left = int(length)
            self.complete = not self._left
        else:
            self._left = _UNTIL_CLOSE
            self.keep_alive = False

    def _plain(self, data: bytes) -> list[bytes]:
        if self._left == _UNTIL_CLOSE:
            return [data] if data else []
        if len(data) > self._left:
            data, self.keep_alive = data[: self._left], False
        self._left -= len(data)
        self.complete = not self._left
        return [data] if data else []

    def _chunks(self, data: bytes) -> list[bytes]:
        """The way of every byte of every log: one loop over positions."""
        pieces: list[bytes] = []
        left, at, size = self._left, 0, len(data)
        while at < size and not self._trailer:
            if left > 2:
                end = at + left - 2
                pieces.append(data[at:end])
                if end >= size:
                    left -= size - at
                    at = size
                    break
                at, left = end, 2
            if left:
                came = data[at : at + left]
                if came != b"\r\n"[2 - left : 2 - left + len(came)]:
                    raise Broken("a chunk is longer than it said")
                left -= len(came)
                at += len(came)
                if left or at == size:
                    break
            head = _CHUNK.match(data, at)
            if head is None:
                if data.find(b"\n", at, at + _LONGEST_CHUNK_LINE) >= 0:
                    raise Broken("a chunk without a size")
                self._keep(data[at:], _LONGEST_CHUNK_LINE, "a chunk without a size")
                at = size
                break
            at = head.end()
            length = int(head[1], 16)
            left = length + 2 if length else 0
            self._trailer = not length
        self._left = left
        if self._trailer:
            self._read_trailer(data[at:])
        return pieces

    def _read_trailer(self, data: bytes) -> None:
        """Fields after the last chunk, which nobody uses, and the empty line."""
        while not self.complete:
            line, found, data = data.partition(b"\r\n")
            if not found:
                self._keep(line, _LONGEST_HEAD, "a trailer without an end")
                return
            self.complete = not line
        if data:
            self.keep_alive = False

    def _keep(self, rest: bytes, longest: int, what: str) -> None:
        if len(rest) > longest:
            raise Broken(f"the answer has {what}")
        self._rest = rest
