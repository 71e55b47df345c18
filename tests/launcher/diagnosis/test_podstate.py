"""Where a run stands, and how it ended, out of the statuses that Kubernetes writes."""

from __future__ import annotations

import pytest

from paperclip_launcher import podstate
from paperclip_launcher.codes import CODES

JOB_UID, POD_UID = "job-uid", "pod-uid"
EPOCH = "1970-01-01T00:00:00Z"


def job_of(*conditions, **spec):
    said = [
        {"type": kind, "status": "True", "reason": reason, "message": message} for kind, reason, message in conditions
    ]
    return {"metadata": {"name": "run-1", "uid": JOB_UID}, "spec": spec, "status": {"conditions": said}}


def pod_of(state=None, phase="Running", *, name="run-1-abc", conditions=(), **status):
    meta = {"name": name, "uid": POD_UID, "ownerReferences": [{"kind": "Job", "uid": JOB_UID}]}
    containers = [{"name": "sidecar", "state": {"running": {}}}]
    if state is not None:
        containers.append({"name": "agent", "state": state, "containerID": "containerd://1"})
    spec = {"nodeName": "n1", "containers": [{"name": "agent", "resources": {"limits": {"memory": "8Gi"}}}]}
    said = [{"type": kind, "status": value, "reason": reason} for kind, value, reason in conditions]
    body = {"phase": phase, "conditions": said, "containerStatuses": containers, **status}
    return {"metadata": meta, "spec": spec, "status": body}


def ended(code, reason="Error", message="", phase="Failed", **status):
    end = {"exitCode": code, "reason": reason, "message": message, "startedAt": "2026-11-21T06:00:00Z"}
    return pod_of({"terminated": end}, phase, **status)


RUNNING = pod_of({"running": {"startedAt": "2026-11-21T06:00:00Z"}})


@pytest.mark.parametrize(
    ("conditions", "terminal", "early"),
    [
        ([], "", ""),
        ([("Suspended", "JobSuspended", "")], "", ""),
        ([("FailureTarget", "DeadlineExceeded", "")], "", "Failed(DeadlineExceeded)"),
        ([("SuccessCriteriaMet", "CompletionsReached", "")], "", "Complete(CompletionsReached)"),
        (
            [("FailureTarget", "x", ""), ("Failed", "BackoffLimitExceeded", "")],
            "Failed(BackoffLimitExceeded)",
            "Failed(x)",
        ),
        ([("Complete", "", "")], "Complete", ""),
    ],
)
def test_a_job_is_over_with_its_last_condition_and_says_so_before(conditions, terminal, early):
    job = job_of(*conditions)
    assert (podstate.terminal(job), podstate.early_end(job)) == (terminal, early)


def test_a_condition_that_does_not_hold_says_nothing():
    job = {"status": {"conditions": [{"type": "Failed", "status": "False", "reason": "x"}]}}
    assert podstate.terminal(job) == ""
    assert podstate.terminal(None) == podstate.terminal({}) == podstate.terminal({"status": {}}) == ""


def test_the_pod_of_a_job_is_the_newest_that_stays():
    def pod(name, created, *, owner=JOB_UID, deleting=False):
        meta = {"name": name, "creationTimestamp": created, "ownerReferences": [{"uid": owner}]}
        return {"metadata": meta | ({"deletionTimestamp": created} if deleting else {})}

    old, new = pod("old", "2026-11-21T06:00:00Z"), pod("new", "2026-11-21T06:00:09Z", deleting=True)
    other = pod("other", "2026-11-21T07:00:00Z", owner="another")
    assert podstate.pod_of(job_of(), [new, old, other])["metadata"]["name"] == "old"
    assert podstate.pod_of(job_of(), [new, other])["metadata"]["name"] == "new"
    assert podstate.pod_of(job_of(), [other]) is None


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (None, False),
        ({"metadata": {"name": "p"}}, False),
        (pod_of({"waiting": {"reason": "ContainerCreating"}}), False),
        (RUNNING, True),
        (ended(0, "Completed"), True),
        (ended(128, "StartError"), False),
        (ended(137, "ContainerStatusUnknown"), True),
    ],
)
def test_a_container_has_started_once_it_ran(pod, expected):
    assert podstate.started(pod) is expected


def test_a_container_that_was_never_made_has_not_started():
    pod = ended(137, "ContainerStatusUnknown")
    pod["status"]["containerStatuses"][1]["containerID"] = ""
    assert not podstate.started(pod)


def test_the_sidecar_is_never_taken_for_the_agent():
    assert podstate.container(pod_of()) == {}
    assert podstate.container(RUNNING)["name"] == "agent"


def test_a_good_end():
    found = podstate.ending(job_of(("Complete", "CompletionsReached", "")), ended(0, "Completed", phase="Succeeded"))
    assert (found.exit_code, found.signal, found.reason, found.started) == (0, None, "Completed", True)
    assert (found.job_condition, found.diagnosis, found.gone) == ("Complete(CompletionsReached)", None, False)


@pytest.mark.parametrize(("code", "number"), [(1, None), (127, None), (130, 2), (137, 9), (143, 15), (200, None)])
def test_an_exit_code_above_128_is_a_signal(code, number):
    assert podstate.ending(job_of(), ended(code)).signal == number


def test_the_code_of_a_lost_container_is_no_code():
    found = podstate.ending(job_of(), ended(137, "ContainerStatusUnknown"))
    assert (found.exit_code, found.signal, found.reason) == (None, None, "ContainerStatusUnknown")


def test_the_job_tells_the_code_of_a_pod_that_is_gone():
    message = "Container agent for pod ns/run-1-abc failed with exit code 3 matching FailJob rule at index 1"
    found = podstate.ending(job_of(("Failed", "PodFailurePolicy", message)), None)
    assert (found.exit_code, found.started, found.gone) == (3, True, False)
    assert podstate.ending(job_of(("Complete", "", "")), None).exit_code == 0
    # The view may still hold the pod as it last ran.
    assert podstate.ending(job_of(("Failed", "PodFailurePolicy", message)), RUNNING).exit_code == 3


def test_what_vanished_before_its_end_is_gone():
    assert podstate.ending(None, None).gone
    assert podstate.ending(None, RUNNING).gone
    assert podstate.ending(job_of(), None).gone
    assert not podstate.ending(job_of(), RUNNING).gone
    assert not podstate.ending(None, ended(1)).gone


def disrupted(reason, message="", *, state=None, phase="Failed", **status):
    pod = pod_of(state, phase, **status)
    pod["status"]["conditions"].append(
        {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    )
    return pod


KILLED = {"terminated": {"exitCode": 137, "reason": "Error"}}
STOPPED = {"terminated": {"exitCode": 143, "reason": "Error"}}
EMPTY_DIR = 'Usage of EmptyDir volume "tmp" exceeds the limit "2Gi". '
LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. "
DEADLINE = job_of(("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"))
GONE_DISRUPTED = job_of(
    ("Failed", "PodFailurePolicy", "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 0")
)
ENTRY = "paperclip-entry: the program claude is not in this image; PATH is /bin"


@pytest.mark.parametrize(
    ("job", "pod", "code", "words"),
    [
        (job_of(), ended(137, "OOMKilled"), "k8s_oom_killed", "its limit of 8Gi"),
        (job_of(), pod_of(KILLED, "Failed", reason="Evicted", message=LOW), "k8s_pod_evicted", "short of memory"),
        (job_of(), pod_of(None, "Failed", reason="Evicted", message=EMPTY_DIR), "k8s_pod_evicted", "more than 2Gi"),
        (job_of(), disrupted("TerminationByKubelet", EMPTY_DIR, state=KILLED), "k8s_pod_evicted", "volume tmp"),
        (job_of(), disrupted("PreemptionByScheduler", state=STOPPED), "k8s_pod_evicted", "higher priority"),
        (job_of(), disrupted("EvictionByEvictionAPI", state=STOPPED), "k8s_pod_evicted", "drained"),
        (job_of(), disrupted("DeletionByTaintManager", state=STOPPED), "k8s_pod_evicted", "tainted"),
        (job_of(), disrupted("DeletionByPodGC", state={"running": {}}), "k8s_node_lost", "node was removed"),
        (job_of(), pod_of({"running": {}}, "Failed", reason="NodeLost"), "k8s_node_lost", "does not answer"),
        (job_of(), pod_of(STOPPED, "Failed", reason="Terminated", message="imminent node shutdown"), "k8s_pod_evicted",
         "shut down"),
        (job_of(), pod_of(None, "Failed", reason="OutOfcpu", message="Node didn't have enough"), "k8s_unschedulable",
         "turned the pod away (OutOfcpu)"),
        (job_of(), ended(128, "StartError", 'exec: "/bin/sh": stat /bin/sh: no such file or directory'),
         "k8s_container_start_failed", "no /bin/sh"),
        (job_of(), ended(127, message=f"mkdir: x\n{ENTRY}\n"), "agent_entry_failed", "was not started"),
        (job_of(), ended(137), "agent_exit_nonzero", "does not say why"),
        (DEADLINE, ended(143), "timeout", "time of the run is over"),
        (DEADLINE, None, "timeout", "time of the run is over"),
        (GONE_DISRUPTED, None, "k8s_pod_evicted", "evicted"),
        (GONE_DISRUPTED, RUNNING, "k8s_pod_evicted", "evicted"),
    ],
)  # fmt: skip
def test_an_end_with_a_cause_of_its_own(job, pod, code, words):
    found = podstate.ending(job, pod).diagnosis
    assert (found.code, found.hard) == (code, True)
    assert words in found.text
    assert code in CODES
    assert found.remedy


def test_an_init_container_that_failed():
    init = {"name": "fetch", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}
    found = podstate.end_cause(job_of(), pod_of({"waiting": {}}, "Failed", initContainerStatuses=[init]))
    assert (found.code, found.text) == ("k8s_init_failed", "The init container fetch failed: exit 2, Error")


@pytest.mark.parametrize(
    "pod",
    [
        RUNNING,
        ended(1),
        ended(0, "Completed"),
        disrupted("EvictionByEvictionAPI", state={"terminated": {"exitCode": 0}}, phase="Succeeded"),
        ended(127, message="bash: nope: command not found"),
        ended(1, message=ENTRY),
        ended(127, message=f"{ENTRY}\nand the agent went on"),
        ended(143),
    ],
)
def test_the_agents_own_end_has_no_other_cause(pod):
    assert podstate.end_cause(job_of(), pod) is None


def test_a_run_that_stops_for_its_deadline_has_not_ended():
    stopping = job_of(("FailureTarget", "DeadlineExceeded", ""))
    assert podstate.end_cause(stopping, RUNNING) is None
    assert podstate.end_cause(stopping, ended(143)).code == "timeout"


def test_a_killed_container_of_a_deleted_pod_was_given_its_time():
    pod = ended(137)
    pod["metadata"]["deletionTimestamp"] = "2026-11-21T06:00:00Z"
    assert "grace time" in podstate.end_cause(job_of(), pod).text


def test_progress_names_the_step_and_repeats_itself():
    init = [{"name": "fetch", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]
    pod = pod_of({"waiting": {"reason": "ContainerCreating"}}, "Pending", initContainerStatuses=init)
    line = podstate.progress(job_of(), pod)
    assert line == (
        "Pod run-1-abc: phase=Pending, init/fetch: terminated (exit 0, Completed), "
        "sidecar: running, agent: waiting (ContainerCreating)"
    )
    assert podstate.progress(job_of(), None) == "Job run-1: waits for its pod"
    assert "suspended" in podstate.progress(job_of(suspend=True), None)
    assert podstate.progress(DEADLINE, None) == "Job run-1: Failed(DeadlineExceeded)"
    assert podstate.progress(None, None) == "The Job is not there"
    assert podstate.progress(None, {}) == "Pod : phase=Unknown, no node yet"


def test_half_a_status_is_enough():
    for pod in ({}, {"status": None}, {"status": {"containerStatuses": None}}, {"status": {"conditions": None}}):
        assert podstate.ending({}, pod).exit_code is None
        assert podstate.progress({}, pod)
        assert podstate.end_cause({}, pod) is None


def test_a_failed_pod_is_described_by_its_container():
    pod = {"metadata": {"name": "p"}, "status": {"phase": "Failed", "containerStatuses": [
        {"name": "claude", "state": {"terminated": {"exitCode": None, "message": "m"}}}]}}  # fmt: skip
    assert podstate.describe_pod_terminated(pod, "claude") == "Pod p reached phase=Failed: claude exited unknown (m)"
    assert podstate.describe_pod_terminated(pod) == "Pod p reached phase=Failed"


def test_a_cut_output_is_explained_by_what_is_known():
    assert podstate.describe_truncation({"exitCode": 137, "signal": 9}) == (
        "exit code 137, SIGKILL (commonly OOMKilled), signal 9"
    )
    assert "(pod phase=Running)" in podstate.describe_truncation(None, missing=False, phase="Running")
    assert podstate.describe_truncation(None, missing=True).startswith("pod is gone")
    assert podstate.describe_truncation(None).startswith("pod state unavailable")


@pytest.mark.parametrize(
    ("reason", "node", "certain"),
    [
        ("", "n1", True),
        ("EvictionByEvictionAPI", "n1", True),
        ("DeletionByPodGC", "n1", False),
        ("DeletionByPodGC", "", True),
    ],
)
def test_that_a_container_never_started_is_not_believed_of_a_lost_node(reason, node, certain):
    """There the control plane says that the pod has failed, and the kubelet may have started it."""
    pod = pod_of({"waiting": {}}, "Failed", conditions=[("DisruptionTarget", "True", reason)])
    pod["spec"]["nodeName"] = node
    assert podstate.never_started(pod) == certain
