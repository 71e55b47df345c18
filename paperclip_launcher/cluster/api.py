"""The only talker to the API server: typed calls, each one of kubekit.calls, tried again by the retry table."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from kubekit.calls import LAUNCHER_CALLS
from kubekit.identity import Manifest
from paperclip_launcher.cluster.errors import ApiError, Gone, api_error
from paperclip_launcher.cluster.retry import Budget, Complaints, Retrier, RetrySettings
from paperclip_launcher.cluster.transport import Request, Response, Stream, Transport, TransportError

OnCall = Callable[[str, str, int, float], None]
"""Told of each try: verb, resource, status (0 for no answer), seconds."""

_REVIEWS = "selfsubjectaccessreviews"
_VERSION = "version"
_GROUPS = {call.resource: call.group for call in LAUNCHER_CALLS} | {_REVIEWS: "authorization.k8s.io"}
# The last two need no right in a Role: every account may ask what it may do, and which server it is.
_ALLOWED = frozenset((verb, call.resource) for call in LAUNCHER_CALLS for verb in call.verbs) | {
    ("create", _REVIEWS),
    ("get", _VERSION),
}
_RETRY = RetrySettings()
_JSON = "application/json"
_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
# Of an error's text to a stream: more says no more.
_LONGEST_REFUSAL = 64 << 10
# The answer to a list of 500 objects with their whole pod templates takes a slow server a while.
_LIST_SECONDS = 60.0


class Cluster:
    """One namespace of one API server.

    Every call may raise ApiError, or Unreachable when no answer came within the budget `retry_seconds`. A call that
    stands in no row of kubekit.calls is a mistake of ours (AssertionError): the account has no right to it.
    """

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        *,
        retry: RetrySettings = _RETRY,
        rng: random.Random,
        on_call: OnCall = lambda _verb, _resource, _status, _seconds: None,
    ) -> None:
        self.namespace = namespace
        self._place = f"/namespaces/{quote(namespace, safe='')}"
        self._transport = transport
        self._retrier = Retrier(retry, rng)
        self._on_call = on_call

    @property
    def complaints(self) -> Complaints:
        """Where all trouble with the API server is told: a line a minute, whatever is wrong."""
        return self._retrier.complaints

    async def create(
        self, resource: str, manifest: Manifest | Callable[[], Manifest], *, retry_seconds: Budget = ...
    ) -> Manifest:
        """A function makes the manifest of each try anew."""
        return await self._call("create", resource, "", body=manifest, retry_seconds=retry_seconds)

    async def dry_create(self, resource: str, manifest: Manifest, *, retry_seconds: Budget = ...) -> Manifest:
        """As if it were created, through admission and quota, but nothing is kept."""
        query = {"dryRun": "All"}
        return await self._call("create", resource, "", query, body=manifest, retry_seconds=retry_seconds)

    async def get(self, resource: str, name: str, *, retry_seconds: Budget = ...) -> Manifest:
        return await self._call("get", resource, name, retry_seconds=retry_seconds)

    async def list(
        self,
        resource: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        resource_version: str = "",
        retry_seconds: Budget = ...,
    ) -> tuple[list[Manifest], str]:
        """The items, in pages of `limit`, and the resourceVersion that a watch goes on from. Gone if its pages outlive
        the server's memory.
        """
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        items: list[Manifest] = []
        token, version = "", resource_version
        while True:
            paging = {"limit": str(limit), "continue": token, "resourceVersion": "" if token else version}
            try:
                page = await self._call("list", resource, "", query | paging, retry_seconds=retry_seconds)
            except Gone:
                if not token:
                    raise
                # Only the first page is always to be had; in one piece there is no second.
                page, items = await self._call("list", resource, "", query, retry_seconds=retry_seconds), []
            told = {"apiVersion": page.get("apiVersion"), "kind": str(page.get("kind")).removesuffix("List")}
            items += [told | item for item in page.get("items") or ()]
            meta = page.get("metadata") or {}
            token = str(meta.get("continue") or "")
            if not token:
                return items, str(meta.get("resourceVersion") or "")

    async def patch(
        self,
        resource: str,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        retry_seconds: Budget = ...,
    ) -> Manifest:
        """A JSON Patch. One whose `test` fails changes nothing and is Invalid (422)."""
        return await self._call(
            "patch", resource, name, body=operations, content_type=_JSON_PATCH, retry_seconds=retry_seconds
        )

    async def merge(
        self,
        resource: str,
        name: str,
        tree: Mapping[str, Any],
        *,
        retry_seconds: Budget = ...,
    ) -> Manifest:
        """A merge patch: null takes a key out, a list is replaced."""
        return await self._call(
            "patch", resource, name, body=tree, content_type=_MERGE_PATCH, retry_seconds=retry_seconds
        )

    async def replace(self, resource: str, name: str, manifest: Manifest, *, retry_seconds: Budget = ...) -> Manifest:
        """Conflict when its resourceVersion is not the live one."""
        return await self._call("update", resource, name, body=manifest, retry_seconds=retry_seconds)

    async def delete(
        self,
        resource: str,
        name: str,
        *,
        uid: str,
        resource_version: str = "",
        propagation: str = "Background",
        grace_seconds: int | None = None,
        retry_seconds: Budget = ...,
    ) -> Manifest:
        """Only the object with this uid ("" for whichever has the name) and resourceVersion; another is a Conflict."""
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
        options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self._call("delete", resource, name, body=options, retry_seconds=retry_seconds)

    async def open_log(
        self, pod: str, *, container: str, follow: bool, since: str = "", idle: float, tail: int | None = None
    ) -> Stream:
        """Lines with time stamps, from `since` (RFC 3339, whole seconds), only the last `tail` of them where that is
        said. One try only: ApiError or TransportError.

        The kubelet sends no head before the first line, so a silent container may keep the caller waiting for `idle`.
        """
        query = {"container": container, "follow": "true" if follow else "", "sinceTime": since, "timestamps": "true"}
        query["tailLines"] = "" if tail is None else str(tail)
        path = f"{self._path('pods', pod)}/log"
        return await self._open("get", "pods/log", path, query, idle, 0.0 if not follow else idle)

    async def open_watch(
        self,
        resource: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str,
        seconds: int,
        idle: float,
    ) -> Stream:
        """Events as lines of JSON, for `seconds`. One try only: ApiError, Gone among them, or TransportError."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        }
        return await self._open("watch", resource, self._path(resource), query, idle, 0.0)

    async def allowed(self, verb: str, group: str, resource: str, subresource: str = "") -> bool:
        """Whether this account may do that in the namespace."""
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"namespace": self.namespace} | asked},
        }
        answer = await self._call("create", _REVIEWS, "", body=review)
        return (answer.get("status") or {}).get("allowed") is True

    async def version(self) -> str:
        """Of the server, such as v1.35.4."""
        return str((await self._call("get", _VERSION, "")).get("gitVersion") or "")

    async def close(self) -> None:
        await self._transport.close()

    def _path(self, resource: str, name: str = "") -> str:
        if resource == _VERSION:
            return "/version"
        group = _GROUPS[resource]
        root = f"/apis/{group}/v1" if group else "/api/v1"
        place = "" if resource == _REVIEWS else self._place
        return f"{root}{place}/{resource}" + (f"/{quote(name, safe='')}" if name else "")

    async def _call(
        self,
        verb: str,
        resource: str,
        name: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Any = None,
        content_type: str = _JSON,
        retry_seconds: Budget = ...,
    ) -> Manifest:
        _check(verb, resource)
        request = Request(
            _METHODS[verb],
            self._path(resource, name),
            _query(query or {}),
            None if body is None or callable(body) else _encode(body).encode(),
            "" if body is None else content_type,
            _LIST_SECONDS if verb == "list" else 30.0,
        )

        async def attempt() -> Manifest:
            sent = replace(request, body=_encode(body()).encode()) if callable(body) else request
            return _tree(await self._timed(verb, resource, sent))

        return await self._retrier.run(verb, f"{verb} {resource} {name}".rstrip(), attempt, retry_seconds)

    async def _timed(self, verb: str, resource: str, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        began = loop.time()
        status = 0
        try:
            response = await self._transport.send(request)
            status = response.status
        finally:
            self._on_call(verb, resource, status, loop.time() - began)
        return response

    async def _open(
        self, verb: str, resource: str, path: str, query: Mapping[str, str], idle: float, head_seconds: float
    ) -> Stream:
        _check(verb, resource)
        loop = asyncio.get_running_loop()
        began = loop.time()
        request = Request("GET", path, _query(query), timeout=max(30.0, head_seconds))
        status = 0
        try:
            stream = await self._transport.open(request, idle=idle)
            status = stream.status
        finally:
            self._on_call(verb, resource, status, loop.time() - began)
        if status < 300:
            return stream
        raise await _refusal(stream)


_encode = json.JSONEncoder(separators=(",", ":")).encode
_METHODS = {"create": "POST", "get": "GET", "list": "GET", "patch": "PATCH", "update": "PUT", "delete": "DELETE"}


def _check(verb: str, resource: str) -> None:
    if (verb, resource) not in _ALLOWED:
        raise AssertionError(f"kubekit.calls does not say that the launcher may {verb} {resource}")


def _query(pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in dict(pairs).items() if value)


def _tree(response: Response) -> Manifest:
    if response.status >= 300:
        raise api_error(response)
    try:
        tree = json.loads(response.body)
    except (ValueError, RecursionError):
        tree = None
    if not isinstance(tree, dict):
        raise ApiError(response.status, "NoJson", "the answer is not from an API server: it is no JSON object")
    return tree


async def _refusal(stream: Stream) -> ApiError:
    """What a stream says that was refused. What cannot be read of its text does not matter."""
    parts: list[bytes] = []
    try:
        while (part := await stream.read()) and sum(map(len, parts)) < _LONGEST_REFUSAL:
            parts.append(part)
    except TransportError:
        pass
    finally:
        await stream.close()
    return api_error(Response(stream.status, stream.headers, b"".join(parts)))
