"""The agent programs that runs can be made of. A new one is one file here, and its line in this table."""

from __future__ import annotations

from paperclip_launcher.dialects.claude import Claude
from paperclip_launcher.dialects.command import Command
from paperclip_launcher.dialects.model import Dialect
from paperclip_launcher.dialects.opencode import OpenCode

_ALL: tuple[Dialect, ...] = (Claude(), OpenCode(), Command())
DIALECTS: dict[str, Dialect] = {one.name: one for one in _ALL}
"""By name, as in a config: claude, opencode, command."""
BY_ADAPTER: dict[str, Dialect] = {one.adapter_type: one for one in _ALL}
"""By Paperclip's word for them: claude_k8s, opencode_k8s, command_k8s."""
