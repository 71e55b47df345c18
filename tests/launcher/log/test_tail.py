from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from paperclip_launcher.log.tail import FileTail, TailSettings
from tests.fakeapi.loop import VirtualLoop


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


class Tailed:
    def __init__(self, root, path="run/out.ndjson", **options):
        self.root, self.data, self.offsets, self.notes = root, b"", [], []
        self.tail = FileTail(root, path, self.take, note=self.notes.append, **options)

    async def take(self, data, offset):
        self.data += data
        self.offsets.append(offset)

    def run(self, *steps):
        """Each step a second after the last; then the agent ends."""

        async def main():
            task = asyncio.create_task(self.tail.run())
            for step in steps:
                await asyncio.sleep(3)
                step()
            await asyncio.sleep(3)
            self.tail.finish()
            return await task

        before = open_files()
        end = VirtualLoop().run(main(), limit=100)
        assert open_files() == before
        return end


@pytest.fixture
def file(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run" / "out.ndjson"


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def test_lines_come_as_they_are_written_and_a_half_one_at_the_end(tmp_path, file):
    tailed = Tailed(tmp_path)
    end = tailed.run(
        lambda: append(file, b"one\ntw"), lambda: append(file, b"o\n"), lambda: append(file, b"\xff\x00half")
    )
    assert (tailed.data, tailed.offsets, end) == (b"one\ntwo\n\xff\x00half", [4, 8, 14], 14)
    assert tailed.notes == []


def test_it_goes_on_where_another_one_stopped(tmp_path, file):
    file.write_bytes(b"one\ntwo\nthree\n")
    tailed = Tailed(tmp_path, offset=4, settings=TailSettings(batch=5))
    tailed.run()
    assert (tailed.data, tailed.offsets) == (b"two\nthree\n", [8, 14])


def test_what_is_written_right_before_the_end_still_comes(tmp_path, file):
    tailed = Tailed(tmp_path)

    async def main():
        task = asyncio.create_task(tailed.tail.run())
        await asyncio.sleep(2.9)
        tailed.tail.finish()
        await asyncio.sleep(0.6)
        file.write_bytes(b"late\n")
        await task

    VirtualLoop().run(main(), limit=20)
    assert tailed.data == b"late\n"


def test_a_file_that_never_rests_is_left_at_the_deadline(tmp_path, file):
    tailed = Tailed(tmp_path)

    async def main():
        task = asyncio.create_task(tailed.tail.run())
        tailed.tail.finish()
        while not task.done():
            append(file, b"x\n")
            await asyncio.sleep(0.1)

    VirtualLoop().run(main(), limit=7)
    assert tailed.data.startswith(b"x\n")


def test_a_file_that_was_cut_or_replaced_is_read_from_its_beginning(tmp_path, file):
    other = tmp_path / "other"
    other.write_bytes(b"replaced\n")
    tailed = Tailed(tmp_path)
    tailed.run(
        lambda: file.write_bytes(b"a long first line\n"),
        lambda: os.truncate(file, 0),
        lambda: append(file, b"new\n"),
        lambda: other.rename(file),
    )
    assert tailed.data == b"a long first line\nnew\nreplaced\n"
    assert [note.rpartition(": ")[2] for note in tailed.notes] == [
        "it was made shorter",
        "there is another file of its name",
    ]


def test_no_link_is_followed_and_nothing_but_a_file_is_read(tmp_path, file):
    outside = tmp_path / "secret"
    outside.write_bytes(b"secret\n")
    file.symlink_to(outside)
    (tmp_path / "linked").symlink_to(tmp_path / "run")
    os.mkfifo(tmp_path / "fifo")
    for path in ("run/out.ndjson", "linked/out.ndjson", "fifo", "run", "run/none/x", "secret/x"):
        tailed = Tailed(tmp_path, path)
        tailed.run()
        assert tailed.data == b""
        assert len(tailed.notes) == (path != "run/none/x")


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a\0b"])
def test_a_path_that_could_lead_elsewhere_is_refused(tmp_path, path):
    with pytest.raises(ValueError, match="relative path"):
        Tailed(tmp_path, path)
