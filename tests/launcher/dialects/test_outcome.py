"""What came of a run, for every way it can end."""

from __future__ import annotations

import json

import pytest

from paperclip_launcher.codes import CODES, Retry
from paperclip_launcher.diagnosed import Diagnosis, Ending
from paperclip_launcher.dialects import DIALECTS
from paperclip_launcher.dialects.model import Parsed, Usage
from paperclip_launcher.outcome import EndFacts, RunResult, outcome

GOOD = {"type": "result", "subtype": "success", "result": "Done."}
SEEN = {"session_id": "s2", "model": "m", "usage": Usage(1, 2, 3), "cost_usd": 0.5}
WELL = Parsed(**SEEN, summary="Done.", result=GOOD, ended=True)
BAD = Parsed(**SEEN, result={"type": "result", "is_error": True}, ended=True, failure="Claude run failed: x")
EXITED = Ending(0, reason="Completed", started=True, job_condition="Complete")
FAILED = Ending(1, reason="Error", started=True, job_condition="Failed(PodFailurePolicy)")
UNSCHEDULABLE = Diagnosis("k8s_unschedulable", True, "No node takes the pod", "0/3 nodes", "add a node")
OOM = Diagnosis("k8s_oom_killed", True, "The agent needed more memory than its limit", "exit 137", "raise it")


def run(parsed=WELL, ending=EXITED, dialect="claude", **more) -> RunResult:
    return outcome(EndFacts(DIALECTS[dialect], "run-1", "run-run-1", parsed, ending, **more))


def resumed(parsed, ending=FAILED, **more):
    return run(parsed, ending, session_params={"sessionId": "s1", "cwd": "/w"}, **more)


def test_a_good_run_is_what_the_server_calls_a_success():
    tree = run(session_params={"cwd": "/w", "promptBundleKey": "k"}).to_json()
    assert tree == {
        "exitCode": 0,
        "signal": None,
        "timedOut": False,
        "usage": {"inputTokens": 1, "outputTokens": 2, "cachedInputTokens": 3},
        "provider": "anthropic",
        "biller": "anthropic",
        "model": "m",
        "billingType": "api",
        "costUsd": 0.5,
        "sessionId": "s2",
        "sessionParams": {"sessionId": "s2", "cwd": "/w", "promptBundleKey": "k"},
        "sessionDisplayId": "s2",
        "resultJson": GOOD,
        "summary": "Done.",
    }


def test_a_result_survives_being_stored():
    for found in (run(), run(BAD), run(cancelled=True), run(Parsed(), Ending(), diagnosis=UNSCHEDULABLE)):
        again = RunResult.from_json(json.loads(json.dumps(found.to_json())))
        assert again == found
        assert (again.code, again.ok, again.exit) == (found.code, found.ok, found.exit)


CASES = [
    ("k8s_job_state_mismatch", WELL, EXITED, {"unknown": True}),
    ("cancelled", WELL, EXITED, {"cancelled": True}),
    ("cancelled", WELL, FAILED, {"cancelled": True, "timed_out": True}),
    ("timeout", WELL, FAILED, {"timed_out": True, "timeout_seconds": 60}),
    ("timeout", BAD, Ending(143, 15, started=True, job_condition="Failed(DeadlineExceeded)"), {}),
    ("", WELL, Ending(0, started=True, job_condition="Failed(DeadlineExceeded)"), {"timed_out": True}),
    ("", WELL, Ending(None, started=True, gone=True), {}),
    ("k8s_unschedulable", Parsed(), Ending(), {"diagnosis": UNSCHEDULABLE}),
    ("k8s_oom_killed", WELL, Ending(137, 9, "OOMKilled", started=True, diagnosis=OOM), {}),
    ("k8s_oom_killed", Parsed(model="m", truncated=True), Ending(137, started=True, diagnosis=OOM), {}),
    ("k8s_job_deleted_externally", Parsed(model="m"), Ending(started=True, gone=True), {}),
    ("k8s_job_deleted_externally", Parsed(), Ending(gone=True), {}),
    ("k8s_pod_schedule_failed", Parsed(), Ending(job_condition="Failed(BackoffLimitExceeded)"), {}),
    ("llm_api_error", Parsed(model="m", empty_response=True, truncated=True), FAILED, {}),
    ("llm_api_error", Parsed(model="m", upstream=True, truncated=True), FAILED, {}),
    ("llm_api_error", Parsed(result={}, failure="API Error: 529", upstream=True), EXITED, {}),
    ("claude_truncated", Parsed(model="m", truncated=True), FAILED, {}),
    ("claude_truncated", Parsed(model="m", truncated=True), EXITED, {}),
    ("claude_auth_required", Parsed(first_plain_line="Please run /login", login_required=True), FAILED, {}),
    ("claude_auth_required", Parsed(result={}, failure="Not logged in", login_required=True), EXITED, {}),
    ("claude_init_failed", Parsed(model="m", session_id="s"), FAILED, {}),
    ("agent_entry_failed", Parsed(first_plain_line="paperclip-entry: no program"), Ending(127, started=True), {}),
    ("agent_exit_nonzero", Parsed(model="m", first_plain_line="Error: no key"), FAILED, {}),
    ("agent_exit_nonzero", WELL, FAILED, {}),
    ("agent_exit_nonzero", Parsed(), FAILED, {}),
    ("agent_no_result", Parsed(), EXITED, {}),
    ("agent_no_result", Parsed(first_plain_line="hello"), Ending(None, started=True), {}),
    ("agent_failed", BAD, EXITED, {}),
    ("agent_failed", BAD, FAILED, {}),
    ("max_turns", Parsed(result={}, failure="x", max_turns=True), FAILED, {}),
    ("max_turns", Parsed(result={}, max_turns=True), EXITED, {}),
]


@pytest.mark.parametrize(("code", "parsed", "ending", "more"), CASES)
def test_each_end_has_its_code(code, parsed, ending, more):
    found = run(parsed, ending, **more)
    assert found.code == code
    assert found.timed_out == (code == "timeout")
    assert bool(found.error_message) == bool(code)
    if code:
        assert found.error_meta is not None
        assert found.error_meta["retry"] == CODES[code].retry


@pytest.mark.parametrize("more", [{"cancelled": True}, {"timed_out": True}, {"unknown": True}, {"diagnosis": OOM}])
def test_session_usage_and_cost_are_kept_however_it_ends(more):
    found = resumed(Parsed(**SEEN, truncated=True), **more)
    assert (found.session_id, found.cost_usd, found.usage and found.usage["outputTokens"]) == ("s2", 0.5, 2)
    assert found.session_params == {"sessionId": "s2", "cwd": "/w"}


def test_a_run_that_said_nothing_keeps_the_session_it_went_on_with():
    assert resumed(Parsed(), Ending(), diagnosis=UNSCHEDULABLE).session_id == "s1"


def test_a_lost_session_is_cleared():
    lost = Parsed(session_id="s9", result={}, failure="No conversation found", unknown_session=True)
    found = resumed(lost)
    assert (found.code, found.clear_session, found.session_id) == ("session_unavailable", True, None)
    assert run(lost, FAILED).code == "agent_failed"  # there was none to lose


def test_used_up_turns_clear_the_session():
    assert run(Parsed(result={}, failure="x", max_turns=True), FAILED).clear_session


def test_the_server_may_start_anew_only_what_never_began():
    for code, meant in CODES.items():
        cause = Diagnosis(code, True, "s", "d", "r")
        fresh = run(Parsed(), Ending(), diagnosis=cause)
        begun = run(Parsed(), Ending(1, started=True), diagnosis=cause)
        logged = run(Parsed(), Ending(), diagnosis=cause, tail="hello")
        again = meant.retry in {Retry.START, Retry.LATER}
        assert fresh.execution_recovery == ({"kind": "bootstrap", "providerWorkStarted": False} if again else None)
        # Without the one the server does not look at the other.
        assert again == (fresh.error_family == "transient_upstream")
        assert meant.retry is not Retry.START or meant.family == "transient_upstream"
        assert run(Parsed(), Ending(), diagnosis=cause, unknown=True).execution_recovery is None
        assert begun.execution_recovery is None
        assert logged.execution_recovery is None
        assert Retry.START not in {one.error_meta["retry"] for one in (begun, logged)}
    found = run(Parsed(), Ending(), diagnosis=UNSCHEDULABLE)
    assert found.execution_recovery == {"kind": "bootstrap", "providerWorkStarted": False}
    assert found.error_family == "transient_upstream"


@pytest.mark.parametrize("code", CODES)
def test_every_code_can_be_an_outcome_that_the_server_takes_for_a_failure(code):
    tree = run(Parsed(), Ending(), diagnosis=Diagnosis(code, True, "What went wrong"), unknown=True).to_json()
    assert tree["errorCode"] == code
    assert tree["errorMessage"]


def test_a_limit_of_the_provider_says_when_to_come_back():
    found = run(Parsed(result={}, failure="limit", upstream=True, retry_at=1777056000.0), FAILED)
    assert (found.error_family, found.retry_not_before) == ("provider_quota", "2026-04-24T18:40:00Z")


def test_a_plain_program_is_judged_by_its_exit_code_alone():
    assert run(Parsed(summary="bye"), EXITED, "command").ok
    found = run(Parsed(summary="a\nboom"), FAILED, "command", tail="a\nboom\n")
    assert found.code == "agent_exit_nonzero"
    assert found.error_message == "The program ended with code 1: boom [pod: reason=Error]"
    assert (found.session_id, found.provider, found.result_json) == (None, None, {"stdout": "a\nboom\n"})
    assert run(Parsed(), Ending(None, started=True), "command").code == "agent_exit_nonzero"


def test_a_timeout_before_the_start_says_what_was_waited_for():
    found = run(Parsed(), Ending(), timed_out=True, timeout_seconds=60, diagnosis=UNSCHEDULABLE)
    text = "Timed out after 60s before the agent was started. No node takes the pod: 0/3 nodes"
    assert (found.code, found.error_message) == ("timeout", text)


def test_a_log_that_was_not_read_whole_is_mentioned():
    found = run(Parsed(model="m", truncated=True), FAILED, log_complete=False)
    assert "could not be read to its end" in (found.error_message or "")
    assert found.error_meta
    assert found.error_meta["logComplete"] is False


def test_what_is_told_is_bounded_and_can_be_stored():
    odd = "\ud800\x00" + "é" * 100_000
    bad = Parsed(summary=odd, session_id="s", model=odd, failure=odd, result={"type": "result", "result": odd * 3})
    found = run(bad, Ending(1, 9, "Error", odd, started=True), tail=odd, model=odd)
    raw = json.dumps(found.to_json(), ensure_ascii=False).encode()
    assert len(raw) < 160_000
    assert len(json.dumps(found.result_json, ensure_ascii=False).encode()) <= 65536
    assert found.signal == "SIGKILL"


def test_prompt_and_output_are_not_in_a_repr():
    found = repr(run()) + repr(EndFacts(DIALECTS["claude"], "r", "j", Parsed(), EXITED, tail="canary"))
    assert "canary" not in found
    assert "Done." not in repr(run())
