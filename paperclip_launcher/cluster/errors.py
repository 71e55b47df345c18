"""What the API server said no with:

ApiError                   any status of 300 and above
├── Unauthorized           401, also after the token was read again
├── Forbidden              403
│   └── QuotaExceeded      403 for lack of room, which may come back
├── NotFound               404
├── AlreadyExists          409 for a name that is taken
├── Conflict               409 for an object that is another by now
├── Gone                   410, and what means the same of a resourceVersion
├── Invalid                400 and 422: the object or the request; 422 also for a JSON Patch whose `test` fails
├── TooManyRequests        429
└── ServerFault            500 and above, and 408: it may have had its effect
AccessInvalid              no way to the API server is known: before any call
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from paperclip_launcher.cluster.transport import Response
from paperclip_launcher.errors import LauncherError

LONGEST_MESSAGE = 256
"""Characters of the server's own words. They may quote what was sent, so no more is kept than a person needs."""


class ApiError(LauncherError):
    """`status` is that of HTTP, `reason` Kubernetes' own word for it, `details` those of the Status object.

    `reason` and `message` are "" unless the answer was a Status. `retry_after` in seconds, None for "not said".
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = _shortened(message)
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after
        self.repeated = False
        """Whether an earlier try of the same call went unanswered: it may have had the effect that this one met."""
        super().__init__(f"{status} {reason}".rstrip() + (f": {self.message}" if self.message else ""))


class Unauthorized(ApiError):
    remedy = "the token or certificate is not accepted: look whether it has expired and belongs to this cluster"


class Forbidden(ApiError):
    remedy = "give the launcher's account the right that the message names; its Role is rendered from its calls"


class QuotaExceeded(Forbidden):
    remedy = "wait until other runs end, or raise the ResourceQuota"


class NotFound(ApiError):
    pass


class AlreadyExists(ApiError):
    pass


class Conflict(ApiError):
    pass


class Gone(ApiError):
    pass


class Invalid(ApiError):
    pass


class TooManyRequests(ApiError):
    pass


class ServerFault(ApiError):
    pass


class AccessInvalid(LauncherError):
    """How the API server is reached cannot be told: `remedy` says how to mend it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


_CLASSES: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: ServerFault,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
# A reason is one word.
_LONGEST_REASON = 64
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# An answer longer than this is no Status.
_LONGEST_STATUS = 1 << 20
# After the storage of the server was set back, our resourceVersion lies in its future; it will never come.
_FUTURE = "Too large resource version"
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def api_error(response: Response) -> ApiError:
    """What an answer with a status of 300 or above means. The text of anything but a Status is dropped: it may hold
    what was sent, or a page of a proxy.
    """
    status = _status_object(response.body)
    return of_status(response.status, status, _header_seconds(response.headers.get("retry-after", "")))


def of_status(code: int, status: Mapping[str, Any], retry_after: float | None = None) -> ApiError:
    """`status` is a Status object, also one from an ERROR event of a watch; empty where there is none."""
    reason, message = _text(status.get("reason"))[:_LONGEST_REASON], _text(status.get("message"))
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    kind = _CLASSES.get(code, ServerFault if code >= 500 else ApiError)
    if kind is Forbidden and "exceeded quota" in message:
        kind = QuotaExceeded
    elif kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    elif reason in ("Expired", "Gone") or _FUTURE in message or _names_future(details):
        kind = Gone
    if retry_after is None:
        said = details.get("retryAfterSeconds")
        retry_after = float(said) if type(said) is int and said > 0 else None
    return kind(code, reason, message, details, retry_after)


def is_not_found(error_like: Any) -> bool:
    """Whether an error says 404, whichever client it comes from: an exception of ours or of others, or one that came as
    JSON under the key "error". The status may stand in the error or its response, as a number and nothing else.
    """
    if isinstance(error_like, Mapping):
        error = error_like.get("error")
        if not isinstance(error, Mapping):
            return False
    elif isinstance(error_like, BaseException):
        error = {name: getattr(error_like, name, None) for name in (*_STATUS_KEYS, "response", "message")}
        error["message"] = error["message"] or str(error_like)
    else:
        return False
    response = error.get("response")
    for one in (error, response if isinstance(response, Mapping) else _statuses(response)):
        if any(type(one.get(name)) is int and one[name] == 404 for name in _STATUS_KEYS):
            return True
    return _CODE_IN_TEXT.search(_text(error.get("message"))) is not None


_STATUS_KEYS = ("status", "statusCode", "status_code", "code")
_CODE_IN_TEXT = re.compile(r"\bHTTP-Code: 404\b")


def _statuses(response: Any) -> dict[str, Any]:
    return {name: getattr(response, name, None) for name in _STATUS_KEYS}


def _shortened(message: str) -> str:
    """With the words by which masking.py knows that a secret may be cut here."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    marker = f"… [{len(message) - LONGEST_MESSAGE} characters cut]"
    return message[: LONGEST_MESSAGE - len(marker)] + marker


def _status_object(body: bytes) -> Mapping[str, Any]:
    if len(body) > _LONGEST_STATUS or not body.lstrip().startswith(b"{"):
        return {}
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return tree if tree.get("kind") == "Status" else {}


def _names_future(details: Mapping[str, Any]) -> bool:
    causes = details.get("causes")
    return isinstance(causes, list) and any(
        isinstance(one, dict) and one.get("reason") == "ResourceVersionTooLarge" for one in causes
    )


def _header_seconds(text: str) -> float | None:
    """A date instead of seconds is not read: no API server sends one, and it would need clocks that agree."""
    return float(text) if _SECONDS.fullmatch(text.strip()) else None


def _text(value: Any) -> str:
    """Without what a terminal obeys or no file can hold: webhooks write these texts."""
    return _ODD.sub("?", value) if isinstance(value, str) else ""
