"""Jobs, pods and their containers, as controllers and kubelet play them."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from paperclip_launcher.cluster.transport import Broken, Request
from tests.fakeapi.model import Knobs, Program, Refusal, simple
from tests.fakeapi.requests import (
    JSON_PATCH,
    create,
    delete,
    job_tree,
    path_of,
    secret_tree,
    send,
    until,
)


def conditions(tree):
    found = [one for one in tree.get("status", {}).get("conditions", ()) if one["status"] == "True"]
    return {one["type"]: one.get("reason", "") for one in found}


async def finished(cluster, name="a"):
    """The Job once it has ended."""
    await until(lambda: conditions(cluster.get("jobs", name)).keys() & {"Complete", "Failed"})
    return cluster.get("jobs", name)


async def running(cluster):
    await until(lambda: [pod for pod in cluster.objects("pods") if pod["status"]["phase"] == "Running"])
    return cluster.objects("pods")[0]


async def read_all(stream):
    data = b""
    while piece := await stream.read():
        data += piece
    return data


def waiting_reason(pod):
    states = pod["status"].get("containerStatuses") or ({"state": {}},)
    return states[0]["state"].get("waiting", {}).get("reason")


def reasons(cluster):
    return {one["reason"] for one in cluster.objects("events")}


def one_run(play, program, *, seed=1, knobs=None, **spec):
    """(Job, its pods) at the end."""

    async def history(cluster, transport):
        await create(transport, "jobs", job_tree("a", **spec))
        job = await finished(cluster)
        await asyncio.sleep(5)
        return job, cluster.objects("pods"), cluster

    return play(history, seed=seed, knobs=knobs, program_for=lambda job: program)


def exit_of(pod):
    return pod["status"]["containerStatuses"][0]["state"]["terminated"]


def test_a_run_that_ends_well(play):
    job, (pod,), cluster = one_run(play, simple(3))
    assert conditions(job) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    assert (job["status"]["succeeded"], job["status"]["active"]) == (1, 0)
    assert (pod["status"]["phase"], exit_of(pod)["exitCode"]) == ("Succeeded", 0)
    assert "finalizers" not in pod["metadata"]
    assert re.fullmatch(r"a-[a-z0-9]{5}", pod["metadata"]["name"])
    assert cluster.printed("a") == [b'{"type":"system","n":%d}' % number for number in range(3)]


def test_each_step_is_a_version_of_its_own(play):
    _, _, cluster = one_run(play, simple(1))
    seen = [conditions(one.item.obj) for one in cluster.store.changes if one.item.key[0] == "jobs"]
    assert list(dict.fromkeys(tuple(one) for one in seen)) == [
        (),
        ("SuccessCriteriaMet",),
        ("SuccessCriteriaMet", "Complete"),
    ]


@pytest.mark.parametrize(
    ("program", "reason", "message", "ended"),
    [
        (
            simple(1, exit_code=3),
            "PodFailurePolicy",
            "failed with exit code 3 matching FailJob rule at index 1",
            (3, "Error"),
        ),
        (Program(end="oom"), "PodFailurePolicy", "exit code 137 matching FailJob rule at index 1", (137, "OOMKilled")),
        (Program(end="evicted"), "PodFailurePolicy", "has condition DisruptionTarget matching", (137, "Error")),
        (Program(end="preempted"), "PodFailurePolicy", "has condition DisruptionTarget matching", (143, "Error")),
        (Program(start="start-error"), "PodFailurePolicy", "failed with exit code 128", (128, "StartError")),
    ],
    ids=["exit", "oom", "evicted", "preempted", "start"],
)
def test_a_run_that_fails_says_why_on_pod_and_job(play, program, reason, message, ended):
    async def history(cluster, transport):
        await create(transport, "jobs", job_tree("a"))
        job = await finished(cluster)
        pods = [one.item.obj for one in cluster.store.changes if one.item.key[0] == "pods"]
        return job, pods[-1]

    job, pod = play(history, program_for=lambda job: program)
    failed = next(one for one in job["status"]["conditions"] if one["type"] == "Failed")
    assert failed["reason"] == reason
    assert message in failed["message"]
    assert (exit_of(pod)["exitCode"], exit_of(pod)["reason"]) == ended


def test_an_evicted_pod_is_marked(play):
    _, (pod,), cluster = one_run(play, Program(end="evicted"))
    assert (pod["status"]["reason"], conditions(pod)["DisruptionTarget"]) == ("Evicted", "TerminationByKubelet")
    assert "Evicted" in reasons(cluster)


def test_a_deadline_stops_the_pod_and_then_fails_the_job(play):
    job, pods, cluster = one_run(play, Program(end="hang", term_delay=2), activeDeadlineSeconds=30)
    assert conditions(job) == {"FailureTarget": "DeadlineExceeded", "Failed": "DeadlineExceeded"}
    assert pods == []
    times = {
        kind: next(one.time for one in cluster.store.changes if kind in conditions(one.item.obj))
        for kind in ("FailureTarget", "Failed")
    }
    assert times["FailureTarget"] == pytest.approx(30, abs=1)
    assert times["Failed"] - times["FailureTarget"] > 2


def test_more_tries_where_the_job_allows_them(play):
    job, pods, _ = one_run(play, simple(1, exit_code=1), backoffLimit=2, podFailurePolicy=None)
    assert conditions(job)["Failed"] == "BackoffLimitExceeded"
    assert (len(pods), job["status"]["failed"]) == (3, 3)


def test_the_container_waits_for_its_secrets(play):
    async def history(cluster, transport):
        job = await create(transport, "jobs", job_tree("a", secrets=("p",), env_secrets=("e",)))
        await asyncio.sleep(3)
        first = waiting_reason(cluster.objects("pods")[0]), reasons(cluster)
        await create(transport, "secrets", secret_tree("p", job, part_0000=b"x"))
        await asyncio.sleep(10)
        second = waiting_reason(cluster.objects("pods")[0])
        await create(transport, "secrets", secret_tree("e", job, X=b"y"))
        await asyncio.sleep(20)
        return first, second, conditions(cluster.get("jobs", "a"))

    first, second, ended = play(history)
    assert first == ("ContainerCreating", {"FailedMount"})
    assert second == "CreateContainerConfigError"
    assert "Complete" in ended


@pytest.mark.parametrize(
    ("start", "reason", "event"),
    [
        ("unschedulable", None, "FailedScheduling"),
        ("image-error", "ErrImagePull", "Failed"),
        ("image-invalid", "InvalidImageName", "InspectFailed"),
        ("image-never", "ErrImageNeverPull", "ErrImageNeverPull"),
        ("attach-error", "ContainerCreating", "FailedAttachVolume"),
    ],
)
def test_trouble_at_the_start_shows_in_status_and_events(play, start, reason, event):
    async def history(cluster, transport):
        await create(transport, "jobs", job_tree("a"))
        await asyncio.sleep(5)
        return cluster.objects("pods")[0], reasons(cluster)

    pod, events = play(history, program_for=lambda job: Program(start=start))
    assert waiting_reason(pod) == reason
    assert event in events
    assert pod["status"]["phase"] == "Pending"


@pytest.mark.parametrize("start", ["unschedulable", "image-error", "attach-error"])
def test_soft_trouble_mends_itself(play, start):
    job, _, _ = one_run(play, Program(start=start, start_trouble=45))
    assert "Complete" in conditions(job)


def test_a_pod_that_may_not_be_made_is_tried_again(play):
    async def history(cluster, transport):
        cluster.put("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})
        await create(transport, "jobs", job_tree("a"))
        await asyncio.sleep(20)
        events = cluster.objects("events")
        cluster.remove("resourcequotas", "q")
        return events, await finished(cluster)

    events, job = play(history)
    event = events[0]
    assert event["reason"] == "FailedCreate"
    assert "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0" in event["message"]
    assert event["involvedObject"]["uid"] == job["metadata"]["uid"]
    assert 3 < len(events) < 8
    assert "Complete" in conditions(job)


def test_pod_security_refuses_the_pod_for_good(play):
    async def history(cluster, transport):
        no = Refusal(403, "Forbidden", 'pods "a-" is forbidden: violates PodSecurity "restricted:latest": x')
        cluster.knobs.admit = lambda resource, tree: no if resource == "pods" else None
        await create(transport, "jobs", job_tree("a"))
        await asyncio.sleep(60)
        return cluster.objects("pods"), cluster.objects("events")[0]["message"]

    pods, message = play(history)
    assert pods == []
    assert message.startswith('Error creating: pods "a-" is forbidden: violates PodSecurity')


def test_a_suspended_job_has_no_pod_until_it_is_released(play):
    async def history(cluster, transport):
        await create(transport, "jobs", job_tree("a", suspend=True))
        await asyncio.sleep(10)
        before = conditions(cluster.get("jobs", "a")), cluster.objects("pods")
        operations = [{"op": "replace", "path": "/spec/suspend", "value": False}]
        await send(transport, "PATCH", path_of("jobs", "a"), operations, kind=JSON_PATCH)
        return before, conditions(await finished(cluster))

    before, after = play(history)
    assert before == ({"Suspended": "JobSuspended"}, [])
    assert "Complete" in after
    assert "Suspended" not in after


def test_a_finished_job_goes_when_its_time_is_over(play):
    async def history(cluster, transport):
        await create(transport, "jobs", job_tree("a", ttlSecondsAfterFinished=100))
        await finished(cluster)
        at = cluster.loop.time()
        await until(lambda: cluster.get("jobs", "a") is None)
        return cluster.loop.time() - at, cluster.objects("pods")

    seconds, pods = play(history)
    assert seconds == pytest.approx(101, abs=2)
    assert pods == []


def delete_a_run(play, program, **more):
    """(seconds until the pod was gone, how its container ended, what it printed)."""

    async def history(cluster, transport):
        await create(transport, "jobs", job_tree("a"))
        await running(cluster)
        at = cluster.loop.time()
        await delete(transport, "jobs", "a", **more)
        await until(lambda: not cluster.objects("pods") and not cluster.objects("jobs"))
        pods = [one.item.obj for one in cluster.store.changes if one.item.key[0] == "pods"]
        return cluster.loop.time() - at, exit_of(pods[-1])["exitCode"], cluster.printed("a"), cluster.get("jobs", "a")

    return play(history, program_for=lambda job: program)


def test_a_deleted_run_gets_sigterm_and_some_time(play):
    program = Program(end="hang", term_delay=5, term_lines=(b"bye",))
    for propagation in ("Background", "Foreground"):
        seconds, code, printed, job = delete_a_run(play, program, propagation=propagation)
        assert (code, printed, job) == (143, [b"bye"], None)
        assert seconds == pytest.approx(6, abs=1.5)


def test_what_ignores_sigterm_is_killed_after_its_grace(play):
    seconds, code, _, _ = delete_a_run(play, Program(end="hang", ignore_term=True))
    assert code == 137
    assert seconds == pytest.approx(31, abs=1.5)


def test_a_lost_node_leaves_its_pod_running(play):
    async def history(cluster, transport):
        await create(transport, "jobs", job_tree("a"))
        pod = await running(cluster)
        request = Request(
            "GET", path_of("pods", pod["metadata"]["name"]) + "/log", (("timestamps", "true"), ("follow", "true"))
        )
        stream = await transport.open(request, idle=45)
        with pytest.raises(Broken):
            await read_all(stream)
        await asyncio.sleep(60)
        later = cluster.objects("pods")[0]
        log = await transport.open(request, idle=45)
        await asyncio.sleep(300)
        return later, log.status, cluster.objects("pods")[0]

    program = Program(((0.5, b"x"),), end="node-lost")
    later, log, last = play(history, program_for=lambda job: program)
    assert later["status"]["phase"] == "Running"
    ready = next(one for one in later["status"]["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NodeNotReady")
    assert log == 500
    assert conditions(last)["DisruptionTarget"] == "DeletionByTaintManager"
    assert "deletionTimestamp" in last["metadata"]
    assert last["status"]["phase"] == "Running"


def test_a_job_deleted_before_its_pod_is_bound_leaves_nothing(play):
    async def history(cluster, transport):
        await create(transport, "jobs", job_tree("a"))
        await asyncio.sleep(1)
        await delete(transport, "jobs", "a")
        await asyncio.sleep(30)
        return cluster.objects("jobs"), cluster.objects("pods")

    assert play(history, program_for=lambda job: Program(start="unschedulable")) == ([], [])


def test_a_log_is_stamped_and_can_be_asked_for_from_a_second_on(play):
    lines = tuple((0.25, b"line %d" % number) for number in range(40))

    async def history(cluster, transport):
        await create(transport, "jobs", job_tree("a"))
        await finished(cluster)
        path = path_of("pods", cluster.objects("pods")[0]["metadata"]["name"]) + "/log"
        whole = (await send(transport, "GET", path, timestamps="true")).body
        since = whole.splitlines()[20].split(b".")[0].decode() + "Z"
        part = (await send(transport, "GET", path, timestamps="true", sinceTime=since)).body
        return whole, since, part, (await send(transport, "GET", path, timestamps="true", container="no")).status

    whole, since, part, wrong = play(history, program_for=lambda job: Program(lines, disorder=1.5))
    assert all(re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z line \d+", line) for line in whole.splitlines())
    assert part.splitlines() == [line for line in whole.splitlines() if line >= since[:-1].encode()]
    stamps = [line.split()[0] for line in whole.splitlines()]
    assert stamps != sorted(stamps)
    assert wrong == 400


def test_a_log_before_the_start_is_refused_and_one_followed_ends_with_the_container(play):
    async def history(cluster, transport):
        job = await create(transport, "jobs", job_tree("a", secrets=("s",)))
        await asyncio.sleep(1)
        path = path_of("pods", cluster.objects("pods")[0]["metadata"]["name"]) + "/log"
        early = await send(transport, "GET", path, timestamps="true")
        await create(transport, "secrets", secret_tree("s", job, x=b""))
        await running(cluster)
        stream = await transport.open(Request("GET", path, (("timestamps", "true"), ("follow", "true"))), idle=45)
        data = await read_all(stream)
        return early, [line.partition(b" ")[2] for line in data.splitlines()], cluster.printed("a")

    early, read, printed = play(history, knobs=Knobs(start=(0.5, 0.5)))
    assert early.status == 400
    assert json.loads(early.body)["message"].endswith("is waiting to start: ContainerCreating")
    assert len(read) == 20
    assert read == printed
