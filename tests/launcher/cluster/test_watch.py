"""The store is what the server says, each change is told once, and nothing ends the watch."""

from __future__ import annotations

import asyncio
import json
import logging
import random

import pytest

from paperclip_launcher.cluster.transport import Broken, NotSent, Stalled, TimedOut
from paperclip_launcher.cluster.watch import Reflector
from tests.fakeapi.loop import VirtualLoop
from tests.launcher.cluster.scripted import ScriptedStream, ScriptedTransport, answer, cluster_over, refusal


def pod(name, version, uid="u1", **labels):
    meta = {"name": name, "uid": uid, "resourceVersion": str(version), "labels": labels, "managedFields": [1, 2]}
    return {"metadata": meta, "status": {"note": "größer 🚀"}}


def event(kind, one):
    return json.dumps({"type": kind, "object": one}, ensure_ascii=False).encode() + b"\n"


def bookmark(version):
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def error(code=410, reason="Expired"):
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "gone"})


def listed(*pods, version):
    return answer({"metadata": {"resourceVersion": str(version)}, "items": list(pods)})


HANGING = 10_000.0


def reflected(*script, seconds=100.0, on_change=None):
    """Runs a reflector for so long. Its transport, itself, and what it told: kind, name, old and new version."""
    told = []

    def tell(change):
        versions = [one and one["metadata"]["resourceVersion"] for one in (change.old, change.new)]
        told.append((change.kind, change.name, *versions))
        if on_change:
            on_change(change)

    async def main():
        transport, cluster = cluster_over(*script)
        reflector = Reflector(cluster, "pods", on_change=tell, rng=random.Random(5))
        task = asyncio.create_task(reflector.run())
        await asyncio.sleep(seconds)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return transport, reflector

    transport, reflector = VirtualLoop().run(main())
    return transport, reflector, told


def state(reflector):
    return {name: one["metadata"]["resourceVersion"] for name, one in reflector.store.items()}


def versions_asked(transport):
    """The resourceVersion of each watch, and "list" for each list."""
    queries = [dict(one.query) for one in transport.requests]
    return [query["resourceVersion"] if "watch" in query else "list" for query in queries]


def quiet(*pieces):
    return ScriptedStream([*pieces, HANGING])


def test_a_list_and_the_watch_after_it_fill_the_store():
    events = event("ADDED", pod("b", 8)) + event("MODIFIED", pod("a", 9)) + event("DELETED", pod("b", 10))
    transport, reflector, told = reflected(listed(pod("a", 5), version=7), quiet(events))
    assert told == [
        ("ADDED", "a", None, "5"),
        ("ADDED", "b", None, "8"),
        ("MODIFIED", "a", "5", "9"),
        ("DELETED", "b", "8", "10"),
    ]
    assert state(reflector) == {"a": "9"}
    assert reflector.synced.is_set()
    assert versions_asked(transport) == ["list", "7"]
    assert all("managedFields" not in one["metadata"] for one in reflector.store.values())


def test_events_may_be_cut_anywhere():
    events = b"".join(event("MODIFIED", pod("a", version)) for version in range(8, 60))
    rng = random.Random(4)
    cuts = sorted(rng.randrange(len(events)) for _ in range(200))
    pieces = [events[i:j] for i, j in zip([0, *cuts], [*cuts, len(events)], strict=True) if i < j]
    _, _, told = reflected(listed(pod("a", 5), version=7), quiet(*pieces))
    assert [one[3] for one in told] == ["5", *map(str, range(8, 60))]


def test_a_watch_goes_on_where_the_last_one_ended_and_half_an_event_comes_again():
    second = event("MODIFIED", pod("a", 9))
    transport, _, told = reflected(
        listed(pod("a", 5), version=7),
        ScriptedStream([event("MODIFIED", pod("a", 8)) + second[:30], 300.0, Broken("reset")]),
        ScriptedStream([second + bookmark(20), 300.0]),
        quiet(),
        seconds=1000.0,
    )
    assert versions_asked(transport) == ["list", "7", "8", "20"]
    assert [one[3] for one in told] == ["5", "8", "9"]


def test_after_410_the_difference_is_told():
    for gone in (ScriptedStream([refusal(410, "Expired").body], status=410), ScriptedStream([error()])):
        transport, reflector, told = reflected(
            listed(pod("a", 5), pod("b", 5), pod("c", 5), pod("d", 5), version=7),
            gone,
            listed(pod("a", 5), pod("b", 9), pod("d", 9, uid="u2"), pod("e", 9), version=11),
            quiet(),
        )
        assert told[4:] == [
            ("MODIFIED", "b", "5", "9"),
            ("DELETED", "d", "5", None),
            ("ADDED", "d", None, "9"),
            ("ADDED", "e", None, "9"),
            ("DELETED", "c", "5", None),
        ]
        assert state(reflector) == {"a": "5", "b": "9", "d": "9", "e": "9"}
        assert versions_asked(transport) == ["list", "7", "list", "11"]


def test_what_is_known_already_is_not_told_again():
    events = [
        event("ADDED", pod("a", 5)),
        event("ADDED", pod("a", 6)),
        event("DELETED", pod("b", 7)),
        event("DELETED", pod("a", 8, uid="of an older one")),
        event("ADDED", pod("a", 9, uid="u2")),
    ]
    _, _, told = reflected(listed(pod("a", 5), version=5), quiet(*events))
    assert told == [
        ("ADDED", "a", None, "5"),
        ("MODIFIED", "a", "5", "6"),
        ("DELETED", "a", "6", None),
        ("ADDED", "a", None, "9"),
    ]


@pytest.mark.parametrize("as_event", [True, False])
def test_a_hundred_410_in_a_row_are_no_busy_loop(as_event):
    def gone(request):
        if "watch" not in dict(request.query):
            return listed(pod("a", 5), version=7)
        return ScriptedStream([bookmark(8), error()]) if as_event else ScriptedStream(status=410)

    transport, reflector, told = reflected(gone, seconds=3600.0)
    lists = versions_asked(transport).count("list")
    assert 100 < lists < 200
    assert len(told) == 1
    assert state(reflector) == {"a": "5"}


def test_the_server_down_for_long_costs_few_tries_and_few_lines(caplog):
    down = [NotSent("refused")] * 12
    transport, _, _ = reflected(listed(pod("a", 5), version=7), *down, quiet(bookmark(9)), seconds=600.0)
    assert versions_asked(transport) == ["list", *["7"] * 13]
    assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) <= 6
    assert "refused" in caplog.text


@pytest.mark.parametrize(
    ("trouble", "again"),
    [
        (Broken("reset"), "7"),
        (TimedOut("slow"), "7"),
        (Stalled("silent"), "list"),
        (refusal(500), "7"),
        (refusal(429), "7"),
        (refusal(401), "7"),
        (refusal(400), "list"),
        (refusal(403), "list"),
    ],
    ids=str,
)
def test_what_a_new_watch_mends_needs_no_new_list(trouble, again):
    if not isinstance(trouble, Exception):
        trouble = ScriptedStream([trouble.body], status=trouble.status)
    transport, _, _ = reflected(listed(version=7), trouble, listed(version=7) if again == "list" else quiet(), quiet())
    assert versions_asked(transport)[:3] == ["list", "7", again]


def test_a_server_that_cannot_serve_our_version_is_asked_for_a_new_list():
    faults = [ScriptedStream([refusal(500).body], status=500) for _ in range(3)]
    transport, _, _ = reflected(listed(version=7), *faults, listed(version=3), quiet())
    assert versions_asked(transport) == ["list", "7", "7", "7", "list", "3"]


def test_any_other_error_event_leads_to_a_new_list():
    transport, _, _ = reflected(
        listed(version=7), ScriptedStream([error(500, "InternalError")]), listed(version=8), quiet()
    )
    assert versions_asked(transport) == ["list", "7", "list", "8"]


@pytest.mark.parametrize(
    "line", [b"no json\n", b"[]\n", b'{"type":"ADDED"}\n', b'{"type":"ADDED","object":{}}\n', b"x" * (17 << 20)]
)
def test_nonsense_leads_to_a_new_list(line):
    transport, reflector, _ = reflected(
        listed(version=7), ScriptedStream([line]), listed(pod("a", 9), version=9), quiet()
    )
    assert state(reflector) in ({"a": "9"}, {})
    assert len(transport.requests) >= 3


def test_the_time_that_a_server_names_is_kept():
    busy = ScriptedStream([], status=429, headers={"retry-after": "40"})
    transport, _, _ = reflected(listed(version=7), busy, quiet())
    assert 40 <= transport.pauses[1] <= 48


def test_a_handler_that_fails_hinders_nobody(caplog):
    def fail(change):
        raise KeyError(change.name)

    _, reflector, told = reflected(
        listed(pod("a", 5), pod("b", 5), version=7), quiet(event("MODIFIED", pod("a", 8))), on_change=fail
    )
    assert len(told) == 3
    assert state(reflector) == {"a": "8", "b": "5"}
    assert "was not taken" in caplog.text


def test_a_first_list_that_fails_is_tried_until_it_works():
    _, reflector, _ = reflected(*[refusal(403)] * 5, NotSent("refused"), listed(pod("a", 5), version=7), quiet())
    assert reflector.synced.is_set()
    assert state(reflector) == {"a": "5"}


def test_each_watch_is_bounded_in_time_and_every_stream_is_closed():
    streams = [ScriptedStream([bookmark(version), 250.0]) for version in range(8, 20)]
    transport, _, _ = reflected(listed(version=7), *streams, quiet(), seconds=2000.0)
    asked = [int(dict(one.query)["timeoutSeconds"]) for one in transport.requests[1:]]
    assert all(600 <= one <= 1200 for one in asked)
    assert len(set(asked)) > 3
    assert all(60 < one < 240 for one in transport.idles)
    opened = len(transport.requests) - 2
    assert [one.closed for one in streams[:opened]] == [1] * opened
    # A watch that lived its time is followed by the next at once.
    assert max(transport.pauses[1:]) == 250


def test_cancelling_closes_the_stream():
    stream = quiet()
    reflected(listed(version=7), stream)
    assert stream.closed == 1


def test_when_something_was_last_heard_is_known():
    _, reflector, _ = reflected(listed(version=7), quiet(10.0, bookmark(8), 20.0, bookmark(9)), seconds=100.0)
    assert reflector.last_heard == 30


def test_selectors_go_with_both_calls():
    async def main():
        transport, cluster = cluster_over(listed(version=7), quiet())
        reflector = Reflector(
            cluster,
            "events",
            label_selector="a=b",
            field_selector="type=Warning",
            on_change=lambda _: None,
            rng=random.Random(1),
        )
        task = asyncio.create_task(reflector.run())
        await asyncio.sleep(1)
        task.cancel()
        return transport

    transport: ScriptedTransport = VirtualLoop().run(main())
    for request in transport.requests:
        query = dict(request.query)
        assert (query["labelSelector"], query["fieldSelector"]) == ("a=b", "type=Warning")
    assert len(transport.requests) == 2
