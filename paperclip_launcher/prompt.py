"""What the agent is told, and how it gets there: bytes in Secrets, joined by the pod, exactly as they were."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from paperclip_launcher.options import RunOptions
from paperclip_launcher.request import RunRequest

LARGEST = 16 << 20
"""Bytes of a prompt; far beyond what a model reads."""
SECRET_BYTES = 700 * 1024
"""Bytes of data in one Secret. Kubernetes takes 1 MiB, and base64 in a request makes a third more of it."""

_PLACE = re.compile(r"\{\{\s*([A-Za-z0-9_.-]+)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """`metrics` count UTF-16 units of each section, as Paperclip shows them."""

    text: str = field(repr=False)
    metrics: Mapping[str, int]

    @property
    def data(self) -> bytes:
        return self.text.encode()


def write_prompt(request: RunRequest, options: RunOptions, *, resumes: bool, instructions: str = "") -> Prompt:
    """The prompt of a run. `instructions` are for agents that take none otherwise.

    Sections are joined by a blank line: the first prompt of a new session, instructions, what woke the agent, the
    handoff of an earlier session, the task, the prompt itself. A resumed session knows all but what is new.
    """
    data = _data(request)
    context = request.context
    bootstrap = "" if resumes else fill_text(options.bootstrap_prompt_template, data).strip()
    wake = wake_text(context, resumes=resumes)
    handoff = _text(context.get("paperclipSessionHandoffMarkdown"))
    task = "" if resumes and wake else _text(context.get("paperclipTaskMarkdown"))
    main = "" if resumes and wake else fill_text(options.prompt_template, data)
    sections = (bootstrap, "" if resumes else instructions, wake, handoff, task, main)
    text = "\n\n".join(section for section in sections if section.strip())
    metrics = {
        "promptChars": _units(text),
        "bootstrapPromptChars": _units(bootstrap),
        "wakePromptChars": _units(wake),
        "sessionHandoffChars": _units(handoff),
        "heartbeatPromptChars": _units(main),
    }
    return Prompt(text, metrics)


def wake_text(context: Mapping[str, Any], *, resumes: bool = False) -> str:
    """What woke the agent, for itself to read; "" where nothing is known."""
    wake = _map(context.get("paperclipWake"))
    reason = _text(wake.get("reason")) or _text(context.get("wakeReason"))
    comments = [_map(one) for one in wake.get("comments") or ()] if isinstance(wake.get("comments"), list) else []
    paragraphs = [f"Wake reason: {reason}"] if reason and (wake or resumes) else []
    issue = _map(wake.get("issue"))
    if title := _text(issue.get("title")):
        paragraphs.append(f"Issue: {' '.join(one for one in (_text(issue.get('identifier')), title) if one)}")
    paragraphs += [f"Comment: {body}" for one in comments if (body := _text(one.get("body")))]
    if (wake or resumes) and (instruction := _text(context.get("instruction"))):
        paragraphs.append(instruction)
    if wake.get("fallbackFetchNeeded") is True:
        paragraphs.append("Not all comments are here: read the issue itself before you act.")
    return "\n\n".join(paragraphs)


def fill_text(template: str, data: Mapping[str, Any]) -> str:
    """`template` with each {{ path }} filled in; what is not there is "". What is filled in is not read again."""
    return _PLACE.sub(lambda match: _shown(_found(data, match[1])), template)


def parts(data: bytes, files: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    """The data of each Secret: the files, and the prompt under part-0000 and so on; at least one part.

    ValueError names a file that is too large for a Secret.
    """
    current: dict[str, bytes] = {}
    size = 0
    for name, content in files.items():
        if len(content) > SECRET_BYTES:
            raise ValueError(f"{name} has {len(content)} bytes; at most {SECRET_BYTES} can be handed over")
        if size + len(content) > SECRET_BYTES:
            yield current
            current, size = {}, 0
        current[name] = content
        size += len(content)
    offset, number = 0, 0
    while offset < len(data) or number == 0:
        if size >= SECRET_BYTES:
            yield current
            current, size = {}, 0
        piece = data[offset : offset + SECRET_BYTES - size]
        current[f"part-{number:04}"] = piece
        offset, number, size = offset + len(piece), number + 1, size + len(piece)
    yield current


def _data(request: RunRequest) -> dict[str, Any]:
    """What a template may use: of the agent only what names it, since its config holds secrets."""
    agent = {
        "id": request.agent_id,
        "name": request.agent_name,
        "companyId": request.company_id,
        "role": request.agent_role,
        "adapterType": request.adapter_type,
    }
    return {
        "agentId": request.agent_id,
        "companyId": request.company_id,
        "runId": request.run_id,
        "company": {"id": request.company_id},
        "agent": agent,
        "run": {"id": request.run_id, "source": "on_demand"},
        "context": request.context,
    }


def _found(data: Any, path: str) -> Any:
    for step in path.split("."):
        if not isinstance(data, Mapping) or step not in data:
            return None
        data = data[step]
    return data


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
