"""What goes wrong, as an answer for the client: a stable code, every problem, how to mend it. Nothing secret."""

from __future__ import annotations

import logging
from typing import Any

from paperclip_launcher.cluster.errors import ApiError, Forbidden, Unauthorized
from paperclip_launcher.codes import CODES, Retry
from paperclip_launcher.errors import ConfigInvalid, Detached, LauncherError, NotFoundRun, Unreachable
from paperclip_launcher.masking import Mask
from paperclip_launcher.outcome import RunResult
from paperclip_launcher.serve.messages import INTERNAL_ERROR, LAUNCHER_ERROR, RpcError

_LOG = logging.getLogger(__name__)
RUN_NOT_FOUND = "run_not_found"
DETACHED = "detached"
"""The launcher ends, and the run goes on without it."""


def error_of(error: Exception, mask: Mask) -> RpcError:
    """For any exception; one that is no error of ours is logged, and the client gets no more than its name."""
    if isinstance(error, RpcError):
        return error
    if not isinstance(error, LauncherError):
        _LOG.error("a request failed", exc_info=error)
        return RpcError(INTERNAL_ERROR, f"internal error: {type(error).__name__}", _data("internal_error", (), ""))
    problems = error.problems if isinstance(error, ConfigInvalid) else ()
    data = _data(_code(error), tuple(map(mask.text, problems)), mask.text(error.remedy))
    return RpcError(LAUNCHER_ERROR, mask.text(str(error)), data)


def gone(reason: str, text: str) -> RpcError:
    """For a request that waits for a result which it will not get here."""
    remedy = "attach to the run again, with the offset of what has been stored of its log"
    return RpcError(LAUNCHER_ERROR, text, _data(reason, (), remedy))


def as_result(error: RpcError) -> dict[str, Any] | None:
    """The error of a run as Paperclip wants the result of one; None where the run may still go on."""
    code = str(error.data.get("code") or "")
    if code not in CODES or CODES[code].exit == 6:
        return None
    # Nothing was created, so the server may begin anew.
    again = {"kind": "bootstrap", "providerWorkStarted": False} if CODES[code].retry is Retry.START else None
    result = RunResult(
        exit_code=None,
        signal=None,
        timed_out=False,
        error_message=error.message,
        error_code=code,
        error_family=CODES[code].family or None,
        error_meta={"retry": CODES[code].retry.value, "remedy": error.data.get("remedy", "")},
        execution_recovery=again,
    )
    return result.to_json()


def _code(error: LauncherError) -> str:
    if isinstance(error, NotFoundRun):
        return RUN_NOT_FOUND
    if isinstance(error, Detached):
        return DETACHED
    if isinstance(error, Unreachable):
        return "k8s_api_unreachable"
    if isinstance(error, Forbidden | Unauthorized):
        return "k8s_forbidden"
    if isinstance(error, ApiError):
        return "k8s_api_error"
    return str(getattr(error, "code", "launcher_error"))


def _data(code: str, problems: tuple[str, ...], remedy: str) -> dict[str, Any]:
    data: dict[str, Any] = {"code": code, "problems": list(problems), "remedy": remedy}
    if code in CODES:
        data["retry"] = CODES[code].retry.value
    return data
