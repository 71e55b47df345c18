"""Clears away what runs left behind: what was reported but not released, what never got all it needs, old records.

It deletes nothing that a living launcher owns, and nothing whose result nobody has read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from kubekit.identity import Manifest
from paperclip_launcher import marks, podstate
from paperclip_launcher.cluster.errors import Conflict, Invalid, NotFound
from paperclip_launcher.errors import LauncherError
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.neighbours import Alive
from paperclip_launcher.takeover import ask_for_owner

_LOG = logging.getLogger(__name__)
_STUCK = 900.0
"""Seconds after which a Job without a living launcher, whose container never started, has been given up."""
_DEAD_LEASE = 86_400.0
_OLD_RECORD = 7 * 86_400.0

_REPORTED = "its result was reported"

Kind = Literal["job", "lease", "record"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """What would go, and why. `name` is that of the object, or the key of a record."""

    kind: Kind
    name: str
    reason: str


def leftovers(launcher: Launcher) -> list[Leftover]:
    """As the watches show it now; nothing is changed."""
    found = [Leftover("job", marks.name(job), reason) for job in _jobs(launcher) if (reason := _reason(launcher, job))]
    now = launcher.clock.now()
    for lease in launcher.view.leases.store.values():
        component = (lease["metadata"].get("labels") or {}).get("app.kubernetes.io/component")
        renewed = _seconds(str((lease.get("spec") or {}).get("renewTime") or ""))
        if component == marks.LAUNCHER and renewed is not None and now - renewed > _DEAD_LEASE:
            found.append(Leftover("lease", marks.name(lease), "its launcher has not renewed it for a day"))
    for record in launcher.journal.records():
        gone = launcher.view.job(record.job_name) is None and record.key not in launcher.runs
        if gone and now - record.made_at > _OLD_RECORD:
            found.append(Leftover("record", record.key, "its run was begun a week ago, and its Job is gone"))
    return found


async def sweep(launcher: Launcher, *, begun: bool = True) -> list[Leftover]:
    """Clears them away; what cannot be cleared is logged and left for the next time. Without `begun` only Jobs that
    were reported: at the start of a launcher, who wants the others has not come back yet.
    """
    done: list[Leftover] = []
    for one in leftovers(launcher):
        if not begun and one.reason != _REPORTED:
            continue
        try:
            await _clear(launcher, one)
        except (NotFound, Conflict, Invalid):
            continue  # it went, or somebody else took it meanwhile
        except LauncherError as error:
            _LOG.warning("%s %s is left: %s", one.kind, one.name, error)
            continue
        done.append(one)
    return done


def _jobs(launcher: Launcher) -> Iterable[Manifest]:
    return [job for job in launcher.view.jobs.store.values() if not marks.deleting(job)]


def _reason(launcher: Launcher, job: Manifest) -> str:
    """Why the Job may go; "" where it may not."""
    record = launcher.journal.read(marks.name(job))
    if launcher.view.alive(job) is not Alive.NO or marks.annotation(job, marks.HARVESTED):
        return ""
    # In our journal, but perhaps under the name of an earlier process: each run by hand has a name of its own.
    if record is not None and record.job_uid == marks.uid(job) and record.acknowledged:
        return _REPORTED
    created = _seconds(str(job["metadata"].get("creationTimestamp") or "")) or launcher.clock.now()
    pod = launcher.view.pod(job)
    stuck = launcher.clock.now() - created > _STUCK and not podstate.terminal(job)
    if stuck and pod is not None and not podstate.started(pod) and not podstate.terminated(pod):
        return "its launcher died before the run had all it needs"
    return ""


async def _clear(launcher: Launcher, one: Leftover) -> None:
    if one.kind == "record":
        launcher.journal.remove(one.name)
        return
    resource = "jobs" if one.kind == "job" else "leases"
    live = await launcher.cluster.get(resource, one.name)
    if one.kind == "job" and not _reason(launcher, live):
        raise NotFound(404, "NotFound", "it is looked after again")
    if one.kind == "job" and marks.annotation(live, marks.OWNER) != launcher.settings.identity:
        await ask_for_owner(launcher.cluster, launcher.view, live, launcher.settings.api_seconds)
    await launcher.cluster.delete(
        resource, one.name, uid=marks.uid(live), resource_version=marks.version(live), propagation="Background"
    )


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
