"""Events on a run's Job, for those who look with kubectl. They never decide anything: a failure is only logged."""

from __future__ import annotations

import logging

from kubekit.identity import Manifest
from paperclip_launcher import marks
from paperclip_launcher.clock import rfc3339
from paperclip_launcher.errors import LauncherError
from paperclip_launcher.services import Services

_LOG = logging.getLogger(__name__)
_LONGEST = 1000  # characters; the API server refuses more than 1,024


async def announce(services: Services, job: Manifest, reason: str, text: str, *, warning: bool = False) -> None:
    """One Event about the Job."""
    now = rfc3339(services.clock.now())
    suffix = f"{services.rng.getrandbits(64):016x}"
    manifest = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{marks.name(job)}.{suffix}", "namespace": services.settings.namespace},
        "involvedObject": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": marks.name(job),
            "namespace": services.settings.namespace,
            "uid": marks.uid(job),
        },
        "reason": reason,
        "message": services.mask.text(text.strip())[:_LONGEST],
        "type": "Warning" if warning else "Normal",
        "source": {"component": marks.MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        await services.cluster.create("events", manifest, retry_seconds=5)
    except LauncherError as error:
        _LOG.debug("no Event about %s: %s", marks.name(job), error)
