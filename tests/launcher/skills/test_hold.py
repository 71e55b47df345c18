"""The bundle in memory, for a launcher without the claim: the same files under the same key, and what has no room."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from paperclip_launcher.prompt import SECRET_BYTES
from paperclip_launcher.skills.bundle import HeldBundle, foresee, hold
from paperclip_launcher.skills.instructions import Instructions
from paperclip_launcher.skills.pack import LIMITS, folder_of, pack
from paperclip_launcher.skills.sinks import HeldFile
from paperclip_launcher.skills.walk import LISTED, BundleFailed, Limits, Tree
from tests.launcher.skills.test_bundle import OUTSIDE, content, hostile, made, place, skill

__all__ = ["place"]

BOTH = Instructions("Be kind.", (("HEARTBEAT.md", b"beat"),))


def held(place: Path, *skills: object, instructions: Instructions | None = None, limits: Limits = LIMITS) -> HeldBundle:
    return hold(skills, instructions, roots=[str(place / "skills")], limits=limits)


def another(place: Path, name: str, **files: bytes) -> object:
    (place / "skills" / name).mkdir()
    for file, data in files.items():
        (place / "skills" / name / file).write_bytes(data)
    return skill(place, name)


@pytest.mark.parametrize("instructions", [None, BOTH])
def test_what_is_held_has_the_key_and_the_content_that_the_claim_has(place, instructions):
    hostile(place)
    on_claim = made(place, skill(place), instructions=instructions)
    found = held(place, skill(place), instructions=instructions)
    assert (found.key, found.skills, found.notes) == (on_claim.key, on_claim.skills, on_claim.notes)
    assert {one.path: one.content for one in found.files} == content(place, on_claim)
    top = place / "claim" / on_claim.relative_path
    assert {one.path: one.runs for one in found.files} == {
        one.path: os.access(top / one.path, os.X_OK) for one in found.files
    }
    assert OUTSIDE not in [one.content for one in found.files]


def test_what_would_be_on_the_claim_can_be_known_without_a_claim(place):
    seen = foresee([skill(place)], BOTH, company="acme", roots=[str(place / "skills")])
    assert not list((place / "claim").iterdir())
    assert seen == made(place, skill(place), instructions=BOTH)


def test_runs_that_begin_at_once_hold_the_same_skills_once(place):
    first = held(place, skill(place))
    assert held(place, skill(place)) is first
    (place / "skills/hello/SKILL.md").write_text("# hullo\n")
    assert held(place, skill(place)) is not first


def test_nothing_to_hold_has_no_key(place):
    assert held(place) == HeldBundle()


@pytest.mark.parametrize(
    ("files", "limits", "reason"),
    [
        ({"big": b"x" * 11}, Limits(file_size=10), "big has 11 bytes; at most 10 are copied"),
        ({"a": b"x" * 6, "b": b"x" * 6}, Limits(size=20), "holds more than 20 bytes"),
        ({"a": b"", "b": b""}, Limits(files=3), "holds more than 3 files"),
        ({"a" * 200: b""}, Limits(listed=LISTED * 3 + 200), "holds so many files that the list of their names has"),
        ({"id_rsa": b""}, LIMITS, "id_rsa has the name of a file that no agent may have"),
    ],
)
def test_a_skill_that_has_no_room_is_left_out_as_a_whole_and_the_others_stay(place, files, limits, reason):
    large, small = another(place, "ill", **files), another(place, "last")
    found = held(place, large, small, skill(place), limits=limits)
    assert found.skills == ("hello", "last")
    assert {one.path.split("/")[2] for one in found.files} == {"hello"}
    (note,) = found.notes
    assert note.startswith(f"skill ill is left out, since the launcher does not have the agents' claim: {reason}")
    assert found.key == held(place, small, skill(place)).key


def test_a_skill_that_grows_past_the_limits_while_it_is_read_leaves_nothing(place, monkeypatch):
    grown = another(place, "grown", a=b"1", b=b"2")
    scout = Tree.scout

    def then_grow(tree, budget):
        scout(tree, budget)
        (place / "skills/grown/b").write_bytes(b"x" * 100)

    monkeypatch.setattr(Tree, "scout", then_grow)
    found = held(place, grown, limits=Limits(file_size=50))
    assert (found.skills, found.files, found.key) == ((), (), "")
    assert "skill grown is left out" in found.notes[0]


def test_instructions_that_have_no_room_fail_the_run(place):
    """An agent without its instructions is no agent of theirs."""
    with pytest.raises(BundleFailed, match=r"agent-instructions.md has 800000 bytes"):
        held(place, skill(place), instructions=Instructions("x" * 800_000))


# In Secrets


def test_a_volume_that_takes_each_key_to_its_place_is_the_bundle(place):
    hostile(place)
    found = held(place, skill(place), instructions=BOTH)
    parcels = pack(found.files, found.key)
    there = {item["path"]: (parcel.data[item["key"]], item.get("mode")) for parcel in parcels for item in parcel.items}
    top = found.key[:16]
    assert folder_of(found.key) == top
    assert there == {f"{top}/{one.path}": (one.content, 0o755 if one.runs else None) for one in found.files}
    assert pack(found.files, found.key) == parcels


def test_no_secret_has_more_than_it_can_and_the_same_content_is_there_once():
    large = [HeldFile(f"{number}", bytes([number]) * (300 << 10)) for number in range(5)]
    twins = [HeldFile(f"twin-{number}", b"same") for number in range(50)]
    small = [HeldFile(f"small-{number}", b"%d" % number) for number in range(1000)]
    parcels = pack([*large, *twins, *small], "k" * 64)
    sizes = [sum(len(data) + LISTED for data in one.data.values()) for one in parcels]
    assert len(sizes) == 3
    assert max(sizes) <= SECRET_BYTES
    keys = [key for one in parcels for key in one.data]
    assert len(set(keys)) == len(keys) == 5 + 1 + 1000
    for one in parcels:
        assert {item["key"] for item in one.items} == set(one.data)


def test_the_largest_file_that_is_let_in_fits_a_secret(place):
    edge = another(place, "edge", full=b"x" * LIMITS.file_size)
    (parcel,) = pack(held(place, edge).files, "k")
    assert [len(data) for data in parcel.data.values()] == [LIMITS.file_size]
    assert held(place, another(place, "over", full=b"x" * (LIMITS.file_size + 1))).files == ()


def test_nothing_makes_no_secret():
    assert pack((), "") == ()


def test_the_key_is_of_the_content_whatever_the_secrets_are(place):
    found = held(place, skill(place))
    (place / "skills/hello/SKILL.md").write_text("# hullo\n")
    changed = held(place, skill(place))
    assert changed.key != found.key
    assert pack(changed.files, changed.key)[0].items != pack(found.files, found.key)[0].items
    assert hashlib.sha256(b"# hullo\n").digest() in {hashlib.sha256(one.content).digest() for one in changed.files}
