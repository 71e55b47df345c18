"""An agent's lines for people, and what a terminal must not obey."""

from __future__ import annotations

import json

import pytest

from paperclip_launcher.dialects.formatting import cli_format_line, neutral, terminal_line, ui_parse_line

HOSTILE = "\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\x00\u202eabc\r"


def test_nothing_that_a_terminal_obeys_is_left():
    shown = neutral(HOSTILE + "tab\tline\n")
    assert shown == "␛]52;c;aGk=␇␛[2J<9B>31m␀<U+202E>abc␍tab\tline\n"


@pytest.mark.parametrize("colour", [True, False])
def test_no_escape_of_an_agent_reaches_a_terminal(colour):
    events = (
        HOSTILE,
        json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": HOSTILE}]}}),
        json.dumps({"type": "system", "subtype": "init", "model": HOSTILE}),
        json.dumps({"type": "result", "result": HOSTILE, "is_error": True, "errors": [HOSTILE]}),
        json.dumps({"type": "user", "message": {"content": [{"type": "tool_result", "content": HOSTILE}]}}),
        json.dumps({"type": "error", "error": {"name": HOSTILE}}),
    )
    for line in events:
        shown = terminal_line(line, colour=colour) or ""
        for ours in ("30", "31", "32", "33", "34", "36", "90", "0"):
            shown = shown.replace(f"\x1b[{ours}m", "")
        assert not {"\x1b", "\x9b", "\x07", "\x00", "\r", "\u202e"} & set(shown)


def test_colours_are_ours_and_only_where_wanted():
    line = json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "hi"}]}})
    assert terminal_line(line, colour=True) == "\x1b[32massistant: hi\x1b[0m"
    assert terminal_line(line, colour=False) == "assistant: hi"


def test_a_result_ends_with_what_it_took():
    usage = {"input_tokens": 12345678, "output_tokens": 2, "cache_read_input_tokens": 3}
    line = json.dumps({"type": "result", "result": "Done", "usage": usage, "total_cost_usd": 0.1234567})
    assert cli_format_line(line) == "result:\nDone\ntokens: in=12345678 out=2 cached=3 cost=$0.123457"


def test_a_rate_limit_says_until_when():
    limit = {"status": "allowed", "rateLimitType": "five_hour", "resetsAt": 1777056000}
    line = json.dumps({"type": "rate_limit_event", "rate_limit_info": limit})
    assert cli_format_line(line) == "rate_limit: type=five_hour status=allowed resets=2026-04-24T18:40:00.000Z"


def test_events_that_say_nothing_show_only_for_debugging():
    assert cli_format_line('{"type":"stream_event"}') is None
    assert cli_format_line('{"type":"stream_event"}', debug=True) == '{"type":"stream_event"}'


def test_opencode_is_readable_too():
    said = {"type": "text", "sessionID": "s", "part": {"text": "hello"}}
    used = {"type": "tool_use", "part": {"tool": "bash", "state": {"input": {"c": 1}, "error": "no"}}}
    assert cli_format_line(json.dumps(said)) == "assistant: hello"
    assert cli_format_line(json.dumps(used)) == 'tool_call: bash\n{\n  "c": 1\n}\ntool_result (error)\nno'


def test_a_result_becomes_an_entry_with_numbers():
    line = json.dumps({"type": "result", "result": "r", "usage": {"input_tokens": "7"}, "errors": [{"code": "E"}]})
    (entry,) = ui_parse_line(line, "T")
    assert (entry["kind"], entry["inputTokens"], entry["errors"]) == ("result", 0, ["E"])


@pytest.mark.parametrize("line", ["\ud800", '{"type":"assistant","message":{"content":[]}}', '{"type":"user"}', "NaN"])
def test_what_gives_no_entry_is_shown_as_it_is(line):
    assert ui_parse_line(line, "T") == [{"kind": "stdout", "ts": "T", "text": line}]
