"""init: the file it writes, and what it never overwrites."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from charts_py.cli import init
from charts_py.cli.main import main
from charts_py.config.load import load_environment


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_it_writes_a_file_that_loads_and_ends_with_two_commands(empty, capsys):
    assert main(["init", "home", "--lb-ip", "192.168.1.200"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "environments/home.yaml: written",
        "next:",
        "  paperclip-gitops images lock ghcr.io/paperclipai/paperclip:sha-d554c47",
        "  paperclip-gitops synth --environment home",
    ]
    config = load_environment(Path("environments/home.yaml")).config
    assert (config.name, config.server.load_balancer.ip) == ("home", "192.168.1.200")
    assert [path.name for path in Path("environments").iterdir()] == ["home.yaml"]


def test_what_it_wrote_is_rendered_by_the_command_it_names(project, capsys):
    assert main(["init", "home", "--storage-class", "longhorn", "--secret-store", "vault"]) == 0
    capsys.readouterr()
    assert main(["synth", "--environment", "home"]) == 0
    assert Path("dist/home/paperclip-system/deployment-paperclip.yaml").is_file()


def test_a_file_that_is_there_stays(empty, capsys):
    assert main(["init", "home"]) == 0
    before = Path("environments/home.yaml").read_bytes()
    capsys.readouterr()
    assert main(["init", "home", "--host", "other.example.com"]) == 2
    assert capsys.readouterr().err == (
        "error: environments/home.yaml: the file exists\n  mend: choose another NAME, or overwrite it with --force\n"
    )
    assert Path("environments/home.yaml").read_bytes() == before
    assert main(["init", "home", "--host", "other.example.com", "--force"]) == 0
    assert b"other.example.com" in Path("environments/home.yaml").read_bytes()


def test_a_file_that_appears_while_it_asks_stays_too(empty):
    path = Path("environments/home.yaml")
    path.parent.mkdir()
    path.write_text("mine")
    with pytest.raises(init.UsageError, match="the file exists"):
        init._write(path, b"new", overwrite=False)
    assert path.read_text() == "mine"
    assert [path.name for path in Path("environments").iterdir()] == ["home.yaml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Home"], "NAME: 'Home' holds \"H\" at 1"),
        (["../home"], "NAME: '../home' holds"),
        (["home", "--lb-ip", "192.168.1"], "--lb-ip: '192.168.1' does not appear to be an IPv4 or IPv6 address"),
        (["home", "--host", "a b"], "--host: 'https://a b' is no http(s) URL"),
        (["home", "--secret-store", "A"], "--secret-store: 'A' holds"),
        (["home", "--rwx-class", "A"], "--storage-class or --rwx-class: 'A' holds"),
        (["home", "--image", "paperclip"], "--image: 'paperclip' names neither a tag nor a digest"),
    ],
)
def test_an_answer_that_cannot_be_names_its_flag_and_writes_nothing(arguments, said, empty, capsys):
    assert main(["init", *arguments]) == 2
    assert f"error: {said}" in capsys.readouterr().err
    assert list(empty.rglob("*.yaml")) == []


def test_questions_are_asked_on_a_terminal_for_what_no_flag_says(empty, monkeypatch):
    asked = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal("192.168.1.200\n\nlonghorn\n\n"))
    monkeypatch.setattr(sys, "stderr", asked)
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["init", "home", "--host", "paperclip.example.com"]) == 0
    questions = [line for line in asked.getvalue().splitlines() if line.endswith("Enter to leave it out)")]
    assert len(questions) == 4
    assert questions[0].startswith("address of the load balancer?")
    config = load_environment(Path("environments/home.yaml")).config
    assert config.server.load_balancer.ip == "192.168.1.200"
    assert config.server.storage.storage_class is None
    assert config.agents.workspace.storage_class == "longhorn"
    assert config.secret_store is None
    assert config.server.public_url == "https://paperclip.example.com"


def test_a_terminal_that_is_closed_while_it_asks_leaves_the_defaults(empty, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main(["init", "home"]) == 0
    assert load_environment(Path("environments/home.yaml")).config.server.public_url == "http://localhost:3100"


def test_a_script_is_asked_nothing(empty, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert main(["init", "home", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["file"] == "environments/home.yaml"
    assert len(document["next"]) == 2


def test_the_file_has_the_mode_that_files_have_here(empty):
    before = os.umask(0o027)
    try:
        assert main(["init", "home"]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("environments/home.yaml").stat().st_mode) == 0o640


def test_a_folder_that_cannot_be_made_is_said(empty, capsys):
    Path("environments").write_text("a file")
    assert main(["init", "home"]) == 1
    assert "environments/home.yaml: cannot be written" in capsys.readouterr().err
