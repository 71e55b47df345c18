"""The proof that nothing was started of a run whose Job never got a pod: a quota or an admission step refused it, or
its queue held the Job back. There is no pod whose status would tell, and one may have come and gone unseen. The order:

1. The Job is read live, at version V: nobody deletes it, and its controller has counted no pod.
2. The Secrets of the run are deleted. A pod that comes from here on stays without them, and its container is not made.
3. The pods of the Job are listed live: there are none.
4. The Job is deleted under the condition that it still is at V.

Up to 3 there was no pod at all. The controller gives each pod a finalizer, which holds it until it is counted into the
Job's status; that would have been a version after V, and 4 shows that there was none. It lets a pod go uncounted in two
cases: the Job is being deleted, which it was not before 4; or it is suspended, which `made_no_pod` looks after. So a
pod would have been in the list. One that comes later, since the controller has not seen the deletion yet, finds no
Secrets: a kubelet asks for those of a pod that is new to it. Nothing helps against who removes finalizers by hand.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kubekit import podspec
from kubekit.identity import Manifest
from paperclip_launcher import marks
from paperclip_launcher.cluster.errors import NotFound
from paperclip_launcher.errors import LauncherError
from paperclip_launcher.running import live_pod

if TYPE_CHECKING:
    from paperclip_launcher.run import Run

_LOG = logging.getLogger(__name__)
_COUNTED = ("active", "ready", "terminating", "succeeded", "failed")
_CONTROLLER = "kubernetes.io/job-controller"


def made_no_pod(job: Manifest) -> bool:
    """Whether no pod of the Job was ever counted, and none let go uncounted, as those of a Job that is suspended after
    it has run: each change of its spec counts its generation up.
    """
    status, spec, meta = job.get("status") or {}, job["spec"], job["metadata"]
    if marks.deleting(job) or spec.get("managedBy", _CONTROLLER) != _CONTROLLER:
        return False
    if any(status.get(key) for key in _COUNTED) or any((status.get("uncountedTerminatedPods") or {}).values()):
        return False
    # Made suspended, or let go once and not suspended again.
    return 1 <= int(meta.get("generation") or 0) <= (1 if spec.get("suspend") else 2)


async def disarm(run: Run, job: Manifest) -> bool:
    """Steps 2 and 3, where 1 holds of `job`: whether its deletion will prove that nothing was started. There is nothing
    to prove where the Secrets were never made.
    """
    secrets = podspec.run_secrets(job) if run.record.armed else ()
    if not secrets or run.look_at_pod() is not None or not made_no_pod(job):
        return False
    try:
        await asyncio.gather(*(_remove(run, name) for name in secrets))
        return await live_pod(run) is None
    except LauncherError as error:
        _LOG.info("whether run %s was started cannot be proven: %s", run.run_id, error)
        return False


async def _remove(run: Run, secret: str) -> None:
    try:
        await run.services.cluster.delete("secrets", secret, uid="", retry_seconds=run.services.settings.stop_seconds)
    except NotFound:
        return
