"""Claude Code: its arguments, its stream-json, its models."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace

import pytest

from paperclip_launcher.dialects.claude import Claude
from paperclip_launcher.dialects.jsonlines import MAX_EVENT_BYTES
from paperclip_launcher.dialects.model import Parsed, Usage
from paperclip_launcher.dialects.streamjson import ClaudeParser

OPTIONS = SimpleNamespace(model="", effort="", max_turns=0, skip_permissions=True, extra_args=())
INIT = {"type": "system", "subtype": "init", "session_id": "s1", "model": "claude-opus-4-7"}


def lines(*events):
    return b"".join(
        (one if isinstance(one, bytes) else json.dumps(one, separators=(",", ":")).encode()) + b"\n" for one in events
    )


def parse(*events) -> Parsed:
    parser = ClaudeParser()
    parser.feed(lines(*events))
    return parser.parsed()


def assistant(text="", message="m1", usage=None, **more):
    blocks = [{"type": "text", "text": text}] if text else []
    inner = {"id": message, "stop_reason": None, "content": blocks, "usage": usage or {"output_tokens": 5}}
    return {"type": "assistant", "message": inner, "session_id": "s1", **more}


def result(**more):
    return {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "session_id": "s1", **more}


def test_a_fresh_run_gets_its_instructions_and_a_resumed_one_its_session():
    files = {"instructions": "/p/agent.md", "mcp": "/p/mcp.json", "settings": "/p/settings.json"}
    options = SimpleNamespace(
        model="claude-opus-4-7", effort="high", max_turns=7, skip_permissions=True, extra_args=("--verbose", "a b;c")
    )
    fresh = Claude().arguments(options, "", "/bundle", files)
    assert fresh == [
        *("--dangerously-skip-permissions", "--model", "claude-opus-4-7", "--effort", "high", "--max-turns", "7"),
        *("--append-system-prompt-file", "/p/agent.md", "--add-dir", "/bundle"),
        *("--mcp-config", "/p/mcp.json", "--strict-mcp-config", "--settings", "/p/settings.json", "--verbose", "a b;c"),
    ]
    resumed = Claude().arguments(options, "s-1", "/bundle", files)
    assert resumed[:2] == ["--resume", "s-1"]
    assert "--append-system-prompt-file" not in resumed
    assert "--add-dir" in resumed


def test_nothing_said_means_no_argument():
    assert Claude().arguments(OPTIONS, "", "", {}) == ["--dangerously-skip-permissions"]
    assert Claude().arguments(SimpleNamespace(**{**vars(OPTIONS), "skip_permissions": False}), "", "", {}) == []


def test_every_block_counts_and_usage_counts_once_a_message():
    usage = {"input_tokens": 10, "output_tokens": 4, "cache_read_input_tokens": 3}
    found = parse(INIT, *(assistant(text, usage=usage) for text in ("one", "two", "two", "three")))
    assert found.summary == "one\n\ntwo\n\nthree"
    assert found.usage == Usage(10, 4, 3)
    assert found.truncated
    assert not found.ended


def test_a_run_of_many_messages_still_counts_each_once():
    usage = {"input_tokens": 1, "output_tokens": 2}
    found = parse(*(assistant(f"t{at}", f"m{at}", usage) for at in range(500) for _ in range(2)))
    assert found.usage == Usage(500, 1000, 0)


def test_a_repeated_text_of_another_message_is_kept():
    assert parse(assistant("ok", "m1"), assistant("ok", "m2")).summary == "ok\n\nok"


def test_what_a_subagent_says_is_no_summary_but_costs():
    found = parse(assistant("inner", "m9", {"output_tokens": 9}, parent_tool_use_id="t1"), assistant("outer"))
    assert found.summary == "outer"
    assert found.usage == Usage(0, 14, 0)


def test_the_result_has_the_last_word():
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3}
    found = parse(INIT, assistant("x"), result(usage=usage, total_cost_usd=0.25))
    assert (found.summary, found.cost_usd, found.usage) == ("Done.", 0.25, Usage(1, 2, 3))
    assert found.ended
    assert not found.failure
    assert not found.truncated


@pytest.mark.parametrize("cost", ["0.5", True, None, float("1e300")])
def test_a_cost_that_is_no_sane_number_is_none(cost):
    assert parse(result(total_cost_usd=cost)).cost_usd is None


def test_an_empty_answer_is_told_until_content_follows():
    empty = {"type": "assistant", "message": {"id": "x", "stop_reason": None, "usage": {"output_tokens": 0}}}
    assert parse(INIT, empty).empty_response
    assert not parse(INIT, empty, assistant("hi", "y")).empty_response
    assert parse(INIT, assistant("hi", "y"), empty).empty_response


def test_is_error_with_exit_code_0_is_a_failure():
    found = parse(result(is_error=True, result="It broke"))
    assert found.failure == "Claude run failed: subtype=success: It broke"


@pytest.mark.parametrize(
    ("text", "login", "upstream", "session"),
    [
        ("Not logged in · Please run /login", True, False, False),
        ("Invalid API key · Fix external API key", True, False, False),
        ('API Error: 401 {"error":{"type":"authentication_error"}} · Please run /login', True, False, False),
        ('API Error: 529 {"type":"error","error":{"type":"overloaded_error"}}', False, True, False),
        ("API Error: 500 Internal server error", False, True, False),
        ("You've hit your session limit · resets 3pm", False, True, False),
        ("No conversation found with session ID: abc", False, False, True),
        ("session not found", False, False, True),
        ("Session abc was not found", False, False, True),
        ("the test failed", False, False, False),
    ],
)
def test_causes_are_told_from_a_failed_result_and_from_plain_lines(text, login, upstream, session):
    failed = {"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": [text]}
    for found in (parse(failed), parse(text.encode())):
        assert (found.login_required, found.upstream, found.unknown_session) == (login, upstream, session)
    well = parse(result(result=f"I wrote about: {text}"))
    assert (well.login_required, well.upstream, well.unknown_session) == (False, False, False)


def test_max_turns_in_the_text_of_a_good_result_means_nothing():
    assert parse({"type": "result", "subtype": "error_max_turns"}).max_turns
    assert not parse(result(result="I set max turns to 5")).max_turns


def test_where_to_log_in_is_found():
    found = parse(b"Not logged in. See https://docs.example.com, go to https://claude.ai/login.")
    assert found.login_url == "https://claude.ai/login"


def test_a_rejected_limit_says_when_to_come_back():
    limit = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1777055999}}
    found = parse(INIT, limit, result(is_error=True, result="You've hit your limit"))
    assert (found.retry_at, found.upstream) == (1777055999, True)
    limit["rate_limit_info"]["status"] = "allowed"
    assert parse(limit).retry_at is None


def test_status_events_are_no_content():
    retry = {"type": "system", "subtype": "api_retry", "attempt": 2, "session_id": "s1"}
    found = parse(INIT, retry, {"type": "rate_limit_event"}, {"type": "stream_event"}, {"type": "user"})
    assert (found.first_plain_line, found.truncated, found.summary) == ("", False, "")


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b'{"type":"assistant","message":{"content":[{"type":"text"',
        b'{"type":"assistant","message":5}',
        b'{"type":"assistant","message":{"content":[1,null,{"type":"text","text":7}],"usage":[]}}',
        b'{"type":"result","usage":"x","errors":7,"result":{}}',
        b'{"type":"system","subtype":"init","model":5,"session_id":[]}',
        b'{"type":"rate_limit_event","rate_limit_info":[]}',
        b'{"type":"result","total_cost_usd":NaN}',
        b"[" * 100_000,
        b'{"type":"result","x":' + b"[" * 100_000,
        b"{" * 100_000,
        b'{"type":"assistant","message":{"usage":{"output_tokens":1e400}}}',
        b'{"type":"assistant","message":{"usage":{"output_tokens":-5}}}',
    ],
)
def test_no_line_is_too_odd(line):
    parser = ClaudeParser()
    parser.feed(line + b"\n" + lines(INIT))
    assert parser.parsed().model == "claude-opus-4-7"
    json.dumps(parser.snapshot())


def test_broken_characters_do_not_lose_an_event():
    found = parse(b'{"type":"result","result":"a\xffb \\ud800 \\u0000","subtype":"success"}')
    assert found.summary == "a\ufffdb \ufffd \ufffd"
    found.summary.encode()


def test_the_type_need_not_come_first():
    event = b'{"session_id":"s9","subtype":"init","model":"m","type":"system"}\r'
    assert parse(event).session_id == "s9"


def test_memory_stays_bounded():
    parser = ClaudeParser()
    for at in range(300):
        parser.feed(lines(assistant(f"{at}" * 2000, f"m{at}"), b"plain " * 1000))
    huge = b'{"type":"assistant","message":{"id":"' + b"x" * MAX_EVENT_BYTES + b'"}}\n'
    parser.feed(huge)
    parser.feed(lines(result(result="r" * 500_000, errors=["e" * 9000] * 100)))
    assert len(json.dumps(parser.snapshot(), ensure_ascii=False)) < 140_000
    assert parser.parsed().summary.startswith("rrrr")


def test_a_result_too_long_to_parse_still_ends_the_run():
    text = 'x","is_error":false,"session_id":"forged' * (MAX_EVENT_BYTES // 30)
    failed = {"is_error": True, "subtype": "error_during_execution", "result": text, "session_id": "s7"}
    found = parse(INIT, {"type": "result", **failed, "total_cost_usd": 1.5})
    assert (found.ended, found.session_id, found.cost_usd) == (True, "s7", 1.5)
    assert found.failure == "Claude run failed: subtype=error_during_execution"


def test_a_snapshot_anywhere_changes_nothing():
    rng = random.Random(7)
    usage = {"input_tokens": 3, "output_tokens": 2}
    stream = lines(
        INIT,
        b"plain one",
        *(assistant(f"t{at % 5}", f"m{at // 3}", usage) for at in range(200)),
        b"plain two",
    )
    whole = ClaudeParser()
    whole.feed(stream)
    ends = [at + 1 for at in range(len(stream)) if stream[at] == 10]
    for _ in range(20):
        begin, parser = 0, ClaudeParser()
        for end in [*sorted(rng.sample(ends, 5)), len(stream)]:
            again = ClaudeParser()
            again.restore(json.loads(json.dumps(parser.snapshot())))
            again.feed(stream[begin:end])
            begin, parser = end, again
        assert parser.parsed() == whole.parsed()


def test_an_empty_snapshot_is_a_new_parser():
    parser = ClaudeParser()
    parser.restore({})
    assert parser.parsed() == Parsed()


def test_models_go_by_the_environment_of_the_agents():
    direct = Claude().models({})
    assert (direct[0].id, direct[0].label, len(direct)) == ("claude-opus-4-7", "Claude Opus 4.7", 6)
    bedrock = Claude().models({"CLAUDE_CODE_USE_BEDROCK": "1"})
    assert (bedrock[0].id, bedrock[0].label, len(bedrock)) == (
        "us.anthropic.claude-opus-4-7",
        "Bedrock Opus 4.7",
        5,
    )
    assert bedrock[1].id == "us.anthropic.claude-opus-4-6-v1"
    base = {"ANTHROPIC_BEDROCK_BASE_URL": "https://b"}
    assert Claude().models({**base, "AWS_REGION": "eu-west-1"})[0].id.startswith("eu.anthropic.")
    assert Claude().models({**base, "AWS_REGION": "ap-south-1"})[0].id.startswith("apac.anthropic.")
    assert Claude().models({**base, "PAPERCLIP_BEDROCK_PREFIX": "global"})[0].id.startswith("global.anthropic.")
    for no in ({"CLAUDE_CODE_USE_BEDROCK": "yes"}, {"ANTHROPIC_BEDROCK_BASE_URL": " "}):
        assert Claude().models(no) == direct


def test_bedrock_is_billed_by_aws():
    assert Claude().billing("us.anthropic.claude-opus-4-7").biller == "aws_bedrock"
    assert Claude().billing("claude-opus-4-7").biller == "anthropic"
