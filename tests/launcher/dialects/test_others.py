"""OpenCode, plain programs, and the sessions of all."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from paperclip_launcher.diagnosed import Ending
from paperclip_launcher.dialects import BY_ADAPTER, DIALECTS, sessions
from paperclip_launcher.dialects.command import Command, TailParser
from paperclip_launcher.dialects.model import Parsed, Usage
from paperclip_launcher.dialects.opencode import OpenCode, OpenCodeParser


def lines(*events):
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in events)


def event(kind, at=0, **part):
    return {"type": kind, "timestamp": at, "sessionID": "ses_1", "part": {"id": f"p{at}", "sessionID": "ses_1", **part}}


def text(at, said, message="msg_1"):
    return event("text", at, messageID=message, text=said)


def step(at, reason, cost=0.5):
    tokens = {"input": 10, "output": 2, "reasoning": 1, "cache": {"read": 4, "write": 9}}
    return event("step_finish", at, reason=reason, cost=cost, tokens=tokens)


def opencode(*events) -> Parsed:
    parser = OpenCodeParser()
    parser.feed(lines(*events))
    return parser.parsed()


def test_tokens_and_cost_are_sums_over_the_steps():
    found = opencode(
        event("step_start", 1),
        text(2, "Looking."),
        step(3, "tool-calls"),
        event("tool_use", 4, tool="bash"),
        text(5, "All", "msg_2"),
        text(6, "done.", "msg_2"),
        step(7, "stop"),
    )
    assert (found.session_id, found.summary, found.cost_usd) == ("ses_1", "All\n\ndone.", 1.0)
    assert found.usage == Usage(20, 6, 8)
    assert found.ended
    assert found.result is not None
    assert found.result["num_turns"] == 2


def test_a_part_that_is_shown_again_counts_once():
    assert opencode(step(1, "tool-calls"), step(1, "tool-calls")).usage == Usage(10, 3, 4)


def test_parts_without_an_id_all_count():
    bare = [{"type": "text", "sessionID": "s", "part": {"text": one}} for one in ("a", "a", "b")]
    assert opencode(*bare).summary == "a\n\na\n\nb"


def test_without_a_last_step_the_output_was_cut():
    found = opencode(event("step_start", 1), step(2, "tool-calls"))
    assert found.truncated
    assert found.result is None
    assert opencode(event("step_start", 1), {"type": "done", "reason": "idle"}).ended


def test_an_error_event_is_a_failure_whatever_the_exit_code():
    error = {"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": {"message": "overloaded_error"}}}
    found = opencode(error, step(1, "stop"))
    assert found.failure == "OpenCode run failed: APIError: overloaded_error"
    assert found.upstream
    assert found.result is not None
    assert found.result["is_error"]


def test_a_lost_session_is_told_by_plain_lines_alone():
    found = opencode(b"NotFoundError: NotFoundError", b' data: { message: "Session not found: ses_x" }')
    assert found.unknown_session
    assert found.first_plain_line == "NotFoundError: NotFoundError"


@pytest.mark.parametrize("reason", ["max_steps", "step-limit", "max_turns"])
def test_step_limits_are_max_turns(reason):
    assert opencode(step(1, reason)).max_turns


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"text","part":5}',
        b'{"type":"error","error":7}',
        b"\xff",
        b'{"type":"step_finish","part":{"tokens":[]}}',
    ],
)
def test_odd_events_harm_nothing(line):
    assert opencode(line, step(1, "stop")).ended


def test_the_prompt_comes_by_stdin_and_arguments_are_a_list():
    options = SimpleNamespace(
        model="anthropic/x", effort="high", max_turns=0, skip_permissions=True, extra_args=("-x",)
    )
    assert OpenCode().arguments(options, "ses_1", "", {"instructions": "/p/a.md"}) == [
        *("opencode", "run", "--format", "json", "--session", "ses_1", "--model", "anthropic/x"),
        *("--variant", "high", "--dangerously-skip-permissions", "-x"),
    ]
    assert "--file=/p/a.md" in OpenCode().arguments(options, "", "", {"instructions": "/p/a.md"})
    assert OpenCode().billing("anthropic/x").provider == "anthropic"


def test_a_plain_program_is_summed_up_by_its_last_lines():
    parser = TailParser()
    parser.feed(b"\n\nbegin\n" + b"x\n" * 100_000)
    parser.feed(b"almost\r\nlast\xff line\n")
    found = parser.parsed()
    assert found.summary.splitlines()[-2:] == ["almost", "last\ufffd line"]
    assert found.first_plain_line == "begin"
    assert len(found.summary) < 4096
    again = TailParser()
    again.restore(json.loads(json.dumps(parser.snapshot())))
    assert again.parsed() == found


def test_a_plain_program_is_its_own_command_line():
    options = SimpleNamespace(command="./agent", extra_args=("--fast", "a b"))
    assert Command().arguments(options, "", "", {}) == ["./agent", "--fast", "a b"]
    assert Command().read_session({"sessionId": "s"}) is None
    problem = Command().exit_problem(Parsed(summary="a\nb"), 3, Ending(3, reason="Error"))
    assert problem == "The program ended with code 3: b [pod: reason=Error]"


@pytest.mark.parametrize("name", ["claude", "opencode", "command"])
def test_snapshots_are_small_plain_json(name):
    parser = DIALECTS[name].parser()
    parser.feed(b"plain " * 200_000 + b"\n" + lines(*(text(at, "t" * 5000) for at in range(100))))
    state = parser.snapshot()
    assert len(json.dumps(state)) < 120_000
    again = DIALECTS[name].parser()
    again.restore(json.loads(json.dumps(state)))
    assert again.parsed() == parser.parsed()


def test_dialects_are_known_by_name_and_by_adapter():
    assert {one.adapter_type for one in DIALECTS.values()} == set(BY_ADAPTER)
    assert BY_ADAPTER["claude_k8s"] is DIALECTS["claude"]


@pytest.mark.parametrize("odd", ["--dangerous", "a b", "x\n", "", "y" * 300, "a\x00"])
def test_a_session_that_could_be_an_option_or_no_argument_is_none(odd):
    assert sessions.read_session({"sessionId": odd + "" if odd != "x\n" else "x\ny"}) is None


def test_reading_what_was_written_changes_nothing():
    raw = {"sessionID": " s ", "workdir": "/w", "repo_ref": "r", "other": 1}
    written = sessions.write_session(sessions.read_session(raw))
    assert written == {"sessionId": "s", "cwd": "/w", "repoRef": "r"}
    assert sessions.read_session(written) == written
