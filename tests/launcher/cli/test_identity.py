"""Names of processes: the same again after a crash, never two at once."""

from __future__ import annotations

import os
import threading

import pytest

from paperclip_launcher.cli import identity
from paperclip_launcher.cli.identity import IdentityTaken, held, held_by_some, identity_of, identity_of_run


def test_a_folder_keeps_its_name_and_another_has_another(tmp_path):
    first = identity_of(tmp_path / "a")
    assert identity_of(tmp_path / "a") == first
    assert identity_of(tmp_path / "b") != first
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("before", [b"", b"\xff\x00 two words"], ids=["nothing", "no name"])
def test_of_many_that_ask_first_all_get_the_same(tmp_path, before):
    """Also where what stands there is to be replaced."""
    if before:
        (tmp_path / "identity").write_bytes(before)
    found = []
    together = threading.Barrier(16)

    def ask():
        together.wait()
        found.append(identity_of(tmp_path))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert set(found) == {(tmp_path / "identity").read_text().strip()}


def test_each_run_has_a_name_of_its_own(tmp_path):
    names = {identity_of_run(tmp_path, job) for job in ("run-a", "run-b", "run-a")}
    assert len(names) == 2
    assert all(name.startswith(identity_of(tmp_path)) for name in names)


def test_a_name_is_held_by_one_and_free_again_afterwards(tmp_path):
    with held(tmp_path, "me"):
        with pytest.raises(IdentityTaken, match=f"process {os.getpid()} works as me already"), held(tmp_path, "me"):
            pass
        with held_by_some(tmp_path, "") as other, held_by_some(tmp_path, "") as third:
            assert len({other, third, "me"}) == 3
        with pytest.raises(IdentityTaken), held_by_some(tmp_path, "me"):
            pass
    with held(tmp_path, "me"), held_by_some(tmp_path) as own:
        assert own == identity_of(tmp_path)
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_lock_that_was_taken_away_while_it_was_opened_is_none(tmp_path, monkeypatch):
    real, path, turns = os.open, tmp_path / "locks", []

    def open_late(name, *arguments, **more):
        descriptor = real(name, *arguments, **more)
        if not turns:
            turns.append(descriptor)
            name.unlink()  # its last holder ends just now
        return descriptor

    monkeypatch.setattr(identity.os, "open", open_late)
    with held(tmp_path, "me"):
        monkeypatch.undo()
        assert len(list(path.iterdir())) == 1
