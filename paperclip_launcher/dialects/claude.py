"""Claude Code. The Job template gives it the prompt on stdin and `--output-format stream-json --verbose`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paperclip_launcher.diagnosed import Ending
from paperclip_launcher.dialects import sessions
from paperclip_launcher.dialects.model import Billing, Model, Parsed, StreamParser
from paperclip_launcher.dialects.streamjson import ClaudeParser

_MODELS = (
    ("claude-opus-4-7", "claude-opus-4-7", "Opus 4.7"),
    ("claude-opus-4-6", "claude-opus-4-6-v1", "Opus 4.6"),
    ("claude-sonnet-4-6", "claude-sonnet-4-6", "Sonnet 4.6"),
    ("claude-haiku-4-6", "", "Haiku 4.6"),
    ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20250929-v1:0", "Sonnet 4.5"),
    ("claude-haiku-4-5-20251001", "claude-haiku-4-5-20251001-v1:0", "Haiku 4.5"),
)
"""Id at Anthropic, id at Bedrock without its region ("" where Bedrock has none), label."""
_REGIONS = {"us": "us", "eu": "eu", "ap": "apac"}
"""Bedrock's inference profiles by the first part of an AWS region."""


class Claude:
    """A dialects.model.Dialect."""

    name = "claude"
    adapter_type = "claude_k8s"
    template = "claude"
    resumes = True
    reports = True
    variables: Mapping[str, str] = {}

    def arguments(self, options: Any, session_id: str, bundle: str, files: Mapping[str, str]) -> list[str]:
        arguments = ["--resume", session_id] if session_id else []
        if options.skip_permissions:
            arguments.append("--dangerously-skip-permissions")
        if options.model:
            arguments += ["--model", options.model]
        if options.effort:
            arguments += ["--effort", options.effort]
        if options.max_turns > 0:
            arguments += ["--max-turns", str(options.max_turns)]
        # A resumed session has its instructions already.
        if files.get("instructions") and not session_id:
            arguments += ["--append-system-prompt-file", files["instructions"]]
        if bundle:
            arguments += ["--add-dir", bundle]
        if files.get("mcp"):
            arguments += ["--mcp-config", files["mcp"], "--strict-mcp-config"]
        if files.get("settings"):
            arguments += ["--settings", files["settings"]]
        return [*arguments, *options.extra_args]

    def parser(self) -> StreamParser:
        return ClaudeParser()

    def read_session(self, raw: Any) -> dict[str, str] | None:
        return sessions.read_session(raw)

    def write_session(self, params: Any) -> dict[str, str] | None:
        return sessions.write_session(params)

    def session_label(self, params: Any) -> str | None:
        return sessions.session_label(params)

    def models(self, environment: Mapping[str, str]) -> list[Model]:
        """Bedrock's where the environment of the agents sends Claude Code there. `PAPERCLIP_BEDROCK_PREFIX` names
        the inference profile (us, eu, apac, global), else AWS_REGION does.
        """
        if not uses_bedrock(environment):
            return [Model(direct, f"Claude {label}") for direct, _, label in _MODELS]
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us"
        prefix = environment.get("PAPERCLIP_BEDROCK_PREFIX") or _REGIONS.get(region.partition("-")[0], "us")
        return [Model(f"{prefix}.anthropic.{aws}", f"Bedrock {label}") for _, aws, label in _MODELS if aws]

    def billing(self, model: str) -> Billing:
        if "anthropic." in model or model.startswith("arn:aws"):
            return Billing("anthropic", "aws_bedrock", "metered_api")
        return Billing("anthropic", "anthropic", "api")

    def exit_problem(self, parsed: Parsed, exit_code: int | None, ending: Ending) -> str:
        started = bool(parsed.model or parsed.session_id)
        return partial_run_error(parsed.first_plain_line, parsed.model, parsed.model, exit_code, ending, output=started)


def uses_bedrock(environment: Mapping[str, str]) -> bool:
    """As Claude Code decides it."""
    flagged = environment.get("CLAUDE_CODE_USE_BEDROCK") in {"1", "true"}
    return flagged or bool(environment.get("ANTHROPIC_BEDROCK_BASE_URL", "").strip())


def partial_run_error(
    plain: str, model: str, init_model: str, exit_code: int | None, ending: Ending | None, *, output: bool
) -> str:
    """The sentence for a run without a result. `plain` is the first line that is no event, `model` the wanted model,
    `init_model` the one that the agent began with, `output` whether it wrote anything.
    """
    if exit_code == 0:
        return "Failed to parse Claude JSON output"
    code = -1 if exit_code is None else exit_code
    if plain:
        text = f"Claude exited with code {code}: {plain}"
    elif model and init_model.replace("-", "_") == model.replace("-", "_") and exit_code is not None:
        text = (
            f"Claude exited immediately after init (model: {model}) (exit code {code}) — the model may be "
            "unsupported or the session may have been rejected before producing output"
        )
    elif output and model:
        text = (
            f"Claude started but did not produce a result (model: {model}) — check API credentials, "
            "model support, and adapter config"
        )
    else:
        text = f"Claude exited with code {code}"
    return text + ending_suffix(exit_code, ending)


def ending_suffix(exit_code: int | None, ending: Ending | None) -> str:
    """What the cluster says of a container's end, in brackets; "" where it says nothing."""
    if ending is None:
        return ""
    parts = [
        f"reason={ending.reason}" if ending.reason else "",
        f"message={ending.message.strip()[-300:]}" if ending.message else "",
        f"signal={ending.signal}" if ending.signal is not None else "",
        "SIGKILL (commonly OOMKilled)" if exit_code == 137 else "",
    ]
    said = ", ".join(part for part in parts if part)
    return f" [pod: {said}]" if said else ""
