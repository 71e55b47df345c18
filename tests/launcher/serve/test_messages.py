"""Lines and messages: whatever comes in is answered, and nothing of it makes the launcher fall over."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paperclip_launcher.serve import messages
from paperclip_launcher.serve.lines import read_lines
from paperclip_launcher.serve.messages import RpcError, read


class Chunks:
    def __init__(self, *chunks):
        self.chunks = list(chunks)

    async def read(self, _most):
        return self.chunks.pop(0) if self.chunks else b""


async def lines_of(chunks, longest):
    return [line async for line in read_lines(Chunks(*chunks), longest)]


@given(st.lists(st.binary(min_size=1, max_size=12), max_size=8), st.integers(1, 40))
def test_lines_are_the_same_wherever_they_are_cut(parts, step):
    whole = b"\n".join(part.replace(b"\n", b" ") for part in parts) + b"\n"
    cut = [whole[at : at + step] for at in range(0, len(whole), step)]
    assert asyncio.run(lines_of(cut, 100)) == asyncio.run(lines_of([whole], 100))
    assert asyncio.run(lines_of(cut, 100)) == [one.strip() for one in whole.split(b"\n") if one.strip()]


def test_a_line_that_is_too_long_is_skipped_and_the_next_one_is_read():
    assert asyncio.run(lines_of([b"aaaa", b"aaaa", b"aa\nok\n", b"bbbbbbbbbbb\nx\n"], 8)) == [None, b"ok", None, b"x"]


def test_half_a_line_at_the_end_is_none():
    assert asyncio.run(lines_of([b"one\ntw"], 8)) == [b"one"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", messages.PARSE_ERROR),
        (b"\xff", messages.PARSE_ERROR),
        (b"[" * 100_000, messages.PARSE_ERROR),
        (b'{"a":' * 100_000, messages.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', messages.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"9" * 5000 + b"}}", messages.PARSE_ERROR),
        (b"[]", messages.INVALID_REQUEST),
        (b'"ping"', messages.INVALID_REQUEST),
        (b'{"id":1,"method":"ping"}', messages.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', messages.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', messages.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', messages.INVALID_PARAMS),
    ],
)
def test_what_is_no_request_is_refused_with_the_code_of_json_rpc(line, code):
    with pytest.raises(RpcError) as caught:
        read(line)
    assert caught.value.code == code


def test_a_refusal_shows_nothing_of_the_line():
    with pytest.raises(RpcError) as caught:
        read(b'{"token": "secret-value-1", oops')
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("identity", ["a", 7, 1.5, None, "\ud800", ""])
def test_an_id_goes_back_as_it_came(identity):
    call = read(json.dumps({"jsonrpc": "2.0", "id": identity, "method": "ping"}).encode())
    assert json.loads(messages.answer(call.id, {})) == {"jsonrpc": "2.0", "id": identity, "result": {}}
    assert call.answered


def test_a_message_is_one_line_whatever_it_holds():
    line = messages.notice("run.log", {"data": "a\nb\r\x00\u2028\u0085 \U0001f600"})
    assert line.count(b"\n") == 1
    assert json.loads(line)["params"]["data"] == "a\nb\r\x00\u2028\u0085 \U0001f600"
