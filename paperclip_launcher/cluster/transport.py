"""The seam below all calls: one HTTP exchange, or one stream. The network and the simulation both stand behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class TransportError(Exception):
    """No whole answer came. The text names the address and the cause, never a header or a body."""


class NotSent(TransportError):
    """No connection: the request has certainly had no effect."""


class Broken(TransportError):
    """The connection was lost: the request may have had its effect."""


class TimedOut(TransportError):
    """No answer within the request's time: the request may have had its effect."""


class Stalled(TransportError):
    """A stream has been silent for longer than its idle time."""


@dataclass(frozen=True, slots=True)
class Request:
    """`timeout` in seconds: for the whole answer, or for the head of a stream. The body never shows in a repr."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = field(default=None, repr=False)
    content_type: str = ""
    timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class Response:
    """`headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class Stream(Protocol):
    """An answer whose body comes in pieces, cut anywhere."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """What came since the last read; b"" at an orderly end. Broken, or Stalled after the idle time."""
        ...

    async def close(self) -> None:
        """Ends the connection at once; never raises, and may be called twice."""
        ...


class Transport(Protocol):
    """To one API server, as one user."""

    async def send(self, request: Request) -> Response:
        """Any status is an answer; only TransportError is raised."""
        ...

    async def open(self, request: Request, *, idle: float) -> Stream:
        """The head of the answer has come when this returns, whatever its status. `idle` in seconds."""
        ...

    async def close(self) -> None: ...
