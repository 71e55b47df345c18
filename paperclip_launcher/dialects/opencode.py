"""OpenCode: `opencode run --format json`, which takes the prompt from stdin and writes one event a line.

Events, from its source (packages/opencode/src/cli/cmd/run.ts): `step_start`, `text`, `reasoning`, `tool_use`,
`step_finish` with a `part`; `error` with an `error`; newer ones end with `done`. All name the `sessionID`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paperclip_launcher.diagnosed import Ending
from paperclip_launcher.dialects import sessions
from paperclip_launcher.dialects.claude import ending_suffix
from paperclip_launcher.dialects.jsonlines import (
    PlainLines,
    Texts,
    amount_of,
    bounded,
    count_of,
    cut,
    decode_event,
    first_type,
    map_of,
    text_of,
)
from paperclip_launcher.dialects.model import Billing, Model, Parsed, StreamParser, Usage
from paperclip_launcher.dialects.streamjson import asks_for_login, login_url, names_unknown_session, names_upstream

_STEP_LIMITS = frozenset(("max_turns", "max_steps", "step_limit"))
_MORE = frozenset(("tool-calls", "tool_calls"))
"""Reasons of a step after which the agent goes on."""
_RECENT = 64
_WANTED = frozenset((b"text", b"step_finish", b"error", b"done"))
_ERRORS = 8


class OpenCodeParser:
    """A dialects.model.StreamParser. Tokens and cost are sums over the steps; the summary is the last message."""

    def __init__(self) -> None:
        self._session = ""
        self._texts = Texts()
        self._message = ""
        self._plain = PlainLines()
        self._seen: dict[str, None] = {}
        self._tokens = (0, 0, 0)
        self._cost = 0.0
        self._steps = 0
        self._reason = ""
        self._errors: list[str] = []
        self._begun = False
        self._done = False

    def feed(self, lines: bytes) -> None:
        for line in lines.split(b"\n"):
            kind = first_type(line)
            if kind is not None:
                self._begun = True
                if kind in _WANTED or not self._session:
                    self._take(decode_event(line) or {})
            elif line and not line.isspace():
                event = decode_event(line) if line.lstrip()[:1] == b"{" else None
                if event is None:
                    self._plain.add(line)
                else:
                    self._begun = True
                    self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        part = map_of(event.get("part"))
        session = text_of(event.get("sessionID")) or text_of(part.get("sessionID"))
        self._session = self._session or cut(session.strip(), 256)
        if kind == "error":
            self._errors = [*self._errors, _error(event.get("error"))][-_ERRORS:]
        elif kind == "done":
            self._done = True
        elif kind in {"text", "step_finish"} and self._is_new(text_of(part.get("id"))):
            if kind == "text":
                self._text(part)
            else:
                self._step(part)

    def _is_new(self, part: str) -> bool:
        """A part may be shown again; one without an id is always new."""
        new = not part or part not in self._seen
        if part:
            self._seen[cut(part, 128)] = None
        if len(self._seen) > _RECENT:
            del self._seen[next(iter(self._seen))]
        return new

    def _text(self, part: Mapping[str, Any]) -> None:
        message = cut(text_of(part.get("messageID")), 128)
        if message != self._message:
            self._message = message
            self._texts.clear()
        if text_of(part.get("text")).strip():
            self._texts.add(text_of(part["text"]))

    def _step(self, part: Mapping[str, Any]) -> None:
        tokens = map_of(part.get("tokens"))
        sent, received, cached = self._tokens
        self._tokens = (
            sent + count_of(tokens.get("input")),
            received + count_of(tokens.get("output")) + count_of(tokens.get("reasoning")),
            cached + count_of(map_of(tokens.get("cache")).get("read")),
        )
        self._cost += amount_of(part.get("cost")) or 0.0
        self._steps += 1
        self._reason = cut(text_of(part.get("reason")), 64)

    def parsed(self) -> Parsed:
        stopped = self._done or (self._reason != "" and self._reason not in _MORE)
        said = "\n".join([*self._errors, "" if stopped else self._plain.text])
        needs_login = asks_for_login(said)
        sent, received, cached = self._tokens
        failure = f"OpenCode run failed: {self._errors[-1]}" if self._errors else ""
        return Parsed(
            session_id=self._session,
            cost_usd=self._cost if self._steps else None,
            usage=Usage(sent, received, cached) if self._steps else None,
            summary=self._texts.joined,
            result=self._result() if stopped or self._errors else None,
            truncated=self._begun and not stopped and not self._errors,
            ended=stopped,
            login_required=needs_login,
            login_url=login_url(said) if needs_login else "",
            max_turns=self._reason.lower().replace("-", "_") in _STEP_LIMITS,
            unknown_session=names_unknown_session(said),
            failure=failure,
            first_plain_line=self._plain.first,
            errors=tuple(self._errors),
            upstream=names_upstream(said),
        )

    def _result(self) -> dict[str, Any]:
        """In the shape of Claude Code's, so that a reader of results knows one shape."""
        sent, received, cached = self._tokens
        return bounded(
            {
                "type": "result",
                "subtype": "error_during_execution" if self._errors else "success",
                "is_error": bool(self._errors),
                "session_id": self._session,
                "stop_reason": self._reason,
                "num_turns": self._steps,
                "total_cost_usd": self._cost,
                "usage": {"input_tokens": sent, "output_tokens": received, "cache_read_input_tokens": cached},
                "errors": list(self._errors),
            },
            16384,
        )

    def snapshot(self) -> dict[str, Any]:
        return {
            "session": self._session,
            "texts": self._texts.to_json(),
            "message": self._message,
            "plain": self._plain.to_json(),
            "seen": list(self._seen),
            "tokens": list(self._tokens),
            "cost": self._cost,
            "steps": self._steps,
            "reason": self._reason,
            "errors": list(self._errors),
            "begun": self._begun,
            "done": self._done,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        if not state:
            return
        sent, received, cached = state["tokens"]
        self._session = str(state["session"])
        self._texts.restore(state["texts"])
        self._message = str(state["message"])
        self._plain.restore(state["plain"])
        self._seen = dict.fromkeys(state["seen"])
        self._tokens = (int(sent), int(received), int(cached))
        self._cost = float(state["cost"])
        self._steps = int(state["steps"])
        self._reason = str(state["reason"])
        self._errors = [str(one) for one in state["errors"]]
        self._begun = bool(state["begun"])
        self._done = bool(state["done"])


def _error(error: Any) -> str:
    """{name, data: {message}} as OpenCode writes them."""
    tree = map_of(error)
    text = text_of(map_of(tree.get("data")).get("message")) or text_of(tree.get("message"))
    name = text_of(tree.get("name")) or (error if isinstance(error, str) else "")
    return cut(": ".join(part.strip() for part in (name, text) if part.strip()) or "unknown error", 2048)


class OpenCode:
    """A dialects.model.Dialect. It has no option for turns, and reads MCP servers from its own config only."""

    name = "opencode"
    adapter_type = "opencode_k8s"
    template = "generic"
    resumes = True
    reports = True
    variables: Mapping[str, str] = {
        # A repository's own config could give the agent other rights and providers.
        "OPENCODE_DISABLE_PROJECT_CONFIG": "true",
        "OPENCODE_DISABLE_AUTOUPDATE": "true",
    }

    def arguments(self, options: Any, session_id: str, bundle: str, files: Mapping[str, str]) -> list[str]:  # noqa: ARG002 - it has no folder of skills
        arguments = ["opencode", "run", "--format", "json"]
        if session_id:
            arguments += ["--session", session_id]
        if options.model:
            arguments += ["--model", options.model]
        if options.effort:
            arguments += ["--variant", options.effort]
        if options.skip_permissions:
            arguments.append("--dangerously-skip-permissions")
        if files.get("instructions") and not session_id:
            arguments.append(f"--file={files['instructions']}")
        return [*arguments, *options.extra_args]

    def parser(self) -> StreamParser:
        return OpenCodeParser()

    def read_session(self, raw: Any) -> dict[str, str] | None:
        return sessions.read_session(raw)

    def write_session(self, params: Any) -> dict[str, str] | None:
        return sessions.write_session(params)

    def session_label(self, params: Any) -> str | None:
        return sessions.session_label(params)

    def models(self, environment: Mapping[str, str]) -> list[Model]:  # noqa: ARG002 - what there is stands in its config
        return []

    def billing(self, model: str) -> Billing:
        """Models are provider/model."""
        provider = model.partition("/")[0] if "/" in model else ""
        return Billing(provider, provider, "api" if provider else "")

    def exit_problem(self, parsed: Parsed, exit_code: int | None, ending: Ending) -> str:
        code = "an unknown code" if exit_code is None else f"code {exit_code}"
        said = parsed.first_plain_line or next(iter(parsed.errors[-1:]), "")
        return f"OpenCode ended with {code}" + (f": {said}" if said else "") + ending_suffix(exit_code, ending)
