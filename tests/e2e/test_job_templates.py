"""The Job templates as the launcher uses them: out of the ConfigMap, filled, created; and their pods get in."""

from __future__ import annotations

import sys
from typing import Any

import pytest

controlplane, shipped, trial = sys.modules["controlplane"], sys.modules["shipped"], sys.modules["trial"]

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="session")
def templates(cluster, environment):
    """From the cluster, as the launcher's mount shows them: name → template."""
    answer = cluster.must("get", "configmap", "paperclip-job-templates", "-n", environment.system, "-o", "json")
    return trial.templates_of(answer.json)


@pytest.fixture
def clean(cluster, environment):
    """No Job before, none after, and the quota free again: a run must not fail for want of it."""
    yield
    cluster.must("delete", "jobs", "--all", "-n", environment.agents, "--cascade=foreground", "--timeout=60s")
    controlplane.wait_until("the quota to be free", 30, lambda: _used(cluster, environment) == "0")


def _used(cluster: Any, environment: Any) -> str:
    (quota,) = cluster.items("resourcequota", "-n", environment.agents)
    return str(quota.get("status", {}).get("used", {}).get("pods"))


def _pods(cluster: Any, environment: Any, job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.items(
        "pods", "-n", environment.agents, "-l", f"batch.kubernetes.io/job-name={job}"
    )
    return found


def test_the_launcher_finds_every_kind_of_job_that_is_configured(environment, templates):
    assert set(templates) == {kind.name for kind in environment.config.agents.jobs.kinds}


@pytest.mark.parametrize("size", ["smallest", "example", "largest"])
def test_a_job_of_each_template_is_created_and_its_pod_admitted(cluster, environment, templates, clean, size):
    for name, template in templates.items():
        values = template.values(size)
        named = {values["priority_class"]} if "priority_class" in values else set()
        if named:
            cluster.must("apply", "-f", "-", objects=list(trial.priority_classes(named)))
        if runtime := values.get("runtime_class"):
            cluster.must("apply", "-f", "-", objects=[trial.runtime_class(runtime)])
        values["job_name"] = f"{name[:20]}-{values['job_name']}"[:63]
        job = template.fill(values)
        created = cluster.kubectl("create", "--validate=strict", "-f", "-", objects=[job])
        assert created.fine, f"{name}: {created.err}"
        if job["spec"].get("suspend"):
            assert _pods(cluster, environment, values["job_name"]) == []
            _admit(cluster, environment, values["job_name"])
        (pod,) = controlplane.wait_until(
            f"the pod of a Job of {name}",
            30,
            lambda wanted=values["job_name"]: _pods(cluster, environment, wanted),
            lambda: str(shipped.failed_creates(cluster, [environment.agents])),
        )
        _judge(pod, job)
        cluster.must(
            "delete", "job", values["job_name"], "-n", environment.agents, "--cascade=foreground", "--timeout=60s"
        )
        controlplane.wait_until("the quota to be free", 30, lambda: _used(cluster, environment) == "0")
    assert shipped.failed_creates(cluster, [environment.agents]) == []


def _admit(cluster: Any, environment: Any, name: str) -> None:
    """What Kueue does once there is room in the queue."""
    resumed = '{"spec": {"suspend": false}}'
    cluster.must("patch", "job", name, "-n", environment.agents, "--type=merge", "-p", resumed)


def _judge(pod: dict[str, Any], job: dict[str, Any]) -> None:
    (container,) = pod["spec"]["containers"]
    (rendered,) = job["spec"]["template"]["spec"]["containers"]
    assert pod["status"]["phase"] == "Pending"
    assert container["command"] == rendered["command"]
    assert container["args"] == rendered["args"]
    assert container["env"] == rendered["env"]
    assert container["securityContext"] == rendered["securityContext"]
    sources = [one for volume in pod["spec"]["volumes"] for one in volume.get("projected", {}).get("sources", ())]
    assert {next(iter(one)) for one in sources} == {"secret"}, "an agent has a token"


def test_the_same_run_twice_is_one_job(cluster, environment, templates, clean):
    template = next(iter(templates.values()))
    job = template.fill({**template.values("smallest"), "job_name": "run-twice"})
    cluster.must("create", "-f", "-", objects=[job])
    again = cluster.kubectl("create", "-f", "-", objects=[job])
    assert again.code == 1
    assert "AlreadyExists" in again.err


def test_agents_beyond_the_quota_have_to_wait(cluster, environment, templates, clean):
    """The quota bites at the pod, not at the Job: the launcher must look at events to say why nothing starts."""
    template = next(iter(templates.values()))
    resources = {"requests": {"cpu": "8", "memory": "8Gi", "ephemeral-storage": "1Gi"}}
    resources["limits"] = resources["requests"]
    for number in (1, 2):
        values = {**template.values("smallest"), "job_name": f"greedy-{number}", "resources": resources}
        cluster.must("create", "-f", "-", objects=[template.fill(values)])
    said = controlplane.wait_until(
        "the quota to refuse the second pod",
        30,
        lambda: shipped.failed_creates(cluster, [environment.agents]),
    )
    assert "exceeded quota: paperclip-agents" in said[0]
    cluster.must("delete", "events", "--all", "-n", environment.agents)
