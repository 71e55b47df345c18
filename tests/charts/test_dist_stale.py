from __future__ import annotations

from pathlib import Path

import pytest

from charts_py.dist import swap
from charts_py.dist.layout import RenderedEnvironment
from charts_py.dist.publish import publish
from charts_py.dist.stale import StaleReport, stale


def rendered(name: str = "prod", **objects: str) -> RenderedEnvironment:
    files = {f"paperclip-system/configmap-{key}.yaml": f"value: {value}\n".encode() for key, value in objects.items()}
    return RenderedEnvironment(name, files, {})


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    publish(tmp_path / "dist", [rendered(server="a", agents="b")], allow_removal=False)
    return tmp_path / "dist"


def test_what_synth_would_write_again_is_clean(dist: Path) -> None:
    assert stale(dist, [rendered(server="a", agents="b")]) == StaleReport()
    assert stale(dist, [rendered(server="a", agents="b")]).clean


def test_a_missing_dist_misses_every_file(tmp_path: Path) -> None:
    report = stale(tmp_path / "dist", [rendered(server="a")])

    assert report.missing == (
        "prod/SHA256SUMS",
        "prod/paperclip-system/configmap-server.yaml",
        "prod/provenance.json",
    )
    assert not report.clean
    assert not (tmp_path / "dist").exists()


def test_a_changed_file_is_shown_as_a_diff(dist: Path) -> None:
    report = stale(dist, [rendered(server="new", agents="b")])

    (difference,) = report.different
    assert difference.path == "prod/paperclip-system/configmap-server.yaml"
    assert difference.text.splitlines() == [
        "--- dist/prod/paperclip-system/configmap-server.yaml",
        "+++ synth/prod/paperclip-system/configmap-server.yaml",
        "@@ -1 +1 @@",
        "-value: a",
        "+value: new",
    ]
    assert report.sums_wrong == ("prod/SHA256SUMS",)


def test_a_difference_in_line_ends_alone_is_said(dist: Path) -> None:
    (dist / "prod/paperclip-system/configmap-server.yaml").write_bytes(b"value: a\r\n")

    report = stale(dist, [rendered(server="a", agents="b")])

    assert "only line ends" in report.different[0].text
    assert report.sums_wrong == ("prod/paperclip-system/configmap-server.yaml",)


def test_what_is_no_longer_rendered_is_unexpected(dist: Path) -> None:
    assert stale(dist, [rendered(server="a")]).unexpected == ("prod/paperclip-system/configmap-agents.yaml",)


def test_a_file_of_others_is_a_stray_only_where_argo_cd_syncs(dist: Path) -> None:
    (dist / "prod/paperclip-system/notes.yaml").write_text("kind: ConfigMap\n")
    (dist / "prod/extra").mkdir()
    (dist / "prod/extra/configmap-hand.yaml").write_text("kind: ConfigMap\n")
    (dist / "prod/README.md").write_text("notes\n")

    report = stale(dist, [rendered(server="a", agents="b")])

    assert report.strays == ("prod/extra/configmap-hand.yaml", "prod/paperclip-system/notes.yaml")


def test_a_forgotten_environment_is_unexpected_only_if_all_are_given(dist: Path) -> None:
    publish(dist, [rendered("lab", server="a")], allow_removal=False)

    assert stale(dist, [rendered(server="a", agents="b")]).clean
    assert stale(dist, [rendered(server="a", agents="b")], complete=True).unexpected == (
        "lab/SHA256SUMS",
        "lab/paperclip-system/configmap-server.yaml",
        "lab/provenance.json",
    )


def test_nothing_is_written(dist: Path) -> None:
    (dist / "prod/SHA256SUMS").unlink()
    before = {path: path.stat() for path in (dist.parent, dist, *dist.rglob("*"))}

    assert stale(dist, [rendered(server="other")]).missing == ("prod/SHA256SUMS",)

    assert {path: path.stat() for path in (dist.parent, dist, *dist.rglob("*"))} == before


def test_a_half_made_swap_is_mended_before_reading(dist: Path) -> None:
    dist.rename(dist.parent / ".dist-old-99999-0123abcd")
    (dist.parent / ".dist-stage-99999-0123abcd").mkdir()

    assert stale(dist, [rendered(server="a", agents="b")]).clean
    assert list(dist.parent.iterdir()) == [dist]


def test_recovery_without_anything_to_mend_is_quiet(tmp_path: Path) -> None:
    swap.recover(tmp_path / "no/such/dist")
    swap.recover(tmp_path / "dist")

    assert list(tmp_path.iterdir()) == []


def test_a_half_made_swap_behind_a_link_is_mended_too(dist: Path) -> None:
    dist.rename(dist.parent / ".real-old-99999-0123abcd")
    dist.symlink_to("real")

    assert stale(dist, [rendered(server="a", agents="b")]).clean
    assert sorted(path.name for path in dist.parent.iterdir()) == ["dist", "real"]
