"""What the adapter knows without asking is what Python says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paperclip_launcher import version
from paperclip_launcher.cli.main import main
from paperclip_launcher.fields import FIELDS
from paperclip_launcher.serve import described

ADAPTER = Path(__file__).parents[2] / "adapter"
# A key of the first would be run by the server itself, should the adapter be missing; the others it has a use for.
TAKEN = {"command", "args", "mode", "cwd"}


@pytest.mark.parametrize(("path", "text"), described.files(ADAPTER).items(), ids=described.FOLDERS)
def test_the_descriptions_are_fresh(path, text):
    assert path.read_text() == text, "run `paperclip-launcher adapter --write adapter`"


@pytest.mark.parametrize("name", described.FOLDERS)
def test_no_key_of_the_form_is_one_that_the_server_would_act_on(name):
    keys = {one["key"] for one in json.loads((ADAPTER / name / described.FILE).read_text())["configSchema"]["fields"]}
    assert not keys & TAKEN
    assert len(keys) > 20
    assert not {one.key for one in FIELDS if one.form} & TAKEN


@pytest.mark.parametrize("name", described.FOLDERS)
def test_the_package_says_what_the_host_looks_for(name):
    package = json.loads((ADAPTER / name / "package.json").read_text())
    assert package["version"] == version()
    assert package["paperclip"] == {"adapterUiParser": "1.0.0"}
    assert package["type"] == "module"
    assert set(package["exports"]) == {".", "./ui-parser", "./cli"}
    assert all((ADAPTER / name / file).is_file() for file in package["exports"].values())
    assert "dependencies" not in package


def test_the_description_does_not_depend_on_the_environment_of_who_writes_it(monkeypatch):
    before = described.described("claude_k8s")
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    assert described.described("claude_k8s") == before


def test_writing_writes_what_is_stale_and_nothing_else(tmp_path, capsys):
    for name in described.FOLDERS:
        (tmp_path / name).mkdir()
    assert main(["adapter", "--write", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("written: ") == len(described.FOLDERS)
    (tmp_path / "opencode" / described.FILE).write_text("{}")
    assert main(["adapter", "--write", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == [str(tmp_path / "opencode" / described.FILE)]
    assert main(["adapter", "--write", str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
