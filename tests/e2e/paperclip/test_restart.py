"""What becomes of a run of an external adapter when the server ends under it."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

controlplane = sys.modules["controlplane"]

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("tiny")]

_LEASE_SECONDS = 60


@pytest.fixture
def company(paperclip) -> str:
    return paperclip.api.create_company("Restarts")


def underway(paperclip: Any, company: str, **config: Any) -> Any:
    config = {"lines": 1, "milliseconds": 600_000, **config}
    run = paperclip.api.wake(paperclip.api.create_agent(company, "Tiny", "tiny", config).id)
    paperclip.api.wait_for_log(run.id, "line 1")
    return run


def test_all_is_still_there_after_a_restart(paperclip, company):
    agent = paperclip.api.create_agent(company, "Tiny", "tiny", {"lines": 1})
    before = paperclip.api.ended(paperclip.api.wake(agent.id).id)
    pid, database = paperclip.pid, paperclip.postmaster
    paperclip.restart()
    assert paperclip.pid != pid
    assert paperclip.postmaster != database
    assert not Path(f"/proc/{database}").exists()
    assert paperclip.api.run(before.id).status == before.status == "succeeded"
    assert paperclip.api.log_text(before.id) == "line 1 ü\n"
    assert paperclip.api.ended(paperclip.api.wake(agent.id).id).status == "succeeded"


def test_a_server_told_to_end_interrupts_its_run_and_may_tell_the_adapter_so_as_if_it_was_cancelled(paperclip, company):
    """It renews its hold on the run every 10 s; where that comes after the end of Postgres, the run's signal fires."""
    trace = paperclip.room(f"traces/{company}") / "trace"
    run = underway(paperclip, company, cancel="acknowledge", trace=str(trace))
    paperclip.restart()
    found = paperclip.api.run(run.id)
    assert (found.status, found.error_code) == ("interrupted", "server_shutdown_interrupted"), found
    assert trace.read_text() in ("entered\n", "entered\naborted\n")
    assert paperclip.api.log_text(run.id) == "line 1 ü\n"


def test_the_run_of_a_killed_server_goes_on_in_its_books_until_its_lease_is_over_and_is_lost_then(paperclip, company):
    run = underway(paperclip, company)
    database = paperclip.postmaster
    paperclip.stop(signal.SIGKILL)
    killed = time.monotonic()
    assert paperclip.postmaster == database
    assert Path(f"/proc/{database}").exists()
    paperclip.start()
    assert paperclip.postmaster == database
    assert paperclip.api.run(run.id).status == "running"
    paperclip.stop(signal.SIGKILL)
    time.sleep(max(0, killed + _LEASE_SECONDS - time.monotonic()))
    paperclip.start()
    found = paperclip.api.run(run.id)
    assert (found.status, found.error_code) == ("failed", "process_lost"), found
    assert paperclip.api.log_text(run.id) == "line 1 ü\n"
