"""The API server: one request in, one answer out, as HTTP has it. Both fronts call `Api.handle`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.fakeapi import statuses
from tests.fakeapi.logs import LogSource
from tests.fakeapi.patches import PatchFailed, json_patch, merge_patch
from tests.fakeapi.selectors import selector
from tests.fakeapi.statuses import Refused
from tests.fakeapi.store import KINDS, Item, Source, Tree, Watch, bookmark, dumps
from tests.fakeapi.validation import check_update, prepared

if TYPE_CHECKING:
    from tests.fakeapi.cluster import FakeCluster

_JSON = {"content-type": "application/json"}
_TEXT = {"content-type": "text/plain"}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_KNOWN_QUERY = {
    *("labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch"),
    *("watch", "allowWatchBookmarks", "timeoutSeconds"),
    *("dryRun", "fieldManager", "fieldValidation", "propagationPolicy", "gracePeriodSeconds"),
    *("container", "follow", "timestamps", "sinceTime", "tailLines"),
}


@dataclass(slots=True)
class Answer:
    """`source` is the body where it is a stream; else `body` is all of it."""

    status: int
    headers: Mapping[str, str] = field(default_factory=lambda: _JSON)
    body: bytes = b""
    source: Source | None = None


@dataclass(slots=True)
class Call:
    """One request, taken apart. `verb` as in a Role; `resource` may have a subresource, as pods/log."""

    method: str
    verb: str
    resource: str
    namespace: str
    name: str
    query: Mapping[str, str]
    body: bytes
    content_type: str
    user: str

    @property
    def dry(self) -> bool:
        return self.query.get("dryRun") == "All"


class Api:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._pages: dict[str, tuple[int, list[Item]]] = {}
        self._routes: dict[str, Callable[[Call], Answer]] = {
            "create": self._create,
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
        }

    def handle(
        self,
        method: str,
        path: str,
        query: tuple[tuple[str, str], ...] = (),
        body: bytes | None = None,
        content_type: str = "",
        user: str = "system:serviceaccount:paperclip-system:paperclip-launcher",
    ) -> Answer:
        """Never raises but AssertionError, where the caller sends what this fake does not know."""
        asked = dict(query)
        unknown = asked.keys() - _KNOWN_QUERY
        assert not unknown, f"the fake API server does not know the query {sorted(unknown)}"
        call = self._call(method, path, asked, body or b"", content_type, user)
        if call is None:
            return self._elsewhere(method, path, body or b"")
        self._store.actor = user
        try:
            self._authorize(call)
            answer = self._routes[call.verb](call)
        except Refused as no:
            answer = Answer(no.status, {**_JSON, **no.headers}, no.body)
        self._cluster.count(user, call.verb, call.resource, call.name, answer.status)
        return answer

    # Paths and rights.

    def _call(self, method: str, path: str, query: Mapping[str, str], body: bytes, kind: str, user: str) -> Call | None:
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "v1"]:
            group, rest = "", parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, rest = "/".join(parts[1:3]), parts[3:]
        else:
            return None
        if len(rest) < 3 or rest[0] != "namespaces" or len(rest) > 5:
            return None
        resource, name = rest[2], rest[3] if len(rest) > 3 else ""
        if KINDS.get(resource, ("", "?"))[1] != (group or "v1"):
            return None
        if len(rest) == 5:
            resource = f"{resource}/{rest[4]}"
        verb = _VERBS.get(method, "")
        if method == "GET":
            verb = "get" if name else ("watch" if query.get("watch") in ("true", "1") else "list")
        if (
            not verb
            or (method != "GET" and (method == "POST") == bool(name))
            or (len(rest) == 5 and resource != "pods/log")
        ):
            return None
        return Call(method, verb, resource, rest[1], name, query, body, kind, user)

    def named(self, method: str, path: str, query: tuple[tuple[str, str], ...]) -> tuple[str, str]:
        """(verb, resource) of a request; the path stands for what is no resource."""
        call = self._call(method, path, dict(query), b"", "", "")
        return (method.lower(), path) if call is None else (call.verb, call.resource)

    def allowed(self, verb: str, resource: str) -> bool:
        from tests.fakeapi.cluster import RIGHTS

        return (verb, resource) in RIGHTS and (verb, resource) not in self._cluster.knobs.denied

    def _authorize(self, call: Call) -> None:
        if not self.allowed(call.verb, call.resource):
            raise statuses.right_missing(call.user, call.verb, call.resource, call.namespace)

    def _elsewhere(self, method: str, path: str, body: bytes) -> Answer:
        if (method, path) == ("GET", "/version"):
            return Answer(200, body=b'{"major":"1","minor":"35","gitVersion":"v1.35.4","platform":"linux/amd64"}')
        if method == "GET" and path in ("/readyz", "/livez", "/healthz"):
            return Answer(200, _TEXT, b"ok")
        if method == "POST" and path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            self._cluster.count("", "create", "selfsubjectaccessreviews", "", 201)
            tree = json.loads(body)
            asked = tree["spec"]["resourceAttributes"]
            sub = asked.get("subresource")
            resource = f"{asked['resource']}/{sub}" if sub else asked["resource"]
            fine = self.allowed(asked["verb"], resource)
            status = {"allowed": fine, **({} if fine else {"reason": ""})}
            return Answer(201, body=dumps({**tree, "status": status}))
        text = "the server could not find the requested resource"
        return Answer(404, _JSON, statuses.refused(404, "NotFound", text, {}).body)

    # Verbs.

    def _item(self, call: Call) -> Item:
        item = self._store.find(call.resource, call.namespace, call.name)
        if item is None:
            raise statuses.not_found(call.resource, call.name)
        return item

    def _create(self, call: Call) -> Answer:
        uid = self._store.uid()
        tree = prepared(call.resource, call.namespace, _json(call.body), len(call.body), uid)
        name = tree["metadata"]["name"]
        call.name = name
        if self._store.find(call.resource, call.namespace, name) is not None:
            raise statuses.already_exists(call.resource, name)
        self._cluster.check_new(call.resource, tree, call.namespace)
        key = (call.resource, call.namespace, name)
        if call.dry:
            return Answer(201, body=Item(key, tree, 0, None).whole())
        return Answer(201, body=self._store.add(key, tree).whole())

    def _get(self, call: Call) -> Answer:
        if call.resource == "pods/log":
            return self._log(call)
        return Answer(200, body=self._item(call).whole())

    def _list(self, call: Call) -> Answer:
        limit = int(call.query.get("limit") or 0)
        token = call.query.get("continue", "")
        if token:
            if token not in self._pages or self._pages[token][0] < self._store.compacted:
                raise statuses.expired(
                    "The provided continue parameter is too old to display a consistent list result."
                )
            version, items = self._pages.pop(token)
        else:
            version = self._store.version
            asked = int(call.query.get("resourceVersion") or 0)
            if asked > version:
                text = f"Too large resource version: {asked}, current: {version}"
                raise statuses.refused(504, "Timeout", text, {"retryAfterSeconds": 1})
            chosen = selector(call.resource, call.query.get("labelSelector", ""), call.query.get("fieldSelector", ""))
            shelf = self._store.shelf(call.resource, call.namespace)
            items = [shelf[name] for name in sorted(shelf) if chosen is None or chosen(shelf[name].obj)]
        meta: Tree = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            again = f"{version}-{len(self._pages)}-{self._store.random.getrandbits(32):08x}"
            self._pages[again] = (version, items[limit:])
            meta |= {"continue": again, "remainingItemCount": len(items) - limit}
            items = items[:limit]
        kind, api_version = KINDS[call.resource]
        head = b'{"kind":"%bList","apiVersion":"%b","metadata":' % (kind.encode(), api_version.encode())
        listed = b",".join(b"{" + item.inner() + b"}" for item in items)
        return Answer(200, body=b'%b%b,"items":[%b]}' % (head, dumps(meta), listed))

    def _watch(self, call: Call) -> Answer:
        chosen = selector(call.resource, call.query.get("labelSelector", ""), call.query.get("fieldSelector", ""))
        text = call.query.get("resourceVersion") or "0"
        if not text.isdigit():
            raise statuses.bad_request(f'resourceVersion: Invalid value: "{text}"')
        watch = self._store.watch(call.resource, call.namespace, int(text), chosen)
        if watch is None:
            said = f"too old resource version: {text} ({self._store.compacted})"
            if self._cluster.random.random() < 0.5:
                raise statuses.expired(said)
            # The watch cache says it inside the stream.
            watch = Watch(call.resource, call.namespace, None, lambda _: None)
            watch.say("ERROR", json.dumps(statuses.status_tree(410, "Expired", said)).encode())
            watch.end()
            return Answer(200, source=watch)
        self._keep(watch, call)
        return Answer(200, source=watch)

    def _keep(self, watch: Watch, call: Call) -> None:
        """Bookmarks and the end of a watch."""
        cluster = self._cluster
        seconds = float(call.query.get("timeoutSeconds") or 0) or 1800 * (1 + cluster.random.random())

        def mark() -> None:
            if not watch.ended and not watch.broken and watch in self._store.watches():
                watch.say("BOOKMARK", bookmark(call.resource, self._store.version))
                cluster.later("api", cluster.knobs.bookmark_seconds, mark)

        if call.query.get("allowWatchBookmarks") in ("true", "1"):
            cluster.later("api", cluster.knobs.bookmark_seconds, mark)
        cluster.later("api", seconds, watch.end)

    def _update(self, call: Call) -> Answer:
        tree = _json(call.body)
        meta = tree.get("metadata") if isinstance(tree, dict) else None
        if not isinstance(meta, dict):
            raise statuses.bad_request("the object provided is unrecognized")
        item = self._store.find(call.resource, call.namespace, call.name)
        if item is None:
            # A PUT makes a Lease that is not there, whatever its resourceVersion: only a uid says that it was another.
            if call.resource != "leases":
                raise statuses.not_found(call.resource, call.name)
            if meta.get("uid"):
                why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: "
                raise statuses.conflict(call.resource, call.name, why)
            tree = {**tree, "metadata": {**meta, "resourceVersion": None}}
            call.body = dumps(tree)
            return self._create(call)
        if meta.get("uid") not in (None, item.obj["metadata"]["uid"]):
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: "
            raise statuses.conflict(call.resource, call.name, why + item.obj["metadata"]["uid"])
        if meta.get("resourceVersion") not in (None, "", str(item.version)):
            raise statuses.conflict(call.resource, call.name, _MODIFIED)
        return self._store_new(call, item, tree)

    def _store_new(self, call: Call, item: Item, tree: Tree) -> Answer:
        new = check_update(call.resource, item.obj, tree)
        if call.dry or new == item.obj:
            return Answer(200, body=Item(item.key, new, item.version, None).whole())
        return Answer(200, body=self._store.put(item, new).whole())

    def _patch(self, call: Call) -> Answer:
        item = self._item(call)
        change = _json(call.body)
        if call.content_type == "application/json-patch+json":
            try:
                tree = json_patch(item.obj, change)
            except PatchFailed:
                raise statuses.bad_patch() from None
        elif call.content_type == "application/merge-patch+json":
            tree = merge_patch(item.obj, change)
        else:
            raise statuses.refused(415, "UnsupportedMediaType", f"the body of the request was in {call.content_type!r}")
        if tree["metadata"].get("resourceVersion") not in (None, str(item.version)):
            raise statuses.conflict(call.resource, call.name, _MODIFIED)
        return self._store_new(call, item, tree)

    def _delete(self, call: Call) -> Answer:
        item = self._item(call)
        options = _json(call.body) if call.body else {}
        meta = item.obj["metadata"]
        wanted = options.get("preconditions") or {}
        if wanted.get("uid") not in (None, meta["uid"]):
            why = f"the UID in the precondition ({wanted['uid']}) does not match the UID in record ({meta['uid']})."
            raise statuses.conflict(call.resource, call.name, f"{why} {_RECREATED}")
        if wanted.get("resourceVersion") not in (None, str(item.version)):
            asked = wanted["resourceVersion"]
            why = f"the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record"
            raise statuses.conflict(call.resource, call.name, f"{why} ({item.version}). {_CHANGED}")
        default = "Orphan" if call.resource == "jobs" else "Background"
        propagation = options.get("propagationPolicy") or call.query.get("propagationPolicy") or default
        grace = options.get("gracePeriodSeconds", call.query.get("gracePeriodSeconds"))
        if call.dry or options.get("dryRun"):
            return Answer(200, body=item.whole())
        left = self._cluster.delete(item, propagation=propagation, grace=None if grace is None else int(grace))
        if left is not None or call.resource == "pods":
            return Answer(200, body=(left or item).whole())
        details = statuses.about(call.resource, call.name, uid=meta["uid"])
        tree = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return Answer(200, body=dumps(tree))

    def _log(self, call: Call) -> Answer:
        pod = self._store.find("pods", call.namespace, call.name)
        if pod is None:
            raise statuses.not_found("pods", call.name)
        one = self._cluster.kubelet.container(pod.obj["metadata"]["uid"])
        assert one is not None, "a pod without a container"
        container = call.query.get("container") or one.name
        if container != one.name:
            raise statuses.bad_request(f"container {container} is not valid for pod {call.name}")
        assert call.query.get("timestamps") == "true", "a log without time stamps cannot be resumed"
        since = _seconds(call.query.get("sinceTime", ""))
        if one.state == "new":
            return Answer(200, _TEXT)
        if not self._cluster.kubelet_reachable or one.state == "lost":
            address = f"https://192.0.2.1:10250/containerLogs/{call.namespace}/{call.name}/{container}"
            raise statuses.refused(500, "", f'Get "{address}": dial tcp 192.0.2.1:10250: connect: no route to host')
        if one.state in ("bound", "starting"):
            states = pod.obj["status"].get("containerStatuses") or ({"state": {}},)
            why = states[0]["state"].get("waiting", {}).get("reason", "ContainerCreating")
            text = f'container "{container}" in pod "{call.name}" is waiting to start: {why}'
            raise statuses.bad_request(text)
        follow = call.query.get("follow") in ("true", "1")
        source = LogSource(one.log, since=since, follow=follow)
        if not follow:
            return Answer(200, _TEXT, _tail(source.take(), call.query.get("tailLines", "")))
        if not source.ended:
            self._cluster.later("kubelet", self._cluster.knobs.log_stream_seconds, source.finish)
        return Answer(200, _TEXT, source=source)


_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_RECREATED = "The object might have been deleted and then recreated"
_CHANGED = "The object might have been modified"


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise statuses.bad_request("couldn't get version/kind; json parse error") from None


def _tail(log: bytes, count: str) -> bytes:
    lines = log.splitlines(keepends=True)
    return b"".join(lines[max(0, len(lines) - int(count)) :]) if count else log


def _seconds(text: str) -> int:
    """A request's sinceTime: whole seconds, whatever it says beyond them."""
    if not text:
        return 0
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        raise statuses.bad_request(f'sinceTime: Invalid value: "{text}"') from None
