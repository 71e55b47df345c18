"""The bundle of skills: the same for the same content, whole or not there, with nothing from outside."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import socket
import stat
import threading
from pathlib import Path

import pytest

from paperclip_launcher.options import Skill
from paperclip_launcher.skills import bundle as bundles
from paperclip_launcher.skills.bundle import Bundle, prepare
from paperclip_launcher.skills.instructions import Instructions, read_instructions
from paperclip_launcher.skills.walk import BundleFailed, Limits

NOW = 1_800_000_000.0
OUTSIDE = b"content from outside"


@pytest.fixture
def place(tmp_path):
    """Folders `claim`, `skills` and `outside`, with a skill `hello` and a secret file."""
    for name in ("claim", "skills/hello/scripts", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "skills/hello/SKILL.md").write_text("# hello\n")
    (tmp_path / "skills/hello/scripts/run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "skills/hello/scripts/run.sh").chmod(0o700)
    (tmp_path / "outside/secret").write_bytes(OUTSIDE)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def skill(place: Path, name: str = "hello", key: str = "") -> Skill:
    return Skill(key or f"acme/{name}", name, str(place / "skills" / name))


def made(place: Path, *skills: Skill, instructions: Instructions | None = None, limits: Limits | None = None) -> Bundle:
    roots = [str(place / "skills")]
    return prepare(
        str(place / "claim"), skills, instructions, company="acme", roots=roots, now=NOW, limits=limits or Limits()
    )


def content(place: Path, bundle: Bundle) -> dict[str, bytes]:
    top = place / "claim" / bundle.relative_path
    assert not any(path.is_symlink() for path in top.rglob("*"))
    return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


def test_a_bundle_holds_copies_of_the_skills_and_the_instructions(place):
    bundle = made(place, skill(place), instructions=Instructions("Be kind.", (("HEARTBEAT.md", b"beat"),)))
    assert content(place, bundle) == {
        ".claude/skills/hello/SKILL.md": b"# hello\n",
        ".claude/skills/hello/scripts/run.sh": b"#!/bin/sh\n",
        "agent-instructions.md": b"Be kind.",
        "instructions/HEARTBEAT.md": b"beat",
    }
    assert (bundle.skills, bundle.notes) == (("hello",), ())
    assert bundle.relative_path == f"bundles/acme/{bundle.key}"
    top = place / "claim" / bundle.relative_path
    assert stat.S_IMODE((top / ".claude/skills/hello/scripts/run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((top / ".claude/skills/hello/SKILL.md").stat().st_mode) == 0o644
    assert names(top.parent) == [bundle.key]


def test_the_key_depends_on_content_alone(place):
    (place / "skills/other").mkdir()
    (place / "skills/other/SKILL.md").write_text("# other\n")
    first = made(place, skill(place), skill(place, "other"))
    os.utime(place / "skills/hello/SKILL.md", (1, 1))
    (place / "skills/hello/SKILL.md").touch()
    again = made(place, skill(place, "other", key="elsewhere/other"), skill(place))
    assert again == first
    keys = {first.key}
    changes = [
        lambda: (place / "skills/hello/SKILL.md").write_text("# hullo\n"),
        lambda: (place / "skills/hello/SKILL.md").chmod(0o755),
        lambda: (place / "skills/hello/SKILL.md").rename(place / "skills/hello/SKILLS.md"),
        (place / "skills/hello/empty").mkdir,
    ]
    for change in changes:
        change()
        keys.add(made(place, skill(place), skill(place, "other")).key)
    keys.add(made(place, skill(place)).key)
    keys.add(made(place, skill(place), instructions=Instructions("x")).key)
    keys.add(made(place, skill(place), instructions=Instructions("x", (("a.md", b""),))).key)
    assert len(keys) == 8


def test_a_bundle_that_is_there_is_used_and_not_written_again(place, monkeypatch):
    first = made(place, skill(place))
    top = place / "claim" / first.relative_path
    os.utime(top, (1, 1))
    monkeypatch.setattr(bundles, "_build", lambda *_: pytest.fail("built again"))
    assert made(place, skill(place)) == first
    assert top.stat().st_mtime == NOW


def test_nothing_to_bundle_makes_no_bundle(place):
    assert made(place) == Bundle()
    gone = made(place, Skill("a", "gone", str(place / "skills/gone")))
    assert (gone.key, gone.relative_path) == ("", "")
    assert "skill gone is left out: its folder cannot be read: No such file or directory" in gone.notes


@pytest.mark.parametrize("name", ["..", ".", "", "/etc", "a/b", "a\0b", "x" * 300, ".hidden", "é", "a\nb", "-x"])
def test_a_runtime_name_that_is_no_plain_name_leaves_the_skill_out(place, name):
    bundle = made(place, Skill("k", name, str(place / "skills/hello")))
    assert bundle.key == ""
    assert "is left out: its name must be" in bundle.notes[0]
    assert "\n" not in bundle.notes[0]


def test_of_skills_with_the_same_name_but_for_capitals_one_is_taken(place):
    (place / "skills/Hello").mkdir()
    bundle = made(place, skill(place), skill(place, "Hello"))
    assert bundle.skills == ("Hello",)
    assert "another one has its name" in bundle.notes[0]


@pytest.mark.parametrize(
    "source", ["{outside}", "{skills}/../outside", "relative", "{skills}/a\0b", "{skills}/way", "/proc/self"]
)
def test_a_source_outside_of_the_allowed_folders_is_left_out(place, source):
    (place / "skills/way").symlink_to(place / "outside")
    path = source.format(outside=place / "outside", skills=place / "skills")
    bundle = made(place, Skill("k", "bad", path), skill(place))
    assert bundle.skills == ("hello",)
    assert OUTSIDE not in content(place, bundle).values()
    assert "skill bad is left out" in bundle.notes[0]


def hostile(place: Path) -> None:
    folder = place / "skills/hello"
    (folder / "out").symlink_to(place / "outside/secret")
    (folder / "out-folder").symlink_to(place / "outside")
    (folder / "up").symlink_to("../../outside/secret")
    (folder / "chain").symlink_to("out")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nothing")
    (folder / "inside").symlink_to("scripts/run.sh")
    (folder / "inside-folder").symlink_to("scripts")
    (folder / "git").symlink_to(".git/config")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_bytes(OUTSIDE)
    os.link(place / "outside/secret", folder / "hard")
    (folder / "once.md").write_text("")
    os.link(folder / "once.md", folder / "twice.md")
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        # A socket's whole path has 107 bytes at most.
        descriptor = os.open(folder, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{descriptor}/socket")
        os.close(descriptor)
    (folder / "line\nbreak").write_text("")
    (folder / "Twin").write_text("1")
    (folder / "twin").write_text("2")
    (folder / "caf\u00e9").write_text("1")
    (folder / "cafe\u0301").write_text("2")
    (folder / os.fsdecode(b"\xff")).write_text("")


def test_only_plain_files_of_the_skill_itself_are_copied(place):
    hostile(place)
    bundle = made(place, skill(place))
    found = {path.removeprefix(".claude/skills/hello/"): data for path, data in content(place, bundle).items()}
    assert set(found) == {"SKILL.md", "scripts/run.sh", "inside", "Twin", "cafe\u0301"}
    assert found["inside"] == b"#!/bin/sh\n"
    notes = "\n".join(bundle.notes)
    for name in (
        "out ",
        "out-folder",
        "up",
        "chain",
        "loop",
        "dangling",
        "inside-folder",
        "git ",
        ".git",
        "hard",
        "once.md",
        "twice.md",
        "fifo",
        "socket",
        "line\\nbreak",
        "twin",
        "caf\u00e9",
        "\\udcff",
    ):
        assert f"skill hello: {name}" in notes, name
    assert len(bundle.notes) == 18
    assert made(place, skill(place)).key == bundle.key


def test_a_device_is_not_even_opened(place):
    try:
        os.mknod(place / "skills/hello/zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        return
    assert "zero is neither a file nor a folder" in made(place, skill(place)).notes[0]


def make_deep(folder: Path) -> None:
    for _ in range(20):
        folder = folder / "d"
        folder.mkdir()


def make_sparse(folder: Path) -> None:
    with (folder / "sparse").open("wb") as file:
        file.truncate(10 << 30)


@pytest.mark.parametrize(
    ("prepare_folder", "limits", "message"),
    [
        (make_deep, Limits(), "more than 16 folders deep"),
        (make_sparse, Limits(), "sparse has 10737418240 bytes; at most 16777216 are copied"),
        (lambda _: None, Limits(files=1), "holds more than 1 files"),
        (lambda _: None, Limits(size=8), "holds more than 8 bytes"),
        (lambda folder: [(folder / str(n)).touch() for n in range(40)], Limits(names=30), "more than 30 names"),
    ],
)
def test_what_is_too_much_fails_before_anything_is_written(place, prepare_folder, limits, message):
    prepare_folder(place / "skills/hello")
    with pytest.raises(BundleFailed, match=message) as caught:
        made(place, skill(place), limits=limits)
    assert str(caught.value).startswith("skill hello: ")
    assert names(place / "claim/bundles/acme") == []


def test_a_claim_that_cannot_be_written_fails_and_leaves_nothing(place, monkeypatch):
    with pytest.raises(BundleFailed, match="cannot be written below"):
        prepare(str(place / "nowhere"), [], None, company="a", roots=[], now=NOW)
    real = os.fsync
    calls = itertools.count()

    def full(descriptor):
        if next(calls) == 1:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BundleFailed, match="No space left on device"):
        made(place, skill(place))
    assert names(place / "claim/bundles/acme") == []


@pytest.mark.parametrize("where", ["bundles", "bundles/acme"])
def test_a_link_in_place_of_our_own_folders_is_not_followed(place, where):
    (place / "claim" / where).parent.mkdir(exist_ok=True)
    (place / "claim" / where).symlink_to(place / "outside")
    with pytest.raises(BundleFailed):
        made(place, skill(place))
    assert names(place / "outside") == ["secret"]


def test_many_builders_at_once_make_one_bundle(place):
    for number in range(20):
        (place / f"skills/hello/{number}.md").write_text(str(number))
    results = []
    threads = [threading.Thread(target=lambda: results.append(made(place, skill(place)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    assert len(set(results)) == 1
    assert names(place / "claim/bundles/acme") == [results[0].key]
    assert len(content(place, results[0])) == 22


def test_a_source_that_changes_while_it_is_copied_gets_the_key_of_what_was_copied(place, monkeypatch):
    real = bundles._build

    def changed(*arguments):
        (place / "skills/hello/SKILL.md").write_text("changed")
        return real(*arguments)

    monkeypatch.setattr(bundles, "_build", changed)
    first = made(place, skill(place))
    monkeypatch.undo()
    assert made(place, skill(place)) == first
    assert content(place, first)[".claude/skills/hello/SKILL.md"] == b"changed"


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_name_that_becomes_a_link_between_look_and_open_is_not_followed(place, monkeypatch, kind, nth):
    path = place / "skills/hello/name"
    fresh = place / "fresh"
    fresh.symlink_to(place / "outside" if kind == "folder" else place / "outside/secret")
    (place / "skills/hello/target").write_text("fine")
    make = {"file": lambda: path.write_text("fine"), "folder": path.mkdir, "link": lambda: path.symlink_to("target")}
    make[kind]()
    real, opens = os.open, itertools.count(1)

    def swapping(name, *arguments, **named):
        # It is opened more than once: to look, to hash and to copy.
        if name == ("target" if kind == "link" else "name") and named and next(opens) == nth:
            victim = place / "skills/hello" / name
            if victim.is_dir():
                victim.rmdir()
            fresh.replace(victim)
        return real(name, *arguments, **named)

    monkeypatch.setattr(os, "open", swapping)
    bundle = made(place, skill(place))
    monkeypatch.undo()
    assert not fresh.is_symlink()
    assert OUTSIDE not in content(place, bundle).values()


@pytest.mark.parametrize("nth", [1, 2])
def test_a_hard_link_that_goes_right_after_it_was_opened_is_not_copied(place, monkeypatch, nth):
    path = place / "skills/hello/name"
    os.link(place / "outside/secret", path)
    real, opens = os.open, itertools.count(1)

    def going(name, *arguments, **named):
        descriptor = real(name, *arguments, **named)
        if name == "name" and next(opens) == nth:
            path.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", going)
    bundle = made(place, skill(place))
    monkeypatch.undo()
    assert not path.exists()
    assert OUTSIDE not in content(place, bundle).values()


class Swapper:
    """Puts good and bad things in place of names of a skill, before any step that looks at one."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.rng, self.count, self.busy = place, random.Random(seed), 0, False

    def around(self, function):
        def stepped(*arguments, **named):
            if not self.busy and self.rng.random() < 0.5:
                self.busy = True
                self.swap()
                self.busy = False
            return function(*arguments, **named)

        return stepped

    def swap(self) -> None:
        self.count += 1
        secret, folder = self.place / "outside/secret", self.place / "skills/hello"
        path = folder / self.rng.choice(["file", "folder", "folder/inner", "link"])
        if not path.is_symlink() and path.is_dir():
            shutil.rmtree(path)
        elif path.parent.is_dir():
            path.unlink(missing_ok=True)
        if path.parent.is_symlink() or not path.parent.is_dir():
            return
        kinds = [
            lambda: path.write_bytes(b"fine"),
            lambda: path.write_bytes(b"fine"),
            path.mkdir,
            lambda: os.link(secret, path),
            lambda: path.symlink_to(secret),
            lambda: path.symlink_to(secret.parent),
            lambda: path.symlink_to("file"),
            lambda: os.mkfifo(path),
        ]
        self.rng.choice(kinds)()


def test_nothing_from_outside_gets_in_however_names_are_swapped(place, monkeypatch):
    """PAPERCLIP_SWAPS=10000 for the full count, PAPERCLIP_SEED for other ones."""
    (place / "outside/inner").write_bytes(OUTSIDE)
    (place / "outside/file").write_bytes(OUTSIDE)
    swapper = Swapper(place, int(os.environ.get("PAPERCLIP_SEED", "4")))
    copied = 0
    while swapper.count < int(os.environ.get("PAPERCLIP_SWAPS", "600")):
        with monkeypatch.context() as patched:
            for module, name in ((os, "stat"), (os, "fstat"), (os, "open"), (os, "scandir"), (os.path, "realpath")):
                patched.setattr(module, name, swapper.around(getattr(module, name)))
            try:
                bundle = made(place, skill(place))
            except BundleFailed:
                continue
        found = content(place, bundle).values()
        assert OUTSIDE not in found, swapper.count
        copied += b"fine" in found
        shutil.rmtree(place / "claim/bundles")
    assert copied


def test_instructions_come_with_the_files_beside_them(place):
    folder = place / "skills"
    (folder / "AGENTS.md").write_text("Be kind.")
    (folder / "HEARTBEAT.md").write_text("beat")
    (folder / "notes.txt").write_text("no")
    (folder / "OUT.md").symlink_to(place / "outside/secret")
    found, notes = read_instructions(f" {folder}/AGENTS.md ", [str(folder)], mount="/run/bundle")
    assert found is not None
    assert found.files == (("HEARTBEAT.md", b"beat"),)
    assert found.text.startswith("Be kind.\n\nThese instructions are the file AGENTS.md.")
    assert "(HEARTBEAT.md) are in /run/bundle/instructions" in found.text
    assert len(notes) == 1
    assert notes[0].startswith("beside the instructions, OUT.md is outside of")


def test_instructions_alone_are_given_as_they_are(place):
    (place / "skills/AGENTS.md").write_text("Be kind.")
    assert read_instructions(str(place / "skills/AGENTS.md"), [str(place / "skills")], mount="/m") == (
        Instructions("Be kind."),
        (),
    )


@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/environ",
        "{place}/outside/secret",
        "{place}/skills/hello",
        "{place}/skills",
        "{place}/skills/none",
        "",
        "x\0",
        "{place}/skills/way/secret",
        "{place}/skills/fifo",
        "{place}/skills/big.md",
        "{place}/skills/bad.md",
    ],
)
def test_instructions_from_elsewhere_or_of_another_kind_are_left_out(place, path):
    (place / "skills/way").symlink_to(place / "outside")
    os.mkfifo(place / "skills/fifo")
    (place / "skills/big.md").write_bytes(b"x" * ((1 << 20) + 1))
    (place / "skills/bad.md").write_bytes(b"\xff\xfe")
    found, notes = read_instructions(path.format(place=place), [str(place / "skills")], mount="/m")
    assert found is None
    assert len(notes) == 1
    assert "are left out: the file" in notes[0]
