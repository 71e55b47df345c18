"""What Paperclip's server asks of an adapter besides runs: its form, models, sessions and skills. Pure, all of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from paperclip_launcher import dialects
from paperclip_launcher.dialects.model import Dialect
from paperclip_launcher.fields import config_schema, documentation
from paperclip_launcher.launcher import dialect_of
from paperclip_launcher.serve.params import Params
from paperclip_launcher.serve.peer import Peer
from paperclip_launcher.skills.snapshot import skills_snapshot

ADAPTER_TYPES = tuple(dialects.BY_ADAPTER)
_LABELS = {
    "claude_k8s": "Claude (Kubernetes)",
    "opencode_k8s": "OpenCode (Kubernetes)",
    "command_k8s": "Command (Kubernetes)",
}
# Zeros: the server never changes a session by itself; the agent looks after its own context.
_COMPACTION = {"enabled": True, "maxSessionRuns": 0, "maxRawInputTokens": 0, "maxSessionAgeHours": 0}


def describe(_peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
    """What the module object of the adapter holds beside its functions."""
    return description(_dialect(Params(tree)).adapter_type, os.environ)


def description(adapter_type: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The same; `environment` is that of the agents. ConfigInvalid where the type is not known."""
    dialect = dialect_of(adapter_type)
    return {
        "type": dialect.adapter_type,
        "label": _LABELS.get(dialect.adapter_type, dialect.name.capitalize()),
        "supportsLocalAgentJwt": True,
        "supportsInstructionsBundle": True,
        "instructionsPathKey": "instructionsFilePath",
        "requiresMaterializedRuntimeSkills": False,
        "hasOutOfProcessLiveness": True,
        "runtimeToolDelivery": "environment",
        "supportsSkills": _has_skills(dialect),
        "sessionManagement": {
            "supportsSessionResume": dialect.resumes,
            "nativeContextManagement": "confirmed" if dialect.resumes else "none",
            "defaultSessionCompaction": _COMPACTION,
        },
        "models": _models(dialect, environment),
        "agentConfigurationDoc": "\n".join(_document(dialect)),
    }


def schema(_peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
    """The form of the config. `program` is asked for where a plain program is run."""
    return form(_dialect(Params(tree)).adapter_type)


def form(adapter_type: str) -> dict[str, Any]:
    """The same. ConfigInvalid where the type is not known."""
    fields = config_schema()["fields"]
    plain = dialect_of(adapter_type).name == "command"
    return {"fields": [one for one in fields if one["key"] != "program" or plain]}


def models(_peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
    """`environment`, where it is given, is that of the agents; else it is taken to be like ours."""
    params = Params(tree)
    dialect, environment = _dialect(params), params.tree("environment", os.environ)
    params.check()
    return {"models": _models(dialect, {key: one for key, one in environment.items() if isinstance(one, str)})}


def read_session(_peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
    params = Params(tree)
    return {"params": _dialect(params).read_session(params.any("raw"))}


def write_session(_peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
    params = Params(tree)
    return {"params": _dialect(params).write_session(params.any("params"))}


def session_label(_peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
    params = Params(tree)
    return {"displayId": _dialect(params).session_label(params.any("params"))}


def skills(_peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
    """For skills.sync as well: there is nothing to sync, since each run gets its skills anew."""
    params = Params(tree)
    dialect, config = _dialect(params), params.tree("config")
    params.check()
    found = skills_snapshot(config, adapter_type=dialect.adapter_type)
    if _has_skills(dialect):
        return found
    text = f"{dialect.name} has no skills; they are left out of its runs."
    warnings = [text] if found["desiredSkills"] else []
    return {**found, "supported": False, "mode": "unsupported", "entries": [], "warnings": warnings}


def _dialect(params: Params) -> Dialect:
    """Of the adapterType. ConfigInvalid where there is none."""
    name = params.text("adapterType", "claude_k8s")
    params.check()
    return dialect_of(name)


def _has_skills(dialect: Dialect) -> bool:
    return dialect.name == "claude"


def _models(dialect: Dialect, environment: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"id": one.id, "label": one.label} for one in dialect.models(environment)]


def _document(dialect: Dialect) -> list[str]:
    return [
        f"# {_LABELS.get(dialect.adapter_type, dialect.name)}",
        "",
        "Every run of the agent is one Kubernetes Job, made from the environment's Job template.",
        "Its log is followed live, and the run goes on when the launcher or the server restarts.",
        "",
        "The config of an agent may have these keys; all are optional unless it says otherwise.",
        "",
        *documentation(),
        "",
        "`env` holds variables of the agent by name; their values are kept in a Secret of the run.",
        "What looks like a credential of git is refused unless `allowGitCredentials` names it.",
    ]
