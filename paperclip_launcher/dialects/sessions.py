"""Session parameters as Paperclip stores them beside an agent: read in any spelling that was ever written, written
in one. Pure and cheap: the server calls this several times a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SPELLINGS = (
    ("sessionId", ("sessionId", "session_id", "sessionID")),
    ("cwd", ("cwd", "workdir", "folder")),
    ("workspaceId", ("workspaceId", "workspace_id")),
    ("repoUrl", ("repoUrl", "repo_url")),
    ("repoRef", ("repoRef", "repo_ref")),
    ("promptBundleKey", ("promptBundleKey", "prompt_bundle_key")),
)
"""Each parameter, and what it was ever called; the first that holds a text counts."""
LONGEST_ID = 256
_SESSION_ID = re.compile(rf"[^\s\-\x00-\x1f\x7f][^\s\x00-\x1f\x7f]{{0,{LONGEST_ID - 1}}}")
"""It becomes an argument of the agent: not one that would be read as an option."""


def read_session(raw: Any) -> dict[str, str] | None:
    """The parameters that are there, in our spelling and order; None where no usable session is named."""
    if not isinstance(raw, Mapping):
        return None
    found = {name: _first_text(raw, spellings) for name, spellings in SPELLINGS}
    if not _SESSION_ID.fullmatch(found["sessionId"]):
        return None
    return {name: value for name, value in found.items() if value}


def write_session(params: Any) -> dict[str, str] | None:
    """The same: what is written is what a reader makes of it."""
    return read_session(params)


def session_label(params: Any) -> str | None:
    session = read_session(params)
    return session["sessionId"] if session else None


def _first_text(raw: Mapping[str, Any], spellings: tuple[str, ...]) -> str:
    texts = (raw[one].strip() for one in spellings if isinstance(raw.get(one), str))
    return next((text for text in texts if text), "")
