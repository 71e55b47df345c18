"""The program itself on a real node: what people type, and what is killed under their hands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

controlplane, driving = sys.modules["controlplane"], sys.modules["driving"]

pytestmark = pytest.mark.e2e

PROGRAM = Path(sys.executable).with_name("paperclip-launcher")
_SECONDS = 120


class Desk:
    """Where somebody works with the program: a state folder, and the cluster."""

    def __init__(self, site: Any, folder: Path) -> None:
        self.site, self.folder = site, folder
        self.options = ["--kubeconfig", str(site.kubeconfig), "--namespace", site.agents]

    def command(self, arguments: tuple[str, ...]) -> list[str]:
        verb, *rest = arguments
        state = ["--state", str(self.folder)] if verb in {"run", "cancel"} else []
        return [str(PROGRAM), verb, *self.options, *state, *rest]

    def say(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(arguments), capture_output=True, text=True, timeout=_SECONDS, check=False)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def request(self, run: str, prompt: str, **config: Any) -> Path:
        path = self.folder / f"{run}.json"
        tree = {
            "runId": run,
            "agent": {"id": "agent-1", "companyId": "company-1", "name": "Ada", "adapterType": "claude_k8s"},
            "runtime": {},
            "config": {"promptTemplate": prompt, **config},
            "context": {},
            "authToken": driving.TOKEN,
        }
        path.write_text(json.dumps(tree))
        return path


@pytest.fixture
def desk(site, tmp_path):
    (tmp_path / "state").mkdir()
    return Desk(site, tmp_path / "state")


@pytest.fixture
def templates(site):
    return ("--templates", str(site.templates_folder))


def runs_left(site: Any) -> list[str]:
    kept = {site.config.agents.secrets[0].name}
    found = [one for kind in ("jobs", "pods", "secrets") for one in site.objects(kind)]
    return [one["metadata"]["name"] for one in found if one["metadata"]["name"] not in kept]


def test_check_finds_nothing_wrong_with_a_place_where_runs_can_be_had(desk, templates):
    said = desk.say("check", *templates)
    assert said.returncode == 0, said.stdout + said.stderr


def test_a_run_from_the_command_line_prints_its_log_and_ends_as_it_did(desk, templates):
    good = desk.say("run", *templates, "--agent", "ada", "--prompt", "first\n@agent say hello")
    bad = desk.say("run", *templates, "--agent", "ada", "--prompt", "first\n@agent exit 3")
    assert good.returncode == 0, good.stderr
    assert '"text":"hello"' in good.stdout
    assert bad.returncode == 1, bad.stderr
    controlplane.wait_until("the Jobs to be gone", 60, lambda: runs_left(desk.site) == [])


def test_what_runs_can_be_listed_described_read_and_cancelled_beside_its_owner(desk, templates):
    request = desk.request("beside", "@agent ticks 100 1")
    owner = desk.begin("run", *templates, str(request))
    try:
        listed: list[Any] = controlplane.wait_until(
            "the run to be listed as running",
            60,
            lambda: running(desk.say("list", "--format", "json")),
            lambda: str(desk.say("list", "--format", "json")),
        )
        assert len(listed) == 1
        described = desk.say("describe", "beside")
        assert described.returncode == 0, described.stderr
        assert "phase=Running" in described.stdout
        controlplane.wait_until("the log", 30, lambda: "line 0000002" in desk.say("logs", "beside").stdout)
        asked = time.monotonic()
        cancelled = desk.say("cancel", "--wait", "beside")
        assert cancelled.returncode == 0, cancelled.stderr
        assert owner.wait(_SECONDS) == 1
        assert time.monotonic() - asked < 60
    finally:
        owner.kill()
        owner.communicate()


def created(site: Any, run: str) -> int:
    """How many Jobs of the run the API server has made, by its audit log."""
    entries = map(json.loads, site.cluster.audit_log.read_text().splitlines())
    return sum(
        entry.get("verb") == "create"
        and entry.get("stage") == "ResponseComplete"
        and entry["responseStatus"]["code"] == 201
        and entry["objectRef"]["resource"] == "jobs"
        and run in entry["objectRef"].get("name", "")
        for entry in entries
        if "objectRef" in entry
    )


def running(said: subprocess.CompletedProcess[str]) -> list[Any]:
    if said.returncode != 0 or '"beside"' not in said.stdout:
        return []
    return [said.stdout] if "unning" in said.stdout else []


@pytest.mark.parametrize("moments", [(0.3, 0.6, 1.0, 2.0), (3.0, 4.0, 0.2), (6.0, 7.0)])
def test_a_run_whose_launcher_is_killed_again_and_again_is_one_job_one_result_and_a_whole_log(desk, templates, moments):
    request = desk.request(f"killed-{len(moments)}", "@agent ticks 40 0.2")
    output, result = desk.folder / "log", desk.folder / "result"
    arguments = ("run", *templates, str(request), "--output", str(output), "--result", str(result))
    for moment in moments:
        process = desk.begin(*arguments)
        time.sleep(moment)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    last = desk.say(*arguments)
    assert last.returncode == 0, last.stderr
    lines = [line for line in output.read_bytes().splitlines() if line.startswith(b"line ")]
    assert [int(line[5:12]) for line in lines] == list(range(1, 41))
    assert json.loads(result.read_text())["exitCode"] == 0
    assert created(desk.site, f"killed-{len(moments)}") == 1
    controlplane.wait_until("the Job to be gone", 60, lambda: runs_left(desk.site) == [])
