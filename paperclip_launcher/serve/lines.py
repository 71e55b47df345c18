"""Lines out of a stream of bytes, bounded: one that is too long is skipped, not kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

LONGEST = 16 << 20
"""Bytes of one line that comes in."""
_CHUNK = 256 << 10


class Source(Protocol):
    """asyncio.StreamReader, or what a test puts in its place."""

    async def read(self, n: int, /) -> bytes: ...


async def read_lines(source: Source, longest: int = LONGEST) -> AsyncIterator[bytes | None]:
    """Each line without its line feed, None for one that was too long, until the end; half a line at the end is none.

    Empty lines are passed over. What the source raises goes on to the caller.
    """
    parts: list[bytes] = []
    size, skipping = 0, False
    while chunk := await source.read(_CHUNK):
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            if skipping or size + len(piece) > longest:
                yield None
            elif line := b"".join((*parts, piece)).strip():
                yield line
            parts, size, skipping = [], 0, False
        size += len(rest)
        if size > longest:
            parts, skipping = [], True
        elif rest:
            parts.append(rest)
