"""Where the log of a run has been delivered to, exactly enough to go on there in another process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LogPosition:
    """`offset` counts the bytes delivered, without time stamps. `since` is the whole second, as RFC 3339 in UTC, from
    which the log is asked for again, "" from its beginning. `seen` are the hashes of the lines from then on that were
    delivered, as often as they were; of a log that writes very much only those from `floor` on, in nanoseconds since
    1970: all lines before that were delivered.
    """

    offset: int = 0
    since: str = ""
    seen: Sequence[int] = ()
    floor: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"offset": self.offset, "since": self.since, "seen": list(self.seen), "floor": self.floor}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> LogPosition:
        """KeyError, TypeError or ValueError where it is none."""
        seen = tuple(int(one) for one in tree["seen"])
        return cls(int(tree["offset"]), str(tree["since"]), seen, int(tree.get("floor", 0)))
