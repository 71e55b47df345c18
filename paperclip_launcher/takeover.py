"""A Job changes hands: from a launcher that is away to this one. Of several launchers one wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.identity import Manifest
from paperclip_launcher import marks
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.errors import Conflict, Invalid, NotFound
from paperclip_launcher.neighbours import Alive
from paperclip_launcher.ownership import lease_name
from paperclip_launcher.services import View

if TYPE_CHECKING:
    from paperclip_launcher.run import Run


async def take_over(run: Run, job: Manifest) -> Manifest:
    """The Job with this launcher as its owner. Invalid or Conflict where another was faster, or lives; NotFound."""
    services = run.services
    if not run.owns(job):
        await ask_for_owner(services.cluster, services.view, job, run.patience)
    owner = "/metadata/annotations/" + marks.OWNER.replace("/", "~1")
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": marks.uid(job)},
        {"op": "test", "path": owner, "value": marks.annotation(job, marks.OWNER)},
        {"op": "replace", "path": owner, "value": services.settings.identity},
    ]
    if run.run_id != marks.annotation(job, marks.RUN_ID):
        adopted = "/metadata/annotations/" + marks.ADOPTED_BY.replace("/", "~1")
        operations.append({"op": "add", "path": adopted, "value": run.run_id})
    try:
        return await services.cluster.patch("jobs", marks.name(job), operations, retry_seconds=run.patience)
    except (Invalid, Conflict):
        # Our own patch may have arrived with its answer lost.
        found = await services.cluster.get("jobs", marks.name(job), retry_seconds=run.patience)
        if marks.uid(found) == marks.uid(job) and run.owns(found) and run.run_id in marks.runs(found):
            return found
        raise


async def ask_for_owner(cluster: Cluster, view: View, job: Manifest, patience: float) -> None:
    """Is the launcher of the Job, another one, away? Asked live, since the watches of Jobs and Leases lag behind each
    other: Conflict where its Lease is not the very one that makes us take it for dead.
    """
    owner = marks.annotation(job, marks.OWNER)
    # Looked at before the question: the answer may take so long that the watch has caught up meanwhile.
    dead, known = view.alive(job) is Alive.NO, view.lease(owner)
    if not dead:
        raise Conflict(409, "Conflict", f"its launcher {owner} may live")
    try:
        live = await cluster.get("leases", lease_name(owner), retry_seconds=patience)
    except NotFound:
        return
    if live["spec"].get("holderIdentity") == owner and (known is None or marks.version(live) != marks.version(known)):
        raise Conflict(409, "Conflict", f"its launcher {owner} lives")
