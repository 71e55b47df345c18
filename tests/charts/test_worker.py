"""The second process of a synth: what it finds reaches the first one whole, and so does its end."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from charts_py import worker
from charts_py.cli.main import main
from charts_py.config.load import InvalidConfig, Problem
from charts_py.errors import GitopsError, ToolMissing
from charts_py.kernel.tree import through_cdk8s
from charts_py.pipeline import Request
from charts_py.rendering import RenderedObject, Rendering
from charts_py.sources import ConfigFile


def manifest(name, **more):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


@pytest.mark.parametrize(
    "error",
    [
        ToolMissing("node is missing", "run `make setup`"),
        InvalidConfig([Problem("a.yaml", 3, 5, "server.image", "is required", "add `image:` here")]),
    ],
)
def test_an_error_crosses_over_with_its_words_and_its_exit_code(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (copy.message, copy.remedy, copy.exit_code, str(copy)) == (
        error.message,
        error.remedy,
        error.exit_code,
        str(error),
    )


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("said", "code"),
    [("exit 3", 3), ("cat >/dev/null; exit 4", 4), ("cat >/dev/null; printf '\\200\\005\\225'; exit 5", 5)],
    ids=["at once", "without an answer", "in the middle of an answer"],
)
def test_a_worker_that_dies_is_told_and_not_waited_for(monkeypatch, tmp_path, said, code):
    monkeypatch.setattr(worker.sys, "executable", script(tmp_path / "worker", said))
    order = ConfigFile(Path("a.yaml"), "Environment", "x" * (4 << 20), "")  # more than any pipe takes
    with (
        pytest.raises(GitopsError, match=f"the process that checks ended with {code}"),
        worker.Worker(Request(), (order,), complete=True) as second,
    ):
        second.next()


def test_a_dead_worker_is_never_a_success(project, monkeypatch, capsys):
    monkeypatch.setattr(worker.sys, "executable", script(project / "worker", "exit 3"))
    assert main(["synth"]) == 1
    assert "the process that checks ended with 3" in capsys.readouterr().err
    assert not (project / "dist").exists()


def test_modules_in_the_users_folder_are_not_ours(project):
    for name in ("yaml.py", "pydantic.py", "pickle.py"):
        (project / name).write_text("raise SystemExit(name)\n")
    assert main(["synth", "--environment", "minimal"]) == 0


def test_the_first_process_never_imports_pydantic(project):
    code = (
        "import sys; from charts_py.cli.main import main; code = main(['synth']);"
        "print(code, [name for name in ('pydantic', 'jinja2', 'yaml', 'jsonschema_rs') if name in sys.modules])"
    )
    environment = {"PYTHONPATH": str(Path(worker.__file__).parents[1]), "XDG_CACHE_HOME": str(project / "cache")}
    answer = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "0 []"


def test_what_cdk8s_would_change_is_refused():
    sound = RenderedObject("stack", "stack/part/configmap-a", manifest("a", data={}))
    assert through_cdk8s(Rendering("here", (sound,), (), {})).objects == (sound,)
    odd = RenderedObject("stack", "stack/part/configmap-b", manifest("b", data=None))
    with pytest.raises(GitopsError, match="stack/part/configmap-b: cdk8s changed this object"):
        through_cdk8s(Rendering("here", (odd,), (), {}))
