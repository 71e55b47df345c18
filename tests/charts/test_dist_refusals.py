from __future__ import annotations

import os
from pathlib import Path

import pytest

from charts_py.dist.errors import DistError
from charts_py.dist.layout import RenderedEnvironment
from charts_py.dist.publish import publish


def rendered(name: str = "prod", **objects: str) -> RenderedEnvironment:
    """`server="a"` is paperclip-system/configmap-server.yaml with that value in it."""
    files = {
        f"paperclip-system/configmap-{key}.yaml": (
            f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {key}\ndata:\n  value: {value}\n".encode()
        )
        for key, value in objects.items()
    }
    return RenderedEnvironment(name, files, {"config": "sha256:1"}, {"cdk8s": "2.70"})


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    return tmp_path / "dist"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../escape.yaml",
        "a/../../b.yaml",
        "a//b.yaml",
        "./a.yaml",
        "a\\b.yaml",
        "a\nb.yaml",
        "",
        "a/",
        "SHA256SUMS",
        "provenance.json",
        "x" * 256,
        "a/\u202eb.yaml",
    ],
)
def test_paths_that_must_not_be_written_are_refused(dist: Path, path: str) -> None:
    files = {**rendered(server="a").files, path: b"x"}

    with pytest.raises(DistError, match="refused to write"):
        publish(dist, [RenderedEnvironment("prod", files, {})], allow_removal=True)

    assert not dist.exists()


def test_paths_that_are_one_file_on_macos_are_refused(dist: Path) -> None:
    with pytest.raises(DistError, match="only in case"):
        publish(dist, [rendered(server="a", SERVER="b")], allow_removal=True)


def test_a_path_that_is_file_and_folder_is_refused(dist: Path) -> None:
    with pytest.raises(DistError, match="needs a folder of that name"):
        publish(dist, [RenderedEnvironment("prod", {"a/b": b"", "a/b/c-d.yaml": b""}, {})], allow_removal=True)


@pytest.mark.parametrize("name", ["..", "", "a/b", ".git", "a\0b"])
def test_names_of_environments_that_are_no_folder_are_refused(dist: Path, name: str) -> None:
    with pytest.raises(DistError, match="cannot be a folder"):
        publish(dist, [rendered(name, server="a")], allow_removal=True)


def test_an_environment_given_twice_is_refused(dist: Path) -> None:
    with pytest.raises(DistError, match="prod is given twice"):
        publish(dist, [rendered(server="a"), rendered(server="b")], allow_removal=True)


@pytest.mark.parametrize("where", ["prod/paperclip-system/configmap-server.yaml", "other", "prod/paperclip-system/x"])
def test_symbolic_links_in_dist_are_refused(dist: Path, tmp_path: Path, where: str) -> None:
    publish(dist, [rendered(server="a")], allow_removal=False)
    target = tmp_path / "outside"
    target.write_text("outside\n")
    (dist / where).unlink(missing_ok=True)
    (dist / where).symlink_to(target)

    with pytest.raises(DistError, match="symbolic link"):
        publish(dist, [rendered(server="b")], allow_removal=True)

    assert target.read_text() == "outside\n"


def test_a_pipe_in_dist_is_refused(dist: Path) -> None:
    dist.mkdir()
    os.mkfifo(dist / "pipe")

    with pytest.raises(DistError, match="neither a file nor a folder"):
        publish(dist, [rendered(server="a")], allow_removal=True)


def test_the_root_of_a_checkout_is_refused(dist: Path) -> None:
    (dist / ".git").mkdir(parents=True)

    with pytest.raises(DistError, match="root of a git checkout"):
        publish(dist, [rendered(server="a")], allow_removal=True)


def test_a_link_to_a_folder_stays_a_link_and_its_target_is_swapped(dist: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    dist.symlink_to("real")

    publish(dist, [rendered(server="a")], allow_removal=False)
    publish(dist, [rendered(server="b")], allow_removal=False)

    assert dist.is_symlink()
    assert b"value: b" in (tmp_path / "real/prod/paperclip-system/configmap-server.yaml").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dist", "real"]


def test_a_dangling_link_is_refused(dist: Path) -> None:
    dist.symlink_to("nowhere")

    with pytest.raises(DistError, match="no folder"):
        publish(dist, [rendered(server="a")], allow_removal=False)


def test_a_file_in_the_place_of_dist_is_refused(dist: Path) -> None:
    dist.write_text("x")

    with pytest.raises(DistError, match="is a file"):
        publish(dist, [rendered(server="a")], allow_removal=False)


def test_a_mount_point_is_refused_before_anything_is_written(dist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dist.mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == dist)

    with pytest.raises(DistError, match="mount point"):
        publish(dist, [rendered(server="a")], allow_removal=False)

    assert list(dist.iterdir()) == []
