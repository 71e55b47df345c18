"""What the Node adapter must know without asking: it stands in a file beside it, made from what is said here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from paperclip_launcher.dialects import sessions
from paperclip_launcher.serve import adapters

FOLDERS = {"claude": "claude_k8s", "opencode": "opencode_k8s"}
"""Each adapter's folder, and its type. There is none for plain programs: Paperclip has its own for them."""
FILE = "described.json"
_MODEL_VARIABLES = (
    "CLAUDE_CODE_USE_BEDROCK",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "PAPERCLIP_BEDROCK_PREFIX",
)


def described(adapter_type: str) -> dict[str, Any]:
    """`members` are those of the module object, `session` the rules of its codec, `configSchema` and the models what
    is shown while no launcher can be asked. It does not depend on the environment of this process.
    """
    facts = adapters.description(adapter_type, {})
    return {
        "type": facts.pop("type"),
        "supportsSkills": facts.pop("supportsSkills"),
        "members": facts,
        "modelVariables": list(_MODEL_VARIABLES),
        "session": _session_rules(),
        "configSchema": adapters.form(adapter_type),
    }


def write(folder: Path) -> list[Path]:
    """Writes the file of each adapter whose folder is in `folder`; those that were not as they should be. OSError."""
    stale = [path for path, text in files(folder).items() if not path.is_file() or path.read_text() != text]
    for path in stale:
        path.write_text(files(folder)[path])
    return stale


def files(folder: Path) -> dict[Path, str]:
    """What should stand where."""
    return {
        folder / name / FILE: json.dumps(described(adapter_type), indent=2, ensure_ascii=False) + "\n"
        for name, adapter_type in FOLDERS.items()
    }


def _session_rules() -> dict[str, Any]:
    """As read_session applies them; `space` is what Python calls so, which is not what JavaScript does."""
    space = "".join(character for character in map(chr, range(sys.maxunicode + 1)) if character.isspace())
    return {
        "fields": [{"name": name, "aliases": list(aliases)} for name, aliases in sessions.SPELLINGS],
        "id": "sessionId",
        "longest": sessions.LONGEST_ID,
        "space": space,
    }
