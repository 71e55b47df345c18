"""The server itself, and the adapter `process` that comes with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

controlplane = sys.modules["controlplane"]

pytestmark = pytest.mark.e2e

_LISTENS = "0A"
_LOOPBACK = {"0100007F", "00000000000000000000000001000000"}


@pytest.fixture
def company(paperclip) -> str:
    return paperclip.api.create_company("Built in")


def shell(paperclip: Any, company: str, script: str) -> Any:
    return paperclip.api.create_agent(company, "Shell", "process", {"command": "/bin/sh", "args": ["-c", script]})


def listening(pid: int) -> list[tuple[str, int]]:
    """Addresses, in the kernel's hexadecimals, and ports."""
    sockets = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    mine = [row[1].split(":") for row in rows if row[3] == _LISTENS and f"socket:[{row[9]}]" in sockets]
    return [(address, int(port, 16)) for address, port in mine]


def test_the_server_is_the_pinned_one_listens_on_loopback_and_is_not_root(paperclip):
    assert paperclip.api.health()["version"] == "2026.916.1"
    for pid in (paperclip.pid, paperclip.postmaster):
        found = listening(pid)
        assert found
        assert {address for address, _ in found} <= _LOOPBACK
        assert Path(f"/proc/{pid}").stat().st_uid != 0
    assert paperclip.port in [port for _, port in listening(paperclip.pid)]


def test_the_server_finds_no_name_server(paperclip):
    assert "nameserver" not in Path(f"/proc/{paperclip.pid}/root/etc/resolv.conf").read_text()


def test_a_run_of_a_process_succeeds_and_its_log_is_what_the_process_said(paperclip, company):
    agent = shell(paperclip, company, "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line $i ü; done; echo end >&2")
    run = paperclip.api.ended(paperclip.api.wake(agent.id).id)
    assert (run.status, run.exit_code) == ("succeeded", 0), f"{run} {paperclip.api.log_text(run.id)}"
    assert paperclip.api.log_text(run.id, "stdout") == "".join(f"line {number} ü\n" for number in range(1, 2001))
    assert paperclip.api.log_text(run.id, "stderr") == "end\n"
    assert {"lifecycle", "adapter.invoke"} <= {event.type for event in paperclip.api.events(run.id)}
    assert [one.id for one in paperclip.api.runs(company, agent.id)] == [run.id]


def test_a_process_that_fails_fails_its_run(paperclip, company):
    run = paperclip.api.ended(paperclip.api.wake(shell(paperclip, company, "exit 3").id).id)
    assert (run.status, run.exit_code, run.error_code) == ("failed", 3, "adapter_failed"), run
    assert run.error == "Process exited with code 3"


def test_a_cancelled_process_is_gone(paperclip, company):
    agent = shell(paperclip, company, "echo pid $$; exec sleep 300")
    run = paperclip.api.wake(agent.id)
    paperclip.api.wait_for_log(run.id, "pid ")
    pid = int(paperclip.api.log_text(run.id).split()[1])
    assert paperclip.api.cancel(run.id).status == "cancelled"
    controlplane.wait_until("the process to be gone", 20, lambda: not Path(f"/proc/{pid}").exists())
