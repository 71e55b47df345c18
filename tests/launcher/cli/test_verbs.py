"""The verbs that look at runs, or clear up after them, against a real HTTP server."""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest

from paperclip_launcher.cli import place as places
from paperclip_launcher.journal import FolderJournal
from tests.fakeapi.model import Refusal
from tests.launcher.cli.conftest import INIT, agent, endless, kubeconfig


@pytest.fixture
def left_alone(world, launcher, request_file):
    """A run that goes on, with nobody to look after it: the names of its Jobs."""

    def leave(program, *words, printed=3):
        world.program = program
        world.when(lambda: len(world.printed()) >= printed, lambda: os.kill(os.getpid(), signal.SIGINT))
        assert launcher("run", request_file(), *words)[0] == 130
        return world.names("jobs")[0]

    return leave


def test_list_shows_what_is_there_and_who_looks_after_it(world, launcher, left_alone):
    job = left_alone(endless())
    code, out, err = launcher("list")
    assert code == 0
    head, row = out.splitlines()
    assert head.split() == ["RUN", "AGENT", "STATE", "AGE", "LAUNCHER"]
    assert row.startswith("r-1  a-1    running")
    assert row.endswith("(gone)")
    assert "1 runs in paperclip-agents" in err
    (item,) = json.loads(launcher("list", "--format", "json")[1])["items"]
    assert (item["runId"], item["jobName"], item["state"], item["ownerState"]) == ("r-1", job, "running", "gone")
    assert launcher("list", "--agent", "other")[1] == ""


def test_describe_tells_state_events_log_and_what_to_do(world, launcher, left_alone):
    left_alone(endless())
    code, out, err = launcher("describe", "r-1", "--lines", "3")
    assert code == 0
    for text in ("run r-1", "state", "running", "image", "launcher", "end of the log (3 lines)"):
        assert text in out
    assert "nobody looks after it: paperclip-launcher attach r-1" in err


def test_describe_says_what_is_wrong_in_words_and_as_json(world, launcher, left_alone, request_file):
    world.program = agent(start="image-error")
    world.when(lambda: "ErrImagePull" in states(world), lambda: os.kill(os.getpid(), signal.SIGINT))
    launcher("run", request_file())
    code, out, _ = launcher("describe", "r-1")
    assert code == 0
    assert "k8s_image_pull_failed" in out
    assert "mend" in out
    tree = json.loads(launcher("describe", "run-r-1", "--format", "json")[1])
    assert tree["diagnosis"]["code"] == "k8s_image_pull_failed"
    assert [one for one in tree["events"] if one["type"] == "Warning"]
    assert tree["logTail"] == []


def states(world):
    return json.dumps([pod["status"] for pod in world.ask(lambda cluster: cluster.objects("pods"))])


def test_a_run_that_is_not_there_is_told_with_what_was_meant(world, launcher, left_alone):
    left_alone(endless())
    code, _, err = launcher("describe", "r-2")
    assert code == 1
    assert "there is no run 'r-2'" in err
    assert "did you mean r-1?" in err
    assert launcher("logs", "r-2")[0] == launcher("cancel", "r-2")[0] == launcher("attach", "r-2")[0] == 1


def test_logs_shows_all_the_end_or_what_comes(world, launcher, left_alone):
    left_alone(agent(*(b"line %d" % number for number in range(100)), every=0.004), printed=40)
    code, out, _ = launcher("logs", "r-1")
    assert code == 0
    assert out.encode().splitlines()[:3] == [INIT, b"line 0", b"line 1"]
    tail = launcher("logs", "r-1", "--tail", "2")[1].splitlines()
    assert len(tail) == 2
    code, out, _ = launcher("logs", "r-1", "--follow", "--tail", "1")
    assert code == 0
    lines = out.splitlines()
    first = int(lines[0].split()[1])
    assert lines[:-1] == [f"line {number}" for number in range(first, 100)]
    assert launcher("logs", "r-1", "--since", "1h")[1].count("\n") == 102
    assert launcher("logs", "r-1", "--since", "2099-01-01T00:00:00Z")[1] == ""


def test_cancel_ends_a_run_that_nobody_looks_after(world, launcher, left_alone):
    left_alone(endless())
    code, out, err = launcher("cancel", "r-1", "--format", "json")
    assert code == 0
    assert json.loads(out)["state"] == "cancelled"
    assert "it is stopped from here" in err
    assert world.left() == {}


def test_cancel_asks_the_launcher_that_looks_after_it(world, launcher, request_file, monkeypatch):
    monkeypatch.setattr("paperclip_launcher.cli.cancel._POLL", 0.01)
    world.program = endless()
    results = {}

    def cancel():
        # A thread of its own has no signal handlers, and asyncio.run there needs none.
        from paperclip_launcher.cli.main import main

        results["cancel"] = main(["cancel", "r-1", "--wait"])

    world.when(lambda: len(world.printed()) > 3, cancel)
    code, _, err = launcher("run", request_file())
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and thread.name.startswith("Thread") and not thread.daemon:
            thread.join()
    assert code == 1
    assert "run r-1 failed: cancelled" in err


def test_gc_says_what_would_go_and_then_clears_it(world, launcher, left_alone, place):
    left_alone(endless())
    journal = FolderJournal(place / "state" / "paperclip-launcher" / "journal")
    (record,) = journal.records()
    record.acknowledged = True
    journal.write(record)
    code, out, _ = launcher("gc", "--dry-run")
    assert code == 0
    assert out.split()[0] == "job"
    assert world.names("jobs")
    assert json.loads(launcher("gc", "--format", "json")[1])["items"][0]["reason"] == "its result was reported"
    assert world.left() == {}
    assert launcher("gc")[1] == ""


def test_gc_leaves_what_nobody_has_read(world, launcher, left_alone):
    left_alone(endless())
    assert launcher("gc")[1] == ""
    assert world.names("jobs")


def test_gc_of_bundles_keeps_those_that_runs_use(world, launcher, place):
    old = place / "claim" / "bundles" / "c-1" / "0123"
    old.mkdir(parents=True)
    os.utime(old, (1, 1))
    code, out, _ = launcher("gc", "--bundles", "--workspace", place / "claim")
    assert (code, out.split()[:2]) == (0, ["bundle", "bundles/c-1/0123"])
    assert not old.exists()
    assert launcher("gc", "--bundles")[0] == 2


def test_check_finds_what_is_missing_and_passes_when_it_is_there(world, launcher):
    code, out, _ = launcher("check")
    assert code == 1
    assert "error   The claim paperclip-agent-workspace does not exist" in out
    claim = {"spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}
    name = {"name": "paperclip-agent-workspace"}
    tree = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": name, **claim}
    world.ask(lambda cluster: cluster.put("persistentvolumeclaims", tree))
    code, out, _ = launcher("check", "--format", "json")
    items = json.loads(out)["items"]
    assert [one for one in items if one["level"] == "error"] == []
    assert code == 0
    assert {"k8s_dry_run_passed", "k8s_rbac_jobs", "k8s_pvc_rwx"} <= {one["code"] for one in items}


def test_check_names_the_right_that_is_missing(world, launcher):
    world.cluster.knobs.denied = frozenset({("create", "secrets")})
    _, out, _ = launcher("check")
    assert "May not create secrets in paperclip-agents" in out


def test_check_tells_what_admission_would_refuse(world, launcher):
    refusal = Refusal(403, "Forbidden", 'jobs.batch "x" is forbidden: exceeded quota: q')
    world.cluster.knobs.admit = lambda resource, manifest: refusal if resource == "jobs" else None
    _, out, _ = launcher("check")
    assert "The API server would refuse a sample Job" in out


def test_an_api_server_that_does_not_answer_is_exit_code_5(place, launcher, monkeypatch):
    monkeypatch.setattr(places, "_FOR_PEOPLE", 0.0)
    kubeconfig(place, "http://127.0.0.1:9")
    code, _, err = launcher("list")
    assert code == 5
    assert "mend: look whether the API server runs" in err
    assert launcher("check")[0] == 5


def test_a_missing_right_is_exit_code_5(world, launcher):
    world.cluster.knobs.denied = frozenset({("list", "jobs")})
    code, _, err = launcher("list")
    assert code == 5
    assert "give the launcher's account the right" in err
