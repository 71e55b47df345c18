"""The parsers and codecs that the host loads say what Python's say."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from paperclip_launcher.dialects import formatting, sessions
from tests.adapter.node_program import answers
from tests.launcher.dialects.test_vectors import OURS, VECTORS

TS = "2026-01-01T00:00:00Z"
SAME = ("ui_parse_line", "cli_format_line", "session_deserialize", "session_serialize", "session_display_id")


def event(kind, **fields):
    return json.dumps({"type": kind, **fields}, ensure_ascii=False)


def ui(line, adapter="opencode"):
    return answers([{"fn": "ui_parse_line", "type": adapter, "input": {"line": line, "ts": TS}}])[0]


def test_the_vectors_give_in_node_what_they_give_in_python():
    vectors = [one for one in VECTORS if one["fn"] in SAME]
    assert {one["fn"] for one in vectors} == set(SAME)
    found = answers([{"fn": one["fn"], "type": "claude", "input": one["input"]} for one in vectors])
    expected = {one["id"]: OURS.get(one["id"], one["expected"]) for one in vectors}
    assert {one["id"]: result for one, result in zip(vectors, found, strict=True)} == expected


LINES = [
    "",
    "   ",
    "plain text",
    "\x1b[31mred\x1b[0m",
    "null",
    "[]",
    '"text"',
    "{",
    "\ufeff" + event("assistant", message={"content": [{"type": "text", "text": "bom"}]}),
    event("assistant", message={"content": "no list"}),
    event("assistant", message={"content": [None, 1, {"type": "text", "text": ""}, {"type": "thinking"}]}),
    event("assistant", message={"content": [{"type": "tool_use", "name": "Bash", "id": "t", "input": {"a": [1, {}]}}]}),
    event("assistant", message={"content": [{"type": "tool_use", "tool_use_id": "t", "input": None}]}),
    event("assistant", message={"content": [{"type": "text", "text": "ä 😀 \u2028"}, {"type": "text", "text": "b"}]}),
    event("user", message={"content": [{"type": "tool_result", "tool_use_id": "t", "content": "out"}]}),
    event("user", message={"content": [{"type": "tool_result", "content": [{"text": "a"}, {"text": "b"}, 3]}]}),
    event("user", message={"content": [{"type": "tool_result", "is_error": True}, {"type": "text", "text": "hi"}]}),
    event("system", subtype="init", model="m", session_id="s"),
    event("system", subtype="init"),
    event("system", subtype="status"),
    event("result", subtype="success", result="r", usage={"input_tokens": 3, "output_tokens": 2}, total_cost_usd=0.5),
    event("result", subtype="error_x", is_error=True, errors=["a", {"message": "b"}, {"x": [1, "ä"]}, "", 3, None]),
    event("result", usage={"input_tokens": "12", "cache_read_input_tokens": "x"}, total_cost_usd="0.25"),
    event("result", usage=None, total_cost_usd=True),
    event("rate_limit_event", rate_limit_info={"rateLimitType": "t", "status": "s", "resetsAt": 1767225600}),
    event("rate_limit_event"),
    event("unknown", x=1),
]


def test_odd_lines_of_claude_are_read_alike_in_both_languages():
    calls = [{"fn": "ui_parse_line", "type": "claude", "input": {"line": line, "ts": TS}} for line in LINES]
    assert answers(calls) == [formatting.ui_parse_line(line, TS) for line in LINES]
    calls = [{"fn": "cli_format_line", "type": "claude", "input": line} for line in LINES]
    assert answers(calls) == [formatting.cli_format_line(line) for line in LINES]
    calls = [{"fn": "cli_format_line_debug", "type": "claude", "input": line} for line in LINES]
    assert answers(calls) == [formatting.cli_format_line(line, debug=True) for line in LINES]


OPENCODE = [
    event("text", part={"text": "hello ä"}),
    event("text", part={}),
    event(
        "tool_use", part={"tool": "bash", "state": {"input": {"command": "ls"}, "status": "completed", "output": "x"}}
    ),
    event("tool_use", part={"tool": "bash", "state": {"input": {}, "error": "no"}}),
    event("tool_use", part={}),
    event("error", error={"name": "E", "data": {"message": "m"}}),
    event("error", error=None),
    event("step_finish", part={"reason": "stop"}),
    "plain",
]


def test_lines_of_opencode_are_shown_on_a_terminal_as_python_shows_them():
    calls = [{"fn": "cli_format_line", "type": "opencode", "input": line} for line in OPENCODE]
    assert answers(calls) == [formatting.cli_format_line(line) for line in OPENCODE]


def test_lines_of_opencode_become_entries_of_a_transcript():
    tokens = {"input": 5, "output": 2, "reasoning": 1, "cache": {"read": 4}}
    assert ui(OPENCODE[0]) == [{"kind": "assistant", "ts": TS, "text": "hello ä"}]
    assert ui(event("reasoning", part={"text": "hm"})) == [{"kind": "thinking", "ts": TS, "text": "hm"}]
    call = {"kind": "tool_call", "ts": TS, "name": "bash", "toolUseId": "c", "input": {"a": 1}}
    done = event("tool_use", part={"tool": "bash", "callID": "c", "state": {"input": {"a": 1}, "output": "x"}})
    failed = event("tool_use", part={"tool": "bash", "callID": "c", "state": {"input": {"a": 1}, "error": "no"}})
    end = {"kind": "tool_result", "ts": TS, "toolUseId": "c"}
    assert ui(done) == [call, {**end, "content": "x", "isError": False}]
    assert ui(failed) == [call, {**end, "content": "no", "isError": True}]
    text = "step: stop, tokens in=5 out=3 cached=4, cost=$0.500000"
    step = event("step_finish", part={"reason": "stop", "tokens": tokens, "cost": 0.5})
    assert ui(step) == [{"kind": "system", "ts": TS, "text": text}]
    assert ui(OPENCODE[5]) == [{"kind": "stderr", "ts": TS, "text": "E: m"}]
    for line in ("plain", "", OPENCODE[1], OPENCODE[4], event("step_start"), "[1]"):
        assert ui(line) == [{"kind": "stdout", "ts": TS, "text": line}]


_TEXTS = st.text(st.sampled_from("ab-\t \u00a0\u0085\u3000\ufeff\x1c\x7f\x00😀é"), max_size=6)
_SESSIONS = st.dictionaries(
    st.sampled_from([one for _, names in sessions.SPELLINGS for one in names]), _TEXTS | st.none() | st.integers(0, 9)
)


@given(st.lists(_SESSIONS, min_size=20, max_size=40))
@settings(max_examples=5, deadline=None)
def test_sessions_are_read_alike_in_both_languages(raws):
    raws = [*raws, {"sessionId": "x" * 256}, {"sessionId": "x" * 257}, {"sessionId": "😀" * 256}, None, [], "x", 3]
    found = answers([{"fn": "session_deserialize", "type": "claude", "input": raw} for raw in raws])
    assert found == [sessions.read_session(raw) for raw in raws]
    labels = answers([{"fn": "session_display_id", "type": "opencode", "input": raw} for raw in raws])
    assert labels == [sessions.session_label(raw) for raw in raws]
