"""What a test tells the cluster: how fast it is, what it refuses, and what the program of a run does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Range = tuple[float, float]
"""Seconds, from and to; drawn evenly."""


@dataclass(frozen=True, slots=True)
class Program:
    """The agent's container. `lines` are (seconds after the one before, text without line feed).

    `end`: exit | oom | evicted | preempted | hang | node-lost.
    `start`: run | unschedulable | image-error | image-invalid | image-never | start-error | attach-error; all but
    `run`, `start-error` and the hard image errors mend after `start_trouble` seconds.
    """

    lines: Sequence[tuple[float, bytes]] = ()
    exit_code: int = 0
    end: str = "exit"
    end_delay: float = 0.0
    start: str = "run"
    start_trouble: float = float("inf")
    term_delay: float = 0.05
    term_lines: Sequence[bytes] = ()
    term_code: int = 143
    ignore_term: bool = False
    disorder: float = 0.0
    """Stamps lie up to so many seconds too early, as those of two streams of one container do."""
    on_start: Callable[[Mapping[str, Any]], None] | None = None
    """Called with the pod at the moment its container starts."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an admission step answers."""

    status: int
    reason: str
    message: str


@dataclass(slots=True)
class Knobs:
    """May be changed while the cluster runs."""

    control: Range = (0.002, 0.05)
    """How late a controller looks at a change."""
    schedule: Range = (0.002, 0.05)
    start: Range = (0.02, 0.5)
    """From mounted volumes to a running container, with the pull of the image."""
    kubelet: Range = (0.005, 0.05)
    follow_end: Range = (0.0, 0.5)
    """How late the follower of a log notices that its container has ended."""
    collect: Range = (0.05, 0.5)
    """How late the garbage collector looks."""
    bookmark_seconds: float = 60.0
    history: int = 100_000
    """Changes that a watch may start from; older ones are compacted."""
    log_stream_seconds: float = 4 * 3600.0
    """The kubelet ends a followed log then, in an orderly way."""
    log_error_text: bool = True
    """A log whose pod is deleted while it is followed may end with an error of the runtime in its body."""
    node_grace: float = 40.0
    node_eviction: float = 300.0
    deleted_node_pods_vanish: float = float("inf")
    """When a pod on a lost node is removed by force, in seconds after its deletion."""
    present_secrets: frozenset[str] = frozenset()
    """Deemed to be there, with every key."""
    denied: frozenset[tuple[str, str]] = frozenset()
    """(verb, resource) that the launcher's Role does not hold though it should."""
    admit: Callable[[str, Mapping[str, Any]], Refusal | None] | None = None
    """Asked for each object that is made, the controller's pods included: resource, manifest."""
    normal_events: bool = False
    equal_stamps: float = 0.2
    """How many of the lines of a burst have the stamp of the line before."""


def simple(lines: int = 20, seconds: float = 1.0, exit_code: int = 0) -> Program:
    """Prints numbered lines over some time and ends."""
    step = seconds / max(lines, 1)
    return Program(tuple((step, b'{"type":"system","n":%d}' % number) for number in range(lines)), exit_code)
