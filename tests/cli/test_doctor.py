"""doctor: what is there, what is missing, and what that means for the exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from charts_py.cli import doctor
from charts_py.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def things(capsys, *arguments):
    code = main(["doctor", "--format", "json", *arguments])
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] == (code == 0)
    assert code in (0, 4)
    return {one["name"]: one for one in document["things"]}


def test_here_everything_that_is_needed_is_there(project, capsys):
    assert main(["doctor"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "all that synth needs is there\n"
    lines = printed.out.splitlines()
    assert re.fullmatch(r"ok +Python +3\.\d+\.\d+", lines[0])
    assert re.fullmatch(r"ok +Node +v2\d\.\S+ \(from the wheel\)", lines[1])


def test_every_line_that_is_not_ok_says_what_mends_it(empty, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setenv("JSII_NODE", str(empty / "node"))
    monkeypatch.setenv("HOME", str(empty / "none"))
    found = things(capsys)
    bad = {name for name, one in found.items() if one["state"] != "ok"}
    assert bad == {"Node", "kubeconform", "kubectl", "git", "HOME"}
    assert [name for name in bad if not found[name]["remedy"]] == []


def test_what_is_optional_never_fails(empty, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(empty))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^missing \(optional\) +kubectl +install kubectl", out, re.MULTILINE)
    assert re.search(r"^missing \(optional\) +kubeconform +run `make tools`", out, re.MULTILINE)


def test_a_node_that_does_not_run_ends_with_4(empty, capsys, monkeypatch):
    monkeypatch.setenv("JSII_NODE", "/bin/false")
    assert main(["doctor"]) == 4
    printed = capsys.readouterr()
    assert "missing" in printed.out
    assert "/bin/false does not run - unset JSII_NODE" in printed.out
    assert printed.err == "1 of what synth needs: mend it first\n"


def test_a_node_that_is_old_ends_with_4(empty, capsys, monkeypatch):
    node = empty / "node"
    node.write_text("#!/bin/sh\necho v16.20.2\n")
    node.chmod(0o755)
    monkeypatch.setenv("JSII_NODE", str(node))
    assert things(capsys)["Node"]["state"] == "old"


@pytest.mark.parametrize(("found", "state"), [("2.13.3", "ok"), ("2.13.2", "old"), ("4.4.1", "old"), (None, "missing")])
def test_typeguard_must_be_the_one_that_jsii_pins(found, state, monkeypatch):
    def version(_):
        if found is None:
            raise PackageNotFoundError
        return found

    monkeypatch.setattr("importlib.metadata.version", version)
    thing = doctor._library("typeguard", doctor._WITH_CDK8S["typeguard"])
    assert (thing.state, thing.needed) == (state, True)
    assert bool(thing.remedy) == (state != "ok")


def test_the_versions_are_those_of_the_project():
    declared = {}
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]:
        name, oldest, newest = re.fullmatch(r"([\w.-]+)>=([\d.]+),<([\d.]+)", line).groups()
        declared[name] = (oldest, newest)
    assert declared == doctor.LIBRARIES


def test_kubeconform_is_found_in_the_tools_of_the_folder(empty, capsys):
    binary = empty / ".tools" / "bin" / "kubeconform"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\necho v0.6.1\n")
    binary.chmod(0o755)
    found = things(capsys)["kubeconform"]
    assert found["state"] == "old"
    assert found["found"] == f"v0.6.1 ({binary})"
    assert found["needed"] is False


def test_schemas_are_counted_for_the_custom_kinds_of_dist(project, capsys):
    found = things(capsys)["CRD schemas"]
    assert found["state"] == "missing"
    assert re.fullmatch(r"0 of 7 kinds in dist", found["found"])
    assert "ExternalSecret" in found["remedy"]
    folder = project / "schemas" / "external-secrets.io"
    folder.mkdir(parents=True)
    (folder / "externalsecret_v1.json").write_text('{"properties": {"spec": {"type": "object", "required": ["data"]}}}')
    assert things(capsys, "--crd-schemas", "schemas")["CRD schemas"]["found"] == "1 of 7 kinds in dist"


def test_without_a_dist_no_schema_is_missed(empty, capsys):
    assert things(capsys)["CRD schemas"]["state"] == "ok"


def test_a_home_that_is_no_folder_is_said_and_does_not_fail(empty, capsys, monkeypatch):
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.delenv("XDG_CACHE_HOME")
    found = things(capsys)
    assert found["HOME"]["state"] == "missing"
    assert found["cache"]["found"] == "/dev/null/.cache/paperclip-gitops cannot be written"


def test_what_a_killed_synth_left_is_named(empty, capsys):
    (empty / "dist").mkdir()
    (empty / ".dist-stage-4711-0a1b2c3d").mkdir()
    (empty / ".dist-stage-of-somebody-else").mkdir()
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"old \(optional\) +leftover +\.dist-stage-4711-0a1b2c3d - left by a synth", out)
    assert "somebody" not in out


def test_it_needs_neither_node_nor_the_libraries_it_looks_for():
    """It must be able to say that cdk8s is missing."""
    script = (
        "import sys\n"
        "for name in ('jsii', 'cdk8s', 'constructs'): sys.modules[name] = None\n"
        "from charts_py.cli.main import main\n"
        "sys.exit(main(['doctor', '--dist', '/nonexistent']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
