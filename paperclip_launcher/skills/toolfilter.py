"""The optional filter that keeps a tool's huge output from filling an agent's context, off unless a run asks for it.

Claude Code runs a hook after each use of a tool. From 2.1.121 on the hook may replace the output, as long as the new
one has the tool's own shape; anything else is ignored (anthropics/claude-code issues 54196 and 68951). So texts are cut
where they stand: a string, `content`, the `text` of blocks, `stdout` and `stderr`, the `content` of a file.
The hook comes by a settings file of the run (`--settings`), never by the home that runs share.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

PROGRAM_FILE = "toolfilter.js"
SETTINGS_FILE = "settings.json"

_TEXTS = frozenset({"content", "text", "stdout", "stderr", "output", "result"})
_LONE = re.compile("[\ud800-\udfff]")
_HOOK_SECONDS = 30


def filter_tool_output(event: Any, limit: int) -> Any:
    """The event as it would be with its texts cut to `limit` bytes, at a code point, and a line for what went.

    The reference for toolfilter.js. Anything but an object is given back as it is.
    """
    if not isinstance(event, dict):
        return event
    return {key: _walk(value, limit, text=key in ("tool_response", "tool_result")) for key, value in event.items()}


def program() -> str:
    """The text of PROGRAM_FILE: one file for any Node, without dependencies."""
    return Path(__file__).with_name(PROGRAM_FILE).read_text(encoding="utf-8")


def settings_json(path: str, limit: int) -> str:
    """The settings file that has Claude Code run the program at `path`. An image without Node runs unfiltered."""
    command = f"if command -v node >/dev/null; then exec node {shlex.quote(path)} {limit:d}; fi; cat >/dev/null"
    hook = {"type": "command", "command": command, "timeout": _HOOK_SECONDS}
    return json.dumps({"hooks": {"PostToolUse": [{"matcher": "*", "hooks": [hook]}]}})


def _walk(value: Any, limit: int, *, text: bool) -> Any:
    if isinstance(value, str):
        return _shorten(value, limit) if text else value
    if isinstance(value, list):
        return [_walk(item, limit, text=text) for item in value]
    # Half an image is none.
    if isinstance(value, dict) and value.get("isImage") is not True:
        return {key: _walk(item, limit, text=key in _TEXTS) for key, item in value.items()}
    return value


def _shorten(text: str, limit: int) -> str:
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= limit:
        return text
    end = limit
    while end > 0 and data[end] & 0xC0 == 0x80:
        end -= 1
    kept = _LONE.sub("\ufffd", data[:end].decode("utf-8", "surrogatepass"))
    return f"{kept}\n[...{len(data) - end} bytes truncated by paperclip-rtk]"
