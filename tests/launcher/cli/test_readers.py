"""A log file that is gone on with after any kind of death, and a screen that holds nobody up."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import contextmanager, redirect_stdout, suppress

import pytest

from paperclip_launcher.cli import printing, readers
from paperclip_launcher.cli.printing import Printer
from paperclip_launcher.cli.readers import LogFile, Screen
from paperclip_launcher.cli.usage import UsageError
from paperclip_launcher.masking import Mask

SECRET = b"hush-hush-hush"


class Killed(Exception):
    """The process ends in the middle of a write."""


def log_of(lines, seed):
    rng = random.Random(seed)
    return [b"%d %b%b\n" % (at, SECRET if rng.random() < 0.3 else b"", b"x" * rng.randrange(9)) for at in range(lines)]


def batches(lines, rng, offset):
    """What a launcher hands over from `offset` on: masked, with the offset in the log itself."""
    mask, raw, at = Mask([SECRET]), b"".join(lines), offset
    ends = [end for end in _ends(lines) if end > offset]
    while ends:
        take = min(len(ends), rng.randrange(1, 4))
        end = ends[take - 1]
        yield mask.whole(raw[at:end]), end
        at, ends = end, ends[take:]


def _ends(lines):
    at = 0
    for line in lines:
        at += len(line)
        yield at


@pytest.mark.parametrize("seed", range(25))
def test_a_file_goes_on_to_the_byte_wherever_its_writer_was_killed(tmp_path, monkeypatch, seed):
    rng, lines, path = random.Random(seed), log_of(30, seed), tmp_path / "o.log"
    real = printing.write_all
    fuel = 0

    def write_all(descriptor, data):
        nonlocal fuel
        if len(data) > fuel:
            real(descriptor, data[:fuel])
            raise Killed
        fuel -= len(data)
        real(descriptor, data)

    monkeypatch.setattr(readers, "write_all", write_all)
    for life in range(60):
        fuel = rng.randrange(40, 250) if life < 50 else 10_000
        try:
            file = LogFile(Printer(), path, "run 1", known=life > 0)
        except Killed:
            continue
        try:
            for data, offset in batches(lines, rng, file.offset):
                asyncio.run(file.log(data, offset))
        except Killed:
            continue
        finally:
            file.close()
        break
    assert path.read_bytes() == b"".join(lines).replace(SECRET, b"***")
    assert file.offset == len(b"".join(lines))


def test_a_file_of_something_else_is_not_written_to(tmp_path):
    path = tmp_path / "o.log"
    path.write_text("dear diary\n")
    with pytest.raises(UsageError, match="holds something else already"):
        LogFile(Printer(), path, "r", known=False)
    assert path.read_text() == "dear diary\n"
    other = tmp_path / "p.log"
    LogFile(Printer(), other, "r", known=False).close()
    with pytest.raises(UsageError, match='is the log of run "r"'):
        LogFile(Printer(), other, "s", known=True)


def test_what_is_no_file_cannot_be_gone_on_with(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UsageError, match="is no file that could be gone on with"):
        LogFile(Printer(), tmp_path / "fifo", "r", known=False)
    assert list(tmp_path.iterdir()) == [tmp_path / "fifo"]


@contextmanager
def stdout_is_a_pipe():
    """The end that is read from. Not a fixture, since pytest sets stdout again after those."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, redirect_stdout(stream):
        yield reading


def test_a_slow_reader_of_stdout_holds_up_nothing_else():
    data = b"".join(b"%d\n" % number for number in range(60_000))

    async def both(descriptor):
        writing = asyncio.create_task(Screen(Printer(), pretty=False).log(data, len(data)))
        for _ in range(200):
            await asyncio.sleep(0)  # the pipe is full by now, and the loop still turns
        assert not writing.done()
        got = b""
        while len(got) < len(data):
            with suppress(BlockingIOError):
                got += os.read(descriptor, 1 << 16)
            await asyncio.sleep(0)
        await writing
        return got

    with stdout_is_a_pipe() as descriptor:
        os.set_blocking(descriptor, False)
        got = asyncio.run(both(descriptor))
        os.close(descriptor)
    assert got == data


def test_a_reader_that_has_gone_is_told_and_nothing_fails():
    async def write():
        printer = Printer()
        writing = asyncio.create_task(Screen(printer, pretty=False).log(b"x\n", 2))
        await printer.gone.wait()
        assert not writing.done()
        writing.cancel()

    with stdout_is_a_pipe() as descriptor:
        os.close(descriptor)
        asyncio.run(write())


def test_lines_for_people_hold_nothing_that_a_terminal_obeys(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    line = b'{"type":"assistant","message":{"content":[{"type":"text","text":"hi \\u001b[2J"}]}}\n\xff\x1b]0;t\x07\n'
    shown = readers.pretty_lines(line)
    assert b"\x1b" not in shown
    assert shown.startswith(b"assistant: hi ")
