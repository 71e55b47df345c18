"""What came of a run: all that is known of its end, judged by one list of rules, in Paperclip's words."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from paperclip_launcher.clock import rfc3339
from paperclip_launcher.codes import CODES, TRANSIENT, Retry
from paperclip_launcher.diagnosed import Diagnosis, Ending
from paperclip_launcher.dialects.jsonlines import bounded, cut
from paperclip_launcher.dialects.model import Dialect, Parsed, Usage
from paperclip_launcher.podstate import describe_truncation

_RESULT_BYTES = 65536
_SUMMARY_BYTES = 65536
_MESSAGE_BYTES = 4096
_TAIL_BYTES = 8192
_WEAK = "agent_exit_nonzero"
"""Said of an end that nobody knows more about; what the agent said counts for more."""


@dataclass(frozen=True)
class EndFacts:
    """`session_params`: of the session that the run went on with (no sessionId for a fresh one), and where it worked.
    `diagnosis` is why the launcher ended the run, `tail` the end of the log. Times are seconds since 1970.
    """

    dialect: Dialect
    run_id: str
    job_name: str
    parsed: Parsed
    ending: Ending
    model: str = ""
    session_params: Mapping[str, str] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None
    cancelled: bool = False
    timed_out: bool = False
    timeout_seconds: float = 0
    unknown: bool = False
    """How the run stands could not be found out; its Job is kept."""
    log_complete: bool = True
    tail: str = field(default="", repr=False)
    started_at: float = 0
    ended_at: float = 0


@dataclass(frozen=True)
class Verdict:
    """`code` is one of codes.CODES, "" for a success."""

    code: str = ""
    message: str = ""
    cause: Diagnosis | None = None


@dataclass(frozen=True)
class RunResult:
    """What the real server takes as the result of a run. None is left out of the JSON, but for exitCode and signal.

    Beware: with exitCode null and no errorMessage the server counts a run as a success.
    """

    exit_code: int | None
    signal: str | None
    timed_out: bool
    error_message: str | None = None
    error_code: str | None = None
    error_family: str | None = None
    retry_not_before: str | None = None
    error_meta: Mapping[str, Any] | None = None
    execution_recovery: Mapping[str, Any] | None = None
    usage: Mapping[str, int] | None = None
    provider: str | None = None
    biller: str | None = None
    model: str | None = None
    billing_type: str | None = None
    cost_usd: float | None = None
    session_id: str | None = None
    session_params: Mapping[str, str] | None = None
    session_display_id: str | None = None
    clear_session: bool | None = None
    result_json: Mapping[str, Any] | None = field(default=None, repr=False)
    summary: str | None = field(default=None, repr=False)

    @property
    def code(self) -> str:
        """Of codes.CODES, "" for a success."""
        return self.error_code or ""

    @property
    def ok(self) -> bool:
        return not self.code

    @property
    def exit(self) -> int:
        """How our programs end for it."""
        return CODES[self.code].exit if self.code else 0

    def to_json(self) -> dict[str, Any]:
        """As the server reads it; plain JSON, bounded."""
        values = {named: getattr(self, name) for name, named in _names().items()}
        kept = ("exitCode", "signal", "timedOut")
        return {name: value for name, value in values.items() if value is not None or name in kept}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> RunResult:
        """KeyError where it is no result."""
        given: dict[str, Any] = {name: tree.get(named) for name, named in _names().items()}
        given["timed_out"] = bool(tree["timedOut"])
        return cls(**given)


@cache
def _names() -> dict[str, str]:
    """Of the fields of a result, and of what they are in JSON."""
    return {one.name: _json_name(one.name) for one in fields(RunResult)}


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def outcome(facts: EndFacts) -> RunResult:
    """The result of a run. Session, usage and cost are in it however the run ended, as far as the agent said them."""
    parsed, ending = facts.parsed, facts.ending
    found = verdict(facts)
    meant = CODES.get(found.code)
    lost_session = found.code == "session_unavailable"
    params = None if lost_session else _session(facts)
    model = parsed.model or facts.model
    billing = facts.dialect.billing(model)
    limited = found.code == "llm_api_error" and parsed.retry_at is not None
    recovery = _recovery(facts, found.code)
    return RunResult(
        exit_code=ending.exit_code,
        signal=_signal_name(ending.signal),
        timed_out=found.code == "timeout",
        error_message=cut(found.message or found.code, _MESSAGE_BYTES) if meant else None,
        error_code=found.code or None,
        error_family="provider_quota"
        if limited
        else TRANSIENT
        if recovery
        else (meant.family or None)
        if meant
        else None,
        retry_not_before=rfc3339(parsed.retry_at) if limited and parsed.retry_at is not None else None,
        error_meta=_meta(facts, found) if meant else None,
        execution_recovery=recovery,
        usage=_usage(parsed.usage),
        provider=billing.provider or None,
        biller=billing.biller or None,
        model=cut(model, 256) or None,
        billing_type=billing.kind or None,
        cost_usd=parsed.cost_usd,
        session_id=params["sessionId"] if params else None,
        session_params=params,
        session_display_id=facts.dialect.session_label(params),
        clear_session=True if lost_session or found.code == "max_turns" else None,
        result_json=_result_json(facts, failed=meant is not None),
        summary=cut(parsed.summary, _SUMMARY_BYTES) or None,
    )


def verdict(facts: EndFacts) -> Verdict:
    """The rules, in order: what is not known, what people wanted, what the cluster did, what the agent said."""
    if facts.unknown:
        return _unknown(facts)
    if facts.cancelled:
        return Verdict("cancelled", "Run cancelled")
    ended_well = _ended_well(facts)
    if _timed_out(facts) and not (ended_well and facts.ending.exit_code == 0):
        return _timeout(facts)
    if ended_well:
        return Verdict()
    cause = facts.diagnosis or facts.ending.diagnosis
    if cause is not None and (cause is facts.diagnosis or cause.code != _WEAK):
        return Verdict(cause.code, _told(cause), cause)
    if not facts.ending.started and not facts.tail:
        return _never_started(facts)
    return _by_agent(facts)


def _unknown(facts: EndFacts) -> Verdict:
    if facts.diagnosis is not None:
        return Verdict(facts.diagnosis.code, _told(facts.diagnosis), facts.diagnosis)
    return Verdict("k8s_job_state_mismatch", f"How the run stands is not known; Job {facts.job_name} is kept.")


def _timed_out(facts: EndFacts) -> bool:
    causes = [cause.code for cause in (facts.diagnosis, facts.ending.diagnosis) if cause is not None]
    return facts.timed_out or "timeout" in causes or "DeadlineExceeded" in facts.ending.job_condition


def _timeout(facts: EndFacts) -> Verdict:
    text = f"Timed out after {facts.timeout_seconds:g}s" if facts.timeout_seconds > 0 else "Timed out"
    if not facts.ending.started and facts.diagnosis is not None and facts.diagnosis.code != "timeout":
        text += f" before the agent was started. {facts.diagnosis.text}"
    return Verdict("timeout", text, facts.diagnosis or facts.ending.diagnosis)


def _ended_well(facts: EndFacts) -> bool:
    """Exit code 0 and nothing to complain about. An agent's own good result also stands when its exit was not seen."""
    parsed, ending = facts.parsed, facts.ending
    if not facts.dialect.reports:
        return ending.exit_code == 0
    good = parsed.result is not None and not parsed.failure and not parsed.max_turns
    return good and ending.exit_code in {0, None}


def _never_started(facts: EndFacts) -> Verdict:
    if facts.ending.gone:
        return _deleted(facts)
    said = facts.ending.message or facts.ending.job_condition or "no reason is known"
    return Verdict("k8s_pod_schedule_failed", f"The agent's container was never started: {said}")


def _deleted(facts: EndFacts) -> Verdict:
    details = [f"job={facts.job_name}", f"condition={facts.ending.job_condition or 'none observed'}"]
    if facts.started_at and facts.ended_at:
        details.append(f"elapsed={max(facts.ended_at - facts.started_at, 0):.0f}s")
    text = f"The Job or its pod was deleted from outside before the agent ended [{', '.join(details)}]"
    return Verdict("k8s_job_deleted_externally", text)


def _by_agent(facts: EndFacts) -> Verdict:
    parsed = facts.parsed
    told = parsed.failure or facts.dialect.exit_problem(parsed, facts.ending.exit_code, facts.ending)
    if parsed.unknown_session and facts.session_params.get("sessionId"):
        return Verdict("session_unavailable", parsed.failure or "Session unavailable")
    if parsed.max_turns:
        return Verdict("max_turns", parsed.failure or "The agent used up its turns")
    if parsed.login_required:
        where = f" Log in at {parsed.login_url}" if parsed.login_url else ""
        return Verdict("claude_auth_required", told + where)
    if parsed.result is not None:
        return _by_result(facts, told)
    if facts.ending.gone and facts.ending.exit_code in {None, 128 + signal.SIGKILL, 128 + signal.SIGTERM}:
        return _deleted(facts)
    if parsed.empty_response:
        return Verdict(
            "llm_api_error",
            "LLM API returned an empty response (stop_reason: null, output_tokens: 0) — "
            "the upstream model API may be degraded or misconfigured",
        )
    if parsed.upstream:
        return Verdict("llm_api_error", told)
    return _without_result(facts, told)


def _by_result(facts: EndFacts, told: str) -> Verdict:
    parsed, ending = facts.parsed, facts.ending
    if parsed.failure:
        return Verdict("llm_api_error" if parsed.upstream else "agent_failed", parsed.failure)
    if ending.diagnosis is not None:
        return Verdict(_WEAK, _told(ending.diagnosis), ending.diagnosis)
    # It called itself well, so its first stray line of output is not the reason.
    name = facts.dialect.name.capitalize()
    return Verdict(_WEAK, f"{name} exited with code {ending.exit_code}" if ending.exit_code is not None else told)


def _without_result(facts: EndFacts, told: str) -> Verdict:
    parsed, ending = facts.parsed, facts.ending
    cut_short = "" if facts.log_complete else " (the log could not be read to its end)"
    if parsed.first_plain_line.startswith("paperclip-entry:") and ending.exit_code:
        return Verdict("agent_entry_failed", parsed.first_plain_line)
    if parsed.truncated:
        model = f" (model: {parsed.model})" if parsed.model else ""
        text = f"{facts.dialect.name.capitalize()} run was truncated mid-stream{model} — content came but no result: "
        return Verdict("claude_truncated", text + _cause(ending) + cut_short)
    if not ending.exit_code:
        return Verdict("agent_no_result" if facts.dialect.reports else _WEAK, told + cut_short)
    if parsed.model and not parsed.first_plain_line and not parsed.summary:
        return Verdict("claude_init_failed", told + cut_short)
    return Verdict(_WEAK, _told(ending.diagnosis) if ending.diagnosis else told + cut_short, ending.diagnosis)


def _cause(ending: Ending) -> str:
    if ending.exit_code is None and not ending.reason:
        return describe_truncation(None, missing=ending.gone)
    return describe_truncation(
        {
            "exitCode": ending.exit_code,
            "signal": None if ending.exit_code in {137, 143} else ending.signal,
            "reason": ending.reason,
            "message": ending.message,
        }
    )


def _told(cause: Diagnosis) -> str:
    return f"{cause.text} ({cause.remedy})" if cause.remedy else cause.text


def _session(facts: EndFacts) -> dict[str, str] | None:
    """The session that a later run may go on with: the agent's own word, else the one that this run went on with."""
    known = {**facts.session_params}
    if facts.parsed.session_id:
        known["sessionId"] = facts.parsed.session_id
    return facts.dialect.write_session(known)


def _recovery(facts: EndFacts, code: str) -> dict[str, Any] | None:
    """Leave for the server to start the run anew. Never once a container has started: it may have done things."""
    if not code or CODES[code].retry not in {Retry.START, Retry.LATER} or not _is_fresh(facts):
        return None
    return {"kind": "bootstrap", "providerWorkStarted": False}


def _is_fresh(facts: EndFacts) -> bool:
    """Whether it is certain that nothing was started."""
    return not facts.ending.started and not facts.tail and not facts.unknown


def _usage(usage: Usage | None) -> dict[str, int] | None:
    if usage is None:
        return None
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
    }


def _meta(facts: EndFacts, found: Verdict) -> dict[str, Any]:
    ending, cause = facts.ending, found.cause
    elapsed = max(facts.ended_at - facts.started_at, 0) if facts.started_at and facts.ended_at else 0
    retry = CODES[found.code].retry
    if retry is Retry.START and not _is_fresh(facts):
        retry = Retry.NO  # it promises that nothing happens twice
    known = {
        "runId": facts.run_id,
        "jobName": facts.job_name,
        "retry": retry.value,
        "detail": cut(cause.detail, 1024) if cause else "",
        "remedy": cause.remedy if cause else "",
        "podReason": ending.reason,
        "jobCondition": ending.job_condition,
        "elapsedSeconds": round(elapsed),
        "loginUrl": cut(facts.parsed.login_url, 1024) if found.code == "claude_auth_required" else "",
    }
    meta = {name: value for name, value in known.items() if value}
    return meta if facts.log_complete else {**meta, "logComplete": False}


def _result_json(facts: EndFacts, *, failed: bool) -> dict[str, Any] | None:
    if facts.parsed.result is not None:
        return bounded(facts.parsed.result, _RESULT_BYTES)
    tail = facts.tail[-_TAIL_BYTES:]
    return {"stdout": cut(tail, _TAIL_BYTES)} if failed and tail else None


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    return signal.Signals(number).name if number in signal.valid_signals() and number < 32 else f"signal {number}"
