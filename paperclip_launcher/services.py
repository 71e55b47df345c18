"""What a run needs of the launcher around it: the API, the watched objects, the journal, the time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kubekit.identity import Manifest
from paperclip_launcher.clock import Clock
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.journal import Journal
from paperclip_launcher.masking import Mask
from paperclip_launcher.metrics import Metrics
from paperclip_launcher.neighbours import Alive
from paperclip_launcher.settings import Settings


class Sink(Protocol):
    """The reader of one run."""

    @property
    def offset(self) -> int | None:
        """How many bytes of its log it has already, None where it does not know."""
        ...

    async def log(self, data: bytes, offset: int) -> None:
        """Whole lines; `offset` is that of their end. The reader has them when this returns."""
        ...

    async def note(self, kind: str, text: str) -> None:
        """What the launcher says of the run: kind is progress, warning, keepalive or file."""
        ...


class View(Protocol):
    """The watched objects of the namespace. They may be some moments old."""

    def job(self, name: str) -> Manifest | None: ...

    def pod(self, job: Manifest) -> Manifest | None:
        """The pod of the Job that counts: the newest."""
        ...

    def warnings(self, job: Manifest, pod: Manifest | None) -> list[Manifest]:
        """Events of type Warning about the two."""
        ...

    def jobs_of(self, agent_id: str) -> list[Manifest]: ...

    def stray_pod(self, agent_id: str, *, but: str = "") -> Manifest | None:
        """A pod that runs the agent, or may yet do so, though its Job is gone; `but` names a Job whose pod is none."""
        ...

    def lease(self, identity: str) -> Manifest | None:
        """Of the launcher with this identity."""
        ...

    def alive(self, job: Manifest) -> Alive:
        """Whether a launcher, this one included, looks after the Job."""
        ...


@dataclass(frozen=True)
class Services:
    """Of one launcher, shared by its runs. `agents` are those whose run has begun here: agent id to Job name; `adopted`
    are Jobs of other runs that a run took over: Job name to the key of the run. `holds_lease`: whether its Lease was
    renewed in time, and after the given time of the loop, so that no other process has this identity.
    """

    cluster: Cluster
    settings: Settings
    clock: Clock
    rng: random.Random
    journal: Journal
    view: View
    agents: dict[str, str]
    adopted: dict[str, str]
    mask: Mask
    metrics: Metrics
    holds_lease: Callable[[float], bool]
