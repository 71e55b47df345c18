"""A Job that never gets a pod: when may the server begin its run anew?"""

from __future__ import annotations

import asyncio

import pytest

from kubekit.names import job_name
from paperclip_launcher import marks
from paperclip_launcher.cluster.transport import NotSent
from paperclip_launcher.unstarted import made_no_pod
from tests.fakeapi.cluster import NAMESPACE
from tests.fakeapi.model import Program, Refusal
from tests.launcher.core.stage import Reader, Stage, request, spoken

KEY = job_name("agent-1", "run-1")
NOTHING_RAN = {"kind": "bootstrap", "providerWorkStarted": False}
FULL = 'pods "x" is forbidden: exceeded quota: agents, requested: pods=1, used: pods=3, limited: pods=3'


class Counting(Stage):
    """`started`: the pods whose container was started."""

    def __init__(self, gap=0.1):
        self.started = []
        super().__init__(Program(spoken("a", gap=gap), on_start=self.started.append))


def pods_are_refused(stage, text=FULL, until=float("inf")):
    refusal = Refusal(403, "Forbidden", text)
    stage.cluster.knobs.admit = lambda kind, _tree: refusal if kind == "pods" and stage.loop.time() < until else None


def played(stage, hook=None, **config):
    """The result of a run, and how many containers were started for it."""

    async def scene():
        async with stage.launcher(hook=hook) as launcher:
            run = await launcher.begin(request(**{"scheduleTimeoutSec": 60} | config), Reader())
            result = await run.result
            run.acknowledge()
            await asyncio.sleep(60)
            return result

    return stage.play(scene), len(stage.started)


def test_a_run_that_the_quota_gives_no_pod_may_be_begun_anew():
    stage = Counting()
    quota = {"metadata": {"name": "full", "namespace": NAMESPACE}, "spec": {"hard": {"pods": "0"}}}
    stage.cluster.put("resourcequotas", quota)
    result, started = played(stage)
    assert (result.code, result.error_family, started) == ("k8s_quota_exceeded", "transient_upstream", 0)
    assert result.execution_recovery == NOTHING_RAN
    assert stage.names("jobs") + stage.names("pods") == []
    assert stage.names("secrets") == ["paperclip-agent-keys"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            'pods "x" is forbidden: maximum memory usage per Container is 1Gi, but limit is 4Gi',
            "k8s_limit_range_refused",
        ),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot', "k8s_pod_security_refused"),
        ('admission webhook "no.example.com" denied the request: not today', "k8s_admission_refused"),
    ],
)
def test_what_only_another_config_mends_is_not_begun_anew(text, code):
    stage = Counting()
    pods_are_refused(stage, text)
    result, started = played(stage)
    assert (result.code, result.execution_recovery, started) == (code, None, 0)


def test_a_pod_that_is_refused_for_a_reason_of_its_own_may_come_later():
    stage = Counting()
    pods_are_refused(stage, "the weather is bad")
    result, started = played(stage)
    assert (result.code, result.execution_recovery, started) == ("k8s_pod_schedule_failed", NOTHING_RAN, 0)


def test_a_run_that_its_queue_never_let_go_may_be_begun_anew():
    stage = Counting()
    result, started = played(stage, queueName="agents", waitSec=60)
    assert (result.code, result.execution_recovery, started) == ("k8s_queue_waiting", NOTHING_RAN, 0)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_pod_that_comes_as_the_job_is_deleted_finds_no_secrets(moment):
    stage = Counting()
    pods_are_refused(stage)

    def room(phase, asked):
        """The controller has not seen the deletion yet, or it has not arrived."""
        job = stage.cluster.store.find("jobs", NAMESPACE, KEY)
        if (phase, asked.method) == (moment, "DELETE") and "/jobs/" in asked.path and job is not None:
            stage.cluster.knobs.admit = None
            stage.cluster.jobs._create(job)

    result, started = played(stage, room)
    assert (result.code, started) == ("k8s_quota_exceeded", 0)
    assert stage.cluster.kubelet.logs_of(KEY)  # it was on its node
    assert stage.names("jobs") + stage.names("pods") == []


@pytest.mark.parametrize("ended", [True, False])
def test_a_pod_that_ran_unseen_is_not_taken_for_none(ended):
    """The watches of Jobs and pods are down, and somebody deletes the pod."""
    stage = Counting(gap=0.1 if ended else 100.0)
    pods_are_refused(stage, until=15)

    def deaf(phase, asked):
        watched = dict(asked.query).get("labelSelector") == marks.RUN_SELECTOR
        if phase == "before" and watched and stage.loop.time() > 10:
            raise NotSent("down")

    def somebody():
        [pod] = stage.names("pods")
        stage.cluster.remove("pods", pod, grace=0)
        pods_are_refused(stage)

    stage.loop.call_later(11, stage.cluster.restart)
    stage.loop.call_later(40, somebody)
    result, started = played(stage, deaf)
    assert (result.code, result.execution_recovery, started) == ("k8s_quota_exceeded", None, 1)


def test_without_an_answer_about_its_secrets_nothing_is_proven_and_the_run_is_stopped():
    stage = Counting()
    pods_are_refused(stage)
    stage.cluster.knobs.denied = frozenset({("delete", "secrets")})
    result, _ = played(stage)
    assert (result.code, result.execution_recovery) == ("k8s_quota_exceeded", None)
    assert stage.names("jobs") == []


def job(status=None, generation=1, **spec):
    return {"metadata": {"generation": generation}, "spec": spec, "status": status or {}}


@pytest.mark.parametrize(
    "never",
    [
        job(),
        job({"startTime": "t", "active": 0, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}),
        job(suspend=True),
        job(generation=2),
        job({"uncountedTerminatedPods": {"failed": []}}, suspend=False),
    ],
)
def test_a_job_whose_controller_counted_nothing_made_no_pod(never):
    assert made_no_pod(never)


@pytest.mark.parametrize(
    "perhaps",
    [
        *[job({what: 1}) for what in ("active", "ready", "terminating", "succeeded", "failed")],
        job({"uncountedTerminatedPods": {"succeeded": ["u"]}}),
        job(generation=2, suspend=True),
        job(generation=3),
        job(generation=None),
        job(managedBy="kueue.x-k8s.io/multikueue"),
        {**job(), "metadata": {"generation": 1, "deletionTimestamp": "2026-11-22T06:00:00Z"}},
    ],
)
def test_a_job_that_may_have_let_a_pod_go_proves_nothing(perhaps):
    assert not made_no_pod(perhaps)
