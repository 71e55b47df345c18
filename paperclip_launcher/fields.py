"""The config fields of an agent, as one table: the form in Paperclip, the checks and the documentation come from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from paperclip_launcher import readers
from paperclip_launcher.readers import Reader

_DAY = 86400
_LONGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Field:
    """One key of the config, and the attribute of RunOptions that it fills.

    `type`, `label` and `hint` are of Paperclip's form; `form` is False for a key that Paperclip itself asks for, or
    that has no place in a form. `suggested` is what the form fills in; `default` is what an absent value means.
    """

    key: str
    attribute: str
    type: str
    label: str
    hint: str
    read: Reader
    default: Any = None
    suggested: Any = None
    options: tuple[str, ...] = ()
    form: bool = True
    group: str = field(default="")


_PULL = ("IfNotPresent", "Always", "Never")
_CONCURRENCY = ("reattach", "wait", "fail", "allow")

# The first sixteen are those of the adapter that this one replaces, word for word: forms that people know.
FIELDS = (
    Field("maxTurnsPerRun", "max_turns", "number", "Max Turns Per Run",
          "Maximum number of agentic turns (tool calls) per heartbeat run. 0 means unlimited.",
          readers.number(0, 1_000_000), 0, 1000),
    Field("serviceAccountName", "service_account", "text", "Service Account",
          "Service Account name for Job pods. Defaults to the cluster default.", readers.object_name, ""),
    Field("namespace", "namespace", "text", "Namespace",
          "Kubernetes namespace for Jobs. Defaults to the Deployment namespace.", readers.object_name, ""),
    Field("image", "image", "text", "Container Image",
          "Override the container image used for Job pods. Defaults to the running Deployment image.",
          readers.word, ""),
    Field("imagePullPolicy", "image_pull_policy", "select", "Image Pull Policy",
          "Image pull policy for the container image.", readers.choice(*_PULL), "", options=_PULL),
    Field("kubeconfig", "kubeconfig", "text", "Kubeconfig Path",
          "Absolute path to a kubeconfig file on disk. Defaults to in-cluster service account auth.",
          readers.absolute_path, ""),
    Field("ttlSecondsAfterFinished", "ttl_seconds", "number", "TTL Seconds After Finished",
          "Auto-cleanup delay for completed Jobs in seconds. Default: 300.", readers.number(0, _LONGEST), 300),
    Field("retainJobs", "retain", "toggle", "Retain Jobs",
          "Skip cleanup of completed Jobs for debugging purposes.", readers.flag, default=False),
    Field("reattachOrphanedJobs", "reattach", "toggle", "Reattach to Orphaned Jobs",
          "If a prior K8s Job for the same agent/task/session is still running (e.g. Paperclip restarted mid-run), "
          "attach to it and stream its output instead of blocking the new run. When false, any non-terminal orphan "
          "blocks the new run. Default: on.", readers.flag, default=True, suggested=True),
    Field("resources.requests.cpu", "", "text", "CPU Request",
          "CPU request for Job pods (e.g. 100m, 0.5, 1).", readers.amount),
    Field("resources.requests.memory", "", "text", "Memory Request",
          "Memory request for Job pods (e.g. 128Mi, 512Mi, 1Gi).", readers.amount),
    Field("resources.limits.cpu", "", "text", "CPU Limit",
          "CPU limit for Job pods (e.g. 100m, 0.5, 1).", readers.amount),
    Field("resources.limits.memory", "", "text", "Memory Limit",
          "Memory limit for Job pods (e.g. 128Mi, 512Mi, 1Gi).", readers.amount),
    Field("nodeSelector", "node_selector", "textarea", "Node Selector",
          "Node selector for Job pods. One key=value per line (e.g. disktype=ssd).", readers.labels),
    Field("tolerations", "tolerations", "textarea", "Tolerations",
          "Tolerations for Job pods as JSON array.", readers.tolerations),
    Field("labels", "labels", "textarea", "Labels",
          "Extra labels added to Job metadata. One key=value per line.", readers.labels),
    # What is ours.
    Field("concurrency", "concurrency", "select", "Other Runs of the Agent",
          "What a run does while another one of the same agent is there: reattach to a left-over one with the same "
          "task, wait for it, fail, or allow both.", readers.choice(*_CONCURRENCY), "", options=_CONCURRENCY),
    Field("waitSec", "wait_seconds", "number", "Longest Wait",
          "Seconds that a run waits for another one of its agent to end, and then in a Kueue queue.",
          readers.number(0, 7 * _DAY), 3600),
    Field("scheduleTimeoutSec", "schedule_timeout_seconds", "number", "Longest Start",
          "Seconds in which the pod must have started; time for a cluster to add a node.",
          readers.number(1, 7 * _DAY), 600),
    Field("priorityClassName", "priority_class", "text", "Priority Class",
          "PriorityClass of the pod, in place of the environment's.", readers.object_name, ""),
    Field("runtimeClassName", "runtime_class", "text", "Runtime Class",
          "RuntimeClass of the pod, where the environment has none of its own.", readers.object_name, ""),
    Field("queueName", "queue_name", "text", "Kueue Queue",
          "LocalQueue that admits the Job; it waits there until there is room.", readers.object_name, ""),
    Field("jobTemplate", "template", "text", "Job Template",
          "Name of the Job template, where the environment has more than one for this kind of agent.",
          readers.object_name, ""),
    Field("program", "program", "text", "Program",
          "For plain programs: what is started, found by the PATH of the image.", readers.word, ""),
    Field("toolOutputLimitBytes", "tool_output_limit_bytes", "number", "Tool Output Limit",
          "Bytes that the output of one tool may have before it is cut; 0 cuts nothing.",
          readers.number(0, 1 << 30), 0),
    Field("logFile", "log_file", "text", "Log File",
          "File of the agent's workspace that is shown beside the log, where the launcher has the agents' claim.",
          readers.word, ""),
    Field("preRunCommand", "pre_run_command", "textarea", "Before the Run",
          "Shell text that runs in the container before the agent; its failure does not stop the run.",
          readers.text, ""),
    Field("mcpServers", "mcp_servers", "textarea", "MCP Servers",
          "MCP servers of the agent as a JSON object, by name; handed over in a Secret.", readers.tree),
    Field("inheritEnv", "env_passthrough", "textarea", "Inherited Variables",
          "Names of variables that the launcher passes on from its own environment, one a line; only those that an "
          "agent may have.", readers.texts, ()),
    Field("allowGitCredentials", "allow_git_credentials", "textarea", "Allowed Git Credentials",
          "Names of variables and fields that may hold credentials of git, one a line; all others are refused.",
          readers.texts, ()),
    # Asked for by Paperclip itself, or by no form.
    Field("model", "model", "text", "Model", "Model that the agent uses.", readers.word, "", form=False),
    Field("effort", "effort", "text", "Effort", "How hard the model thinks, in its own words.",
          readers.word, "", form=False),
    Field("instructionsFilePath", "instructions_file", "text", "Instructions",
          "File with the agent's instructions, where the launcher runs.", readers.word, "", form=False),
    Field("timeoutSec", "timeout_seconds", "number", "Timeout",
          "Seconds after which a run is stopped; 0 leaves it to the environment's limit.",
          readers.number(0, _LONGEST), 0, form=False),
    Field("graceSec", "grace_seconds", "number", "Grace",
          "Seconds that Kubernetes waits beyond the timeout before it ends the run itself.",
          readers.number(0, _DAY), 60, form=False),
    Field("extraArgs", "extra_args", "textarea", "Extra Arguments",
          "Arguments after all others.", readers.texts, (), form=False),
    Field("promptTemplate", "prompt_template", "textarea", "Prompt",
          "What the agent is told at each run; {{ path }} is filled in.", readers.prose, "", form=False),
    Field("bootstrapPromptTemplate", "bootstrap_prompt_template", "textarea", "First Prompt",
          "What the agent is told before that in a new session.", readers.prose, "", form=False),
    Field("cwd", "cwd", "text", "Working Directory",
          "Where the program starts, in the agent's workspace.", readers.word, "", form=False),
    Field("dangerouslySkipPermissions", "skip_permissions", "toggle", "Skip Permissions",
          "Nobody is there to grant a permission; false lets the agent fail at the first one.",
          readers.flag, default=True, form=False),
)  # fmt: skip
BY_KEY: Mapping[str, Field] = {one.key: one for one in FIELDS}

_REPLACED = 16


def config_schema(*, replaced_only: bool = False) -> dict[str, Any]:
    """The form as Paperclip draws it: {"fields": [{type, key, label, hint, default?, options?}]}, flat.

    `replaced_only`: those fields alone that the replaced adapter had.
    """
    shown = FIELDS[:_REPLACED] if replaced_only else tuple(one for one in FIELDS if one.form)
    return {"fields": [_described(one) for one in shown]}


def documentation() -> Iterator[str]:
    """A Markdown table of all fields, line by line."""
    yield "| key | what it is | default |"
    yield "|---|---|---|"
    for one in FIELDS:
        default = "" if one.default in (None, "", ()) else str(one.default).lower()
        yield f"| `{one.key}` | {one.hint} | {default} |"


def _described(one: Field) -> dict[str, Any]:
    described: dict[str, Any] = {"type": one.type, "key": one.key, "label": one.label, "hint": one.hint}
    if one.suggested is not None:
        described["default"] = one.suggested
    if one.options:
        described["options"] = [{"value": option, "label": option} for option in one.options]
    return described
