"""The adapter with a real launcher behind it: what a server sees when any of the two is killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.adapter.conftest import wait_for
from tests.launcher.cli.conftest import INIT, RESULT, agent

LINES = [b"line %d \xc3\xbc" % number for number in range(200)]
WHOLE = b"".join(line + b"\n" for line in (INIT, *LINES, RESULT)).decode()


def children_of(pid):
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(one) for task in tasks for one in (task / "children").read_text().split()]


def test_runs_of_many_agents_come_back_whole(site):
    site.start_launcher()
    site.world.program = agent(*LINES, every=0.001)
    server = site.server()
    for number in range(8):
        server.execute(f"run-{number}", f"agent-{number}")
    for number in range(8):
        result = server.result(f"run-{number}")
        assert (result["exitCode"], result["summary"], result["costUsd"]) == (0, "done", 0.5), result
        assert server.log(f"run-{number}") == WHOLE
    wait_for(lambda: not site.world.names("jobs"))


def test_a_killed_launcher_is_waited_for_and_no_line_is_lost_or_doubled(site):
    site.start_launcher()
    site.world.program = agent(*LINES, every=0.01)
    server = site.server()
    server.execute("run-1")
    wait_for(lambda: "line 20" in server.log("run-1"))
    jobs = site.world.names("jobs")
    site.kill_launcher()
    site.start_launcher()
    assert server.result("run-1")["summary"] == "done"
    assert server.log("run-1") == WHOLE
    assert len(jobs) == 1
    wait_for(lambda: not site.world.names("jobs"))


def test_a_killed_child_is_started_anew(site):
    site.world.program = agent(*LINES, every=0.01)
    server = site.server(PAPERCLIP_LAUNCHER_COMMAND=json.dumps(site.command("--stdio")))
    server.execute("run-1")
    wait_for(lambda: "line 20" in server.log("run-1"))
    (child,) = children_of(server._process.pid)
    os.kill(child, signal.SIGKILL)
    assert server.result("run-1")["summary"] == "done"
    assert server.log("run-1") == WHOLE


@pytest.mark.parametrize("door", ["sidecar", "child"])
def test_the_next_run_of_the_task_takes_over_what_a_killed_server_left(site, door):
    environment = {}
    if door == "sidecar":
        site.start_launcher()
    else:
        environment = {"PAPERCLIP_LAUNCHER_COMMAND": json.dumps(site.command("--stdio"))}
    site.world.program = agent(*LINES, every=0.02)
    server = site.server(**environment)
    server.execute("run-1")
    wait_for(lambda: "line 20" in server.log("run-1"))
    jobs = site.world.names("jobs")
    server.kill()
    again = site.server(**environment)
    again.execute("run-2")
    wait_for(lambda: again.log("run-2"))
    assert site.world.names("jobs") == jobs
    result = again.result("run-2")
    assert (result["exitCode"], result["summary"]) == (0, "done")
    assert again.log("run-2") == WHOLE
    wait_for(lambda: not site.world.names("jobs"))


def test_a_result_that_no_server_got_is_given_to_the_next_run_of_the_task_once(site):
    site.start_launcher()
    site.world.program = agent(*LINES[:20], every=0.02)
    server = site.server()
    server.execute("run-1")
    wait_for(lambda: "line 3" in server.log("run-1"))
    (job,) = site.world.names("jobs")
    server.kill()
    wait_for(lambda: any(RESULT in line for line in site.world.printed()))
    again = site.server()
    again.execute("run-2")
    assert again.result("run-2")["costUsd"] == 0.5
    assert again.log("run-2").count("line 3 ") == 1
    assert site.world.names("jobs") in ([job], [])
    site.world.program = agent(b"another run")
    again.execute("run-3")
    assert again.result("run-3")["costUsd"] == 0.5
    assert "another run" in again.log("run-3")
    wait_for(lambda: not site.world.names("jobs"))


def test_a_cancelled_run_is_gone_before_the_server_hears_of_it(site):
    site.start_launcher()
    site.world.program = agent(*LINES, every=0.1)
    server = site.server()
    server.execute("run-1")
    wait_for(lambda: "line 2" in server.log("run-1"))
    server.order({"abort": "run-1"})
    result = server.result("run-1")
    assert result["resultJson"]["executionCancellation"]["state"] == "acknowledged", result
    assert result["errorCode"] == "cancelled"
    wait_for(lambda: not site.world.names("pods"))


def test_the_environment_is_tested(site):
    site.start_launcher()
    server = site.server()
    server.order({"test": {"timeoutSec": "soon"}})
    wait_for(lambda: server.of("", "report"))
    (report,) = (one["report"] for one in server.of("", "report"))
    assert report["status"] == "fail"
    codes = {one["code"]: one["level"] for one in report["checks"]}
    assert codes["k8s_api_reachable"] == "info"
    assert "error" in codes.values(), codes
    assert "timeoutSec" in json.dumps(report)
