"""Each call is the request that the API server knows it by, and one that the launcher has a right to."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubekit.calls import LAUNCHER_CALLS
from paperclip_launcher.cluster import errors
from paperclip_launcher.cluster.transport import Broken, NotSent, Response
from tests.fakeapi.loop import VirtualLoop
from tests.launcher.cluster.scripted import ScriptedStream, answer, cluster_over, refusal

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "run-1"}}
AGENTS = "/namespaces/agents"


def sent(call, *script):
    transport, cluster = cluster_over(*(script or (answer(JOB),)))
    given = asyncio.run(call(cluster))
    return transport.requests, given


def only(call, *script):
    requests, given = sent(call, *script)
    assert len(requests) == 1
    one = requests[0]
    return one.method, one.path, dict(one.query), json.loads(one.body or b"null"), one.content_type, given


PLAIN = "application/json"


@pytest.mark.parametrize(
    ("call", "request_of"),
    [
        (lambda c: c.create("jobs", JOB), ("POST", f"/apis/batch/v1{AGENTS}/jobs", {}, JOB, PLAIN)),
        (
            lambda c: c.dry_create("jobs", JOB),
            ("POST", f"/apis/batch/v1{AGENTS}/jobs", {"dryRun": "All"}, JOB, PLAIN),
        ),
        (lambda c: c.get("pods", "a/b"), ("GET", f"/api/v1{AGENTS}/pods/a%2Fb", {}, None, "")),
        (
            lambda c: c.patch("jobs", "x", [{"op": "test"}]),
            ("PATCH", f"/apis/batch/v1{AGENTS}/jobs/x", {}, [{"op": "test"}], "application/json-patch+json"),
        ),
        (
            lambda c: c.merge("jobs", "x", {"spec": None}),
            ("PATCH", f"/apis/batch/v1{AGENTS}/jobs/x", {}, {"spec": None}, "application/merge-patch+json"),
        ),
        (
            lambda c: c.replace("leases", "x", JOB),
            ("PUT", f"/apis/coordination.k8s.io/v1{AGENTS}/leases/x", {}, JOB, PLAIN),
        ),
        (
            lambda c: c.delete("jobs", "x", uid="u", resource_version="7", grace_seconds=0),
            (
                "DELETE",
                f"/apis/batch/v1{AGENTS}/jobs/x",
                {},
                {
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "propagationPolicy": "Background",
                    "preconditions": {"uid": "u", "resourceVersion": "7"},
                    "gracePeriodSeconds": 0,
                },
                PLAIN,
            ),
        ),
        (
            lambda c: c.delete("secrets", "x", uid="", propagation="Foreground"),
            (
                "DELETE",
                f"/api/v1{AGENTS}/secrets/x",
                {},
                {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"},
                PLAIN,
            ),
        ),
    ],
)
def test_a_call_is_the_request_that_the_server_knows(call, request_of):
    *request, given = only(call)
    assert tuple(request) == request_of
    assert given == JOB


def test_a_call_that_no_right_is_asked_for_is_a_mistake():
    transport, cluster = cluster_over(answer(JOB))
    for call in (cluster.get("secrets", "x"), cluster.merge("leases", "x", {}), cluster.create("pods", JOB)):
        with pytest.raises(AssertionError, match=r"kubekit\.calls"):
            asyncio.run(call)
    assert transport.requests == []


def test_every_right_that_is_asked_for_has_its_call():
    verbs = {"create", "get", "list", "watch", "patch", "update", "delete"}
    assert {verb for call in LAUNCHER_CALLS for verb in call.verbs} == verbs
    assert {call.resource for call in LAUNCHER_CALLS if "/" in call.resource} == {"pods/log"}


def page(names, token="", version="7"):
    return answer({"metadata": {"continue": token, "resourceVersion": version}, "items": [{"n": n} for n in names]})


def test_a_list_comes_in_pages():
    requests, (items, version) = sent(
        lambda c: c.list("pods", label_selector="a=b,c", limit=2, resource_version="5"), page("ab", "t"), page("c")
    )
    assert ([one["n"] for one in items], version) == (["a", "b", "c"], "7")
    first, second = (dict(one.query) for one in requests)
    assert first == {"labelSelector": "a=b,c", "limit": "2", "resourceVersion": "5"}
    assert second == {"labelSelector": "a=b,c", "limit": "2", "continue": "t"}


def test_a_list_whose_pages_are_too_old_is_asked_for_in_one_piece():
    requests, (items, version) = sent(
        lambda c: c.list("pods", limit=2), page("ab", "t"), refusal(410, "Expired"), page("xyz", version="9")
    )
    assert ([one["n"] for one in items], version) == (["x", "y", "z"], "9")
    assert dict(requests[2].query) == {}
    with pytest.raises(errors.Gone):
        sent(lambda c: c.list("pods", resource_version="1"), refusal(410, "Expired"))


def test_an_empty_list_may_be_null():
    assert sent(lambda c: c.list("pods"), answer({"metadata": {}, "items": None}))[1] == ([], "")


def test_a_log_is_opened_with_its_time_stamps():
    stream = ScriptedStream([b"line"])
    call = lambda c: c.open_log("p", container="agent", follow=True, since="2026-11-21T06:00:00Z", idle=90.0)  # noqa: E731
    requests, given = sent(call, stream)
    assert given is stream
    assert requests[0].path == f"/api/v1{AGENTS}/pods/p/log"
    assert dict(requests[0].query) == {
        "container": "agent",
        "follow": "true",
        "sinceTime": "2026-11-21T06:00:00Z",
        "timestamps": "true",
    }
    # A kubelet sends no head before the first line.
    assert requests[0].timeout == 90
    assert "follow" not in dict(
        sent(lambda c: c.open_log("p", container="a", follow=False, idle=9), stream)[0][0].query
    )


def test_a_watch_is_opened_with_bookmarks():
    call = lambda c: c.open_watch("jobs", label_selector="a", resource_version="7", seconds=300, idle=9)  # noqa: E731
    query = dict(sent(call, ScriptedStream())[0][0].query)
    assert query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "labelSelector": "a",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
    }


@pytest.mark.parametrize("broken", [False, True])
def test_a_stream_that_is_refused_is_an_error_and_closed(broken):
    body = refusal(410, "Expired", "too old").body
    stream = ScriptedStream([body[:9], Broken("cut") if broken else body[9:]], status=410)
    with pytest.raises(errors.Gone) as caught:
        sent(lambda c: c.open_watch("jobs", resource_version="1", seconds=9, idle=9), stream)
    assert caught.value.message == ("" if broken else "too old")
    assert stream.closed == 1


def test_whether_something_is_allowed_is_asked_of_the_server():
    review = {"namespace": "agents", "verb": "get", "group": "", "resource": "pods", "subresource": "log"}
    method, path, _, body, _, allowed = only(
        lambda c: c.allowed("get", "", "pods", "log"), answer({"status": {"allowed": True}})
    )
    assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    assert body["spec"]["resourceAttributes"] == review
    assert allowed
    assert not sent(lambda c: c.allowed("get", "", "pods"), answer({"status": {}}))[1]


def test_the_version_is_the_servers():
    assert only(lambda c: c.version(), answer({"gitVersion": "v1.35.4"}))[-1] == "v1.35.4"


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[]", b"", b"[" * 100_000])
def test_an_answer_that_is_no_object_is_told_as_such(body):
    with pytest.raises(errors.ApiError, match="no JSON object"):
        sent(lambda c: c.get("jobs", "x"), Response(200, {}, body))


def test_each_try_is_counted_by_verb_resource_and_status():
    seen = []
    script = (NotSent("refused"), answer(JOB))
    _, cluster = cluster_over(*script, on_call=lambda *one: seen.append(one[:3]))
    VirtualLoop().run(cluster.get("jobs", "x"))
    assert seen == [("get", "jobs", 0), ("get", "jobs", 200)]


def test_neither_body_nor_answer_shows_in_a_repr():
    requests, _ = sent(lambda c: c.create("secrets", {"data": {"a": "canary-77"}}), answer({"data": "canary-77"}))
    assert "canary-77" not in repr(requests)
    assert "canary-77" not in repr(answer({"data": "canary-77"}))


def test_each_try_of_a_create_may_have_a_manifest_of_its_own():
    names = iter("ab")
    requests, _ = sent(
        lambda c: c.create("jobs", lambda: {**JOB, "metadata": {"name": next(names)}}), Broken("cut"), answer(JOB)
    )
    assert [json.loads(one.body)["metadata"]["name"] for one in requests] == ["a", "b"]
