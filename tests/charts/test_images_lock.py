"""images.lock: what the file may hold, what it pins, and how it is brought up to date."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charts_py import images
from charts_py.cli import images as verb
from charts_py.cli.output import Output
from charts_py.errors import ConfigError, GitopsError
from charts_py.images import HEAD, Change, ImageLock, LockedImage, load, parse, relock, write
from charts_py.registry import RegistryError, RegistryUnreachable
from kubekit.imageref import ImageRef

_SPEC = importlib.util.spec_from_file_location("registry_server", Path(__file__).with_name("registry_server.py"))
assert _SPEC
assert _SPEC.loader
server = importlib.util.module_from_spec(_SPEC)
sys.modules["registry_server"] = server  # dataclasses look their module up
_SPEC.loader.exec_module(server)

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
APP, WEB = "ghcr.io/owner/app:1", "nginx:1.27"


class Known:
    """A resolver that knows what it is told; everything else it does not reach."""

    def __init__(self, digests: dict[str, str], gone: tuple[str, ...] = ()) -> None:
        self._digests = digests
        self._gone = gone
        self.asked: list[str] = []

    def resolve(self, ref: ImageRef) -> str:
        self.asked.append(ref.text)
        if ref.text in self._gone:
            raise RegistryError(ref.text, "the registry answered 404 MANIFEST_UNKNOWN", "mend it")
        if ref.text not in self._digests:
            raise RegistryUnreachable(ref.text, f"no answer from the registry {ref.registry}", "plug it in")
        return self._digests[ref.text]


def lock_of(*entries: LockedImage) -> ImageLock:
    return ImageLock(tuple(sorted(entries, key=lambda entry: entry.image)))


# Looking up


def test_a_locked_image_is_pinned_with_its_full_name_and_tag() -> None:
    lock = lock_of(LockedImage(WEB, A))
    assert lock.pin(WEB) == f"docker.io/library/nginx:1.27@{A}"
    assert lock.digest_of(WEB) == A


def test_every_spelling_of_an_image_finds_the_same_entry() -> None:
    lock = lock_of(LockedImage(WEB, A))
    for spelling in (
        "docker.io/nginx:1.27",
        "docker.io/library/nginx:1.27",
        "index.docker.io/library/nginx:1.27",
    ):
        assert lock.digest_of(spelling) == A


@pytest.mark.parametrize("text", ["nginx:1.28", "nginx", "ghcr.io/nginx:1.27", APP])
def test_an_image_without_a_digest_stays_as_it_is(text: str) -> None:
    lock = lock_of(LockedImage(WEB, A), LockedImage(APP, unresolved="never pushed"))
    assert lock.pin(text) == text
    assert lock.digest_of(text) is None


def test_a_digest_in_the_reference_wins_where_the_lock_has_none_or_the_same() -> None:
    assert ImageLock().pin(f"{APP}@{B}") == f"{APP}@{B}"
    assert lock_of(LockedImage(APP, B)).digest_of(f"{APP}@{B}") == B


def test_two_digests_for_one_tag_are_refused_and_both_named() -> None:
    with pytest.raises(ConfigError) as caught:
        lock_of(LockedImage(APP, A)).pin(f"{APP}@{B}")
    assert A in caught.value.message
    assert B in caught.value.message
    assert caught.value.remedy


def test_what_is_no_reference_is_refused() -> None:
    with pytest.raises(ConfigError, match="capitals"):
        ImageLock().pin("ghcr.io/Owner/app:1")


# The file


def test_a_file_that_is_not_there_is_an_empty_lock(tmp_path: Path) -> None:
    assert load(tmp_path / "images.lock") == ImageLock()


def test_the_file_reads_well(tmp_path: Path) -> None:
    lock = lock_of(LockedImage(WEB, A), LockedImage(APP, unresolved="the registry answered 404"))
    write(lock, tmp_path / "images.lock")
    assert (tmp_path / "images.lock").read_text() == (
        HEAD + "apiVersion: paperclip-gitops/v1\nkind: ImageLock\nimages:\n"
        f"- image: {APP}\n  unresolved: the registry answered 404\n- image: {WEB}\n  digest: {A}\n"
    )


def test_the_hash_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "images.lock"
    lock = lock_of(LockedImage(WEB, A))
    write(lock, path)
    assert subprocess.check_output(["sha256sum", path], text=True).split()[0] == lock.sha256
    # What people write by hand, in whatever order and form, has the hash of its content.
    entry = f'{{digest: "{A}", image: "{WEB}"}}'
    path.write_text(f"# mine\nimages: [{entry}]\nkind: ImageLock\napiVersion: paperclip-gitops/v1\n")
    assert load(path).sha256 == lock.sha256


TAGS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
NAMES = st.from_regex(r"([a-z0-9]{1,8}\.io(:[1-9][0-9]{0,3})?/)?[a-z0-9]{1,8}(/[a-z0-9]{1,8})?", fullmatch=True)
DIGESTS = st.binary(max_size=4).map(lambda seed: "sha256:" + hashlib.sha256(seed).hexdigest())
REASONS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


@st.composite
def locks(draw: st.DrawFn) -> ImageLock:
    found: dict[str, LockedImage] = {}
    for name, tag in draw(st.lists(st.tuples(NAMES, TAGS), max_size=5)):
        text = f"{name}:{tag}"
        digest = draw(st.none() | DIGESTS)
        reason = "" if digest else draw(st.just("") | REASONS)
        found.setdefault(images._name(images._parse(text)), LockedImage(text, digest, reason))
    return lock_of(*found.values())


@settings(deadline=None, max_examples=100)
@given(locks())
def test_what_is_written_reads_back_the_same(lock: ImageLock) -> None:
    again = parse(lock.text)
    assert again == lock
    assert again.text == lock.text


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=80))
def test_no_text_by_chance_breaks_the_reader(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert caught.value.message.startswith("images.lock:")
    assert caught.value.remedy


GOOD_HEAD = "apiVersion: paperclip-gitops/v1\nkind: ImageLock\n"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("images:\n- image: nginx:1\n  digest: sha256:12\n", "images.lock:5:3: digest must be sha256"),
        (f"images:\n- image: nginx:1\n  digest: {A.upper()}\n", "images.lock:5:3: digest must be sha256"),
        ("images:\n- image: nginx:1\n  digest: 12\n", "images.lock:5:3: digest must be sha256"),
        ("images:\n- image: nginx:1\n  diggest: x\n", "images.lock:5:3: unknown field 'diggest'"),
        ("images:\n- image: nginx\n", "images.lock:4:3: image 'nginx' has no tag"),
        (f"images:\n- image: nginx:1@{A}\n", "images.lock:4:3: image"),
        ("images:\n- image: Nginx:1\n", "images.lock:4:3: image 'Nginx:1' has capitals"),
        ("images:\n- image: 1\n", "images.lock:4:3: image must be a reference"),
        (f"images:\n- digest: {A}\n", "images.lock:4:3: image must be a reference"),
        ("images:\n- nginx:1\n", "images.lock:4:3: expected a map with image, digest, unresolved"),
        ("images:\n- image: nginx:1\n  unresolved: 1\n", "images.lock:5:3: unresolved must be text"),
        (f"images:\n- image: a:1\n  digest: {A}\n  unresolved: x\n", "images.lock:6:3: unresolved says why"),
        ("images:\n- image: a:1\n- image: docker.io/a:1\n", ":5:3: image 'docker.io/a:1' is in line 4"),
        ("images: [{image: 'a:1'}, {image: 'a:1'}]\n", "images.lock:3:27: image 'a:1' is in line 3"),
        ("images: nginx:1\n", "images.lock:3:1: images must be a list"),
        ("image: []\n", "images.lock:3:1: unknown field 'image'; known: apiVersion, kind, images"),
        ("kind: ImageLock\n", "images.lock:3:1:"),
        ("images: &a []\n", "images.lock:3:9:"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(body: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(GOOD_HEAD + body)
    assert problem in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["", "[]", "text", "apiVersion: v1\nkind: ConfigMap\n"])
def test_what_is_no_lock_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"images\.lock:1:1: "):
        parse(text)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("apiVersion: v2\nkind: Lock\nimages:\n- image: a\n  digest: b\n- c\nextra: 1\n")
    assert len(caught.value.message.splitlines()) == 6


def test_a_null_digest_is_an_image_that_is_not_locked_yet() -> None:
    assert parse(GOOD_HEAD + "images:\n- image: nginx:1\n  digest: null\n").images == (LockedImage("nginx:1"),)


# Writing


def test_an_equal_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "images.lock"
    lock = lock_of(LockedImage(WEB, A))
    assert write(lock, path) is True
    inode = path.stat().st_ino
    assert write(lock, path) is False
    assert path.stat().st_ino == inode
    assert write(lock_of(LockedImage(WEB, B)), path) is True
    assert [file.name for file in tmp_path.iterdir()] == ["images.lock"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "images.lock"
    first, second = (lock_of(*(LockedImage(f"app{n}:1", digest) for n in range(300))) for digest in (A, B))
    write(first, path)
    done = threading.Event()

    def alternate() -> None:
        for turn in range(30):
            write(second if turn % 2 else first, path)
        done.set()

    writer = threading.Thread(target=alternate)
    writer.start()
    seen = set()
    while not done.is_set():
        seen.add(path.read_text())
    writer.join()
    assert seen <= {first.text, second.text}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "images.lock"
    write(lock_of(LockedImage(WEB, A)), path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(GitopsError, match="No space left"):
        write(lock_of(LockedImage(WEB, B)), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["images.lock"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GitopsError, match="cannot be written"):
        write(ImageLock(), tmp_path / "no" / "images.lock")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "images.lock"
    link.symlink_to("real.lock")
    write(lock_of(LockedImage(WEB, A)), link)
    assert link.is_symlink()
    assert load(tmp_path / "real.lock") == load(link)


# Bringing up to date


def test_a_new_image_is_locked_and_a_known_one_is_not_asked_for() -> None:
    client = Known({WEB: B})
    result = relock(lock_of(LockedImage(APP, A)), [APP, WEB], client)
    assert client.asked == [WEB]
    assert result.lock == lock_of(LockedImage(APP, A), LockedImage(WEB, B))
    assert result.changed == (Change(WEB, None, B),)
    assert result.exit_code == 0


def test_an_image_named_again_is_asked_for_again() -> None:
    client = Known({APP: B, WEB: B})
    lock = lock_of(LockedImage(APP, A), LockedImage(WEB, A))
    result = relock(lock, [APP, WEB], client, again=["docker.io/library/nginx:1.27"])
    assert client.asked == [WEB]
    assert result.changed == (Change(WEB, A, B),)
    assert result.lock.digest_of(APP) == A


def test_a_registry_that_fails_costs_no_digest() -> None:
    lock = lock_of(LockedImage(APP, A), LockedImage(WEB, A))
    result = relock(lock, [APP, WEB], Known({}, gone=(WEB,)), again=[APP, WEB])
    assert result.lock == lock
    assert result.changed == ()
    assert [image for image, _ in result.unresolved] == [APP, WEB]
    assert result.exit_code == 1


def test_a_new_image_that_fails_is_listed_with_the_reason() -> None:
    result = relock(ImageLock(), [APP], Known({}, gone=(APP,)))
    assert result.lock.images == (LockedImage(APP, None, "the registry answered 404 MANIFEST_UNKNOWN"),)


def test_being_offline_does_not_change_the_reason_of_a_listed_image() -> None:
    lock = lock_of(LockedImage(APP, unresolved="never pushed"))
    result = relock(lock, [APP], Known({}))
    assert result.lock == lock
    assert result.exit_code == 5


def test_the_exit_code_is_5_only_when_no_registry_was_reached() -> None:
    assert relock(ImageLock(), [APP, WEB], Known({})).exit_code == 5
    assert relock(ImageLock(), [APP, WEB], Known({APP: A})).exit_code == 1
    assert relock(ImageLock(), [APP, WEB], Known({}, gone=(APP,))).exit_code == 1
    assert relock(ImageLock(), [], Known({})).exit_code == 0


def test_an_image_that_is_wanted_no_more_leaves_the_lock() -> None:
    result = relock(lock_of(LockedImage(APP, A), LockedImage(WEB, A)), [WEB], Known({}))
    assert result.lock == lock_of(LockedImage(WEB, A))
    assert result.changed == (Change(APP, A, None),)


def test_a_reference_with_its_own_digest_needs_no_entry_but_must_agree() -> None:
    client = Known({f"{APP}@{A}": A})
    result = relock(ImageLock(), [f"{APP}@{A}"], client, again=[f"{APP}@{A}"])
    assert (result.lock, result.changed, client.asked) == (ImageLock(), (), [f"{APP}@{A}"])
    with pytest.raises(ConfigError, match="another digest"):
        relock(lock_of(LockedImage(APP, B)), [APP, f"{APP}@{A}"], client)


def test_two_spellings_of_one_image_make_one_entry() -> None:
    result = relock(ImageLock(), ["nginx:1.27", "docker.io/nginx:1.27"], Known({"docker.io/nginx:1.27": A}))
    assert len(result.lock.images) == 1
    assert result.lock.digest_of("nginx:1.27") == A


def test_another_spelling_leaves_the_entry_as_it_is_written() -> None:
    lock = lock_of(LockedImage(WEB, A))
    assert relock(lock, ["docker.io/library/nginx:1.27"], Known({})).lock == lock


def test_references_that_do_not_do_are_told_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        relock(ImageLock(), ["nginx", "Nginx:1", "good:1"], Known({}))
    assert len(caught.value.message.splitlines()) == 2


@settings(deadline=None, max_examples=50)
@given(locks())
def test_locking_twice_changes_nothing(lock: ImageLock) -> None:
    wanted = [entry.image for entry in lock.images]
    once = relock(lock, wanted, Known({}))
    assert once.changed == ()
    assert relock(once.lock, wanted, Known({})).lock == once.lock


# The verb


class Shell:
    """Runs `images …` in `folder`, as the command line would."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "images.lock"
        self.stdout = self.stderr = ""

    def __call__(self, *words: str, format: str = "text") -> int:  # noqa: A002 - the flag's own name
        parser = argparse.ArgumentParser(exit_on_error=False)
        verb.register(parser.add_subparsers())
        arguments = parser.parse_args(["images", *words, "--images-file", str(self.file), "--format", format])
        stdout, stderr = io.StringIO(), io.StringIO()
        code = arguments.run(arguments, Output(arguments.format, stdout=stdout, stderr=stderr))
        self.stdout, self.stderr = stdout.getvalue(), stderr.getvalue()
        return int(code)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.chdir(tmp_path)  # no environments here: the lock and the words decide
    return Shell(tmp_path)


@pytest.fixture
def registry() -> Iterator[Any]:
    with server.serving(server.Registry()) as running:
        yield running


def test_lock_writes_the_digest_and_list_shows_it(shell: Shell, registry: Any) -> None:
    digest = registry.push("team/app", "1")
    image = f"{registry.host}/team/app:1"
    assert shell("lock", image) == 0
    assert load(shell.file).digest_of(image) == digest
    assert shell("list") == 0
    assert [line.split() for line in shell.stdout.splitlines()] == [["IMAGE", "DIGEST"], [image, digest]]


def test_check_tells_both_digests_of_a_moved_tag_and_writes_nothing(shell: Shell, registry: Any) -> None:
    old = registry.push("team/app", "1")
    image = f"{registry.host}/team/app:1"
    shell("lock", image)
    assert shell("lock", "--check") == 0
    new = registry.push("team/app", "1", server.manifest("moved"))
    before = shell.file.read_bytes()
    assert shell("lock", "--check") == 1
    assert shell.stdout.splitlines()[1].split() == [image, old, new]
    assert shell.file.read_bytes() == before
    assert shell("lock") == 0
    assert load(shell.file).digest_of(image) == old
    assert shell("lock", "--update") == 0
    assert load(shell.file).digest_of(image) == new


def test_update_of_one_image_leaves_the_others(shell: Shell, registry: Any) -> None:
    names = [f"{registry.host}/team/{name}:1" for name in ("app", "web")]
    for name in ("app", "web"):
        registry.push(f"team/{name}", "1")
    shell("lock", *names)
    before = load(shell.file)
    moved = [registry.push(f"team/{name}", "1", server.manifest("moved")) for name in ("app", "web")]
    assert shell("lock", "--update", names[1]) == 0
    after = load(shell.file)
    assert [after.digest_of(name) for name in names] == [before.digest_of(names[0]), moved[1]]


def test_a_purged_tag_is_reported_at_the_end_and_the_rest_is_locked(shell: Shell, registry: Any) -> None:
    registry.push("team/app", "1")
    good, gone = f"{registry.host}/team/app:1", f"{registry.host}/team/gone:1"
    assert shell("lock", gone, good, format="json") == 1
    report = json.loads(shell.stdout)
    assert [change["image"] for change in report["changed"]] == [good]
    assert report["unresolved"][0]["image"] == gone
    assert report["written"] is True
    assert f"error: {gone}: the registry answered 404 MANIFEST_UNKNOWN" in shell.stderr
    assert "mend: check the spelling" in shell.stderr
    shell("list")
    assert "not pinned: the registry answered 404 MANIFEST_UNKNOWN" in shell.stdout


def test_no_registry_at_all_ends_with_5_and_the_lock_as_it_was(shell: Shell, registry: Any) -> None:
    registry.push("team/app", "1")
    image = f"{registry.host}/team/app:1"
    shell("lock", image)
    before = shell.file.read_bytes()
    dead = before.replace(registry.host.encode(), b"127.0.0.1:1")
    shell.file.write_bytes(dead)
    assert shell("lock", "--update") == 5
    assert shell.file.read_bytes() == dead
    assert "no answer from the registry 127.0.0.1:1" in shell.stderr


def test_a_lock_written_by_hand_is_not_rewritten_without_need(shell: Shell) -> None:
    entry = f"{{image: '{APP}', digest: '{A}'}}"
    by_hand = f"# mine\nkind: ImageLock\napiVersion: paperclip-gitops/v1\nimages: [{entry}]\n"
    shell.file.write_text(by_hand)
    assert shell("lock") == 0
    assert shell.file.read_text() == by_hand
    assert "unchanged" in shell.stderr


def test_list_as_json_gives_what_provenance_needs(shell: Shell) -> None:
    write(lock_of(LockedImage(APP, A), LockedImage(WEB)), shell.file)
    assert shell("list", format="json") == 0
    document = json.loads(shell.stdout)
    assert document["sha256"] == load(shell.file).sha256
    assert document["images"][1] == {"image": WEB, "digest": None, "unresolved": ""}


def test_list_without_a_lock_says_how_to_get_one(shell: Shell) -> None:
    assert shell("list") == 0
    assert "paperclip-gitops images lock IMAGE" in shell.stderr
    assert shell.stdout == ""


@pytest.mark.parametrize(
    "words",
    [("--timeout", "0"), ("--timeout", "nan"), ("--insecure-registry", "http://x"), ("--check", "--update")],
)
def test_wrong_use_is_refused(shell: Shell, words: tuple[str, ...]) -> None:
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        shell("lock", *words)


def test_a_skipped_run_loads_no_http_client() -> None:
    code = "import sys, charts_py.cli.images; assert not {'httpx', 'ruamel'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
