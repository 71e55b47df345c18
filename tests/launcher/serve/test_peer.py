"""One connection: every line has its answer, and no client can hurt the launcher or another client."""

from __future__ import annotations

import asyncio
import json

import pytest

from paperclip_launcher.errors import ConfigInvalid
from paperclip_launcher.masking import Mask
from paperclip_launcher.serve import failures, messages
from paperclip_launcher.serve import peer as peer_module
from paperclip_launcher.serve.messages import RpcError
from paperclip_launcher.serve.peer import Peer
from tests.fakeapi.loop import VirtualLoop
from tests.launcher.serve.client import Line


def answers(line):
    return [json.loads(one) for one in bytes(line._data).splitlines()]


def play(lines, handle, *, stuck=False, wait=1.0, mask=()):
    """What a client gets that sends these lines."""

    async def scene():
        up, down = Line(), Line()
        down.stuck = stuck
        peer = Peer(up, down, handle, lambda error: failures.error_of(error, Mask(mask)), name="test")
        task = asyncio.create_task(peer.serve())
        for line in lines:
            up.write(line + b"\n")
        await asyncio.sleep(wait)
        up.end()
        await task
        return answers(down), down

    return VirtualLoop().run(scene(), limit=600)


def call(method, number=1, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def test_requests_are_answered_as_they_are_done():
    async def after(seconds):
        await asyncio.sleep(seconds)
        return seconds

    found, _ = play([call("a", 1, s=0.5), call("b", 2, s=0.1)], lambda _peer, one: after(one.params["s"]))
    assert [(one["id"], one["result"]) for one in found] == [(2, 0.1), (1, 0.5)]


def test_a_notification_is_never_answered_not_even_a_wrong_one():
    def handle(_peer, one):
        raise RpcError(messages.UNKNOWN_METHOD, "no")

    assert play([b'{"jsonrpc":"2.0","method":"x"}'], handle)[0] == []


def test_bad_lines_get_errors_and_the_connection_goes_on():
    lines = [b"nonsense", b"[]", b'{"jsonrpc":"2.0","id":5,"method":3}', call("ping", 6)]
    found, _ = play(lines, lambda _peer, _one: {})
    assert [(one["id"], one.get("error", {}).get("code")) for one in found] == [
        (None, messages.PARSE_ERROR),
        (None, messages.INVALID_REQUEST),
        (5, messages.INVALID_REQUEST),
        (6, None),
    ]


def test_a_defect_is_answered_by_its_name_alone(caplog):
    def handle(_peer, _one):
        raise ZeroDivisionError("secret text")

    (found,), _ = play([call("x")], handle)
    assert found["error"]["code"] == messages.INTERNAL_ERROR
    assert "secret" not in found["error"]["message"]
    assert "a request failed" in caplog.text


def test_problems_are_masked():
    def handle(_peer, _one):
        raise ConfigInvalid(["env.KEY is geheim-123"], "change geheim-123")

    (found,), _ = play([call("x")], handle, mask=["geheim-123"])
    assert "geheim" not in json.dumps(found)
    assert found["error"]["data"]["problems"] == ["env.KEY is ***"]


def test_a_client_that_reads_no_answers_is_cut_off(monkeypatch):
    monkeypatch.setattr(peer_module, "_MOST_UNREAD", 1 << 20)
    found, down = play([call("x", number) for number in range(24)], lambda _peer, _one: "y" * (100 << 10), stuck=True)
    assert down.ended
    assert 5 < len(found) < 24


def test_too_many_requests_at_once_are_refused_and_the_others_go_on():
    async def long():
        await asyncio.sleep(10)
        return 1

    lines = [call("x", number) for number in range(4100)]
    found, _ = play(lines, lambda _peer, _one: long(), wait=20)
    assert sum("error" in one for one in found) == 4
    assert sum("result" in one for one in found) == 4096


@pytest.mark.parametrize("broken", [True, False])
def test_requests_of_a_client_that_goes_are_ended(broken):
    ended = []

    async def long():
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    async def scene():
        up, down = Line(), Line()
        peer = Peer(up, down, lambda _peer, _one: long(), lambda error: RpcError(0, ""), name="test")
        told = []
        peer.closing.add(lambda: told.append(True))
        task = asyncio.create_task(peer.serve())
        up.write(call("x") + b"\n")
        await asyncio.sleep(1)
        up.broken = broken
        up.end()
        await task
        assert told == ended == [True]
        assert down.ended
        peer.notify("x", {})

    VirtualLoop().run(scene(), limit=100)
