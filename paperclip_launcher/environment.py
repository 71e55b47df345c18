"""The variables of a run, by a list of what may be in it: never what the launcher's own environment happens to hold.

Sources of the names: what Paperclip's own command line agents are given. What a template sets itself wins over all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubekit import gitcredentials
from paperclip_launcher.options import RunOptions
from paperclip_launcher.readers import shown
from paperclip_launcher.request import RunRequest

LONGEST_VALUE = 96 * 1024
"""Bytes of one variable. Linux stops at 128 KiB, name and all (MAX_ARG_STRLEN)."""
LARGEST = 600 * 1024
"""Bytes of all that go into the Secret; Kubernetes stores 1 MiB in one."""
TOKEN = "PAPERCLIP_API_KEY"  # noqa: S105  a name, not a token
TOOLS_TOKEN = "PAPERCLIP_RUNTIME_TOOLS_TOKEN"  # noqa: S105  as above

_LITERAL = 1024  # bytes: a longer one goes into the Secret, so that the Job stays small
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIKE_A_VALUE = re.compile(r"(?=[^_]*\d)[^_]{16}")
_OF_HOST = re.compile(
    r"TMPDIR|TEMP|TMP|GH_CONFIG_DIR|PAPERCLIP_.*SCRATCH.*|PAPERCLIP_TMPDIR|PAPERCLIP_RUNNER_.*|PAPERCLIP_LISTEN_.*"
    r"|PAPERCLIP_GIT_METADATA_ROOTS"
)
_OURS = frozenset({"HOME", TOKEN, TOOLS_TOKEN, "PAPERCLIP_API_URL", "PAPERCLIP_RUN_ID", "PAPERCLIP_AGENT_ID"})
_OURS_TOO = frozenset({"PAPERCLIP_COMPANY_ID", "PAPERCLIP_TASK_ID"})
_PASSED_ON = re.compile(
    r"(ANTHROPIC|CLAUDE_CODE|OPENAI|OPENROUTER|GEMINI|GOOGLE|OPENCODE|MISTRAL|DEEPSEEK|GROQ|XAI)_[A-Z0-9_]+"
    r"|AWS_(REGION|DEFAULT_REGION|ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|BEARER_TOKEN_BEDROCK)"
    r"|(https?|all|no)_proxy|TZ|LANG|LC_[A-Z]+",
    re.IGNORECASE,
)
# Variable to its place in Paperclip's context; the first that is there counts.
_FACTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("PAPERCLIP_WAKE_REASON", ("wakeReason",)),
    ("PAPERCLIP_WAKE_COMMENT_ID", ("wakeCommentId", "commentId")),
    ("PAPERCLIP_APPROVAL_ID", ("approvalId",)),
    ("PAPERCLIP_APPROVAL_STATUS", ("approvalStatus",)),
    ("PAPERCLIP_ISSUE_WORK_MODE", ("issueWorkMode",)),
    ("PAPERCLIP_RUNTIME_PRIMARY_URL", ("paperclipRuntimePrimaryUrl",)),
)
_WORKSPACE = (
    ("PAPERCLIP_WORKSPACE_SOURCE", "source"),
    ("PAPERCLIP_WORKSPACE_STRATEGY", "strategy"),
    ("PAPERCLIP_WORKSPACE_ID", "workspaceId"),
    ("PAPERCLIP_WORKSPACE_REPO_URL", "repoUrl"),
    ("PAPERCLIP_WORKSPACE_REPO_REF", "repoRef"),
    ("PAPERCLIP_WORKSPACE_BRANCH", "branchName"),
)
_FOLDERS = (("PAPERCLIP_WORKSPACE_WORKTREE_PATH", "worktreePath"), ("AGENT_HOME", "agentHome"))
_LISTS = (
    ("PAPERCLIP_WORKSPACES_JSON", "paperclipWorkspaces"),
    ("PAPERCLIP_RUNTIME_SERVICE_INTENTS_JSON", "paperclipRuntimeServiceIntents"),
    ("PAPERCLIP_RUNTIME_SERVICES_JSON", "paperclipRuntimeServices"),
)
# Of the connection tools; the token aside.
_TOOLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("PAPERCLIP_RUNTIME_TOOLS_MCP_URL", ("mcpEndpoint",)),
    ("PAPERCLIP_RUNTIME_TOOLS_EXPIRES_AT", ("expiresAt",)),
    ("PAPERCLIP_RUNTIME_TOOLS_GUIDANCE", ("guidance",)),
    ("PAPERCLIP_RUNTIME_TOOLS_CONNECTIONS_SEARCH_URL", ("rest", "connectionsSearch")),
    ("PAPERCLIP_RUNTIME_TOOLS_CONNECTION_REQUEST_URL", ("rest", "connectionRequest")),
)


@dataclass(slots=True)
class Variables:
    """`literals` stand in the Job, `secret` in a Secret of the run, `files` beside the prompt, by their file name.

    `given` are the values that came from the config or are the token: they are masked wherever they show up.
    """

    literals: dict[str, str] = field(default_factory=dict)
    secret: dict[str, str] = field(default_factory=dict, repr=False)
    files: dict[str, str] = field(default_factory=dict, repr=False)
    given: tuple[str, ...] = field(default=(), repr=False)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the run will be: its working directory, the workspace and the files of the run, as its pod sees them.

    `reserved` are the variables that the template sets, `dialect` those that the kind of agent needs.
    """

    cwd: str
    workspace: str
    files: str
    reserved: frozenset[str]
    dialect: Mapping[str, str]


def variables(request: RunRequest, options: RunOptions, place: Place, inherited: Mapping[str, str]) -> Variables:
    """All variables of a run. `inherited` is the launcher's own environment, of which only named ones are passed on."""
    found = Variables()
    facts = {**dict(_facts(request.context, place)), **dict(_tool_facts(request.tools))}
    for name, value in facts.items():
        _place_fact(name, value, place, found)
    for name, value in place.dialect.items():
        found.literals.setdefault(name, value)
    given = {**_passed_on(options, inherited, found), **_configured(options, facts, place, found)}
    for name, value in given.items():
        found.literals.pop(name, None)
        found.secret[name] = value
    tokens = {TOKEN: request.auth_token, TOOLS_TOKEN: str(request.tools.get("bearerToken") or "")}
    found.secret |= {name: value for name, value in tokens.items() if value}
    found.given = tuple(value for value in (*given.values(), *tokens.values()) if value)
    size = sum(len(name) + _size(value) for name, value in found.secret.items())
    if size > LARGEST:
        found.problems.append(f"env: the variables have {size} bytes in all; at most {LARGEST} can be kept")
    return found


def _facts(context: Mapping[str, Any], place: Place) -> Iterator[tuple[str, str]]:
    """What Paperclip's context says of the run."""
    for name, keys in _FACTS:
        value = next((one for key in keys if (one := _text(context.get(key)))), "")
        if value:
            yield name, value
    issue = context.get("paperclipIssue")
    if isinstance(issue, Mapping) and not _text(context.get("issueWorkMode")) and _text(issue.get("workMode")):
        yield "PAPERCLIP_ISSUE_WORK_MODE", _text(issue["workMode"])
    if isinstance(wake := context.get("paperclipWake"), Mapping) and wake:
        yield "PAPERCLIP_WAKE_PAYLOAD_JSON", _compact(wake)
    if linked := [text for one in _items(context.get("issueIds")) if (text := _text(one))]:
        yield "PAPERCLIP_LINKED_ISSUE_IDS", ",".join(linked)
    for name, key in _LISTS:
        if items := _items(context.get(key)):
            yield name, _compact(items)
    yield "PAPERCLIP_WORKSPACE_CWD", place.cwd
    workspace = context.get("paperclipWorkspace")
    if isinstance(workspace, Mapping):
        yield from ((name, value) for name, key in _WORKSPACE if (value := _text(workspace.get(key))))
        # A folder of the server's machine means nothing in a pod.
        for name, key in _FOLDERS:
            if (value := _text(workspace.get(key))) and f"{value}/".startswith(f"{place.workspace}/"):
                yield name, value


def _tool_facts(tools: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Where the connection tools are, and how to use them."""
    for name, path in _TOOLS:
        value: Any = tools
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        if text := _text(value):
            yield name, text
    if names := [text for one in _items(tools.get("tools")) if (text := _text(one))]:
        yield "PAPERCLIP_RUNTIME_TOOLS_AVAILABLE", ",".join(names)


def _place_fact(name: str, value: str, place: Place, found: Variables) -> None:
    if "\x00" in value:
        found.problems.append(f"context: {name} would hold NUL at character {value.index(chr(0)) + 1}")
    elif name in place.reserved:
        return
    elif (size := _size(value)) > LONGEST_VALUE:
        file = f"{name.lower().replace('_', '-')}.txt"
        found.files[file] = value
        found.literals[f"{name}_FILE"] = f"{place.files}/{file}"
        found.notes.append(f"{name} has {size} bytes, too many for a variable; {name}_FILE names a file that holds it")
    elif size > _LITERAL or name.endswith("_JSON") or gitcredentials.held(value):
        found.secret[name] = value
    else:
        found.literals[name] = value


def _configured(options: RunOptions, facts: Mapping[str, str], place: Place, found: Variables) -> dict[str, str]:
    """The variables of the config that a run may set."""
    given: dict[str, str] = {}
    for name, value in options.env.items():
        if _OF_HOST.fullmatch(name):
            continue
        if name in _OURS or name in _OURS_TOO or name in facts:
            found.notes.append(f"env: {name} of the config is left out, since the launcher sets it")
        elif name in place.reserved:
            found.notes.append(f"env: {name} of the config is left out, since the environment's Job template sets it")
        elif problem := _problem(name, value):
            found.problems.append(f"env: {_named(name)} {problem}")
        elif _is_credential(name, value, options):
            found.problems.append(
                f"env: {name} looks like a credential of git, which an agent must not have; name it in "
                "allowGitCredentials if it is meant"
            )
        else:
            given[name] = value
    return given


def _passed_on(options: RunOptions, inherited: Mapping[str, str], found: Variables) -> dict[str, str]:
    given: dict[str, str] = {}
    for name in (one.strip() for one in options.env_passthrough):
        if not _PASSED_ON.fullmatch(name):
            found.problems.append(
                f"inheritEnv: {_named(name)} is not a variable that an agent may have of the launcher"
            )
        elif name not in inherited:
            found.notes.append(f"inheritEnv: the launcher has no variable {name}")
        elif problem := _problem(name, inherited[name]):
            found.problems.append(f"inheritEnv: {name} {problem}")
        else:
            given[name] = inherited[name]
    return given


def _named(name: str) -> str:
    """For a message. A long word of letters and digits may be a value that was written where its name belongs."""
    if _LIKE_A_VALUE.search(name):
        return f"{shown(name[:4])}... of {len(name)} characters"
    return shown(name)


def _is_credential(name: str, value: str, options: RunOptions) -> bool:
    return gitcredentials.in_variable(name, value) and name not in options.allow_git_credentials


def _problem(name: str, value: str) -> str:
    if not _NAME.fullmatch(name):
        return "is no name of a variable: letters, digits and _, and no digit first"
    if "\x00" in value:
        return f"holds NUL at character {value.index(chr(0)) + 1}, which no process can be given"
    if (size := _size(value)) > LONGEST_VALUE:
        return f"has {size} bytes; at most {LONGEST_VALUE} fit into a variable"
    return ""


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
