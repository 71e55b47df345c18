"""The API server's errors, as it words them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

GROUPS = {
    "jobs": "batch",
    "leases": "coordination.k8s.io",
    "selfsubjectaccessreviews": "authorization.k8s.io",
}


class Refused(Exception):
    """An answer that is a Status. `headers` by lower-case name."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.message = str(json.loads(body).get("message", ""))
        self.body = body
        self.headers = headers or {}


def qualified(resource: str) -> str:
    group = GROUPS.get(resource)
    return f"{resource}.{group}" if group else resource


def status_tree(code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    tree: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    tree["message"] = message
    if reason:
        tree["reason"] = reason
    if details is not None:
        tree["details"] = dict(details)
    tree["code"] = code
    return tree


def refused(code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> Refused:
    return Refused(code, json.dumps(status_tree(code, reason, message, details)).encode())


def about(resource: str, name: str, **more: Any) -> dict[str, Any]:
    group = GROUPS.get(resource)
    return {"name": name, **({"group": group} if group else {}), "kind": resource, **more}


def not_found(resource: str, name: str) -> Refused:
    return refused(404, "NotFound", f'{qualified(resource)} "{name}" not found', about(resource, name))


def already_exists(resource: str, name: str) -> Refused:
    return refused(409, "AlreadyExists", f'{qualified(resource)} "{name}" already exists', about(resource, name))


def conflict(resource: str, name: str, why: str) -> Refused:
    message = f'Operation cannot be fulfilled on {qualified(resource)} "{name}": {why}'
    return refused(409, "Conflict", message, about(resource, name))


def forbidden(resource: str, name: str, why: str) -> Refused:
    return refused(403, "Forbidden", f'{qualified(resource)} "{name}" is forbidden: {why}', about(resource, name))


def invalid(resource: str, kind: str, name: str, field: str, why: str) -> Refused:
    cause = {"reason": "FieldValueInvalid", "message": why, "field": field}
    message = f'{kind} "{name}" is invalid: {field}: {why}'
    return refused(422, "Invalid", message, {**about(resource, name), "kind": kind, "causes": [cause]})


def bad_request(message: str) -> Refused:
    return refused(400, "BadRequest", message)


def bad_patch() -> Refused:
    """A JSON Patch whose `test` fails, or that does not fit: the API server says no more than this."""
    message = "the server rejected our request due to an error in our request"
    return refused(422, "Invalid", message, {})


def expired(message: str) -> Refused:
    return refused(410, "Expired", message)


def right_missing(user: str, verb: str, resource: str, namespace: str) -> Refused:
    whole, _, sub = resource.partition("/")
    group = GROUPS.get(whole, "")
    name = f"{whole}.{group}" if group else whole
    shown = f"{whole}/{sub}" if sub else whole
    message = (
        f'{name} is forbidden: User "{user}" cannot {verb} resource "{shown}" in API group "{group}"'
        f' in the namespace "{namespace}"'
    )
    return refused(403, "Forbidden", message, {"kind": whole, **({"group": group} if group else {})})
