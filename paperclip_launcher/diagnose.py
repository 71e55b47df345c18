"""Why a run does not start, or ended badly: from the statuses of Job and pod and from their Warning events. Pure.

A soft diagnosis is given time, since what it names often mends itself: the autoscaler adds a node, a registry comes
back, the launcher itself makes the Secrets after the Job. `hard_after` says how long; the run's own time to start is
the bound of it all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from kubekit import podspec
from kubekit.identity import Manifest
from paperclip_launcher import podstate
from paperclip_launcher.causes.cause import diagnosed, tidy
from paperclip_launcher.causes.places import MOUNTS, PLACES
from paperclip_launcher.causes.refusals import REFUSALS
from paperclip_launcher.causes.starts import CONFIGS, PULLS
from paperclip_launcher.diagnosed import Diagnosis

HARD_AFTER: Mapping[str, float] = MappingProxyType(
    {
        "k8s_image_pull_failed": 120,
        "k8s_container_config": 20,
        # As long as the launcher goes on trying to make the Secrets of a run.
        "k8s_launch_incomplete": 180,
        "k8s_container_start_failed": 120,
        "k8s_volume_failed": 180,
        "k8s_admission_refused": 60,
        "k8s_init_failed": 60,
        # The five minutes after which Kubernetes itself gives up a node that does not answer.
        "k8s_node_lost": 300,
        "k8s_pod_evicted": 900,
    }
)
"""Seconds for which a soft diagnosis of this code may last without a break."""

_QUEUE = "kueue.x-k8s.io/queue-name"
_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"})
_NO_IMAGE = MappingProxyType(
    {
        "InvalidImageName": ("The image name {image} is not a legal one", "correct `image`"),
        "ErrImageNeverPull": (
            "The image {image} is not on the node, and may not be pulled",
            "load it onto the nodes, or set the pull policy IfNotPresent in the environment",
        ),
        "SignatureValidationFailed": (
            "The signature of {image} is not one that the node takes",
            "sign the image, or correct the node's signature policy",
        ),
    }
)
_NOT_MADE = frozenset({"CreateContainerError", "RunContainerError", "PreCreateHookError", "PreStartHookError"})
_VOLUME_EVENTS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_SANDBOX_EVENTS = frozenset({"FailedCreatePodSandBox", "NetworkNotReady", "FailedPrepareDynamicResources"})
_LONGEST_BACKOFF = 122
"""Seconds between two tries of the kubelet to mount a volume, at most; they begin with half a second and double."""
_SLACK = 15


def hard_after(code: str) -> float | None:
    """Seconds after which a soft diagnosis that stays is to be taken as a hard one. None: only the run's own time to
    start ends it, as for want of nodes, of quota or of a place in a queue.
    """
    return HARD_AFTER.get(code)


def diagnose(
    job: Manifest | None, pod: Manifest | None, events: Sequence[Manifest] = (), now: float | None = None
) -> Diagnosis | None:
    """What is wrong now, None where nothing is known to be.

    `events` are those of the run or of the whole namespace: what is about another object, by its uid, is left out. With
    `now` (seconds since 1970) a failed mount counts as mended once the kubelet's next try is overdue.
    """
    if found := podstate.end_cause(job, pod):
        return found
    if pod is None:
        return _without_pod(job, events) if job is not None and not podstate.terminal(job) else None
    if podstate.terminated(pod) is not None:
        return None
    if found := podstate.disruption(pod) or podstate.silent_node(pod):
        return found
    if podstate.started(pod):
        return None
    return _init(pod, events) or _waiting(pod, podstate.container(pod), events) or _placed(pod, events, now)


def start_timeout(job: Manifest | None, pod: Manifest | None, events: Sequence[Manifest], seconds: float) -> Diagnosis:
    """The hard diagnosis of a run that has not started in `seconds`: the last soft one, else what was said last."""
    found = diagnose(job, pod, events)
    if found is not None:
        return replace(found, hard=True)
    last = next(_newest((job, pod), events), {})
    detail = f"{last.get('reason')}: {last.get('message')}" if last else podstate.progress(job, pod)
    summary = f"The pod did not start within {seconds:g} s"
    remedy = "look at the pod's events; a slow image pull wants a larger `scheduleTimeoutSec`"
    return Diagnosis("k8s_pod_schedule_failed", True, summary, tidy(detail), remedy)


def refusal(message: str) -> Diagnosis:
    """For the API server's answer to a create that it refused; soft where the same call may well pass later."""
    summary, remedy = "The API server refused the object", "read the message"
    unknown = Diagnosis("k8s_job_create_failed", True, summary, tidy(message), remedy)
    return diagnosed(REFUSALS, message) or unknown


def _without_pod(job: Manifest, events: Sequence[Manifest]) -> Diagnosis | None:
    spec = job.get("spec") or {}
    last = next((one for one in _newest((job,), events) if one.get("reason") == "FailedCreate"), None)
    if spec.get("suspend"):
        queue = ((job.get("metadata") or {}).get("labels") or {}).get(_QUEUE)
        summary = f"Kueue has not admitted the Job from the queue {queue}" if queue else "The Job is suspended"
        said = next(_newest((job,), events), {}).get("message")
        remedy = "wait for its turn, or look at the queue" if queue else "resume it"
        return Diagnosis("k8s_queue_waiting", False, summary, tidy(said), remedy)
    if last is None:
        return None
    message = str(last.get("message") or "")
    summary, remedy = "The Job's pod cannot be created", "read the message; Kubernetes goes on trying"
    unknown = Diagnosis("k8s_pod_schedule_failed", False, summary, tidy(message), remedy)
    return diagnosed(REFUSALS, message) or unknown


def _init(pod: Manifest, events: Sequence[Manifest]) -> Diagnosis | None:
    """Of the init container whose turn it is. Its failure ends the pod, and is in `end_cause`."""
    for status in (pod.get("status") or {}).get("initContainerStatuses") or ():
        state = status.get("state") or {}
        if (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
            summary = f"The init container {status.get('name')} fails again and again"
            detail = tidy(state["waiting"].get("message"))
            return Diagnosis("k8s_init_failed", False, summary, detail, "read its log and correct it")
        if found := _waiting(pod, status, events):
            return replace(found, summary=f"{found.summary} (init container {status.get('name')})")
    return None


def _waiting(pod: Manifest, status: Mapping[str, Any], events: Sequence[Manifest]) -> Diagnosis | None:
    waiting = (status.get("state") or {}).get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    image = tidy(status.get("image") or _image(pod, str(status.get("name"))), 120)
    if reason in _NO_IMAGE:
        summary, remedy = _NO_IMAGE[reason]
        return Diagnosis("k8s_image_invalid", True, summary.format(image=image), tidy(message), remedy)
    if reason in _PULLING:
        return _pull(pod, image, reason, message, events)
    if reason == "CreateContainerConfigError":
        return _own_secret(pod, diagnosed(CONFIGS, message), message)
    if reason in _NOT_MADE:
        summary, remedy = "The runtime cannot make the container", "read the message; the kubelet goes on trying"
        return Diagnosis("k8s_container_start_failed", False, summary, tidy(message), remedy)
    if reason == "CrashLoopBackOff":
        summary = "The container has ended and would be started a second time"
        return Diagnosis("k8s_container_start_failed", True, summary, tidy(message), "set restartPolicy: Never")
    return None


def _pull(pod: Manifest, image: str, reason: str, message: str, events: Sequence[Manifest]) -> Diagnosis | None:
    """While it backs off, older kubelets say only so; the cause is then in the event of the last try."""
    newest = list(_newest((pod,), events))
    if "rpc error" not in message:
        pulls = (str(one.get("message") or "") for one in newest if one.get("reason") == "Failed")
        message = next((one for one in pulls if one.startswith("Failed to pull")), "") or message or reason
    # An image may be called anything, also "denied".
    words = re.sub(rf"(?<![\w./-]){re.escape(image)}(?![\w./-])", "IMAGE", message) if image else message
    found = diagnosed(PULLS, words, image=image or "of the run")
    secret = next((one for one in newest if one.get("reason") == "FailedToRetrieveImagePullSecret"), None)
    if found is None:
        return None
    found = replace(found, detail=tidy(message))
    return replace(found, remedy=f"{found.remedy}; {tidy(secret.get('message'), 120)}") if secret else found


def _placed(pod: Manifest, events: Sequence[Manifest], now: float | None) -> Diagnosis | None:
    """On its way to a node, and to its volumes there."""
    said = podstate.condition(pod, "PodScheduled")
    if said.get("status") == "False":
        message = str(said.get("message") or "")
        if said.get("reason") == "SchedulingGated":
            summary, remedy = "The pod is held back by a scheduling gate", "wait, or look at what has set the gate"
            return Diagnosis("k8s_queue_waiting", False, summary, tidy(message), remedy)
        return diagnosed(PLACES, message or str(said.get("reason") or ""))
    # The volumes are mounted before the sandbox is made.
    if podstate.holds(pod, "PodReadyToStartContainers"):
        return None
    for event in _newest((pod,), events):
        reason, message = event.get("reason"), str(event.get("message") or "")
        if reason in _VOLUME_EVENTS and not _overdue(event, now):
            return _own_secret(pod, diagnosed(MOUNTS, message), message)
        if reason in _SANDBOX_EVENTS:
            summary, remedy = "The node cannot set up the pod", "look at the node's network plugin and runtime"
            return Diagnosis("k8s_container_start_failed", False, summary, tidy(message), remedy)
    return None


def _own_secret(pod: Manifest, found: Diagnosis | None, message: str) -> Diagnosis | None:
    """What the launcher makes for the run itself comes after the Job, and is no fault of anybody's config."""
    mine = next((name for name in podspec.run_secrets({"kind": "Pod", **pod}) if f'"{name}"' in message), None)
    if mine is None or found is None:
        return found
    summary = f"The run's own Secret {mine} is not there yet"
    return replace(found, code="k8s_launch_incomplete", summary=summary, remedy="wait; the launcher makes it")


def _newest(objects: Sequence[Manifest | None], events: Sequence[Manifest]) -> Iterator[Manifest]:
    """The Warning events about the objects, newest first."""
    uids = {(one.get("metadata") or {}).get("uid") for one in objects if one} - {None}
    mine = [one for one in events if (one.get("involvedObject") or {}).get("uid") in uids]
    yield from sorted((one for one in mine if one.get("type", "Warning") == "Warning"), key=_last_seen, reverse=True)


def _last_seen(event: Manifest) -> float:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    made = (event.get("metadata") or {}).get("creationTimestamp")
    return max(_seconds(one) for one in (*times, event.get("firstTimestamp"), made))


def _overdue(event: Manifest, now: float | None) -> bool:
    """Whether the kubelet would have failed again by now, had it not got on: it waits twice as long each time."""
    if now is None:
        return False
    last = _last_seen(event)
    first = _seconds(event.get("firstTimestamp")) or last
    return now - last > min(2 * (last - first), _LONGEST_BACKOFF) + _SLACK


def _seconds(stamp: Any) -> float:
    """Since 1970; 0 for what is no time."""
    try:
        return datetime.fromisoformat(stamp).timestamp() if isinstance(stamp, str) else 0.0
    except ValueError:
        return 0.0


def _image(pod: Manifest, name: str) -> str:
    spec = pod.get("spec") or {}
    both = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return next((str(one.get("image") or "") for one in both if one.get("name") == name), "")
