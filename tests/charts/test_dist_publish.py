from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from charts_py.dist import provenance
from charts_py.dist.errors import DistBusy, DistError, RemovalRefused
from charts_py.dist.layout import RenderedEnvironment, environments_in
from charts_py.dist.publish import publish
from charts_py.dist.system import SystemCalls


def rendered(name: str = "prod", **objects: str) -> RenderedEnvironment:
    """`server="a"` is paperclip-system/configmap-server.yaml with that value in it."""
    files = {
        f"paperclip-system/configmap-{key}.yaml": (
            f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {key}\ndata:\n  value: {value}\n".encode()
        )
        for key, value in objects.items()
    }
    return RenderedEnvironment(name, files, {"config": "sha256:1"}, {"cdk8s": "2.70"})


def content(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    return tmp_path / "dist"


def test_the_first_publish_makes_files_that_sha256sum_accepts(dist: Path) -> None:
    result = publish(dist, [rendered(server="a", agents="b")], allow_removal=False)

    assert result.written == (
        "prod/SHA256SUMS",
        "prod/paperclip-system/configmap-agents.yaml",
        "prod/paperclip-system/configmap-server.yaml",
        "prod/provenance.json",
    )
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=dist / "prod",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": OK") == 3
    assert environments_in(dist) == ("prod",)


def test_the_sums_are_sorted_and_leave_out_only_themselves(dist: Path) -> None:
    publish(dist, [rendered(server="a", agents="b")], allow_removal=False)

    paths = [line.split("  ")[1] for line in (dist / "prod/SHA256SUMS").read_text().splitlines()]

    assert paths == sorted(content(dist / "prod").keys() - {"SHA256SUMS"})


def test_provenance_holds_inputs_tools_and_counts_and_nothing_that_changes_by_itself(dist: Path) -> None:
    publish(dist, [rendered(server="a", agents="b")], allow_removal=False)

    assert json.loads((dist / "prod/provenance.json").read_text()) == {
        "apiVersion": "paperclip-gitops/v1",
        "kind": "Provenance",
        "environment": "prod",
        "inputs": {"config": "sha256:1"},
        "tools": {"cdk8s": "2.70"},
        "objects": {"total": 2, "stacks": {"paperclip-system": 2}},
    }
    assert set(provenance.tools("1.35")) == {"cdk8s", "kubernetes-schemas", "paperclip-gitops"}


def test_job_templates_and_values_are_no_objects(dist: Path) -> None:
    files = {
        **rendered(server="a").files,
        "job-templates/claude-code.yaml": b"kind: Job\n",
        "paperclip-db/values.yaml": b"auth: {}\n",
    }
    publish(dist, [RenderedEnvironment("prod", files, {})], allow_removal=False)

    result = publish(dist, [rendered(server="a")], allow_removal=False)

    assert "prod/job-templates/claude-code.yaml" in result.removed
    assert "prod/paperclip-db/values.yaml" in result.removed
    assert not (dist / "prod/job-templates").exists()


def test_nothing_is_touched_when_nothing_changes(dist: Path) -> None:
    publish(dist, [rendered(server="a")], allow_removal=False)
    before = {path: path.stat() for path in (dist, *dist.rglob("*"))}

    result = publish(dist, [rendered(server="a")], allow_removal=False)

    assert not result.changed
    assert len(result.unchanged) == 3
    assert {path: path.stat() for path in (dist, *dist.rglob("*"))} == before
    assert list(dist.parent.iterdir()) == [dist]


def test_an_unchanged_file_stays_the_same_file(dist: Path) -> None:
    publish(dist, [rendered(server="a", agents="b"), rendered("lab", server="a")], allow_removal=False)
    kept = ("prod/paperclip-system/configmap-agents.yaml", "lab/SHA256SUMS")
    before = [(dist / path).stat().st_ino for path in kept]

    result = publish(dist, [rendered(server="changed", agents="b")], allow_removal=False)

    assert [(dist / path).stat().st_ino for path in kept] == before
    assert [(dist / path).stat().st_nlink for path in kept] == [1, 1]
    assert (
        result.written == ("prod/SHA256SUMS", "prod/paperclip-system/configmap-server.yaml", "prod/provenance.json")[:2]
    )


def test_copies_serve_where_hard_links_are_refused(dist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    publish(dist, [rendered(server="a", agents="b")], allow_removal=False)
    before = (dist / "prod/paperclip-system/configmap-agents.yaml").stat().st_mtime_ns
    monkeypatch.setattr(os, "link", refuse)

    publish(dist, [rendered(server="changed", agents="b")], allow_removal=False)

    assert (dist / "prod/paperclip-system/configmap-agents.yaml").stat().st_mtime_ns == before
    assert b"changed" in (dist / "prod/paperclip-system/configmap-server.yaml").read_bytes()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes_do_not_depend_on_the_umask(dist: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        publish(dist, [rendered(server="a")], allow_removal=False)
    finally:
        os.umask(old)

    modes = {stat.S_IMODE(path.stat().st_mode) for path in (dist, *dist.rglob("*")) if path.is_dir()}
    assert modes == {0o755}
    assert {stat.S_IMODE(path.stat().st_mode) for path in dist.rglob("*") if path.is_file()} == {0o644}


def test_files_of_others_are_kept_and_named(dist: Path) -> None:
    publish(dist, [rendered(server="a")], allow_removal=False)
    (dist / "prod/paperclip-system/configmap-hand.yaml").write_text("kind: ConfigMap\n")
    (dist / "README.md").write_text("ours\n")

    result = publish(dist, [rendered(server="b")], allow_removal=False)

    assert result.strays == ("prod/paperclip-system/configmap-hand.yaml",)
    assert (dist / "prod/paperclip-system/configmap-hand.yaml").read_text() == "kind: ConfigMap\n"
    assert (dist / "README.md").read_text() == "ours\n"


def test_a_file_of_others_is_never_overwritten(dist: Path) -> None:
    publish(dist, [rendered(server="a")], allow_removal=False)
    hand = dist / "prod/paperclip-system/configmap-new.yaml"
    hand.write_text("kind: ConfigMap # by hand\n")

    with pytest.raises(DistError, match=r"prod/paperclip-system/configmap-new\.yaml is in the way"):
        publish(dist, [rendered(server="a", new="x")], allow_removal=True)

    assert hand.read_text() == "kind: ConfigMap # by hand\n"


def test_a_file_of_others_with_the_very_content_becomes_ours(dist: Path) -> None:
    publish(dist, [rendered(server="a")], allow_removal=False)
    (dist / "prod/paperclip-system/configmap-new.yaml").write_bytes(
        rendered(new="x").files["paperclip-system/configmap-new.yaml"]
    )

    result = publish(dist, [rendered(server="a", new="x")], allow_removal=False)

    assert "prod/paperclip-system/configmap-new.yaml" in result.unchanged
    assert "configmap-new" in (dist / "prod/SHA256SUMS").read_text()


@pytest.mark.parametrize("blocker", ["prod", "prod/paperclip-system"])
def test_a_file_where_a_folder_must_go_is_named(dist: Path, blocker: str) -> None:
    (dist / blocker).parent.mkdir(parents=True)
    (dist / blocker).write_text("a file\n")

    with pytest.raises(DistError, match=f"^{blocker} is in the way"):
        publish(dist, [rendered(server="a")], allow_removal=True)

    assert (dist / blocker).read_text() == "a file\n"


def test_a_folder_where_a_file_must_go_is_named(dist: Path) -> None:
    (dist / "prod/paperclip-system/configmap-server.yaml").mkdir(parents=True)

    with pytest.raises(DistError, match=r"configmap-server\.yaml is in the way"):
        publish(dist, [rendered(server="a")], allow_removal=True)


def test_edits_by_hand_are_undone_and_reported(dist: Path) -> None:
    publish(dist, [rendered(server="a", gone="b")], allow_removal=False)
    (dist / "prod/paperclip-system/configmap-server.yaml").write_text("edited\n")
    (dist / "prod/paperclip-system/configmap-gone.yaml").write_text("edited\n")

    result = publish(dist, [rendered(server="a")], allow_removal=True)

    assert result.edited == (
        "prod/paperclip-system/configmap-gone.yaml",
        "prod/paperclip-system/configmap-server.yaml",
    )
    assert result.removed == ("prod/paperclip-system/configmap-gone.yaml",)
    assert (dist / "prod/paperclip-system/configmap-server.yaml").read_bytes() == rendered(server="a").files[
        "paperclip-system/configmap-server.yaml"
    ]


def test_a_merge_conflict_in_the_sums_is_settled_by_rendering(dist: Path) -> None:
    publish(dist, [rendered(server="a", theirs="b")], allow_removal=False)
    lines = (dist / "prod/SHA256SUMS").read_text().splitlines()
    conflict = ["<<<<<<< HEAD", lines[0], "=======", *lines[1:], ">>>>>>> other"]
    (dist / "prod/SHA256SUMS").write_text("\n".join(conflict) + "\n")

    result = publish(dist, [rendered(server="a")], allow_removal=True)

    assert result.removed == ("prod/paperclip-system/configmap-theirs.yaml",)
    assert result.strays == ()


def test_broken_sums_are_located(dist: Path) -> None:
    publish(dist, [rendered(server="a")], allow_removal=False)
    with (dist / "prod/SHA256SUMS").open("a") as sums:
        sums.write("nonsense\n")

    with pytest.raises(DistError, match="dist/prod/SHA256SUMS:3: not a line") as caught:
        publish(dist, [rendered(server="a")], allow_removal=False)

    assert "git checkout" in caught.value.remedy


class TestRemovalGuard:
    def test_an_object_that_goes_away_is_refused_by_name(self, dist: Path) -> None:
        publish(dist, [rendered(server="a", claim="b")], allow_removal=False)
        before = content(dist)

        with pytest.raises(
            RemovalRefused, match=r"1 object would go away.*\n  prod/paperclip-system/configmap-claim"
        ) as caught:
            publish(dist, [rendered(server="a")], allow_removal=False)

        assert "--allow-removal" in caught.value.remedy
        assert content(dist) == before

    def test_a_renamed_object_is_a_removal(self, dist: Path) -> None:
        publish(dist, [rendered(old="a")], allow_removal=False)

        with pytest.raises(RemovalRefused, match="configmap-old"):
            publish(dist, [rendered(new="a")], allow_removal=False)

    def test_a_long_list_is_cut(self, dist: Path) -> None:
        many = {f"o{number:02}": "a" for number in range(33)}
        publish(dist, [rendered(**many)], allow_removal=False)

        with pytest.raises(RemovalRefused, match="and 12 more") as caught:
            publish(dist, [rendered(o00="a")], allow_removal=False)

        assert caught.value.message.count("\n  prod/") == 20

    def test_an_environment_without_objects_is_refused_even_if_new(self, dist: Path) -> None:
        with pytest.raises(RemovalRefused, match="no object is left of prod"):
            publish(dist, [rendered()], allow_removal=False)
        assert not dist.exists()

    def test_a_whole_environment_goes_only_when_allowed_and_leaves_what_is_not_ours(self, dist: Path) -> None:
        publish(dist, [rendered(server="a"), rendered("lab", server="a")], allow_removal=False)
        (dist / "lab/notes.txt").write_text("mine\n")

        with pytest.raises(RemovalRefused, match="no object is left of lab"):
            publish(dist, [], remove_environments=["lab"], allow_removal=False)
        result = publish(dist, [], remove_environments=["lab"], allow_removal=True)

        assert result.strays == ("lab/notes.txt",)
        assert content(dist / "lab") == {"notes.txt": b"mine\n"}
        assert environments_in(dist) == ("prod",)

    def test_an_environment_that_synth_never_wrote_is_not_removed(self, dist: Path) -> None:
        (dist / "lab").mkdir(parents=True)
        (dist / "lab/notes.txt").write_text("mine\n")

        with pytest.raises(DistError, match="not written by synth"):
            publish(dist, [], remove_environments=["lab"], allow_removal=True)


def test_what_reads_back_otherwise_is_not_published(dist: Path) -> None:
    class Lossy(SystemCalls):
        def write_file(self, path: str, data: bytes) -> None:
            super().write_file(path, data[:-1] if path.endswith("configmap-server.yaml") else data)

    publish(dist, [rendered(server="a")], allow_removal=False)
    before = content(dist)

    with pytest.raises(DistError, match="reads back other bytes"):
        publish(dist, [rendered(server="b")], allow_removal=False, calls=Lossy())

    assert content(dist) == before
    assert list(dist.parent.iterdir()) == [dist]


def test_a_full_disk_leaves_dist_as_it_was(dist: Path) -> None:
    class Full(SystemCalls):
        def write_file(self, path: str, data: bytes) -> None:
            raise OSError(28, "No space left on device", path)

    publish(dist, [rendered(server="a")], allow_removal=False)
    before = content(dist)

    with pytest.raises(DistError, match="No space left on device; dist was not changed"):
        publish(dist, [rendered(server="b")], allow_removal=False, calls=Full())

    assert content(dist) == before
    assert list(dist.parent.iterdir()) == [dist]


def test_what_somebody_writes_meanwhile_is_not_lost(dist: Path) -> None:
    class Meanwhile(SystemCalls):
        def flush(self, root: str, entries: list[str]) -> None:  # type: ignore[override]
            (dist / "prod/note.txt").write_text("just now\n")
            super().flush(root, entries)

    publish(dist, [rendered(server="a")], allow_removal=False)

    with pytest.raises(DistError, match=r"note\.txt was changed while synth was at work"):
        publish(dist, [rendered(server="b")], allow_removal=False, calls=Meanwhile())

    assert (dist / "prod/note.txt").read_text() == "just now\n"


def test_a_second_publish_names_the_first(dist: Path) -> None:
    class Impatient(SystemCalls):
        patience = 0.05

    class Nested(SystemCalls):
        def flush(self, root: str, entries: list[str]) -> None:  # type: ignore[override]
            with pytest.raises(DistBusy, match=rf"\(pid {os.getpid()}\)"):
                publish(dist, [rendered(server="c")], allow_removal=False, calls=Impatient())
            super().flush(root, entries)

    publish(dist, [rendered(server="a")], allow_removal=False, calls=Nested())

    assert b"value: a" in (dist / "prod/paperclip-system/configmap-server.yaml").read_bytes()
