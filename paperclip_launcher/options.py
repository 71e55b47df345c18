"""The config of an agent as typed settings, checked as a whole: every problem is told at once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast

from paperclip_launcher import readers
from paperclip_launcher.dialects.model import Dialect
from paperclip_launcher.errors import ConfigInvalid
from paperclip_launcher.fields import BY_KEY, FIELDS
from paperclip_launcher.readers import Unreadable, kind, shown

Concurrency = Literal["fail", "wait", "reattach", "allow"]

DEFAULT_PROMPT = "You are agent {{agent.id}} ({{agent.name}}). Continue your Paperclip work."
_REMEDY = "correct the agent's config in Paperclip; nothing was created"
_NOBODY_ELSES = ("paperclip.io", "kubernetes.io", "k8s.io", "x-k8s.io")
_OF_JOB_CONTROLLER = frozenset({"job-name", "controller-uid", "pod-template-hash"})
_OURS = frozenset(
    {"env", "resources", "paperclipRuntimeSkills", "paperclipSkillSync", "enableRtk", "rtkMaxOutputBytes"}
)
_RTK_BYTES = 50_000
_PARTS = ("requests", "limits")


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill that the agent is to have; `source` is its folder where the launcher runs."""

    key: str
    runtime_name: str
    source: str


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the config says of a run. "" and 0 where it says nothing; times are seconds.

    `namespace`, `service_account`, `image_pull_policy` and `kubeconfig` can only be what the environment has anyway.
    `resources` holds just what was said, by requests and limits; None for node_selector and tolerations means that the
    environment's stay, and an empty one turns them off. `notes` are sentences for people about what was left out.
    """

    model: str = ""
    effort: str = ""
    max_turns: int = 0
    timeout_seconds: int = 0
    grace_seconds: int = 60
    schedule_timeout_seconds: int = 600
    skip_permissions: bool = True
    extra_args: tuple[str, ...] = field(default=(), repr=False)
    template: str = ""
    namespace: str = ""
    service_account: str = ""
    image: str = ""
    image_pull_policy: str = ""
    kubeconfig: str = ""
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    node_selector: Mapping[str, str] | None = None
    tolerations: tuple[Mapping[str, Any], ...] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""
    runtime_class: str = ""
    queue_name: str = ""
    ttl_seconds: int = 300
    retain: bool = False
    concurrency: Concurrency = "reattach"
    wait_seconds: int = 3600
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    env_passthrough: tuple[str, ...] = ()
    allow_git_credentials: tuple[str, ...] = ()
    prompt_template: str = field(default=DEFAULT_PROMPT, repr=False)
    bootstrap_prompt_template: str = field(default="", repr=False)
    cwd: str = ""
    instructions_file: str = ""
    skills: tuple[Skill, ...] = ()
    tool_output_limit_bytes: int = 0
    mcp_servers: Mapping[str, Any] = field(default_factory=dict, repr=False)
    pre_run_command: str = field(default="", repr=False)
    program: str = ""
    log_file: str = ""
    notes: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The program of the plain dialect."""
        return self.program

    @classmethod
    def of(cls, config: Any, dialect: Dialect) -> RunOptions:
        """From the config of an agent as Paperclip hands it over. ConfigInvalid lists every problem."""
        problems: list[str] = []
        notes: list[str] = []
        if not isinstance(config, Mapping):
            raise ConfigInvalid([f"the config is {kind(config)}, not a map"], _REMEDY)
        values = _read_fields(config, problems)
        reattach = values.pop("reattach", True)
        values["concurrency"] = values.get("concurrency") or ("reattach" if reattach else "fail")
        values["resources"] = _resources(config, problems)
        values["labels"] = extra_labels(values.get("labels") or {}, notes)
        values["env"] = _variables(config.get("env"), problems, notes)
        values["skills"] = _skills(config, problems, notes)
        if _is_on(config.get("enableRtk")) and not values.get("tool_output_limit_bytes"):
            values["tool_output_limit_bytes"] = config.get("rtkMaxOutputBytes") or _RTK_BYTES
        _check_together(values, dialect, problems)
        notes.extend(_misspelt(config))
        if problems:
            raise ConfigInvalid(problems, _REMEDY)
        known = {one.name for one in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known}, notes=tuple(notes))


def extra_labels(labels: Any, notes: list[str]) -> dict[str, str]:
    """The labels of a run that its user may choose; those with a reserved key are left out, with a note each."""
    kept = {}
    for key, value in readers.parse_key_value(labels).items():
        if is_reserved(key):
            notes.append(f"labels: {key} is left out, since the launcher or Kubernetes sets such labels itself")
        else:
            kept[key] = value
    return kept


def is_reserved(key: str) -> bool:
    """Whether a label belongs to the launcher or to Kubernetes: they select pods and Jobs by it."""
    prefix, slash, _ = key.rpartition("/")
    if not slash:
        return key in _OF_JOB_CONTROLLER
    return any(prefix == one or prefix.endswith(f".{one}") for one in _NOBODY_ELSES)


def _read_fields(config: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for one in FIELDS:
        if not one.attribute:
            continue
        value = config.get(one.key)
        if one.attribute in {"node_selector", "tolerations"} and value in ("", None):
            continue
        if value is None or value == "":
            values[one.attribute] = _default(one.attribute, one.default)
            continue
        try:
            values[one.attribute] = one.read(value)
        except Unreadable as problem:
            problems.append(f"{one.key} {problem}")
            values[one.attribute] = _default(one.attribute, one.default)
    return values


def _default(attribute: str, default: Any) -> Any:
    if attribute == "prompt_template":
        return DEFAULT_PROMPT
    return {} if attribute in {"labels", "mcp_servers"} else default


def _resources(config: Mapping[str, Any], problems: list[str]) -> dict[str, dict[str, str]]:
    """What was said, nested ({"resources": {"limits": {...}}}) or flat ("resources.limits.cpu"); flat wins."""
    found: dict[str, dict[str, Any]] = {part: {} for part in _PARTS}
    nested = config.get("resources")
    if nested not in (None, ""):
        try:
            whole = readers.tree(nested)
        except Unreadable as problem:
            problems.append(f"resources {problem}")
            whole = {}
        for part, amounts in whole.items():
            if part not in _PARTS or not isinstance(amounts, Mapping):
                problems.append(f"resources has {shown(part)}; it may have maps of requests and limits")
                continue
            found[part].update({str(key): value for key, value in amounts.items() if value not in (None, "")})
    for key, value in config.items():
        if isinstance(key, str) and key.startswith("resources.") and value not in (None, ""):
            _, part, name = (*key.split(".", 2), "")[:3]
            if part not in _PARTS or not name:
                problems.append(f"{shown(key)} is no resource; write resources.requests.cpu and the like")
                continue
            found[part][name] = value
    read: dict[str, dict[str, str]] = {}
    for part, amounts in found.items():
        for name, value in amounts.items():
            try:
                read.setdefault(part, {})[name] = readers.amount(value)
            except Unreadable as problem:
                problems.append(f"resources.{part}.{name} {problem}")
    return read


def _variables(value: Any, problems: list[str], notes: list[str]) -> dict[str, str]:
    if value in (None, ""):
        return {}
    if not isinstance(value, Mapping):
        problems.append(f"env is {kind(value)}, not a map of texts")
        return {}
    left_out = sorted(str(key) for key, one in value.items() if not isinstance(one, str))
    if left_out:
        notes.append(f"env: {', '.join(left_out)} left out, since only texts can be variables")
    return {str(key): one for key, one in value.items() if isinstance(one, str)}


def _skills(config: Mapping[str, Any], problems: list[str], notes: list[str]) -> tuple[Skill, ...]:
    """The skills that the agent is to have, out of those that Paperclip offers."""
    offered = offered_skills(config.get("paperclipRuntimeSkills"), problems)
    sync = config.get("paperclipSkillSync")
    wanted = sync.get("desiredSkills") if isinstance(sync, Mapping) else None
    chosen: dict[str, Skill] = {}
    for one in wanted if isinstance(wanted, list | tuple) else ():
        name = one.get("key") if isinstance(one, Mapping) else one
        if not isinstance(name, str) or not name.strip():
            continue
        found = match_skill(name, offered)
        if found is None:
            notes.append(f"skill {shown(name)} is wanted, and not among those that Paperclip offers")
        else:
            chosen[found.key] = found
    return tuple(chosen[key] for key in sorted(chosen))


def match_skill(name: str, offered: tuple[Skill, ...]) -> Skill | None:
    """By key, else by a runtime name or a last part of a key that only one has; capitals do not count."""
    wanted = name.strip().casefold()
    by_key = [one for one in offered if one.key.casefold() == wanted]
    by_name = [one for one in offered if one.runtime_name.casefold() == wanted]
    by_end = [one for one in offered if one.key.rpartition("/")[2].casefold() == wanted]
    return next((found[0] for found in (by_key, by_name, by_end) if len(found) == 1), None)


def offered_skills(value: Any, problems: list[str]) -> tuple[Skill, ...]:
    """What Paperclip offers: `value` is config.paperclipRuntimeSkills."""
    if value in (None, ""):
        return ()
    if not isinstance(value, list | tuple):
        problems.append(f"paperclipRuntimeSkills is {kind(value)}, not a list")
        return ()
    found = []
    for index, one in enumerate(value):
        entry = one if isinstance(one, Mapping) else {}
        key = entry.get("key") or entry.get("name")
        name, source = entry.get("runtimeName") or entry.get("name") or key, entry.get("source")
        if isinstance(key, str) and isinstance(name, str) and isinstance(source, str):
            found.append(Skill(key, name, source))
        else:
            problems.append(f"paperclipRuntimeSkills[{index}] wants texts for key, runtimeName and source")
    return tuple(found)


def _is_on(value: Any) -> bool:
    """Whether a toggle that has another name now is on."""
    try:
        return readers.flag(value)
    except Unreadable:
        return False


def _check_together(values: Mapping[str, Any], dialect: Dialect, problems: list[str]) -> None:
    """What no field says alone."""
    if dialect.name == "command" and not values.get("program"):
        problems.append("program is missing: it names what a plain run starts")
    steps = str(values.get("log_file") or "a").split("/")
    if any(step in ("", ".", "..") or "\0" in step for step in steps):
        problems.append(f"logFile is {shown(values['log_file'])}; it names a file of the workspace, such as logs/a.txt")
    if values.get("tool_output_limit_bytes") and not isinstance(values["tool_output_limit_bytes"], int):
        problems.append(f"rtkMaxOutputBytes is {shown(values['tool_output_limit_bytes'])}, not a number")
    for name, server in cast("Mapping[str, Any]", values.get("mcp_servers") or {}).items():
        if not isinstance(server, Mapping):
            problems.append(f"mcpServers[{shown(name)}] is {kind(server)}, not a map")


def _misspelt(config: Mapping[str, Any]) -> list[str]:
    """Keys that look like one of ours and are none. Paperclip adds keys of its own, so a stranger is no problem."""
    known = [*BY_KEY, *_OURS]
    notes = []
    for key in config:
        if not isinstance(key, str) or key in known or key.startswith("resources."):
            continue
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.88)
        if near:
            notes.append(f"config: {shown(key)} is no key of ours; was {near[0]} meant?")
    return notes
