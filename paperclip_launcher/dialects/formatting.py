"""Lines of an agent for readers: as transcript entries of Paperclip's UI, and as text for a terminal.

What an agent prints may hold escape sequences: on a terminal they would move the cursor, set the title or fill the
clipboard. `neutral` makes them visible instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from paperclip_launcher.dialects.jsonlines import amount_of, decode, map_of, maps_of, text_of
from paperclip_launcher.dialects.streamjson import error_text

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BLUE, _GREEN, _YELLOW, _RED, _CYAN, _GRAY = "34", "32", "33", "31", "36", "90"
_LONGEST = 1 << 20

Segment = tuple[str, str]
"""Colour as the number of its escape sequence, and text."""


def neutral(text: str) -> str:
    """`text` with every control character but tab and line feed made visible: escape becomes a sign for it, others
    their number. Marks that turn the direction of text around count as well.
    """
    return _CONTROL.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else f"<{code:02X}>" if code < 0x100 else f"<U+{code:04X}>"


def ui_parse_line(line: str, ts: str) -> list[dict[str, Any]]:
    """Entries of a transcript for one line, each {kind, ts, …}; a line that says nothing else is a `stdout` one."""
    event = map_of(decode(line.encode("utf-8", "surrogatepass")))
    match text_of(event.get("type")):
        case "system" if event.get("subtype") == "init":
            model, session = text_of(event.get("model")) or "unknown", text_of(event.get("session_id"))
            found = [{"kind": "init", "ts": ts, "model": model, "sessionId": session}]
        case "assistant":
            found = [entry for block in _blocks(event) for entry in _assistant_entry(block, ts)]
        case "user":
            found = [entry for block in _blocks(event) for entry in _user_entry(block, ts)]
        case "result":
            found = [_result_entry(event, ts)]
        case _:
            found = []
    return found or [{"kind": "stdout", "ts": ts, "text": line}]


def _blocks(event: dict[str, Any]) -> list[dict[str, Any]]:
    return maps_of(map_of(event.get("message")).get("content"))


def _assistant_entry(block: dict[str, Any], ts: str) -> Iterator[dict[str, Any]]:
    kind = block.get("type")
    if kind == "text" and (text := text_of(block.get("text"))):
        yield {"kind": "assistant", "ts": ts, "text": text}
    if kind == "thinking" and (text := text_of(block.get("thinking"))):
        yield {"kind": "thinking", "ts": ts, "text": text}
    if kind == "tool_use":
        use = text_of(block.get("id")) or text_of(block.get("tool_use_id"))
        name = text_of(block.get("name")) or "unknown"
        given = block["input"] if block.get("input") is not None else {}
        yield {"kind": "tool_call", "ts": ts, "name": name, "toolUseId": use, "input": given}


def _user_entry(block: dict[str, Any], ts: str) -> Iterator[dict[str, Any]]:
    if block.get("type") == "text" and (text := text_of(block.get("text"))):
        yield {"kind": "user", "ts": ts, "text": text}
    if block.get("type") == "tool_result":
        use, failed = text_of(block.get("tool_use_id")), block.get("is_error") is True
        yield {"kind": "tool_result", "ts": ts, "toolUseId": use, "content": _content(block), "isError": failed}


def _content(block: dict[str, Any]) -> str:
    content = block.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(text_of(one["text"]) for one in maps_of(content) if isinstance(one.get("text"), str))


def _errors(event: dict[str, Any]) -> list[str]:
    errors = event.get("errors")
    return [text for text in map(error_text, errors) if text] if isinstance(errors, list) else []


def _result_entry(event: dict[str, Any], ts: str) -> dict[str, Any]:
    usage = map_of(event.get("usage"))
    return {
        "kind": "result",
        "ts": ts,
        "text": text_of(event.get("result")),
        "inputTokens": amount_of(usage.get("input_tokens")) or 0,
        "outputTokens": amount_of(usage.get("output_tokens")) or 0,
        "cachedTokens": amount_of(usage.get("cache_read_input_tokens")) or 0,
        "costUsd": amount_of(event.get("total_cost_usd")) or 0,
        "subtype": text_of(event.get("subtype")),
        "isError": event.get("is_error") is True,
        "errors": _errors(event),
    }


def cli_format_line(line: str, *, debug: bool = False) -> str | None:
    """One line as plain text; None where people need not see it."""
    shown = [text for _, text in _segments(line, debug=debug)]
    return "\n".join(shown) if shown else None


def terminal_line(line: str, *, colour: bool, debug: bool = False) -> str | None:
    """The same for a terminal: nothing in it that a terminal obeys, but for our own colours."""
    shown = [(code, neutral(text)) for code, text in _segments(line, debug=debug)]
    if not shown:
        return None
    return "\n".join(f"\x1b[{code}m{text}\x1b[0m" if colour and code else text for code, text in shown)


def _segments(line: str, *, debug: bool) -> list[Segment]:
    plain = line.strip()
    if not plain:
        return []
    event = decode(plain.encode("utf-8", "surrogatepass"))
    if not isinstance(event, dict):
        # Also what is JSON, but no object: somebody printed it.
        return [("", plain)]
    found = list(_event_segments(event))
    return found or ([(_GRAY, plain)] if debug else [])


def _event_segments(event: dict[str, Any]) -> Iterator[Segment]:
    match text_of(event.get("type")):
        case "system" if event.get("subtype") == "init":
            session = f", session: {event['session_id']}" if text_of(event.get("session_id")) else ""
            yield _BLUE, f"Claude initialized (model: {text_of(event.get('model')) or 'unknown'}{session})"
        case "assistant":
            for block in _blocks(event):
                yield from _assistant_segments(block)
        case "user":
            for block in _blocks(event):
                yield from _user_segments(block)
        case "result":
            yield from _result_segments(event)
        case "rate_limit_event":
            yield _YELLOW, _rate_limit(map_of(event.get("rate_limit_info")))
        case "text" | "tool_use" | "error" as kind:
            yield from _opencode_segments(kind, event)


def _assistant_segments(block: dict[str, Any]) -> Iterator[Segment]:
    kind = block.get("type")
    if kind == "text" and (text := text_of(block.get("text"))):
        yield _GREEN, f"assistant: {text}"
    if kind == "thinking" and (text := text_of(block.get("thinking"))):
        yield _GRAY, f"thinking: {text}"
    if kind == "tool_use":
        yield from _tool_call(text_of(block.get("name")), block.get("input"))


def _tool_call(name: str, given: Any) -> Iterator[Segment]:
    yield _YELLOW, f"tool_call: {name or 'unknown'}"
    if given is not None:
        yield _GRAY, json.dumps(given, indent=2, ensure_ascii=False)[:_LONGEST]


def _user_segments(block: dict[str, Any]) -> Iterator[Segment]:
    if block.get("type") == "tool_result":
        failed = block.get("is_error") is True
        yield _RED if failed else _CYAN, "tool_result (error)" if failed else "tool_result"
        if text := _content(block):
            yield _RED if failed else _GRAY, text


def _result_segments(event: dict[str, Any]) -> Iterator[Segment]:
    if text := text_of(event.get("result")):
        yield _GREEN, "result:"
        yield "", text
    subtype, errors = text_of(event.get("subtype")), _errors(event)
    failed = event.get("is_error") is True
    if subtype.startswith("error") or failed or errors:
        yield _RED, f"claude_result: subtype={subtype or 'unknown'} is_error={'true' if failed else 'false'}"
        if errors:
            yield _RED, f"claude_errors: {' | '.join(errors)}"
    usage = map_of(event.get("usage"))
    names = (("in", "input_tokens"), ("out", "output_tokens"), ("cached", "cache_read_input_tokens"))
    tokens = " ".join(f"{name}={_number(usage.get(key)):.0f}" for name, key in names)
    yield _BLUE, f"tokens: {tokens} cost=${_number(event.get('total_cost_usd')):.6f}"


def _number(value: Any) -> float:
    """A JSON number, or a text that is one: a reader of lines need not be strict."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return 0.0
    return amount_of(value) or 0.0


def _rate_limit(limit: dict[str, Any]) -> str:
    kind = text_of(limit.get("rateLimitType")) or "unknown"
    text = f"rate_limit: type={kind} status={text_of(limit.get('status')) or 'unknown'}"
    at = amount_of(limit.get("resetsAt"))
    if at is None or not 0 <= at < 1e11:
        return text
    return f"{text} resets={datetime.fromtimestamp(at, UTC).isoformat(timespec='milliseconds')}".replace("+00:00", "Z")


def _opencode_segments(kind: str, event: dict[str, Any]) -> Iterator[Segment]:
    part = map_of(event.get("part"))
    if kind == "text" and (text := text_of(part.get("text"))):
        yield _GREEN, f"assistant: {text}"
    elif kind == "tool_use" and part:
        state = map_of(part.get("state"))
        yield from _tool_call(text_of(part.get("tool")), state.get("input"))
        if error := text_of(state.get("error")):
            yield _RED, f"tool_result (error)\n{error}"
    elif kind == "error" and event.get("error"):
        yield _RED, f"error: {json.dumps(event['error'], ensure_ascii=False)[:_LONGEST]}"
