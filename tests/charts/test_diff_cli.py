from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from charts_py.cli import diff
from charts_py.cli.output import Output
from charts_py.diff.errors import DiffError
from charts_py.dist.layout import RenderedEnvironment
from charts_py.dist.publish import publish
from kubekit import yamlwrite

pytestmark = pytest.mark.usefixtures("_plain_git")


@pytest.fixture
def _plain_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def rendered(value: str, name: str = "prod") -> RenderedEnvironment:
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": value}}
    return RenderedEnvironment(name, {"s/configmap-a.yaml": yamlwrite.dump(tree).encode()}, {})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A commit with the value "old" in prod and lab, rendered below a folder with a space in its name."""
    root = tmp_path / "my repo"
    root.mkdir()
    git(root, "init", "-q")
    publish(root / "sub/dist", [rendered("old"), rendered("old", "lab")], allow_removal=False)
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    return root


def run(*words: str, form: Literal["text", "json"] = "text") -> tuple[int, str, str]:
    parser = argparse.ArgumentParser()
    diff.register(parser.add_subparsers())
    stdout, stderr = io.StringIO(), io.StringIO()
    arguments = parser.parse_args(["diff", *words, "--format", form])
    code = int(arguments.run(arguments, Output(form, stdout=stdout, stderr=stderr)))
    return code, stdout.getvalue(), stderr.getvalue()


def test_the_working_state_as_committed_is_the_same(repository: Path) -> None:
    assert run("--dist", str(repository / "sub/dist")) == (0, "0 changed, 0 added, 0 removed\n", "")


def test_a_change_since_the_commit_ends_with_1(repository: Path) -> None:
    publish(repository / "sub/dist", [rendered("new")], allow_removal=False)

    code, text, _ = run("--dist", str(repository / "sub/dist"))

    assert code == 1
    assert '/data/x: "old" → "new"' in text
    assert run("--dist", str(repository / "sub/dist"), "--exit-zero")[0] == 0


def test_one_environment_can_be_picked(repository: Path) -> None:
    publish(repository / "sub/dist", [rendered("new")], allow_removal=False)

    assert run("--dist", str(repository / "sub/dist"), "--environment", "lab")[0] == 0
    assert run("--dist", str(repository / "sub/dist"), "--environment", "prod")[0] == 1
    with pytest.raises(DiffError, match="neither side has it"):
        run("--dist", str(repository / "sub/dist"), "--environment", "prd")


def test_any_ref_will_do(repository: Path) -> None:
    publish(repository / "sub/dist", [rendered("new")], allow_removal=False)
    git(repository, "commit", "-qam", "two")

    assert run("--dist", str(repository / "sub/dist"))[0] == 0
    assert run("--dist", str(repository / "sub/dist"), "--against", "git:HEAD~1")[0] == 1


def test_a_folder_will_do(repository: Path, tmp_path: Path) -> None:
    publish(tmp_path / "other", [rendered("old")], allow_removal=False)

    code, text, _ = run("--dist", str(repository / "sub/dist"), "--against", str(tmp_path / "other"))

    assert code == 1
    assert text.splitlines()[0] == "lab"
    assert "0 changed, 1 added, 0 removed" in text


def test_json_holds_the_same(repository: Path) -> None:
    publish(repository / "sub/dist", [rendered("new")], allow_removal=False)

    _, text, _ = run("--dist", str(repository / "sub/dist"), form="json")

    document = json.loads(text)
    assert document["kind"] == "Diff"
    assert document["changes"][0]["fields"] == [
        {"pointer": "/data/x", "names": [], "change": "changed", "old": "old", "new": "new", "risk": ""}
    ]


@pytest.mark.parametrize("ref", ["nonsense", "", "--help", "-x", "HEAD:sub", "HEAD~9"])
def test_a_bad_ref_is_wrong_use_and_says_which(repository: Path, ref: str) -> None:
    with pytest.raises(DiffError) as caught:
        run("--dist", str(repository / "sub/dist"), f"--against=git:{ref}")

    assert f"git:{ref}" in caught.value.message
    assert caught.value.exit_code == 2
    assert caught.value.remedy


def test_a_repository_without_commits_is_said(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    publish(tmp_path / "dist", [rendered("a")], allow_removal=False)

    with pytest.raises(DiffError, match="no commit"):
        run("--dist", str(tmp_path / "dist"))


def test_no_repository_is_said(tmp_path: Path) -> None:
    publish(tmp_path / "dist", [rendered("a")], allow_removal=False)

    with pytest.raises(DiffError, match="in no git repository"):
        run("--dist", str(tmp_path / "dist"))


def test_a_commit_without_dist_makes_all_new(repository: Path) -> None:
    publish(repository / "fresh", [rendered("a")], allow_removal=False)

    code, text, note = run("--dist", str(repository / "fresh"))

    assert code == 1
    assert text.endswith("0 changed, 1 added, 0 removed\n")
    assert "all is new" in note


def test_no_dist_is_said(repository: Path) -> None:
    with pytest.raises(DiffError, match="there is no folder"):
        run("--dist", str(repository / "nowhere"))


def test_no_folder_to_compare_with_is_said(repository: Path) -> None:
    with pytest.raises(DiffError, match="no such folder"):
        run("--dist", str(repository / "sub/dist"), "--against", str(repository / "nowhere"))


def test_a_missing_git_is_said(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(DiffError, match="git is not installed"):
        run("--dist", str(repository / "sub/dist"))


def test_neither_index_nor_working_tree_is_touched(repository: Path) -> None:
    publish(repository / "sub/dist", [rendered("new")], allow_removal=False)
    before = {path: path.stat().st_mtime_ns for path in repository.rglob("*")}

    run("--dist", str(repository / "sub/dist"))

    assert {path: path.stat().st_mtime_ns for path in repository.rglob("*")} == before


def test_names_that_git_would_quote_are_read(repository: Path) -> None:
    folder = repository / "sub/dist/prod/s"
    (folder / 'configmap-"é\t.yaml').write_text("kind: X\nmetadata: {name: a}\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "odd")

    assert run("--dist", str(repository / "sub/dist"))[0] == 0
