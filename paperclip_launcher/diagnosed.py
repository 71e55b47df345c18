"""What is said of a run that does not start, or ended badly: for people, and stable for programs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`code` is one of codes.CODES. A `hard` one ends the run now; any other is given time, since it may mend itself.

    `summary` is one short sentence, `detail` what the cluster said in its own words (cut, masked), `remedy` what to do.
    """

    code: str
    hard: bool
    summary: str
    detail: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        return " ".join(
            part for part in (f"{self.summary}:" if self.detail else f"{self.summary}.", self.detail) if part
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """How a container and its Job ended, as far as the cluster says. None and "" where it does not."""

    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    """Of the container: OOMKilled, Error, Completed; or of the pod: Evicted, NodeLost."""
    message: str = ""
    started: bool = False
    """Whether the agent's container ever ran."""
    job_condition: str = ""
    """Type(Reason) of the Job's terminal condition, such as Failed(DeadlineExceeded)."""
    diagnosis: Diagnosis | None = None
    """Where the end has a cause of its own: out of memory, evicted, node lost, never started."""
    gone: bool = False
    """Job or pod vanished before an end was seen."""
