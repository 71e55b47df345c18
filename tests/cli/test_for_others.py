"""What other repositories use: the pre-commit hook and the GitHub action, run as they are written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  containers:
    - {name: web, image: "nginx:1"}
"""
CLEAN = """\
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, namespace: shop}
automountServiceAccountToken: false
"""


@pytest.fixture
def repository(tmp_path):
    """Somebody else's, with a manifest that is wrong and a name that a shell would trip over."""
    folder = tmp_path / "repository"
    (folder / "deploy $(touch pwned)").mkdir(parents=True)
    (folder / "deploy $(touch pwned)" / "web.yaml").write_text(POD)
    (folder / "clean").mkdir()
    (folder / "clean" / "account.yaml").write_text(CLEAN)
    return folder


def environment(tmp_path, **more):
    kept = {name: os.environ[name] for name in ("LANG", "HOME") if name in os.environ}
    path = f"{BIN}{os.pathsep}/usr/bin{os.pathsep}/bin"
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache"), **more}


class TestHook:
    HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())

    def run(self, repository, tmp_path, *arguments):
        (hook,) = self.HOOKS
        command = [*shlex.split(hook["entry"]), *arguments]
        return subprocess.run(
            command, cwd=repository, env=environment(tmp_path), capture_output=True, text=True, check=False
        )

    def test_it_has_what_pre_commit_needs(self):
        (hook,) = self.HOOKS
        assert {"id", "name", "entry", "language"} <= set(hook)
        assert (hook["id"], hook["language"], hook["pass_filenames"]) == ("paperclip-gitops-check", "python", False)
        pattern = re.compile(hook["files"])
        assert [name for name in ("a/b.yaml", "c.yml", "d.json", "e.py", "yaml") if pattern.search(name)] == [
            "a/b.yaml",
            "c.yml",
            "d.json",
        ]

    def test_it_stops_a_commit_and_lets_one_pass(self, repository, tmp_path):
        stopped = self.run(repository, tmp_path, "deploy $(touch pwned)")
        assert stopped.returncode == 1, stopped.stderr
        assert "image-digest" in stopped.stdout
        passed = self.run(repository, tmp_path, "clean", "--facts", "none.yaml")
        assert passed.returncode == 3
        passed = self.run(repository, tmp_path, "clean", "--external", "Namespace/shop")
        assert passed.returncode == 0, passed.stdout + passed.stderr


class TestAction:
    ACTION = yaml.safe_load((ROOT / "action.yml").read_text())

    def step(self, identity):
        (step,) = [one for one in self.ACTION["runs"]["steps"] if one.get("id") == identity]
        return step

    def run(self, repository, tmp_path, **inputs):
        """The step as the runner does it: inputs and their defaults become variables, the script goes to bash."""
        temp = tmp_path / "runner"
        temp.mkdir(exist_ok=True)
        step = self.step("check")
        given = {name: one["default"] for name, one in self.ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        variables = {
            name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda match: given[match[1]], text)
            for name, text in step["env"].items()
        }
        files = {name: str(temp / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
        script = temp / "step.sh"
        script.write_text(step["run"])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=repository,
            env=environment(tmp_path, RUNNER_TEMP=str(temp), **variables, **files),
            capture_output=True,
            text=True,
            check=False,
        )
        summary = Path(files["GITHUB_STEP_SUMMARY"])
        return done, Path(files["GITHUB_OUTPUT"]).read_text(), summary.read_text() if summary.is_file() else ""

    def test_it_is_an_action_without_secrets_and_without_others_actions(self):
        text = (ROOT / "action.yml").read_text()
        assert self.ACTION["runs"]["using"] == "composite"
        assert "secrets." not in text
        assert "uses:" not in text
        assert all(step["shell"] == "bash" for step in self.ACTION["runs"]["steps"])
        assert all("description" in one for one in self.ACTION["inputs"].values())
        # What stands between ${{ and }} in a script would be run.
        assert all("${{" not in step["run"] for step in self.ACTION["runs"]["steps"])

    def test_it_annotates_reports_and_fails(self, repository, tmp_path):
        done, outputs, summary = self.run(
            repository, tmp_path, paths="deploy $(touch pwned)\nclean\n", sarif_file="a.sarif", json_file="a.json"
        )
        assert done.returncode == 1, done.stderr
        assert outputs == "exit-code=1\n"
        assert "::error file=deploy $(touch pwned)/web.yaml,line=6,title=image-digest::" in done.stdout
        assert summary.startswith("### paperclip-gitops: 2 objects")
        assert (repository / "a.sarif").is_file()
        assert not list(repository.glob("**/pwned"))
        done, outputs, _ = self.run(repository, tmp_path, paths="deploy $(touch pwned)", baseline="a.json")
        assert done.returncode == 0, done.stdout

    def test_it_passes_what_is_right_and_takes_every_input(self, repository, tmp_path):
        (repository / "facts.yaml").write_text(
            "apiVersion: paperclip-gitops/v1\nkind: Facts\nexternals: [Namespace/shop]\n"
        )
        done, outputs, _ = self.run(
            repository,
            tmp_path,
            paths="clean",
            facts="facts.yaml\n",
            kubernetes_version="1.34",
            crd_schemas="clean\nclean",
            waivers="none.yaml",
            fail_on="warning",
        )
        assert (done.returncode, outputs) == (0, "exit-code=0\n"), done.stdout + done.stderr

    def test_wrong_use_is_no_success(self, repository, tmp_path):
        done, outputs, _ = self.run(repository, tmp_path, paths="nowhere")
        assert (done.returncode, outputs) == (2, "exit-code=2\n")
        assert "nowhere: there is no such file or folder" in done.stderr

    def test_its_first_step_installs_from_the_locks(self):
        step = self.ACTION["runs"]["steps"][0]
        (command,) = [line for line in step["run"].splitlines() if line.startswith("sh ")]
        program, _, lock, _ = shlex.split(command)[1:]
        assert (ROOT / program).is_file()
        assert (ROOT / lock).is_file()
