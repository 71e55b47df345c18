"""Every outcome of a run by its stable code: what it means, whether another try makes sense, and how a program ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Retry(StrEnum):
    """Whether the same run may be tried again."""

    NO = "no"
    START = "start"
    """Yes, at once or soon: no container has started, so nothing has happened twice."""
    LATER = "later"
    """Yes, but the provider or the cluster needs time; most often the agent has worked already."""
    FRESH = "fresh-session"
    """Yes, without the session that it was to go on with."""


@dataclass(frozen=True)
class Code:
    """`family` is Paperclip's word for the error, "" for none: without one it never tries again by itself, so all with
    Retry.START have it. `exit` is the exit code of our programs.
    """

    code: str
    meaning: str
    retry: Retry = Retry.NO
    family: str = ""
    exit: int = 1


TRANSIENT = "transient_upstream"
"""With it, and the word that nothing ran, the server begins the run anew."""

_ALL = (
    # Before anything was created.
    Code("k8s_config_invalid", "the config or the request is wrong; nothing was created", exit=3),
    Code("k8s_agent_id_invalid", "the agent's id is empty or no text; nothing was created", exit=3),
    Code("k8s_policy_refused", "a policy forbids the Job; nothing was created", exit=3),
    Code("k8s_template_invalid", "the Job templates cannot be read", exit=3),
    Code("k8s_prompt_bundle_failed", "skills or instructions could not be copied for the run", exit=3),
    Code("k8s_api_unreachable", "the API server does not answer", Retry.START, TRANSIENT, 5),
    Code("k8s_forbidden", "a right is missing; the message names the verb", exit=5),
    # Ownership.
    Code("k8s_concurrency_guard_unreachable", "other runs of the agent cannot be seen", Retry.START, TRANSIENT, 5),
    Code("k8s_concurrent_run_blocked", "another run of the same agent is alive", Retry.START, TRANSIENT),
    Code("k8s_orphan_task_unknown", "it or a left-over run of the agent has no task", Retry.START, TRANSIENT),
    Code("k8s_orphan_session_mismatch", "a left-over run of the agent has another session", Retry.START, TRANSIENT),
    Code("k8s_run_owned_elsewhere", "another launcher looks after this run", exit=6),
    Code("k8s_launch_incomplete", "the launcher died before the run had all it needs", Retry.START, TRANSIENT),
    # The Job and its start.
    Code("k8s_job_create_failed", "the API server refused the Job"),
    Code("k8s_prompt_secret_create_failed", "the Secret of the prompt could not be made", Retry.START, TRANSIENT),
    Code("k8s_quota_exceeded", "the namespace has no room", Retry.START, TRANSIENT),
    Code("k8s_limit_range_refused", "a LimitRange forbids the pod"),
    Code("k8s_pod_security_refused", "the namespace's pod security forbids the pod"),
    Code("k8s_admission_refused", "an admission webhook or policy forbids the object"),
    Code("k8s_unschedulable", "no node takes the pod", Retry.START, TRANSIENT),
    Code("k8s_image_pull_failed", "the image cannot be pulled", Retry.START, TRANSIENT),
    Code("k8s_image_invalid", "the image's name is wrong, or it may not be pulled"),
    Code("k8s_container_config", "a Secret, ConfigMap or key is missing", Retry.START, TRANSIENT),
    Code("k8s_container_start_failed", "the runtime cannot start the container"),
    Code("k8s_init_failed", "an init container failed"),
    Code("k8s_volume_failed", "a volume cannot be attached or mounted", Retry.START, TRANSIENT),
    Code("k8s_pod_schedule_failed", "the pod did not start in time", Retry.START, TRANSIENT),
    Code("k8s_queue_waiting", "Kueue did not admit the Job in time", Retry.START, TRANSIENT),
    # The end of a container.
    Code("k8s_oom_killed", "the container needed more memory than its limit"),
    Code("k8s_pod_evicted", "the pod was evicted, preempted or drained", Retry.LATER),
    Code("k8s_node_lost", "the node does not answer any more", Retry.LATER),
    Code("k8s_job_deleted_externally", "somebody deleted the Job or its pod"),
    Code("k8s_job_state_mismatch", "how the run stands is not known; its Job is kept", exit=6),
    Code("timeout", "the run's time is over"),
    Code("cancelled", "the run was cancelled"),
    # What the agent said.
    Code("agent_failed", "the agent said that it failed"),
    Code("agent_exit_nonzero", "the agent ended with an exit code other than 0"),
    Code("agent_no_result", "the agent ended well, but without a result"),
    Code("agent_entry_failed", "the program could not be started in the container"),
    Code("claude_init_failed", "the agent stopped right after its start"),
    Code("claude_truncated", "the agent's output stops in the middle"),
    Code("claude_auth_required", "the agent must log in first"),
    Code("llm_api_error", "the model answered nothing", Retry.LATER, TRANSIENT),
    Code("session_unavailable", "the session to go on with is not known any more", Retry.FRESH),
    Code("max_turns", "the agent used up its turns"),
    Code("internal_error", "an error of ours; the Job is kept", exit=6),
)
CODES = {one.code: one for one in _ALL}
