"""What every verb promises: help that shows, exit codes that mean something, a clean stdout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from charts_py.cli.main import VERBS, main

ROOT = Path(__file__).resolve().parents[2]
# Each verb in a way that ends with 0 in a project as shipped.
FINE = {
    "synth": ["synth", "--stdout", "--environment", "minimal"],
    "check": ["check", "dist/minimal", "--kubeconform", "off"],
    "explain": ["explain", "image-digest"],
    "init": ["init", "home"],
    "schema": ["schema"],
    "doctor": ["doctor"],
}
# Verbs whose flags stand behind an action.
ACTIONS = {"schemas": ["pull"]}


def program(arguments):
    # Buffered, as in every shell: only then a broken pipe is met late, when Python ends.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {
        "args": [sys.executable, "-m", "charts_py.cli.main", *arguments],
        "env": {**environment, "PYTHONPATH": str(ROOT)},
    }


def help_of(capsys, *verb):
    with pytest.raises(SystemExit) as ended:
        main([*verb, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_its_help_is_short_and_shows_examples(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = help_of(capsys, verb)
    assert len(text.splitlines()) <= 40
    assert len(re.findall(rf"^  (?:\S.* \| )?paperclip-gitops {verb}\b", text, re.MULTILINE)) >= 2
    answering = help_of(capsys, verb, *ACTIONS[verb]) if verb in ACTIONS else text
    assert "--format" in answering


def test_the_help_of_the_program_names_every_verb_and_the_exit_codes(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for verb in VERBS:
        assert re.search(rf"^ +{verb} +\S", text, re.MULTILINE), verb
    assert "0 fine, 1 findings or differences, 2 wrong use, 3 config invalid, 4 tool missing" in text


@pytest.mark.parametrize("verb", VERBS)
def test_a_flag_that_there_is_not_ends_with_2(verb, empty, capsys):
    assert main([verb, "--no-such-flag"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-verb"],
        ["check"],
        ["check", "no/such/folder"],
        ["check", "dist", "--kubernetes-version", "1.2"],
        ["check", "--fail-on", "nothing"],
        ["explain"],
        ["explain", "no-such-policy"],
        ["init", "Not-A-Name"],
        ["schema", "--kind", "Cluster"],
    ],
    ids=" ".join,
)
def test_wrong_use_ends_with_2_and_says_how_it_is_used(arguments, empty, capsys):
    (empty / "dist").mkdir()
    if "--kubernetes-version" in arguments:
        (empty / "dist" / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.match(r"error: .+\n  mend: .+\n", printed.err)


@pytest.mark.parametrize("verb", ["explain", "check", "synth"])
def test_a_broken_config_ends_with_3(verb, project, capsys):
    (project / "environments" / "minimal.yaml").write_text("kind: Environment\nname: minimal\n")
    arguments = {"explain": ["explain", "Deployment/paperclip"], "check": ["check"], "synth": ["synth"]}[verb]
    assert main(arguments) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "environments/minimal.yaml:1:1: server: is required" in printed.err


@pytest.mark.parametrize("verb", FINE)
def test_json_is_all_there_is_on_stdout(verb, project, capsys):
    assert main([*FINE[verb], "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.get("kind") or document.get("$schema")


def test_findings_are_json_on_stdout_and_text_on_stderr(empty, capsys):
    Path("a.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: Bad_Name}\n")
    assert main(["check", "a.yaml", "--kubeconform", "off", "--format", "json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["summary"]["error"] >= 1
    assert "name-dns-label" in printed.err


def test_an_error_is_json_too(project, capsys):
    assert main(["explain", "Deployment/none", "--format", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "Error"
    assert "there is no object 'Deployment/none'" in document["message"]


@pytest.mark.parametrize("verb", FINE)
def test_without_a_terminal_nothing_is_coloured(verb, project, capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    main(FINE[verb])
    printed = capsys.readouterr()
    assert "\033" not in printed.out + printed.err


def test_no_color_wins_over_force_color(project, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(["doctor"])
    assert "\033[32m" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    main(["doctor"])
    printed = capsys.readouterr()
    assert "\033" not in printed.out + printed.err


@pytest.mark.parametrize(
    "arguments", [["schema"], ["explain", "image-digest"], ["explain", "image-digest", "--format", "json"]]
)
def test_a_reader_that_has_gone_leaves_no_trace(arguments):
    """`paperclip-gitops schema | true`: the pipe is closed before anything is written."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        **program(arguments), stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=30
    )
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_verb_that_does_not_render_starts_no_node():
    script = (
        "import contextlib, io, sys\n"
        "from charts_py.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    main(['schema']); main(['explain', 'image-digest'])\n"
        "print('jsii' in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
