"""The files that a run finds beside its prompt, and what must not be among them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kubekit import gitcredentials
from paperclip_launcher.dialects.model import Dialect
from paperclip_launcher.options import RunOptions
from paperclip_launcher.prompt import LARGEST, Prompt, parts
from paperclip_launcher.skills.bundle import INSTRUCTIONS, HeldBundle
from paperclip_launcher.skills.toolfilter import PROGRAM_FILE, SETTINGS_FILE, program, settings_json
from paperclip_launcher.templates import Template

PRE_RUN = "pre-run"
"""What entry.sh runs before the agent."""
NAMES: Mapping[str, str] = {"instructions": "instructions.md", "settings": SETTINGS_FILE, "mcp": "mcp.json"}
"""Files by role, as a dialect asks for them."""


@dataclass(frozen=True, slots=True)
class Extras:
    """What the launcher adds to a run: the agent's instructions, as a text or as a file of its bundle; its own
    environment, out of which the config may choose; and where it has the agents' claim, whose files it may read.
    Without the claim `held` is the bundle.
    """

    instructions: str = field(default="", repr=False)
    instructions_in_bundle: bool = False
    inherited: Mapping[str, str] = field(default_factory=dict, repr=False)
    claim: Path | None = None
    held: HeldBundle = field(default_factory=HeldBundle)


NOTHING_EXTRA = Extras()


def file_texts(options: RunOptions, extras: Extras, dialect: Dialect, mount: str, notes: list[str]) -> dict[str, str]:
    """The files by name; `mount` is where they will be."""
    texts: dict[str, str] = {}
    if extras.instructions and not extras.instructions_in_bundle and dialect.name != "command":
        texts[NAMES["instructions"]] = extras.instructions
    if options.mcp_servers:
        texts[NAMES["mcp"]] = json.dumps({"mcpServers": options.mcp_servers}, ensure_ascii=False)
    if options.pre_run_command:
        texts[PRE_RUN] = options.pre_run_command
    if options.tool_output_limit_bytes and dialect.name == "claude":
        texts[PROGRAM_FILE] = _filter_program()
        texts[SETTINGS_FILE] = settings_json(f"{mount}/{PROGRAM_FILE}", options.tool_output_limit_bytes)
    elif options.tool_output_limit_bytes:
        notes.append(f"toolOutputLimitBytes is left out, since {dialect.name} has nothing to cut the output of a tool")
    return texts


def paths(texts: Mapping[str, str], extras: Extras, template: Template) -> dict[str, str]:
    """Where the agent finds the files, by role."""
    found = {role: f"{template.prompt_mount}/{name}" for role, name in NAMES.items() if name in texts}
    if extras.instructions_in_bundle:
        found["instructions"] = f"{template.bundle_mount}/{INSTRUCTIONS}"
    return found


@cache
def _filter_program() -> str:
    return program()


def credential_problems(options: RunOptions, arguments: list[str]) -> Iterator[str]:
    """A sentence for each place of the config, its variables aside, that looks like it holds a credential of git."""
    found = {
        "extraArgs": any(map(gitcredentials.held, arguments)),
        "preRunCommand": gitcredentials.held(options.pre_run_command),
        "mcpServers": any(_is_credential(key, value) for key, value in leaves(options.mcp_servers)),
    }
    for key, credential in found.items():
        if credential and key not in options.allow_git_credentials:
            yield (
                f"{key} holds what looks like a credential of git, which an agent must not have; "
                f"name {key} in allowGitCredentials if it is meant"
            )


def split(prompt: Prompt, texts: Mapping[str, str], problems: list[str]) -> list[dict[str, bytes]]:
    """The data of each Secret of the prompt."""
    data = prompt.data
    if len(data) > LARGEST:
        problems.append(f"the prompt has {len(data)} bytes; at most {LARGEST} can be handed over")
        return [{}]
    try:
        return list(parts(data, {name: text.encode() for name, text in texts.items()}))
    except ValueError as error:
        problems.append(str(error))
        return [{}]


def secret_texts(servers: Mapping[str, Any]) -> tuple[str, ...]:
    """What of MCP servers is to be masked: their variables and headers."""
    found: list[str] = []
    for server in servers.values():
        for part in ("env", "headers"):
            found.extend(value for _, value in leaves(server.get(part) if isinstance(server, Mapping) else None))
    return tuple(found)


def leaves(tree: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(nearest key, text) of every text in `tree`."""
    waiting = [(key, tree)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, Mapping):
            waiting.extend((str(inner), child) for inner, child in value.items())
        elif isinstance(value, list | tuple):
            waiting.extend((name, child) for child in value)


def _is_credential(key: str, value: str) -> bool:
    # ${NAME} is a reference to a variable, which is looked at by itself.
    return gitcredentials.in_variable(key, value) and bool(value) and not value.startswith("${")
