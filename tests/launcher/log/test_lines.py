from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paperclip_launcher.log.lines import LineSplitter, blocks

BYTES = st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\xc3\xa9", b"\0", b"long " * 5]), max_size=40).map(b"".join)


@given(BYTES, st.lists(st.integers(1, 20), min_size=1, max_size=20))
def test_lines_come_whole_and_unchanged_wherever_they_were_cut(data, cuts):
    splitter, whole, at = LineSplitter(), [], 0
    for number in range(len(data)):
        size = cuts[number % len(cuts)]
        whole.append(splitter.feed(data[at : at + size]))
        assert not whole[-1] or whole[-1].endswith(b"\n")
        at += size
    assert b"".join(whole) + splitter.rest() == data
    assert b"\n" not in splitter.rest()


def test_a_line_beyond_the_limit_loses_its_end_and_says_how_much():
    for step in (1, 7, 1000):
        splitter, data = LineSplitter(10), b"short\n" + b"0123456789" + b"x" * 25 + b"\nnext\n" + b"9876543210yy"
        whole = b"".join(splitter.feed(data[at : at + step]) for at in range(0, len(data), step))
        assert whole == b"short\n0123456789 [... 25 bytes cut by paperclip]\nnext\n"
        assert (splitter.rest(), splitter.held) == (b"9876543210 [... 2 bytes cut by paperclip]", 12)


def test_a_long_line_is_held_once_and_no_more_than_the_limit():
    splitter = LineSplitter(1 << 20)
    for _ in range(64):
        assert splitter.feed(b"x" * (1 << 16)) == b""
    assert len(splitter.rest()) < (1 << 20) + 50


@given(BYTES.map(lambda data: data + b"\n"), st.integers(1, 50))
def test_blocks_are_whole_lines_no_larger_than_asked_but_for_one_long_line(data, size):
    pieces = list(blocks(data, size))
    assert b"".join(pieces) == data
    for one in pieces:
        assert one.endswith(b"\n")
        assert len(one) <= size or one.count(b"\n") == 1


def test_nothing_makes_no_block():
    assert list(blocks(b"", 10)) == []
