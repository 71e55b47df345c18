"""What Paperclip asks for: the context of one run, read once and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kubekit import pointers
from paperclip_launcher.errors import AgentIdInvalid, ConfigInvalid
from paperclip_launcher.readers import kind

_LONGEST_ID = 512
_LONGEST_NAME = 1024
_MOST_PROBLEMS = 20
_LONE = re.compile("[\ud800-\udfff]")
_LONGEST_TOKEN = 64 * 1024
_READ = ("runId", "agent", "runtime", "config", "context", "authToken", "runtimeTools")
_REMEDY = "the request must have the shape of the context that Paperclip gives to adapters"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run. Texts are "" where nothing was said; what may be secret does not show in a repr.

    `task_id` is the task or issue of the run; `task_key` is what Paperclip tells runs by, also those without a task.
    `session_params` is the stored session as it came, in any spelling.
    """

    run_id: str
    agent_id: str
    agent_name: str = ""
    company_id: str = ""
    task_id: str = ""
    task_key: str = ""
    adapter_type: str = ""
    agent_role: str = ""
    session_id: str = ""
    session_params: Mapping[str, Any] | None = field(default=None, repr=False)
    context: Mapping[str, Any] = field(default_factory=dict, repr=False)
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    auth_token: str = field(default="", repr=False)
    tools: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Paperclip's connection tools as the agent reaches them, with a token of their own."""

    @classmethod
    def of(cls, tree: Any) -> RunRequest:
        """From the context of Paperclip; keys that we do not know are ignored.

        ConfigInvalid lists every problem; AgentIdInvalid where the agent's id is one of them.
        """
        if not isinstance(tree, Mapping):
            raise ConfigInvalid([f"the request is {kind(tree)}, not a map"], _REMEDY)
        problems = _text_problems({key: tree[key] for key in _READ if key in tree})
        reader = _Reader(problems)
        agent = reader.part(tree, "agent")
        runtime = reader.part(tree, "runtime")
        context = reader.part(tree, "context")
        session = runtime.get("sessionParams")
        if session is not None and not isinstance(session, Mapping):
            problems.append(f"/runtime/sessionParams is {kind(session)}, not a map")
            session = None
        before = len(problems)
        agent_id = reader.text(agent, "/agent/id", _LONGEST_ID, required=True)
        agent_is_wrong = len(problems) > before
        request = cls(
            run_id=reader.text(tree, "/runId", _LONGEST_ID, required=True),
            agent_id=agent_id,
            agent_name=reader.text(agent, "/agent/name", _LONGEST_NAME),
            company_id=reader.text(agent, "/agent/companyId", _LONGEST_ID),
            task_id=reader.text(context, "/context/taskId", _LONGEST_ID)
            or reader.text(context, "/context/issueId", _LONGEST_ID),
            task_key=_key(context.get("taskKey")) or _key(runtime.get("taskKey")),
            adapter_type=reader.text(agent, "/agent/adapterType", 128),
            agent_role=reader.text(agent, "/agent/role", _LONGEST_NAME),
            session_id=reader.text(runtime, "/runtime/sessionId", _LONGEST_ID).strip(),
            session_params=session,
            context=context,
            config=reader.part(tree, "config"),
            auth_token=reader.text(tree, "/authToken", _LONGEST_TOKEN, secret=True),
            tools=_tools(reader, tree),
        )
        if problems:
            raise (AgentIdInvalid if agent_is_wrong else ConfigInvalid)(problems, _REMEDY)
        return request


class _Reader:
    """Reads parts of the request, and gathers what is wrong with them."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems

    def part(self, tree: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        found = tree.get(key)
        if found is None:
            return {}
        if not isinstance(found, Mapping):
            self._problems.append(f"/{key} is {kind(found)}, not a map")
            return {}
        return found

    def text(
        self, tree: Mapping[str, Any], pointer: str, limit: int, *, required: bool = False, secret: bool = False
    ) -> str:
        found = tree.get(pointer.rpartition("/")[2])
        problem = ""
        if found is None or (isinstance(found, str) and not found.strip()):
            problem = "is missing" if required else ""
        elif not isinstance(found, str):
            problem = f"is {kind(found)}, not a text"
        elif "\x00" in found:
            problem = f"holds NUL at character {found.index(chr(0)) + 1}"
        elif len(found.encode("utf-8", "surrogatepass")) > limit:
            problem = f"is longer than {limit} bytes"
        elif secret and not found.isprintable():
            problem = "holds a character that cannot stand in a header"
        else:
            return found
        if problem:
            self._problems.append(f"{pointer} {problem}")
        return ""


def _key(found: Any) -> str:
    """What cannot be kept is none: nothing but the comparison of runs depends on it."""
    usable = isinstance(found, str) and found.strip() and "\x00" not in found and len(found.encode()) <= _LONGEST_ID
    return str(found) if usable else ""


def _tools(reader: _Reader, tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a token they are of no use."""
    found = reader.part(tree, "runtimeTools")
    token = reader.text(found, "/runtimeTools/bearerToken", _LONGEST_TOKEN, secret=True)
    return {**found, "bearerToken": token} if token else {}


def _text_problems(tree: Mapping[str, Any]) -> list[str]:
    """Lone surrogates, which are no text in any encoding, each with its place; and what is no JSON."""
    try:
        json.dumps(tree, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # Written out already, so it has an end: it can be walked.
        return list(islice(_surrogates(tree), _MOST_PROBLEMS))
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        return [f"the request is no JSON: {reason}"]
    return []


def _surrogates(tree: Mapping[str, Any]) -> Iterator[str]:
    for pointer, leaf in pointers.walk(tree):
        if match := _LONE.search(pointer):
            yield f"{_printable(pointer)} has a key with a lone surrogate (U+{ord(match[0]):04X})"
        elif isinstance(leaf, str) and (match := _LONE.search(leaf)):
            code = f"U+{ord(match[0]):04X}"
            yield f"{_printable(pointer)} holds a lone surrogate ({code}) at character {match.start() + 1}"


def _printable(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
