"""The log on its way to a client: batches, a window, pieces that can be resumed from."""

from __future__ import annotations

import asyncio
import base64

from hypothesis import given
from hypothesis import strategies as st

from paperclip_launcher.serve.reader import BATCH, WINDOW, Reader, pieces, text_of
from tests.fakeapi.loop import VirtualLoop


class Wire:
    def __init__(self, begin=0):
        self.sent = []
        self.at = []
        self.lost = False
        self.reader = Reader("r", begin, self.send, self.room)

    def send(self, method, params):
        self.sent.append(params)
        self.at.append(asyncio.get_running_loop().time())

    async def room(self):
        if self.lost:
            raise ConnectionResetError


def play(scene):
    return VirtualLoop().run(scene(), limit=600)


def test_a_first_line_goes_at_once_and_those_right_after_it_together():
    async def scene():
        wire = Wire()
        for number in range(5):
            await wire.reader.log(b"line\n", 5 * number + 5)
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        assert [(one["data"], one["offset"]) for one in wire.sent] == [("line\n", 5), ("line\n" * 4, 25)]
        assert wire.at[1] - wire.at[0] <= 0.05

    play(scene)


def test_a_full_batch_does_not_wait():
    async def scene():
        wire = Wire()
        await wire.reader.log(b"a" * 9 + b"\n", 10)
        await wire.reader.log(b"b" * BATCH, 10 + BATCH)
        assert [one["offset"] for one in wire.sent] == [10, 10 + BATCH]

    play(scene)


def test_no_more_than_the_window_is_on_its_way():
    async def scene():
        wire = Wire()
        task = asyncio.create_task(wire.reader.log(b"x" * (2 * WINDOW), 2 * WINDOW))
        await asyncio.sleep(5)
        assert not task.done()
        assert wire.sent[-1]["offset"] <= WINDOW
        before = wire.sent[-1]["offset"]
        wire.reader.take_acknowledgement(BATCH)
        await asyncio.sleep(5)
        assert before < wire.sent[-1]["offset"] <= WINDOW + BATCH
        while not task.done():
            wire.reader.take_acknowledgement(wire.sent[-1]["offset"])
            await asyncio.sleep(0.1)
        wire.reader.flush()
        assert "".join(one["data"] for one in wire.sent) == "x" * (2 * WINDOW)

    play(scene)


def test_more_cannot_be_acknowledged_than_was_sent():
    async def scene():
        wire = Wire()
        await wire.reader.log(b"line\n", 5)
        wire.reader.take_acknowledgement(500)
        assert wire.reader.acknowledged == 5
        wire.reader.take_acknowledgement(3)
        assert wire.reader.acknowledged == 5

    play(scene)


def test_a_lost_client_takes_everything_and_nothing_is_sent():
    async def scene():
        wire = Wire()
        wire.lost = True
        await wire.reader.log(b"line\n", 5)
        await wire.reader.log(b"line\n", 10)
        await wire.reader.note("progress", "x")
        assert wire.reader.gone.result() == "lost"
        assert wire.reader.offset is None
        assert wire.sent == []

    play(scene)


def test_a_note_does_not_overtake_the_log():
    async def scene():
        wire = Wire()
        await wire.reader.log(b"one\n", 4)
        await wire.reader.log(b"two\n", 8)
        await wire.reader.note("progress", "x")
        assert [one.get("data", one.get("text")) for one in wire.sent] == ["one\n", "two\n", "x"]

    play(scene)


@given(st.text(max_size=50).map(lambda text: (text + "é\U0001f600") * 4000), st.integers(0, 10))
def test_pieces_are_the_whole_and_cut_no_character(text, begin):
    data = text.encode()
    found = list(pieces(data, begin, begin + len(data)))
    assert b"".join(piece for piece, _ in found) == data
    at = begin
    for piece, end in found:
        at += len(piece)
        assert end == at
        assert len(piece) <= BATCH or len(data) <= BATCH
        piece.decode()


def test_what_was_masked_stays_whole():
    data = b"*** " * BATCH
    assert list(pieces(data, 7, 7 + 2 * len(data))) == [(data, 7 + 2 * len(data))]


@given(st.binary(max_size=200))
def test_any_bytes_can_be_had_back(data):
    told = text_of(data)
    assert (base64.b64decode(told["base64"]) if "base64" in told else told["data"].encode()) == data
