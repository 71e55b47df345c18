"""Old bundles go; those in use stay, however close the race."""

from __future__ import annotations

import os
from pathlib import Path

from paperclip_launcher.skills import collect as collecting
from paperclip_launcher.skills.bundle import UNFINISHED, Instructions, prepare, use
from paperclip_launcher.skills.collect import GONE, collect

DAY = 86_400.0
NOW = 1_800_000_000.0


def bundle(root: Path, text: str, now: float, company: str = "acme") -> str:
    return prepare(str(root), [], Instructions(text), company=company, roots=[], now=now).relative_path


def test_what_was_not_used_for_long_goes_and_the_rest_stays(tmp_path):
    old = bundle(tmp_path, "old", NOW - 9 * DAY)
    other = bundle(tmp_path, "old", NOW - 9 * DAY, "Other Company")
    kept = bundle(tmp_path, "kept", NOW - 9 * DAY)
    fresh = bundle(tmp_path, "fresh", NOW - DAY)
    (tmp_path / "bundles/acme" / f"{UNFINISHED}x").mkdir()
    os.utime(tmp_path / "bundles/acme" / f"{UNFINISHED}x", (1, 1))
    removed = collect(str(tmp_path), older_than_seconds=7 * DAY, now=NOW, keep=[kept])
    assert set(removed) == {old, other, f"bundles/acme/{UNFINISHED}x"}
    assert {f"bundles/acme/{path.name}" for path in (tmp_path / "bundles/acme").iterdir()} == {kept, fresh}


def test_using_a_bundle_makes_it_young(tmp_path):
    old = bundle(tmp_path, "old", NOW - 9 * DAY)
    assert bundle(tmp_path, "old", NOW) == old
    assert collect(str(tmp_path), older_than_seconds=7 * DAY, now=NOW) == []


def test_a_claim_without_bundles_or_with_strange_names_is_no_trouble(tmp_path):
    assert collect(str(tmp_path), older_than_seconds=1, now=NOW) == []
    (tmp_path / "bundles").mkdir()
    (tmp_path / "bundles/Not Ours").mkdir()
    (tmp_path / "bundles/file").write_text("")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/key").mkdir()
    os.utime(tmp_path / "outside/key", (1, 1))
    (tmp_path / "bundles/link").symlink_to(tmp_path / "outside")
    assert collect(str(tmp_path), older_than_seconds=1, now=NOW) == []
    assert (tmp_path / "outside/key").exists()


def test_a_link_in_a_bundle_is_removed_and_not_what_it_leads_to(tmp_path):
    old = bundle(tmp_path, "old", NOW - 9 * DAY)
    (tmp_path / "precious").write_text("x")
    (tmp_path / old / "link").symlink_to(tmp_path)
    os.utime(tmp_path / old, (1, 1))
    assert collect(str(tmp_path), older_than_seconds=DAY, now=NOW) == [old]
    assert (tmp_path / "precious").exists()


def test_a_bundle_that_is_used_while_it_goes_comes_back(tmp_path, monkeypatch):
    old = bundle(tmp_path, "old", NOW - 9 * DAY)
    place = os.open(tmp_path / "bundles/acme", os.O_RDONLY)
    real, seen = collecting._is_older, []

    def touched(folder, name, limit):
        older = real(folder, name, limit)
        if not seen:
            # A run begins to use it between the look at its age and the rename.
            assert use(place, Path(old).name, NOW)
        seen.append(older)
        return older

    monkeypatch.setattr(collecting, "_is_older", touched)
    assert collect(str(tmp_path), older_than_seconds=DAY, now=NOW) == []
    assert seen == [True, False]
    assert (tmp_path / old / "agent-instructions.md").read_text() == "old"
    os.close(place)


def test_who_touches_a_bundle_that_has_just_gone_makes_it_anew(tmp_path, monkeypatch):
    old = bundle(tmp_path, "old", NOW - 9 * DAY)
    folder, key = tmp_path / "bundles/acme", Path(old).name
    real = os.utime

    def gone(path, *arguments, **named):
        real(path, *arguments, **named)
        if isinstance(path, int) and (folder / key).exists():
            (folder / key).rename(folder / f"{GONE}{key}")

    monkeypatch.setattr(os, "utime", gone)
    place = os.open(folder, os.O_RDONLY)
    assert not use(place, key, NOW)
    os.close(place)
    monkeypatch.undo()
    assert bundle(tmp_path, "old", NOW) == old
    assert (tmp_path / old / "agent-instructions.md").exists()
    assert collect(str(tmp_path), older_than_seconds=DAY, now=NOW + 2 * DAY, keep=[old]) == [
        f"bundles/acme/{GONE}{key}"
    ]
