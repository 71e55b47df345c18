"""The verb `run` against a real HTTP server: results, logs, restarts, signals."""

from __future__ import annotations

import errno
import json
import os
import signal

from tests.launcher.cli.conftest import INIT, RESULT, agent, endless


def interrupt(number=signal.SIGINT):
    os.kill(os.getpid(), number)


def test_the_log_goes_to_stdout_the_rest_to_stderr_and_nothing_is_left(world, launcher, request_file):
    world.program = agent(b"plain words")
    code, out, err = launcher("run", request_file())
    assert code == 0
    assert out.encode() == b"\n".join([INIT, b"plain words", RESULT, b""])
    assert "run r-1 succeeded; $0.5000; session s-1" in err
    assert world.left() == {}


def test_a_failed_run_ends_with_1_and_says_why(world, launcher, request_file):
    world.program = agent(exit_code=3, end="oom")
    code, _, err = launcher("run", request_file())
    assert code == 1
    assert "k8s_oom_killed" in err
    assert "mend: raise the memory limit" in err


def test_files_hold_the_log_and_the_result_and_json_ends_stdout_with_it(world, launcher, request_file, place):
    code, out, _ = launcher("run", request_file(), "--output", "o.log", "--result", "r.json", "--format", "json")
    assert code == 0
    assert (place / "o.log").read_bytes() == b"\n".join([INIT, RESULT, b""])
    tree = json.loads(out)
    assert (tree["kind"], tree["runId"], tree["exit"]) == ("RunResult", "r-1", 0)
    assert json.loads((place / "r.json").read_text()) == tree["result"]
    assert tree["result"]["exitCode"] == 0
    assert {one.name for one in place.iterdir()} >= {"o.log", "r.json"}
    assert not (place / "o.log.resume").exists()
    assert (place / "r.json").stat().st_mode & 0o777 == 0o600


def test_with_json_the_result_is_the_last_line_after_the_log(world, launcher, request_file):
    _, out, _ = launcher("run", request_file(), "--format", "json")
    lines = out.splitlines()
    assert lines[:-1] == [INIT.decode(), RESULT.decode()]
    assert json.loads(lines[-1])["result"]["sessionId"] == "s-1"


def test_the_same_request_again_gets_the_same_result_and_makes_no_job(world, launcher, request_file):
    launcher("run", request_file(), "--result", "1.json")
    made = world.ask(lambda cluster: cluster.calls["create", "jobs"])
    code, out, _ = launcher("run", request_file(), "--result", "2.json")
    assert (code, out) == (0, "")
    assert world.ask(lambda cluster: cluster.calls["create", "jobs"]) == made == 1
    assert (world.folder / "1.json").read_text() == (world.folder / "2.json").read_text()


def test_ctrl_c_detaches_and_the_same_command_goes_on_to_the_byte(world, launcher, request_file, place):
    world.program = agent(*(b"line %d" % number for number in range(60)), every=0.004)
    log = place / "o.log"
    seen = world.when(lambda: log.exists() and log.stat().st_size > 200, interrupt)
    code, _, err = launcher("run", request_file(), "--output", log)
    seen.join()
    assert code == 130
    assert "detached: the run goes on as Job run-r-1-" in err
    assert "paperclip-launcher attach r-1" in err
    assert world.names("jobs")
    assert [name for name in world.names("leases") if name.startswith("paperclip")] == []
    code, _, _ = launcher("run", request_file(), "--output", log)
    assert code == 0
    assert log.read_bytes() == b"".join(line + b"\n" for line in world_lines(60))
    assert world.left() == {}


def world_lines(count):
    return [INIT, *(b"line %d" % number for number in range(count)), RESULT]


def test_attach_goes_on_where_the_log_was_read_to(world, launcher, request_file):
    world.program = agent(*(b"line %d" % number for number in range(60)), every=0.004)
    world.when(lambda: len(world.printed()) > 20, lambda: interrupt(signal.SIGTERM))
    code, first, _ = launcher("run", request_file())
    assert code == 130
    code, rest, _ = launcher("attach", "r-1")
    assert code == 0
    assert (first + rest).encode().splitlines() == world_lines(60)
    assert launcher("attach", "r-1")[0] == 1


def test_attach_can_show_all_of_the_log(world, launcher, request_file):
    world.program = agent(*(b"line %d" % number for number in range(40)), every=0.004)
    world.when(lambda: len(world.printed()) > 20, interrupt)
    launcher("run", request_file())
    _, out, _ = launcher("attach", "r-1", "--all")
    assert out.encode().splitlines() == world_lines(40)


def test_a_run_that_is_driven_here_already_is_left_to_its_process(world, launcher, request_file, place):
    from paperclip_launcher.cli import identity

    state = place / "state" / "paperclip-launcher"
    from kubekit.names import job_name

    with identity.held(state, identity.identity_of_run(state, job_name("a-1", "r-1"))):
        code, _, err = launcher("run", request_file())
    assert code == 6
    assert f"process {os.getpid()} works as" in err
    assert world.names("jobs") == []


def test_secrets_show_in_no_output(world, launcher, request_file, place, monkeypatch):
    monkeypatch.setenv("MY_KEY", "tell-nobody-12345")
    world.program = agent(b"it is tell-nobody-12345 indeed", b"and run-token-98765")
    words = ("--env", "MY_KEY", "--output", "o.log", "--result", "r.json", "--log-level", "debug")
    code, out, err = launcher("run", request_file(authToken="run-token-98765"), *words)
    assert code == 0
    texts = (out, err, *(path.read_text() for path in place.rglob("*") if path.is_file() and path.name != "r-1.json"))
    assert [text for text in texts if "tell-nobody" in text or "run-token" in text] == []
    assert (place / "o.log").read_text().splitlines()[1:3] == ["it is *** indeed", "and ***"]


def test_a_dry_run_creates_nothing(world, launcher, request_file):
    code, out, _ = launcher("run", request_file(), "--dry-run")
    assert code == 0
    assert "would take it; nothing was created" in out
    assert world.names("jobs") == world.names("leases") == []


def test_a_plain_program_runs_after_two_dashes(world, launcher):
    code, _, err = launcher("run", "--run-id", "p", "--", "sh", "-c", "true")
    assert (code, world.names("jobs")) == (3, [])
    assert "generic" in err  # this environment has no template for it


def test_a_config_that_is_wrong_lists_every_problem_and_creates_nothing(world, launcher, request_file):
    config = {"timeoutSec": "soon", "nodeSelector": 7}
    code, out, err = launcher("run", request_file(config=config), "--format", "json")
    assert code == 3
    assert len(json.loads(out)["problems"]) == 2
    assert err.count("error: ") == 2
    assert world.names("jobs") == []


def test_a_run_of_nobody_else_is_taken_over_by_its_request(world, launcher, request_file):
    """Another state folder is another launcher: the first one gave up its Lease, so that the run is free."""
    world.program = agent(*(b"line %d" % number for number in range(30)), every=0.005)
    world.when(lambda: len(world.printed()) > 5, interrupt)
    assert launcher("run", request_file())[0] == 130
    code, out, _ = launcher("run", request_file(), "--state", "elsewhere")
    assert code == 0
    assert out.encode().splitlines() == world_lines(30)
    assert world.left() == {}


def test_a_run_that_never_ends_is_cancelled_from_another_process(world, launcher, request_file):
    world.program = endless()
    job = {"metadata": {"annotations": {"paperclip.io/cancel-requested": "1"}}}

    def ask():
        world.ask(lambda cluster: mark(cluster, job))

    world.when(lambda: len(world.printed()) > 5, ask)
    code, _, err = launcher("run", request_file())
    assert code == 1
    assert "cancelled: Run cancelled" in err
    assert world.left() == {}


def mark(cluster, patch):
    (item,) = cluster.store.shelf("jobs", "paperclip-agents").values()
    meta = item.obj["metadata"]
    annotations = {**meta["annotations"], **patch["metadata"]["annotations"]}
    cluster.store.put(item, {**item.obj, "metadata": {**meta, "annotations": annotations}})


def test_a_log_that_cannot_be_written_detaches_and_the_result_waits(world, launcher, request_file, monkeypatch):
    def full(descriptor, data):
        if b"one" in data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.write(descriptor, data)

    world.program = agent(b"one", b"two")
    with monkeypatch.context() as patch:
        patch.setattr("paperclip_launcher.cli.readers.write_all", full)
        code, _, err = launcher("run", request_file(), "--output", "o.log")
    assert code == 6
    assert "the log cannot be written: No space left on device; the run goes on" in err
    code, _, _ = launcher("run", request_file(), "--output", "o.log")
    assert code == 0
    assert (world.folder / "o.log").read_bytes().splitlines() == [INIT, b"one", b"two", RESULT]


def test_a_result_that_cannot_be_kept_is_not_acknowledged(world, launcher, request_file, place):
    code, _, err = launcher("run", request_file(), "--result", "absent/r.json")
    assert code == 1
    assert "absent/.r.json" in err
    assert world.names("jobs")
    code, _, _ = launcher("run", request_file(), "--result", "r.json")
    assert code == 0
    assert json.loads((place / "r.json").read_text())["exitCode"] == 0
    assert world.left() == {}
