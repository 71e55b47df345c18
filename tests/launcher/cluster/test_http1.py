"""An answer of HTTP/1.1 is the same however its bytes are cut."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from paperclip_launcher.cluster.http1 import Answer
from paperclip_launcher.cluster.transport import Broken
from tests.launcher.cluster.scripted import CHUNKED_HEAD, chunked, reply


def body_of(data, cuts=(), *, end=False):
    answer, pieces = Answer(), []
    edges = [0, *sorted(cuts), len(data)]
    for start, stop in pairwise(edges):
        pieces += answer.feed(data[start:stop])
    if end:
        answer.end()
    return answer, b"".join(pieces)


def test_chunks_are_the_same_body_wherever_they_are_cut():
    rng = random.Random(7)
    for _ in range(300):
        parts = [rng.randbytes(rng.choice((1, 2, 3, 15, 16, 17, 300))) for _ in range(rng.randrange(6))]
        data = CHUNKED_HEAD + chunked(*parts) + b"0\r\nX-Sum: 1\r\n\r\n"
        answer, body = body_of(data, [rng.randrange(len(data) + 1) for _ in range(rng.randrange(12))])
        assert (body, answer.complete, answer.keep_alive) == (b"".join(parts), True, True)


def test_every_byte_alone_is_the_same_answer():
    data = b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED_HEAD + b"5;name=value\r\nh\xc3\xa9llo"[:-1] + b"\r\n0\r\n\r\n"
    answer, body = body_of(data, range(len(data)))
    assert (answer.status, body, answer.complete) == (200, b"h\xc3\xa9ll", True)


def test_what_has_come_of_a_chunk_is_given_at_once():
    answer = Answer()
    assert answer.feed(CHUNKED_HEAD + b"ff\r\nfirst") == [b"first"]
    assert answer.feed(b" second") == [b" second"]


def test_a_length_ends_the_body():
    answer, body = body_of(reply(b"abc", 404, "X-A: 1", "x-a: 2"))
    assert (answer.status, answer.headers["x-a"], body, answer.complete) == (404, "1, 2", b"abc", True)


def test_without_a_length_the_end_of_the_connection_ends_the_body():
    data = b"HTTP/1.0 200 OK\r\n\r\nabc"
    answer, body = body_of(data)
    assert (body, answer.complete) == (b"abc", False)
    answer, body = body_of(data, end=True)
    assert (body, answer.complete, answer.keep_alive) == (b"abc", True, False)


@pytest.mark.parametrize("data", [CHUNKED_HEAD + b"5\r\nabc", reply(b"abc")[:-1], b"HTTP/1.1 200 OK\r\n"])
def test_an_end_before_the_end_is_none(data):
    assert not Answer().end()
    assert not body_of(data, end=True)[0].complete


def test_an_answer_may_have_no_body():
    assert body_of(b"HTTP/1.1 204 No Content\r\n\r\n")[0].complete


@pytest.mark.parametrize("more", [b"x", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_what_nobody_asked_for_ends_the_use_of_the_connection(more):
    for whole in (reply(b"abc"), CHUNKED_HEAD + b"0\r\n\r\n"):
        assert not body_of(whole + more)[0].keep_alive
        assert not body_of(whole + more, [len(whole)])[0].keep_alive
    assert not body_of(reply(b"", 200, "Connection: close"))[0].keep_alive


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno field\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (70 << 10),
        CHUNKED_HEAD + b"+5\r\nhello\r\n",
        CHUNKED_HEAD + b"2\r\nabc\r\n",
        CHUNKED_HEAD + b"\r\n",
        CHUNKED_HEAD + b"5;" + b"x" * 2000,
    ],
)
def test_what_is_no_answer_is_refused(data):
    with pytest.raises(Broken):
        body_of(data)
