"""The functions of tests/data/launcher-vectors.json as ours: input as in the file, output comparable to `expected`.

Where there is no such thing in our design any more, what takes its place answers; tests/launcher/dialects/test_vectors
says what that gives.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubekit import names
from paperclip_launcher import manifest, neighbours, options, podstate, readers
from paperclip_launcher.cluster import errors
from paperclip_launcher.diagnosed import Ending
from paperclip_launcher.dialects import claude, formatting, sessions, streamjson
from paperclip_launcher.dialects.claude import Claude
from paperclip_launcher.dialects.model import Parsed
from paperclip_launcher.fields import config_schema
from paperclip_launcher.log.lines import LineSplitter
from paperclip_launcher.options import RunOptions
from paperclip_launcher.request import RunRequest
from paperclip_launcher.skills.toolfilter import filter_tool_output
from paperclip_launcher.templates import Templates

TEMPLATES = Path(__file__).parents[2] / "dist" / "minimal" / "job-templates"


def parsed(text: str) -> Parsed:
    parser = streamjson.ClaudeParser()
    parser.feed(text.encode())
    return parser.parsed()


def parse_stream(text: str) -> dict[str, Any]:
    """The reference knows a usage only with a result; ours also counts that of a run that was cut off."""
    found = parsed(text)
    usage = found.usage if found.result is not None else None
    return {
        "sessionId": found.session_id or None,
        "model": found.model,
        "costUsd": found.cost_usd,
        "usage": usage
        and {
            "inputTokens": usage.input_tokens,
            "cachedInputTokens": usage.cached_input_tokens,
            "outputTokens": usage.output_tokens,
        },
        "summary": found.summary,
        "resultJson": found.result,
        "llmApiEmptyResponse": found.empty_response,
        "truncatedMidStream": found.truncated,
    }


def detect_login_required(value: dict[str, Any]) -> dict[str, Any]:
    result = value["parsed"] or {}
    said = [result.get("result") or "", *streamjson.error_texts(result), value["stdout"], value["stderr"]]
    text = "\n".join(said)
    return {"requiresLogin": streamjson.asks_for_login(text), "loginUrl": streamjson.login_url(text) or None}


def partial_run_error(value: dict[str, Any]) -> str:
    found = parsed(value["stdout"])
    pod = value["pod_state"]
    ending = pod and Ending(pod["exitCode"], pod["signal"], pod["reason"] or "", pod["message"] or "")
    return claude.partial_run_error(
        found.first_plain_line,
        value["model"],
        found.model,
        value["exit_code"],
        ending,
        output=bool(value["stdout"].strip()),
    )


def is_reattachable_orphan(value: dict[str, Any]) -> bool:
    """Today's rule asks less: a session that is missing on one side is no obstacle."""
    labels, expected = value["job_labels"], value["expected"]
    same_agent = labels.get("paperclip.io/agent-id") == names.label_value(expected["agentId"])
    same_adapter = labels.get("paperclip.io/adapter-type") == Claude.adapter_type
    rule = neighbours.classify_orphan(labels, expected) == "reattach"
    return same_agent and same_adapter and rule and not value["terminal"]


def describe_pod_terminated(value: dict[str, Any]) -> str:
    status = {"phase": value["phase"], "containerStatuses": value["container_statuses"]}
    return podstate.describe_pod_terminated({"metadata": {"name": value["pod"]}, "status": status}, "claude")


def describe_truncation(value: dict[str, Any]) -> str:
    lookup = value["lookup"] or {}
    return podstate.describe_truncation(
        value["state"] or lookup.get("state"), missing=lookup.get("podMissing"), phase=lookup.get("phase") or ""
    )


def extra_labels(value: Any) -> dict[str, Any]:
    """Only those of the user; the launcher's own come from the template. Skipped ones are told in sentences."""
    notes: list[str] = []
    kept = options.extra_labels(value, notes)
    return {"labels": kept, "skipped": [note.split()[1] for note in notes]}


def dedup_filter(value: dict[str, Any]) -> dict[str, Any]:
    """Lines are put together again, and none is dropped for what it says: resuming by time leaves no doubles."""
    lines = LineSplitter()
    outs = [lines.feed(chunk.encode()).decode() for chunk in value["chunks"]]
    return {"outs": outs, "flush": lines.rest().decode()}


def manifest_golden(value: dict[str, Any]) -> dict[str, Any]:
    """From a delivered template, which takes the place of the server's own pod."""
    agent = {**value["agent"], "adapterType": Claude.adapter_type}
    request = RunRequest.of({**value, "agent": agent})
    plan = manifest.plan(
        request,
        RunOptions.of(value["config"], Claude()),
        Claude(),
        Templates.load(TEMPLATES),
        owner="paperclip",
        nonce="abc123",
    )
    container = plan.job["spec"]["template"]["spec"]["containers"][0]
    command = [*container.get("command", []), *container.get("args", [])]
    return {
        "job": plan.job,
        "jobName": plan.job_name,
        "namespace": plan.job["metadata"]["namespace"],
        "prompt": plan.prompt.text,
        "claudeArgs": command[command.index("claude") + 1 :],
        "promptMetrics": dict(plan.prompt.metrics),
        "skippedLabels": [],
    }


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sanitize_label_value": names.label_value,
    "job_name": lambda value: names.job_name(value["agent_id"], value["run_id"]),
    "parse_key_value": readers.parse_key_value,
    "extra_labels": extra_labels,
    "parse_stream": parse_stream,
    "describe_failure": streamjson.describe_failure,
    "is_max_turns": streamjson.is_max_turns,
    "is_unknown_session": streamjson.is_unknown_session,
    "extract_login_url": lambda value: streamjson.login_url(value) or None,
    "detect_login_required": detect_login_required,
    "is_k8s_404": errors.is_not_found,
    "partial_run_error": partial_run_error,
    "classify_orphan": lambda value: neighbours.classify_orphan(value["job_labels"], value["expected"]),
    "is_reattachable_orphan_v1": is_reattachable_orphan,
    "describe_pod_terminated": describe_pod_terminated,
    "describe_truncation": describe_truncation,
    # Our launcher is told to cancel, and asks nobody; the adapter in front of it looks at the run's status.
    "should_abort": lambda status: status in ("cancelled", "cancelling"),
    "session_deserialize": sessions.read_session,
    "session_serialize": sessions.write_session,
    "session_display_id": sessions.session_label,
    "ui_parse_line": lambda value: formatting.ui_parse_line(value["line"], value["ts"]),
    "cli_format_line": formatting.cli_format_line,
    # Nothing is told apart by what it says.
    "dedup_key": lambda event: None,
    "dedup_filter": dedup_filter,
    "rtk_filter_max10": lambda event: filter_tool_output(event, 10),
    "manifest_golden": manifest_golden,
    # There is no such file: the log is the container's own.
    "pod_log_path": lambda ids: None,
    "config_schema": lambda nothing: config_schema(replaced_only=True),
}
