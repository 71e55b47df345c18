"""JSON-RPC 2.0, one JSON object a line: what comes in is read, what goes out is written. Pure.

Only a line feed ends a line: what else Unicode counts as a line's end may stand in a text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
LAUNCHER_ERROR = -32000
"""Whatever the launcher says no to; `data.code` says what it is."""
NOT_INITIALIZED = -32002


class RpcError(Exception):
    """An answer that is no result. `data` has `code`, `problems` and `remedy` where there is something to say."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data or {}


@dataclass(frozen=True, slots=True)
class Call:
    """A request, or a notification where `answered` is false. `id` is a text, a number or None."""

    id: str | int | float | None
    method: str
    params: Mapping[str, Any] = field(repr=False)
    answered: bool


def read(line: bytes) -> Call:
    """RpcError, with the attribute `id` of the request where it could be read."""
    try:
        tree = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else _reason(error)
        raise RpcError(PARSE_ERROR, f"the line is no JSON: {reason}") from None
    if not isinstance(tree, dict):
        what = "a batch; send one object a line" if isinstance(tree, list) else "no object"
        raise RpcError(INVALID_REQUEST, f"the line is {what}")
    identity = tree.get("id")
    known = identity if isinstance(identity, str | int | float) and not isinstance(identity, bool) else None
    try:
        return _checked(tree, known)
    except RpcError as error:
        error.id = known  # type: ignore[attr-defined]
        raise


def _checked(tree: Mapping[str, Any], known: str | float | None) -> Call:
    method, params = tree.get("method"), tree.get("params", {})
    if tree.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'the request has no "jsonrpc": "2.0"')
    if known is None and tree.get("id") is not None:
        raise RpcError(INVALID_REQUEST, "the id is neither a text nor a number")
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "the method is no text")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "the parameters are no map; they go by name")
    return Call(known, method, params, answered="id" in tree)


def answer(identity: str | float | None, result: Any) -> bytes:
    return _line({"jsonrpc": "2.0", "id": identity, "result": result})


def failure(identity: str | float | None, error: RpcError) -> bytes:
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data:
        body["data"] = dict(error.data)
    return _line({"jsonrpc": "2.0", "id": identity, "error": body})


def notice(method: str, params: Mapping[str, Any]) -> bytes:
    return _line({"jsonrpc": "2.0", "method": method, "params": params})


def _line(tree: Mapping[str, Any]) -> bytes:
    try:
        return (json.dumps(tree, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
    except UnicodeEncodeError:
        # A lone surrogate that came as an escape, such as in an id, goes back as one.
        return (json.dumps(tree, separators=(",", ":")) + "\n").encode()


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _reason(error: ValueError) -> str:
    """Without the text itself: it may hold a token."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    if isinstance(error, UnicodeDecodeError):
        return f"no UTF-8 at byte {error.start + 1}"
    return "a number cannot be read"
