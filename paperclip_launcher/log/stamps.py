"""The time stamps that the kubelet puts before every line of a log, when it is asked with timestamps=true.

It prints nine digits and the offset of the node's own zone (RFC3339NanoFixed in pkg/kubelet/types). Fewer digits are
read as well: other kubelets print those. Times are nanoseconds since 1970.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

BILLION = 1_000_000_000
_STAMP = re.compile(
    rb"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})(?: |\Z)"
)


class Stamp(NamedTuple):
    """When, and how many bytes it takes, the space after it included."""

    at: int
    width: int


def stamp_of(line: bytes, begin: int = 0) -> Stamp | None:
    """None where no stamp stands at `begin`, as before what the kubelet says of itself."""
    found = _STAMP.match(line, begin)
    if found is None:
        return None
    seconds = _seconds(found[1] + found[3])
    if seconds is None:
        return None
    return Stamp(seconds * BILLION + int((found[2] or b"0").ljust(9, b"0")), found.end() - begin)


@lru_cache(maxsize=64)
def _alike(digits: int, zone: bytes) -> re.Pattern[bytes]:
    fraction = rb"\.[0-9]{%d}" % digits if digits else rb""
    return re.compile(rb"\n[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}" + fraction + re.escape(zone) + rb" ")


def strip_alike(block: bytes, lines: list[bytes]) -> tuple[bytes, int, int] | None:
    """Whole lines without their stamps, with the earliest and the latest; None unless all stamps are of one form.

    The fast way through: one pass of a regular expression, five times the speed of a loop. Stamps of one form sort as
    their bytes do.
    """
    first = _STAMP.match(block)
    if first is None:
        return None
    text, count = _alike(len(first[2] or b""), first[3]).subn(b"\n", b"\n" + block)
    if count != len(lines):
        return None
    earliest, latest = stamp_of(min(lines)), stamp_of(max(lines))
    if earliest is None or latest is None:
        return None
    return text[1:], earliest.at, latest.at


@lru_cache(maxsize=1024)
def _seconds(moment: bytes) -> int | None:
    try:
        return int(datetime.fromisoformat(moment.decode()).timestamp())
    except (ValueError, OverflowError):
        return None
