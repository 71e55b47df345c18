"""Claude Code's stream-json, read as it comes: one JSON object a line.

Claude Code writes one `assistant` event for each block of a message, all with the message's id, so usage counts once
an id (the Agent SDK's page on cost tracking) and no block may be dropped for its id. Retries and rate limits
(`system`/`api_retry`, `rate_limit_event`) are states, no content.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from paperclip_launcher.dialects.jsonlines import (
    MAX_EVENT_BYTES,
    PlainLines,
    Texts,
    amount_of,
    bounded,
    clean,
    count_of,
    cut,
    decode,
    decode_event,
    first_type,
    map_of,
    maps_of,
    text_of,
)
from paperclip_launcher.dialects.model import Parsed, Usage

RESULT_BYTES = 65536
_WANTED = frozenset((b"system", b"assistant", b"result", b"rate_limit_event"))
_MOST = b'{"type":"user"'
"""What tools answered: most bytes of most logs, and nothing in it counts."""
_RECENT = 64
"""Message ids that are remembered; messages of subagents interleave, but not by so many."""

_MAX_TURNS = re.compile(r"max(imum)?\s+turns?", re.IGNORECASE)
_UNKNOWN_SESSION = re.compile(
    r"no conversation found with session id|unknown session|session(\s.*)?\snot found", re.IGNORECASE
)
_LOGIN = re.compile(
    r"not logged in|please (?:log in|run (?:`claude login`|/login))|login required|requires login|unauthorized"
    r"|authentication[ _](?:required|error)|invalid api key|oauth token (?:has expired|revoked)",
    re.IGNORECASE,
)
_UPSTREAM = re.compile(
    r"api error:? *\(?(?:429|5\d\d)\b|overloaded_error|rate_limit_error|(?:usage|session|weekly|hour) limit"
    r"|api error: (?:connection|request timed out)",
    re.IGNORECASE,
)
_END_BYTES = 65536
_FIELD = re.compile(
    rb'(?<!\\)"(subtype|is_error|session_id|total_cost_usd)"\s*:\s*("[^"\\]{0,256}"|true|false|[-+.\deE]{1,32})'
)
_URL = re.compile(r"https?://[^\s'\"<>`]+")
_LOGIN_HOST = re.compile(r"claude|anthropic|auth", re.IGNORECASE)


def error_texts(result: Mapping[str, Any]) -> list[str]:
    """What the `errors` of a result say, each a text: its message, error or code, else its JSON."""
    errors = result.get("errors")
    return [text for text in map(error_text, errors) if text] if isinstance(errors, list) else []


def error_text(error: Any) -> str:
    if isinstance(error, str):
        return error.strip()
    if not isinstance(error, Mapping):
        return ""
    named = (text_of(error.get(key)).strip() for key in ("message", "error", "code"))
    return next((text for text in named if text), None) or json.dumps(error, ensure_ascii=False, separators=(",", ":"))


def describe_failure(result: Mapping[str, Any]) -> str | None:
    """One sentence for a failed result; None where it says nothing of itself."""
    subtype = text_of(result.get("subtype")).strip()
    detail = text_of(result.get("result")).strip() or next(iter(error_texts(result)), "")
    parts = [f"subtype={subtype}" if subtype else "", detail]
    said = [part for part in parts if part]
    return ": ".join(["Claude run failed", *said]) if said else None


def is_failure(result: Mapping[str, Any]) -> bool:
    """Whether the agent itself calls its run a failure, whatever its exit code."""
    return result.get("is_error") is True or text_of(result.get("subtype")).strip().lower().startswith("error")


def is_max_turns(result: Mapping[str, Any] | None) -> bool:
    if not result:
        return False
    if text_of(result.get("subtype")).strip().lower() == "error_max_turns":
        return True
    if text_of(result.get("stop_reason")).strip().lower() == "max_turns":
        return True
    return _MAX_TURNS.search(text_of(result.get("result"))) is not None


def is_unknown_session(result: Mapping[str, Any]) -> bool:
    return names_unknown_session("\n".join([text_of(result.get("result")), *error_texts(result)]))


def names_unknown_session(text: str) -> bool:
    return _UNKNOWN_SESSION.search(text) is not None


def asks_for_login(text: str) -> bool:
    return _LOGIN.search(text) is not None


def names_upstream(text: str) -> bool:
    """Whether it is the model's provider that failed: overloaded, limited, not to be reached."""
    return _UPSTREAM.search(text) is not None


def login_url(text: str) -> str:
    """The address to log in at: the first that looks like one, else the first at all, "" without any."""
    found = [one.rstrip(".,;:!?)]}") for one in _URL.findall(text)]
    return next((one for one in found if _LOGIN_HOST.search(one)), found[0] if found else "")


def usage_of(tree: Any) -> Usage:
    usage = map_of(tree)
    return Usage(
        count_of(usage.get("input_tokens")),
        count_of(usage.get("output_tokens")),
        count_of(usage.get("cache_read_input_tokens")),
    )


class ClaudeParser:
    """A dialects.model.StreamParser. Events that cannot count, tool output above all, are never decoded."""

    def __init__(self) -> None:
        self._session = ""
        self._model = ""
        self._result: dict[str, Any] | None = None
        self._empty = False
        self._content = False
        self._texts = Texts()
        self._plain = PlainLines()
        self._seen: dict[str, None] = {}
        self._messages: dict[str, tuple[int, int, int]] = {}
        self._settled = (0, 0, 0)
        self._retry_at: float | None = None

    def feed(self, lines: bytes) -> None:
        for line in lines.split(b"\n"):
            if line.startswith(_MOST):
                continue
            kind = first_type(line)
            if kind is None:
                self._other(line)
            elif kind in _WANTED:
                self._event(line, kind)

    def _other(self, line: bytes) -> None:
        if not line or line.isspace():
            return
        event = decode_event(line) if line.lstrip()[:1] == b"{" else None
        if event is None:
            self._plain.add(line)
        else:
            self._take(event)

    def _event(self, line: bytes, kind: bytes) -> None:
        if len(line) > MAX_EVENT_BYTES and kind == b"assistant":
            self._content, self._empty = True, False
            return
        event = _ends_of_result(line) if len(line) > MAX_EVENT_BYTES else decode_event(line)
        if event is not None:
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "assistant":
            self._session = self._id(event)
            self._assistant(event)
        elif kind == "result":
            self._session = self._id(event)
            self._result = bounded(event, RESULT_BYTES)
            self._empty = self._content = False
        elif kind == "system":
            self._session = self._id(event)
            if event.get("subtype") == "init":
                self._model = clean(text_of(event.get("model"))) or self._model
        elif kind == "rate_limit_event":
            limit = map_of(event.get("rate_limit_info"))
            self._retry_at = amount_of(limit.get("resetsAt")) if limit.get("status") == "rejected" else None

    def _id(self, event: Mapping[str, Any]) -> str:
        return cut(text_of(event.get("session_id")).strip(), 256) or self._session

    def _assistant(self, event: dict[str, Any]) -> None:
        message = map_of(event.get("message"))
        usage = usage_of(message.get("usage"))
        output = usage.output_tokens or count_of(message.get("output_tokens"))
        blocks = maps_of(message.get("content"))
        self._count(text_of(message.get("id")), usage)
        if output > 0 or any(_has_content(block) for block in blocks):
            self._content, self._empty = self._content or output > 0, False
        elif "stop_reason" in message and message["stop_reason"] is None:
            self._empty = True
        # What a subagent says is for the agent that asked it, not for people.
        if event.get("parent_tool_use_id"):
            return
        key = text_of(event.get("uuid")) or text_of(message.get("id"))
        for block in blocks:
            text = text_of(block.get("text")) if block.get("type") == "text" else ""
            if text.strip() and self._is_new(key, text):
                self._texts.add(text)

    def _is_new(self, key: str, text: str) -> bool:
        """Some versions repeat the blocks of a message that they showed before. Blocks of no message are all new."""
        if not key:
            return True
        mark = f"{key[:128]}:{zlib.crc32(text.encode('utf-8', 'replace')):08x}{len(text):x}"
        new = mark not in self._seen
        self._seen[mark] = None
        if len(self._seen) > _RECENT:
            del self._seen[next(iter(self._seen))]
        return new

    def _count(self, message: str, usage: Usage) -> None:
        now = (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens)
        before = self._messages.pop(message[:128], (0, 0, 0)) if message else (0, 0, 0)
        highest = (max(now[0], before[0]), max(now[1], before[1]), max(now[2], before[2]))
        if message:
            self._messages[message[:128]] = highest
        done = self._messages.pop(next(iter(self._messages))) if len(self._messages) > _RECENT else None
        for part in (done, None if message else now):
            if part:
                total = self._settled
                self._settled = (total[0] + part[0], total[1] + part[1], total[2] + part[2])

    def _usage(self) -> Usage | None:
        if self._result is not None:
            return usage_of(self._result.get("usage"))
        parts = [self._settled, *self._messages.values()]
        total = Usage(*(sum(column) for column in zip(*parts, strict=True)))
        return total if total != Usage() else None

    def parsed(self) -> Parsed:
        result = self._result
        failed = result is not None and is_failure(result)
        plain = self._plain.text
        # A result that is well may speak of logins and lost sessions; then they are its subject, not its fate.
        said = plain if result is None else ""
        if failed and result is not None:
            said = "\n".join([text_of(result.get("result"))[:2000], *error_texts(result), plain])
        needs_login = asks_for_login(said)
        return Parsed(
            session_id=self._session,
            model=self._model,
            cost_usd=amount_of(result.get("total_cost_usd")) if result else None,
            usage=self._usage(),
            summary=(text_of(result.get("result")).strip() if result else "") or self._texts.joined,
            result=result,
            empty_response=self._empty,
            truncated=result is None and self._content,
            ended=result is not None,
            login_required=needs_login,
            login_url=login_url(said) if needs_login else "",
            max_turns=is_max_turns(result if failed or result is None else {**result, "result": ""}),
            unknown_session=names_unknown_session(said),
            failure=(describe_failure(result) or "Claude run failed") if failed and result is not None else "",
            first_plain_line=self._plain.first,
            errors=tuple(error_texts(result)) if result else (),
            upstream=names_upstream(said) or (failed and self._retry_at is not None),
            retry_at=self._retry_at,
        )

    def snapshot(self) -> dict[str, Any]:
        return {
            "session": self._session,
            "model": self._model,
            "result": self._result,
            "empty": self._empty,
            "content": self._content,
            "texts": self._texts.to_json(),
            "plain": self._plain.to_json(),
            "seen": list(self._seen),
            "messages": [[key, *value] for key, value in self._messages.items()],
            "settled": list(self._settled),
            "retry_at": self._retry_at,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        if not state:
            return
        self._session = str(state["session"])
        self._model = str(state["model"])
        self._result = dict(state["result"]) if state["result"] is not None else None
        self._empty = bool(state["empty"])
        self._content = bool(state["content"])
        self._texts.restore(state["texts"])
        self._plain.restore(state["plain"])
        self._seen = dict.fromkeys(state["seen"])
        self._messages = {str(key): (int(a), int(b), int(c)) for key, a, b, c in state["messages"]}
        first, second, third = state["settled"]
        self._settled = (int(first), int(second), int(third))
        self._retry_at = state["retry_at"]


def _ends_of_result(line: bytes) -> dict[str, Any]:
    """What decides of a result too long to parse, from its beginning and end. Quotes in its texts are escaped, so that
    no text can pose as a field.
    """
    ends = line[:_END_BYTES] + line[-_END_BYTES:]
    found = {match[1].decode(): decode(match[2]) for match in _FIELD.finditer(ends)}
    return {**found, "type": (first_type(line) or b"").decode("utf-8", "replace"), "cut": True}


def _has_content(block: Mapping[str, Any]) -> bool:
    kind = block.get("type")
    return bool(text_of(block.get(kind)).strip()) if kind in {"text", "thinking"} else bool(kind)
