"""SHA256SUMS: which files of an environment synth wrote, in the form that `sha256sum -c` reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from charts_py.dist.errors import DistError

SUMS = "SHA256SUMS"
_HEX = 64
_SEPARATORS = ("  ", " *")  # text and binary mode of sha256sum
_CONFLICT_MARKERS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")


def digest(data: bytes) -> str:
    """The SHA-256 of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def render(digests: Mapping[str, str]) -> bytes:
    """The text of SHA256SUMS for path → digest, sorted by path."""
    return "".join(f"{digests[path]}  {path}\n" for path in sorted(digests)).encode()


def parse(text: bytes, source: str) -> dict[str, str]:
    """Path → digest of every line.

    Git's conflict markers are read over, so that the files of both sides count as ours: rendering again is
    how such a conflict is settled. A line that is neither raises DistError with its number.
    """
    digests: dict[str, str] = {}
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), start=1):
        if not line or line.startswith(_CONFLICT_MARKERS):
            continue
        sha, separator, path = line[:_HEX], line[_HEX : _HEX + 2], line[_HEX + 2 :]
        if separator not in _SEPARATORS or not path or sha.strip("0123456789abcdef"):
            raise DistError(
                f"{source}:{number}: not a line of sha256sum: {line[:80]!r}",
                f"restore the file: git checkout -- {source}",
            )
        digests[path] = sha
    return digests
