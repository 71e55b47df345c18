"""Each way in which a run does not start, in the words of Kubernetes 1.35, and what is said of it."""

from __future__ import annotations

import re
import string

import pytest

from paperclip_launcher.causes import cause, ends, places, refusals, starts
from paperclip_launcher.codes import CODES
from paperclip_launcher.diagnose import HARD_AFTER, diagnose, hard_after, refusal, start_timeout

JOB = {"metadata": {"name": "run-1", "uid": "job-uid"}, "spec": {}, "status": {}}
IMAGE = "ghcr.io/paperclipai/agent:1"
POD_FORBIDDEN = 'Error creating: pods "run-1-x" is forbidden: '


def pod_of(waiting="", message="", *, conditions=(), node="n1", status=(), meta=()):
    said = [{"type": kind, "status": value, **extra} for kind, value, extra in conditions]
    state = {"waiting": {"reason": waiting, "message": message}}
    agent = {"name": "agent", "image": IMAGE, "state": state}
    spec = {
        "nodeName": node,
        "containers": [{"name": "agent", "image": IMAGE, "envFrom": [{"secretRef": {"name": "run-1-env"}}]}],
        "volumes": [{"name": "prompt", "projected": {"sources": [{"secret": {"name": "run-1-prompt-0"}}]}}],
    }
    return {
        "metadata": {"name": "run-1-x", "uid": "pod-uid", **dict(meta)},
        "spec": spec,
        "status": {"phase": "Pending", "conditions": said, "containerStatuses": [agent], **dict(status)},
    }


def unschedulable(message, reason="Unschedulable"):
    said = ("PodScheduled", "False", {"reason": reason, "message": message})
    pod = pod_of(conditions=[said], node="")
    del pod["status"]["containerStatuses"]
    return pod


def event(reason, message, *, uid="pod-uid", at="06:00:00", first="", kind="Warning"):
    stamps = {"firstTimestamp": f"2026-11-21T{first or at}Z", "lastTimestamp": f"2026-11-21T{at}Z"}
    return {"type": kind, "reason": reason, "message": message, "involvedObject": {"uid": uid}, **stamps}


REFUSED = [
    ("exceeded quota: agents, requested: limits.cpu=4, used: limits.cpu=8, limited: limits.cpu=8",
     "k8s_quota_exceeded", False, "quota agents has no room for limits.cpu=4"),
    ("failed quota: agents: must specify limits.cpu for: agent; requests.memory for: agent",
     "k8s_limit_range_refused", True, "wants limits.cpu for: agent"),
    ("status unknown for quota: agents, resources: pods", "k8s_quota_exceeded", False, "not been counted"),
    ("[minimum cpu usage per Container is 100m, but request is 50m, maximum memory usage per Pod is 1Gi]",
     "k8s_limit_range_refused", True, "minimum cpu usage per Container"),
    ("memory max limit to request ratio per Container is 2, but provided ratio is 4.000000",
     "k8s_limit_range_refused", True, "ratio"),
    ('violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "agent" must set ...)',
     "k8s_pod_security_refused", True, "level restricted:latest"),
    ('admission webhook "validate.kyverno.svc-fail" denied the request: no', "k8s_admission_refused", True, "kyverno"),
    ("ValidatingAdmissionPolicy 'agents' with binding 'b' denied request: no", "k8s_admission_refused", True, "agents"),
    ('failed calling webhook "v.example.com": failed to call webhook: Post "https://v.svc:443/": connection refused',
     "k8s_pod_schedule_failed", False, "does not answer"),
    ('error looking up service account ns/runner: serviceaccount "runner" not found',
     "k8s_admission_refused", False, "account runner"),
    ("no PriorityClass with name high was found", "k8s_admission_refused", True, "priority class high"),
    ('pod rejected: RuntimeClass "gvisor" not found', "k8s_admission_refused", True, "runtime class gvisor"),
    ("unable to create new content in namespace ns because it is being terminated",
     "k8s_admission_refused", True, "being deleted"),
    ("something new", "k8s_admission_refused", True, "forbids it"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "code", "hard", "words"), REFUSED, ids=range(len(REFUSED)))
def test_a_pod_that_may_not_be_created(message, code, hard, words):
    found = diagnose(JOB, None, [event("FailedCreate", POD_FORBIDDEN + message, uid="job-uid")])
    assert (found.code, found.hard) == (code, hard)
    assert words in found.summary
    assert found.detail
    assert found.remedy


def test_an_unknown_failure_to_create_is_tried_on_by_kubernetes():
    found = diagnose(JOB, None, [event("FailedCreate", "Error creating: Internal error occurred", uid="job-uid")])
    assert (found.code, found.hard) == ("k8s_pod_schedule_failed", False)


@pytest.mark.parametrize(
    ("message", "code", "hard"),
    [
        ('namespaces "agents" not found', "k8s_job_create_failed", True),
        ('jobs.batch is forbidden: User "u" cannot create resource "jobs" in API group "batch"', "k8s_forbidden", True),
        ('Job.batch "x" is invalid: spec.template: Required value', "k8s_job_create_failed", True),
        (
            'jobs.batch "x" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, us',
            "k8s_quota_exceeded",
            False,
        ),
        ("?", "k8s_job_create_failed", True),
    ],
)
def test_the_answer_to_our_own_create(message, code, hard):
    found = refusal(message)
    assert (found.code, found.hard) == (code, hard)


WAITING = [
    ("InvalidImageName", "couldn't parse image name", "k8s_image_invalid", True, IMAGE),
    ("ErrImageNeverPull", "not present with pull policy of Never", "k8s_image_invalid", True, "may not be pulled"),
    ("SignatureValidationFailed", "", "k8s_image_invalid", True, "signature"),
    ("ErrImagePull", f'rpc error: failed to resolve reference "{IMAGE}": {IMAGE}: not found',
     "k8s_image_pull_failed", False, "not in its registry"),
    ("ErrImagePull", 'rpc error: Head "https://x/v2/": 401 Unauthorized', "k8s_image_pull_failed", False, "not give"),
    ("ErrImagePull", "rpc error: dial tcp: lookup x: no such host", "k8s_image_pull_failed", False, "cannot reach"),
    ("ErrImagePull", "rpc error: toomanyrequests: slow down", "k8s_image_pull_failed", False, "limits how often"),
    ("ErrImagePull", "rpc error: x509: unknown authority", "k8s_image_pull_failed", False, "not trust"),
    ("ErrImagePull", "rpc error: no match for platform in manifest", "k8s_image_pull_failed", False, "architecture"),
    ("ErrImagePull", "rpc error: no space left on device", "k8s_image_pull_failed", False, "disk space"),
    ("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"', "k8s_image_pull_failed", False, "cannot be pulled"),
    ("CreateContainerConfigError", 'secret "keys" not found', "k8s_container_config", False, "secret keys is not"),
    ("CreateContainerConfigError", "couldn't find key API_KEY in Secret ns/keys",
     "k8s_container_config", False, "Secret keys has no key API_KEY"),
    ("CreateContainerConfigError", 'configmap "c" not found', "k8s_container_config", False, "configmap c"),
    ("CreateContainerConfigError", "failed to sync secret cache: timed out waiting for the condition",
     "k8s_container_config", False, "not read"),
    ("CreateContainerConfigError", "container has runAsNonRoot and image will run as root (pod: x)",
     "k8s_container_config", True, "as root"),
    ("CreateContainerConfigError", 'failed to prepare subPath for volumeMount "workspace" of container "agent"',
     "k8s_volume_failed", False, "folder of the agent"),
    ("CreateContainerConfigError", "else", "k8s_container_config", False, "configured"),
    ("CreateContainerConfigError", 'secret "run-1-env" not found', "k8s_launch_incomplete", False, "run-1-env"),
    ("CreateContainerError", "context deadline exceeded", "k8s_container_start_failed", False, "cannot make"),
    ("RunContainerError", "x", "k8s_container_start_failed", False, "cannot make"),
    ("CrashLoopBackOff", "back-off 10s", "k8s_container_start_failed", True, "second time"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "message", "code", "hard", "words"), WAITING, ids=range(len(WAITING)))
def test_a_container_that_waits(reason, message, code, hard, words):
    found = diagnose(JOB, pod_of(reason, message))
    assert (found.code, found.hard) == (code, hard)
    assert words in found.summary


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", ""])
def test_a_container_that_is_being_made_is_well(reason):
    assert diagnose(JOB, pod_of(reason)) is None


def test_the_cause_of_a_back_off_is_in_the_event_of_the_last_try():
    events = [
        event("Failed", 'Failed to pull image "x": rpc error: no such host', at="06:00:00"),
        event("Failed", 'Failed to pull image "x": rpc error: 403 Forbidden', at="06:00:30"),
        event("Failed", "Error: ImagePullBackOff", at="06:00:40"),
        event("FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (pull)", at="06:00:20"),
        event("Failed", 'Failed to pull image "x": rpc error: x509', at="06:00:50", uid="an older pod"),
    ]
    found = diagnose(JOB, pod_of("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"'), events)
    assert "does not give" in found.summary
    assert "403 Forbidden" in found.detail
    assert "(pull)" in found.remedy


def test_words_in_the_name_of_an_image_are_no_cause():
    pod = pod_of("ErrImagePull", 'rpc error: failed to pull "r.io/denied/x509:404": strange')
    pod["status"]["containerStatuses"][0]["image"] = "r.io/denied/x509:404"
    assert diagnose(JOB, pod).summary == "The image r.io/denied/x509:404 cannot be pulled"


NODES = [
    ("0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Insufficient nvidia.com/gpu. preemption: no",
     "k8s_unschedulable", "nvidia.com/gpu"),
    ("0/3 nodes are available: 3 node(s) had untolerated taint(s).", "k8s_unschedulable", "tainted"),
    ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", "k8s_unschedulable", "labels"),
    ("0/1 nodes are available: 1 Too many pods.", "k8s_unschedulable", "as many pods"),
    ("no nodes available to schedule pods", "k8s_unschedulable", "no node for pods"),
    ("0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode",
     "k8s_unschedulable", "Only one pod"),
    ("0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.", "k8s_unschedulable",
     "volume"),
    ('0/1 nodes are available: persistentvolumeclaim "w" not found.', "k8s_volume_failed", "claim w does not exist"),
    ('0/1 nodes are available: persistentvolumeclaim "w" is being deleted.', "k8s_volume_failed", "being deleted"),
    ("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "k8s_volume_failed", "no volume"),
    ("", "k8s_unschedulable", "No node takes"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "code", "words"), NODES, ids=range(len(NODES)))
def test_a_pod_without_a_node_is_given_time(message, code, words):
    found = diagnose(JOB, unschedulable(message))
    assert (found.code, found.hard) == (code, False)
    assert words in found.summary


MOUNT = 'MountVolume.SetUp failed for volume "prompt" : '
VOLUMES = [
    ("FailedMount", MOUNT + 'secret "run-1-prompt-0" not found', "k8s_launch_incomplete", "run-1-prompt-0"),
    ("FailedMount", MOUNT + 'secret "other" not found', "k8s_container_config", "secret other"),
    ("FailedMount", MOUNT + "references non-existent secret key: part-0000", "k8s_container_config", "part-0000"),
    ("FailedMount", "Unable to attach or mount volumes: timed out waiting for the condition", "k8s_volume_failed",
     "in time"),
    ("FailedMount", MOUNT + "mount failed: access denied by server", "k8s_volume_failed", "refuses"),
    ("FailedMount", MOUNT + "else", "k8s_volume_failed", "cannot be mounted"),
    ("FailedAttachVolume", 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) run-0-y',
     "k8s_volume_failed", "by run-0-y"),
    ("FailedAttachVolume", 'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node',
     "k8s_volume_failed", "another node"),
    ("FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error", "k8s_container_start_failed", "set up"),
    ("NetworkNotReady", "network is not ready", "k8s_container_start_failed", "set up"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "message", "code", "words"), VOLUMES, ids=range(len(VOLUMES)))
def test_a_pod_whose_node_is_not_ready_for_it(reason, message, code, words):
    found = diagnose(JOB, pod_of("ContainerCreating"), [event(reason, message)])
    assert (found.code, found.hard) == (code, False)
    assert words in found.summary


def test_once_the_sandbox_is_made_failed_mounts_are_history():
    ready = [("PodReadyToStartContainers", "True", {})]
    pod = pod_of("ContainerCreating", conditions=ready)
    assert diagnose(JOB, pod, [event("FailedMount", MOUNT + "x")]) is None


def test_a_mount_that_would_have_failed_again_by_now_has_not():
    second = 1795240800  # 2026-11-21T06:00:00Z
    events = [event("FailedMount", MOUNT + "x", first="06:00:00", at="06:00:08")]
    pod = pod_of("ContainerCreating")
    assert diagnose(JOB, pod, events, second + 8 + 16) is not None
    assert diagnose(JOB, pod, events, second + 8 + 40) is None
    slow = [event("FailedMount", MOUNT + "x", first="06:00:00", at="07:00:00")]
    assert diagnose(JOB, pod, slow, second + 3600 + 120) is not None
    assert diagnose(JOB, pod, slow, second + 3600 + 140) is None


def test_the_newest_event_counts_in_whatever_form_its_time_comes():
    old = event("FailedMount", MOUNT + "old", at="06:00:59")
    new = event("FailedMount", MOUNT + "new", at="05:00:00")
    new |= {"lastTimestamp": None, "eventTime": "2026-11-21T06:01:00.000001Z", "firstTimestamp": None}
    assert "new" in diagnose(JOB, pod_of("ContainerCreating"), [old, new]).detail
    series = event("FailedMount", MOUNT + "series") | {"series": {"lastObservedTime": "2026-11-21T06:02:00.5Z"}}
    assert "series" in diagnose(JOB, pod_of("ContainerCreating"), [new, series, old]).detail


def test_events_of_others_and_of_no_weight_are_left_out():
    events = [
        event("FailedMount", "x", uid="another"),
        event("FailedMount", "x", kind="Normal"),
        {"reason": "FailedMount"},
    ]
    assert diagnose(JOB, pod_of("ContainerCreating"), events) is None
    assert diagnose({"metadata": {}}, {"metadata": {}}, events) is None


def test_why_no_pod_could_be_made_does_not_matter_once_there_is_one():
    refused = event("FailedCreate", POD_FORBIDDEN + "exceeded quota: q, requested: a, used: b", uid="job-uid")
    assert diagnose(JOB, pod_of("ContainerCreating"), [refused]) is None


def test_a_queue_and_a_gate_hold_a_run_back():
    queue = {"kueue.x-k8s.io/queue-name": "agents"}
    job = {"metadata": {"name": "run-1", "uid": "job-uid", "labels": queue}, "spec": {"suspend": True}}
    found = diagnose(job, None)
    assert (found.code, found.hard) == ("k8s_queue_waiting", False)
    assert found.text == "Kueue has not admitted the Job from the queue agents."
    assert diagnose({"metadata": {}, "spec": {"suspend": True}}, None).summary == "The Job is suspended"
    assert diagnose(JOB, unschedulable("", "SchedulingGated")).code == "k8s_queue_waiting"


def test_an_init_container_is_named():
    pod = pod_of("PodInitializing")
    waiting = {"reason": "ErrImagePull", "message": "rpc error: manifest unknown"}
    done = {"name": "a", "state": {"terminated": {"exitCode": 0}}}
    pod["status"]["initContainerStatuses"] = [done, {"name": "fetch", "image": "i", "state": {"waiting": waiting}}]
    assert diagnose(JOB, pod).summary == "The image i is not in its registry (init container fetch)"
    pod["status"]["initContainerStatuses"][1]["state"]["waiting"]["reason"] = "CrashLoopBackOff"
    found = diagnose(JOB, pod)
    assert (found.code, found.hard) == ("k8s_init_failed", False)


def running(*conditions, **more):
    pod = pod_of(conditions=conditions, **more)
    pod["status"] |= {"phase": "Running"}
    pod["status"]["containerStatuses"][0]["state"] = {"running": {}}
    return pod


READY = (("Ready", "True", {}), ("ContainersReady", "True", {}))
SILENT = (("Ready", "False", {}), ("ContainersReady", "True", {}))


def test_a_running_pod_is_well_and_old_events_do_not_matter():
    assert diagnose(JOB, running(*READY), [event("FailedMount", "x")]) is None
    assert diagnose(JOB, running(("Ready", "False", {}), ("ContainersReady", "False", {}))) is None


def test_a_silent_node_may_come_back():
    found = diagnose(JOB, running(*SILENT))
    assert (found.code, found.hard) == ("k8s_node_lost", False)
    assert "node n1" in found.detail
    assert hard_after(found.code) == 300


def test_a_pod_that_is_being_evicted_may_still_finish():
    evicted = ("DisruptionTarget", "True", {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"})
    found = diagnose(JOB, running(*READY, evicted))
    assert (found.code, found.hard) == ("k8s_pod_evicted", False)
    lost = ("DisruptionTarget", "True", {"reason": "DeletionByTaintManager"})
    assert diagnose(JOB, running(*SILENT, lost)).code == "k8s_node_lost"


def test_an_ended_run_gets_the_cause_of_its_end():
    pod = running(*READY)
    pod["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    assert diagnose(JOB, pod).code == "k8s_oom_killed"
    pod["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 1, "reason": "Error"}}
    assert diagnose(JOB, pod, [event("FailedMount", "x")]) is None
    done = JOB | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert diagnose(done, None, [event("FailedCreate", "x", uid="job-uid")]) is None
    assert diagnose(None, None) is None


def test_too_slow_a_start_tells_what_is_known():
    soft = start_timeout(JOB, unschedulable("no nodes available to schedule pods"), [], 600)
    assert (soft.code, soft.hard) == ("k8s_unschedulable", True)
    found = start_timeout(JOB, pod_of("ContainerCreating"), [event("Strange", "first"), event("Odd", "it is")], 600)
    assert (found.code, found.hard) == ("k8s_pod_schedule_failed", True)
    assert "600 s" in found.summary
    assert found.detail in {"Strange: first", "Odd: it is"}
    assert "waits for its pod" in start_timeout(JOB, None, [], 90).detail


TABLES = (refusals.REFUSALS, starts.PULLS, starts.CONFIGS, places.MOUNTS, places.PLACES, ends.EVICTIONS, ends.STARTS)


@pytest.mark.parametrize("row", [row for table in TABLES for row in table], ids=lambda row: row.summary[:40])
def test_every_row_can_be_said(row):
    wanted = {name for _, name, _, _ in string.Formatter().parse(row.summary) if name} - {"image"}
    assert wanted <= set(re.compile(row.pattern).groupindex)
    assert row.code in CODES
    assert row.remedy
    if not row.hard:
        bounded = {"k8s_quota_exceeded", "k8s_unschedulable", "k8s_pod_schedule_failed"}
        assert (hard_after(row.code) is not None) is (row.code not in bounded)


def test_codes_with_a_bound_are_known():
    assert set(HARD_AFTER) <= set(CODES)


def test_details_are_one_short_printable_line_without_credentials():
    text = cause.tidy('a\x1b[31mb\x00c\n\td\x9b "https://u:p@h/x?X-Signature=s&y=1": ' + "m" * 300 + " the end")
    assert text.startswith('a b c d "https://h/x": mm')
    assert text.endswith("m the end")
    assert len(text) == 256
    assert text.isprintable()
    assert cause.tidy(None) == ""


def test_hostile_messages_are_read_quickly():
    """No pattern may run away on a long message: each table reads 64 KiB of nearly fitting text."""
    for text in ("Insufficient " * 5000, 'secret "' * 8000, "exceeded quota: a, requested: " * 2200):
        for table in TABLES:
            cause.diagnosed(table, text[:65536], image="i")
