"""How bad the network and the API server are: one vocabulary for both fronts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tests.fakeapi.model import Range
from tests.fakeapi.statuses import status_tree

_REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 408: "Timeout", 410: "Expired"}
_REASONS |= {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}


@dataclass(frozen=True, slots=True)
class Faults:
    """Chances are of one call, or of one stream. All faults end at the loop's time `until`: histories can end well."""

    latency: Range = (0.0005, 0.005)
    """Seconds, each way. On sockets the real ones count."""
    slow: float = 0.0
    """Chance of a call that takes up to `slow_seconds` more."""
    slow_seconds: float = 30.0
    not_sent: float = 0.0
    broken: float = 0.0
    """The connection is lost: without an effect, after it, or before one that comes some time later."""
    timed_out: float = 0.0
    """No answer in time: without an effect, with it, or before one that comes after the sender has given up."""
    refused: Mapping[int, float] | None = None
    """Chance by status: 401, 408, 429, 500, 502, 503, 504. They have no effect."""
    retry_after: tuple[int, ...] = (0, 1, 5)
    """Seconds that a 429 or 503 asks for, in its header or its body; 0 for nothing."""
    stream_refused: Mapping[int, float] | None = None
    """The same for the head of a stream; 400, 403, 404 and 410 may be had too."""
    cut: float = 0.0
    """Chance of a stream that ends after `cut_bytes` on average, anywhere: some of them cleanly."""
    stall: float = 0.0
    """Chance of a stream that falls silent after `cut_bytes` on average, still open."""
    cut_bytes: float = 600.0
    fragments: bool = False
    """Reads return pieces that are cut anywhere, in place of all there is."""
    lag: Range = (0.0, 0.0)
    """How late a stream tells what it has, so that watches contradict each other for a while. Not on sockets."""
    until: float = float("inf")


FINE = Faults()


def refusal(status: int, faults: Faults, random: Random) -> tuple[dict[str, str], bytes]:
    """Headers and body."""
    headers = {"content-type": "application/json"}
    if status == 502:
        return {"content-type": "text/html"}, b"<html>bad gateway</html>"
    tree = status_tree(status, _REASONS.get(status, ""), f"the fake API server says {status}")
    wait = random.choice(faults.retry_after) if status in (429, 503) else 0
    if wait and random.random() < 0.5:
        headers["retry-after"] = str(wait)
    elif wait:
        tree["details"] = {"retryAfterSeconds": wait}
    return headers, json.dumps(tree).encode()
