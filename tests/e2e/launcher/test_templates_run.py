"""Jobs of our templates on a real node, without a launcher: what the cluster does is what it must deal with."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import pytest

from kubekit.calls import LAUNCHER_CALLS

controlplane, ground = sys.modules["controlplane"], sys.modules["ground"]

pytestmark = pytest.mark.e2e

ABSENT = f"127.0.0.1:1/nothing/there:1@sha256:{'0' * 64}"


def _events(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.splitlines() if line.startswith("{")]


def test_a_run_reads_its_prompt_and_says_so_as_claude_code_does(site):
    prompt = b'Do as you are told.\n@agent say a "quoted" \\ word\n@agent variable ANTHROPIC_API_KEY\n'
    job = site.start("happy", prompt)
    assert site.ended(job)["type"] == "Complete"
    first, said, variable, _, last = _events(site.log(job))
    assert (first["type"], first["subtype"]) == ("system", "init")
    assert said["message"]["content"][0]["text"] == 'a "quoted" \\ word'
    assert variable["message"]["content"][0]["text"].endswith(hashlib.sha256(ground.AGENT_KEY.encode()).hexdigest())
    assert last["result"] == f"prompt of {len(prompt)} bytes, sha256 {hashlib.sha256(prompt).hexdigest()}"
    assert last["session_id"] == first["session_id"]


def test_a_prompt_of_five_mebibytes_arrives_byte_by_byte(site):
    prompt = b"@agent say hello\n" + bytes(range(1, 256)) * (5 << 12)
    job = site.start("large-prompt", prompt)
    assert site.ended(job)["type"] == "Complete"
    assert hashlib.sha256(prompt).hexdigest() in _events(site.log(job))[-1]["result"]


def test_an_exit_code_is_the_programs_own(site):
    job = site.start("exits", b"@agent exit 23\n")
    condition = site.ended(job)
    assert (condition["type"], condition["reason"]) == ("Failed", "PodFailurePolicy")
    assert site.terminated(job)["exitCode"] == 23


def test_too_much_memory_is_named_as_the_cause(site):
    job = site.start("eats", b"@agent eat\n")
    site.ended(job)
    ended = site.terminated(job)
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_killed_child_leaves_the_word_oomkilled_though_the_agent_ended_well(site):
    job = site.start("spills", b"@agent spill\n")
    assert site.ended(job)["type"] == "Complete"
    ended = site.terminated(job)
    assert (ended["exitCode"], ended["reason"]) == (0, "OOMKilled")


def test_too_much_disk_is_an_eviction_that_the_job_does_not_tell(site):
    """The kubelet sets no DisruptionTarget where a pod is over its own limit: only the pod's status has the cause."""
    job = site.start("fills", b"@agent fill /tmp/large 400\n@agent sleep 120\n")
    condition = site.ended(job, 120)
    assert condition["reason"] == "PodFailurePolicy"
    assert "failed with exit code" in condition["message"]
    status = site.pod(job)["status"]
    assert status["reason"] == "Evicted"
    assert "ephemeral local storage usage exceeds" in status["message"]


def test_an_eviction_from_outside_is_told_by_the_job(site):
    job = site.start("evicted", b"@agent say ready\n@agent sleep 60\n")
    controlplane.wait_until("the agent to be ready", 30, lambda: "ready" in site.log(job), lambda: site.story(job))
    site.evict(site.pod(job)["metadata"]["name"])
    condition = site.ended(job)
    assert condition["reason"] == "PodFailurePolicy"
    assert "DisruptionTarget" in condition["message"]


def test_a_stop_reaches_the_agent_and_its_last_words_are_in_the_log(site):
    job = site.start("stopped", b"@agent say ready\n@agent on-term 1 7\n@agent sleep 60\n")
    controlplane.wait_until("the agent to be ready", 30, lambda: "ready" in site.log(job), lambda: site.story(job))
    pod = site.pod(job)["metadata"]["name"]
    site.cluster.must("delete", "pod", pod, "-n", site.agents, "--wait=false")
    said = site.as_launcher("logs", "-n", site.agents, pod, "--follow").out
    assert '"text":"stopped"' in said
    site.ended(job)


def test_an_agent_that_ignores_a_stop_is_killed_after_the_grace(site):
    job = site.start("stubborn", b"@agent ignore-term\n@agent say ready\n@agent sleep 120\n")
    controlplane.wait_until("the agent to be ready", 30, lambda: "ready" in site.log(job), lambda: site.story(job))
    site.cluster.must("delete", "job", job, "-n", site.agents, "--cascade=foreground", "--timeout=40s")
    assert site.pod(job) is None


def test_a_deadline_ends_the_run_and_the_job_says_so(site):
    job = site.start("late", b"@agent sleep 120\n", deadline_seconds=4)
    assert site.ended(job)["reason"] == "DeadlineExceeded"


def test_an_image_that_cannot_be_pulled_is_told_within_seconds(site):
    job = site.start("no-image", b"", image=ABSENT)

    def waiting() -> str:
        status = (site.pod(job) or {}).get("status", {})
        states = [one["state"] for one in status.get("containerStatuses") or ()]
        return str(states[0].get("waiting", {}).get("reason", "")) if states else ""

    controlplane.wait_until("the word of it", 30, lambda: waiting() in {"ErrImagePull", "ImagePullBackOff"})


def test_a_session_can_be_gone_on_with_and_an_unknown_one_is_refused(site):
    first = site.start("session-1", b"")
    site.ended(first)
    session = _events(site.log(first))[0]["session_id"]
    second = site.start("session-2", b"", arguments=["--resume", session])
    unknown = site.start("session-3", b"", arguments=["--resume", "no-such-session"])
    assert site.ended(second)["type"] == "Complete"
    assert _events(site.log(second))[0]["session_id"] == session
    assert site.ended(unknown)["type"] == "Failed"
    assert "No conversation found with session ID: no-such-session" in site.log(unknown)


def test_the_launchers_account_may_do_what_its_calls_need_and_no_more(site):
    for call in LAUNCHER_CALLS:
        resource = f"{call.resource.split('/')[0]}.{call.group}".rstrip(".")
        within = [f"--subresource={call.resource.split('/')[1]}"] if "/" in call.resource else []
        for verb in call.verbs:
            asked = site.as_launcher("auth", "can-i", verb, resource, *within, "-n", site.agents)
            assert asked.out.strip() == "yes", (verb, call.resource)
    for verb, resource in (("get", "secrets"), ("list", "secrets"), ("create", "pods"), ("create", "pods/exec")):
        assert site.as_launcher("auth", "can-i", verb, resource, "-n", site.agents).out.strip() == "no"
    assert site.as_launcher("auth", "can-i", "create", "jobs", "-n", site.config.namespace.name).out.strip() == "no"
