"""What a launcher finds of its earlier life."""

from __future__ import annotations

import pytest

from paperclip_launcher.journal import FolderJournal, MemoryJournal, Record
from paperclip_launcher.lifecycle import Phase
from paperclip_launcher.log.position import LogPosition


@pytest.fixture(params=["folder", "memory"])
def journal(request, tmp_path):
    return FolderJournal(tmp_path / "state") if request.param == "folder" else MemoryJournal()


def record(**fields):
    return Record("run-1", "r 1", "a 1", "run-1", "0a1b2c3d4e", **fields)


def test_a_record_comes_back_whole(journal):
    kept = record(
        job_uid="u",
        phase=Phase.RUNNING,
        cancelled=True,
        position=LogPosition(7, "2026-11-21T06:00:00Z", (1, 1, 2)),
        parser={"session": "s", "nested": [1, {"a": None}]},
        result={"exitCode": None, "summary": "é\n"},
    )
    journal.write(kept, sync=True)
    assert journal.read("run-1") == kept
    assert list(journal.records()) == [kept]


def test_an_unknown_run_has_no_record(journal):
    assert journal.read("run-2") is None
    journal.remove("run-2")
    assert list(journal.records()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 0}', '{"version": 1}', '{"version": 1, "position": 3}'])
def test_a_file_that_is_no_record_is_as_good_as_none(tmp_path, text):
    journal = FolderJournal(tmp_path)
    (tmp_path / "run-1.run").write_text(text)
    assert journal.read("run-1") is None
    assert list(journal.records()) == []


def test_a_half_written_record_does_not_replace_the_whole_one(tmp_path):
    journal = FolderJournal(tmp_path)
    journal.write(record())
    with (tmp_path / "run-1.run").open("a") as stream:
        stream.write('\n{"version": 1, "ke')
    assert journal.read("run-1") == record()
    journal.write(record(cancelled=True))
    assert journal.read("run-1") == record(cancelled=True)


def test_a_file_of_many_states_does_not_grow_for_ever(tmp_path):
    journal = FolderJournal(tmp_path)
    for number in range(500):
        journal.write(record(running_since=float(number)))
    assert journal.read("run-1").running_since == 499
    assert (tmp_path / "run-1.run").stat().st_size < 80_000
    journal.write(record(acknowledged=True))
    assert journal.read("run-1") == record(acknowledged=True)
    assert (tmp_path / "run-1.run").stat().st_size < 1000
    assert [path.name for path in tmp_path.iterdir()] == ["run-1.run"]


def test_nobody_else_may_read_the_folder(tmp_path):
    FolderJournal(tmp_path / "state").write(record())
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
