"""TLS over bytes in memory.

asyncio's own holds a buffer of 256 KiB for each connection, and a launcher has thousands.
"""

from __future__ import annotations

import ssl

_RECORD = 16 << 10


class Session:
    """The client's side of one connection. ssl.SSLError, a certificate that is not trusted among them, ends it."""

    __slots__ = ("_incoming", "_outgoing", "_tls", "ended", "ready")

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        """`name` is what the certificate must be made out to."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self.ready = False
        """Whether the handshake is done."""
        self.ended = False
        """Whether the server has said that no more comes: an end without that may be a cut."""

    def receive(self, data: bytes) -> list[bytes]:
        """Plain text out of what came; b"" to begin with. What is to be sent then stands in `outgoing`."""
        self._incoming.write(data)
        plain: list[bytes] = []
        try:
            if not self.ready:
                self._tls.do_handshake()
                self.ready = True
            while self._incoming.pending or self._tls.pending():
                piece = self._tls.read(_RECORD)
                if not piece:
                    self.ended = True
                    break
                plain.append(piece)
        except ssl.SSLWantReadError:
            pass
        return plain

    def send(self, plain: bytes) -> bytes:
        """What goes over the wire for it."""
        self._tls.write(plain)
        return self.outgoing()

    def outgoing(self) -> bytes:
        return self._outgoing.read()
