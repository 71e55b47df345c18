"""The annotations and labels by which launchers know runs and each other; Job templates set most of them."""

from __future__ import annotations

from typing import Any

from kubekit.identity import Manifest
from kubekit.labels import COMPONENT, MANAGED_BY, PART_OF, PART_OF_PAPERCLIP
from kubekit.names import label_value

MANAGER = "paperclip-launcher"
RUN_ID = "paperclip.io/run-id"
AGENT_ID = "paperclip.io/agent-id"
ADAPTER_TYPE = "paperclip.io/adapter-type"
COMPANY_ID = "paperclip.io/company-id"
TASK_ID = "paperclip.io/task-id"
SESSION_ID = "paperclip.io/session-id"
TASK_KEY = "paperclip.io/task-key"
"""Of a run without a task: by which Paperclip tells its like, such as the agent's heartbeats."""
OWNER = "paperclip.io/owner"
ADOPTED_BY = "paperclip.io/adopted-by-run"
"""The run in whose name an orphan was taken over; its own run-id never changes."""
CANCEL = "paperclip.io/cancel-requested"
"""When somebody asked for the end of the run; its owner sees it, and stops it."""
HARVESTED = "paperclip.io/result-read"
"""When the result was handed over: nobody needs to read it again."""
JOB_NAME = "batch.kubernetes.io/job-name"
"""What the Job controller puts on pods."""
RUN_SELECTOR = f"{MANAGED_BY}={MANAGER},{COMPONENT}=agent-job"
LEASE_SELECTOR = f"{MANAGED_BY}={MANAGER}"
LAUNCHER, AGENT_LOCK = "launcher", "agent-lock"


def labels(component: str) -> dict[str, str]:
    """Of the Leases that we make."""
    return {MANAGED_BY: MANAGER, COMPONENT: component, PART_OF: PART_OF_PAPERCLIP}


def runs(job: Manifest) -> set[str]:
    """The ids of the runs that the Job does: the one that made it, and the one that took it over."""
    return {annotation(job, RUN_ID), annotation(job, ADOPTED_BY)}


def annotation(manifest: Manifest | None, key: str) -> str:
    """Its value, "" where it is not there."""
    found: Any = ((manifest or {}).get("metadata") or {}).get("annotations") or {}
    return str(found.get(key) or "")


def task(job: Manifest) -> str:
    """The id of its task, or the key of what is none; "" where nothing is known."""
    return annotation(job, TASK_ID) or annotation(job, TASK_KEY)


def name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


def uid(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("uid") or "")


def version(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("resourceVersion") or "")


def deleting(manifest: Manifest) -> bool:
    return bool(manifest["metadata"].get("deletionTimestamp"))


def controlled_by(manifest: Manifest, owner_uid: str) -> bool:
    """Whether the object belongs to the Job with this uid."""
    return any(one.get("uid") == owner_uid for one in manifest["metadata"].get("ownerReferences") or [])


def agent_label(agent_id: str) -> str:
    """The value of the label AGENT_ID for an agent."""
    return label_value(agent_id)
