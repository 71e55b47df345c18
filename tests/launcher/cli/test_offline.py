"""The verbs that need no cluster, and how the command line answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kubekit import podspec, yamlread
from paperclip_launcher.cli.main import VERBS, parser
from paperclip_launcher.codes import CODES

ROOT = Path(__file__).parents[3]


def test_render_shows_the_job_and_no_secret(launcher, request_file):
    config = {"env": {"API": "canary-value-1"}}
    file = request_file(config=config, authToken="canary-token-2")
    code, out, _ = launcher("render", file)
    assert code == 0
    assert "canary" not in out
    job, *secrets = [one.value for one in yamlread.read_all(out.encode(), "out")]
    assert job["kind"] == "Job"
    assert [one["kind"] for one in secrets] == ["Secret", "Secret"]
    assert secrets[1]["stringData"] == {"API": "*** 14 bytes", "PAPERCLIP_API_KEY": "*** 14 bytes"}
    assert "canary" not in launcher("render", file, "--format", "json")[1]
    assert len(list(yamlread.read_all(launcher("render", file, "--job-only")[1].encode(), "out"))) == 1


def test_render_shows_the_skills_as_the_run_would_get_them(launcher, request_file, tmp_path):
    skill = tmp_path / "skills" / "one"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("how to")
    config = {
        "paperclipRuntimeSkills": [{"key": "a/one", "runtimeName": "one", "source": str(skill)}],
        "paperclipSkillSync": {"desiredSkills": ["a/one"]},
    }
    words = ("render", request_file(config=config), "--skills", tmp_path / "skills", "--format", "json")
    job, *secrets = json.loads(launcher(*words)[1])["items"]
    (bundle,) = podspec.bundle_secrets(job)
    (shown,) = [one for one in secrets if one["metadata"]["name"] == bundle["name"]]
    assert shown["stringData"] == {"f0000": "*** 6 bytes"}
    assert [item["path"].partition("/")[2] for item in bundle["items"]] == [".claude/skills/one/SKILL.md"]

    (tmp_path / "claim").mkdir()
    job, *secrets = json.loads(launcher(*words, "--workspace", tmp_path / "claim")[1])["items"]
    assert podspec.bundle_secrets(job) == ()
    mounts = job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert [one["subPath"].split("/")[0] for one in mounts if "bundle" in one["mountPath"]] == ["bundles"]
    assert not list((tmp_path / "claim").iterdir())


def test_render_takes_what_people_say(launcher):
    words = ("--agent", "me", "--run-id", "x", "--prompt", "hello {{agent.id}}", "--set", "model=opus", "--env", "A=b")
    items = json.loads(launcher("render", *words, "--format", "json")[1])["items"]
    annotations = items[0]["metadata"]["annotations"]
    assert annotations["paperclip.io/agent-id"] == "me"
    arguments = items[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[-2:] == ["--model", "opus"] or "opus" in arguments
    assert items[1]["stringData"] == {"part-0000": "*** 18 bytes"}  # the text itself, its braces included
    assert items[2]["stringData"] == {"A": "*** 1 bytes"}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["lst"], 2, "did you mean list?"),
        (["run", "--promt", "x"], 2, "did you mean --prompt?"),
        ([], 2, "see `paperclip-launcher --help`"),
        (["run"], 2, "nothing says what to run"),
        (["run", "absent.json"], 2, "absent.json: No such file or directory"),
        (["run", "--prompt", "x", "--set", "a"], 2, "--set a: is not KEY=VALUE"),
        (["run", "--prompt", "x", "--env", "ABSENT_HERE"], 2, "there is no such variable here"),
        (["run", "--prompt", "x", "--dialect", "claud"], 2, "did you mean claude?"),
        (["run", "--prompt", "@absent"], 2, "absent: No such file"),
        (["list", "--", "x"], 2, "list starts no program"),
        (["logs", "r", "--since", "noon"], 2, "--since noon: is no time"),
        (["logs", "r", "--tail", "-1"], 2, "is less than no line"),
        (["serve"], 2, "give --stdio, or --socket PATH"),
        (["serve", "--stdio", "--http", "x"], 2, "is no address"),
        (["codes", "oom_killed"], 2, "did you mean k8s_oom_killed?"),
        (["run", "--prompt", "x", "--templates", "absent"], 3, "absent: No such file"),
        (["list", "--kubeconfig", "absent"], 5, "the kubeconfig cannot be read"),
    ],
)
def test_what_is_wrong_is_told_with_how_to_mend_it(launcher, words, code, told):
    found, out, err = launcher(*words)
    assert (found, out) == (code, "")
    assert told in err
    assert err.startswith("error: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "request.json:1:2: Expecting property name"),
        ("[]", "is no JSON object"),
        ("[" * 3000, "is nested too deeply"),
        ("{}", "/agent/id is missing"),
        ('{"agent": 7, "config": [], "runId": "r"}', "/agent is a number, not a map"),
    ],
)
def test_a_request_that_is_none(launcher, place, text, told):
    (place / "request.json").write_text(text)
    code, _, err = launcher("render", "request.json")
    assert code in {2, 3}
    assert told in err


def test_a_request_that_is_no_text(launcher, place):
    (place / "request.json").write_bytes(b'{"runId": "\xff"}')
    assert "byte 11 is not UTF-8" in launcher("render", "request.json")[2]


def test_the_trace_comes_only_with_debug_and_masked(launcher, monkeypatch):
    def fail(*_):
        raise RuntimeError("Bearer abcdefgh12345678")

    monkeypatch.setattr("paperclip_launcher.fields.config_schema", fail)
    code, _, err = launcher("schema")
    assert code == 1
    assert "a defect of paperclip-launcher: RuntimeError" in err
    assert "Traceback" not in err
    err = launcher("schema", "--debug")[2]
    assert "Traceback" in err
    assert "abcdefgh12345678" not in err


def test_several_environments_in_dist_are_no_guess(launcher, place, monkeypatch):
    monkeypatch.delenv("PAPERCLIP_JOB_TEMPLATES")
    code, _, err = launcher("render", "--prompt", "x")
    assert (code, "no Job templates were found" in err) == (2, True)
    for name in ("one", "two"):
        (place / "dist" / name / "job-templates").mkdir(parents=True)
    assert "several environments: one, two" in launcher("render", "--prompt", "x")[2]


def test_codes_schema_and_version(launcher):
    tree = json.loads(launcher("codes", "--format", "json")[1])
    assert [one["code"] for one in tree["items"]] == list(CODES)
    assert "k8s_oom_killed" in launcher("codes")[1]
    assert json.loads(launcher("schema")[1])["fields"]
    code, out, _ = launcher("schema", "--as", "markdown")
    assert code == 0
    assert out == (ROOT / "docs/agent-config.md").read_text(), "run `make docs`"
    assert launcher("version")[1].startswith("paperclip-launcher ")
    assert json.loads(launcher("version", "--format", "json")[1])["kind"] == "Version"


def test_each_verb_has_a_help_text_with_examples():
    verbs = next(one for one in parser()._actions if one.choices).choices
    assert tuple(verbs) == VERBS
    for name, verb in verbs.items():
        text = verb.format_help()
        assert text.count(f"paperclip-launcher {name}") >= 3, name  # the usage, and two examples
        assert "exit codes" in text or name not in {"run", "attach", "check"}
        assert max(map(len, text.splitlines())) <= 110, name


def test_help_imports_nothing_heavy():
    code = (
        "import sys, paperclip_launcher.cli.main as m; m.parser();"
        "print([name for name in ('httpx', 'yaml', 'kubekit.yamlread', 'policies.registry',"
        " 'paperclip_launcher.launcher', 'paperclip_launcher.options', 'paperclip_launcher.cluster.api') if name"
        " in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
