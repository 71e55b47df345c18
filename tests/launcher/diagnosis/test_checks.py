"""What `check` and Paperclip's Test button say of a cluster, sound or not."""

from __future__ import annotations

import asyncio
import copy
import json
from types import SimpleNamespace

import pytest

from kubekit.calls import LAUNCHER_CALLS
from paperclip_launcher.checks import Check, run_checks, to_environment_report
from paperclip_launcher.cluster.errors import AlreadyExists, Forbidden, Invalid, NotFound, ServerFault, Unauthorized
from paperclip_launcher.errors import Unreachable
from tests.support import fixtures

OBJECTS, FACTS = fixtures.base()
PROBE = next(one for one in OBJECTS if one["kind"] == "Job")
CLAIM = {
    "metadata": {"name": "paperclip-agent-workspace"},
    "spec": {"accessModes": ["ReadWriteMany"]},
    "status": {"phase": "Bound", "accessModes": ["ReadWriteMany"]},
}
FORBIDDEN = Forbidden(403, "Forbidden", 'leases is forbidden: User "u" cannot create resource "leases" in API group')


class Cluster:
    """Answers by (call, resource); an exception is raised. It notes what it was asked for."""

    namespace = "paperclip-agents"

    def __init__(self, **answers):
        self.answers = {"version": "v1.35.4", "get": CLAIM, "denied": set()} | answers
        self.asked = []

    def _answer(self, call, default=None):
        found = self.answers.get(call, default)
        if isinstance(found, Exception):
            raise found
        return found

    async def version(self):
        return self._answer("version")

    async def get(self, resource, name, **_):
        self.asked.append(("get", resource, name))
        return self._answer("get")

    async def list(self, resource, **_):
        return self._answer(resource, []), "1"

    async def dry_create(self, resource, manifest, **_):
        self.asked.append(("dry", resource, manifest["metadata"]["name"]))
        return self._answer(f"dry_{resource}", manifest)

    async def allowed(self, verb, group, resource, subresource=""):
        self.asked.append(("allowed", verb, group, resource, subresource))
        self._answer("review")
        return (verb, resource) not in self.answers["denied"]


def templates(namespace="paperclip-agents"):
    job = copy.deepcopy(PROBE)
    pod = job["spec"]["template"]["spec"]
    pod["containers"][0]["env"] = [
        "@{environment}",
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "API_KEY"}}},
        {"name": "MORE", "valueFrom": {"secretKeyRef": {"name": "more", "key": "x", "optional": True}}},
    ]
    pod["imagePullSecrets"] = [{"name": "pull"}]
    pod["volumes"] = [
        {"name": "workspace", "persistentVolumeClaim": {"claimName": "paperclip-agent-workspace"}},
        {"name": "prompt", "projected": {"sources": "@{prompt_sources}"}},
    ]
    text = json.dumps(job)
    one = SimpleNamespace(job=SimpleNamespace(job=text))
    return SimpleNamespace(by_name={"claude": one}, namespace=namespace, source="/templates", facts=FACTS)


def checked(cluster, *, given=None, **more):
    given = {"templates": templates(), "probe": PROBE} if given is None else given
    found = asyncio.run(run_checks(cluster, given.get("templates"), probe=given.get("probe"), **more))
    return {one.code: one for one in found}


def bad(found):
    return {code: one.level for code, one in found.items() if one.level != "info"}


def test_a_sound_cluster_passes():
    cluster = Cluster()
    found = checked(cluster)
    assert bad(found) == {}
    assert {"k8s_api_reachable", "k8s_namespace_exists", "k8s_templates_readable", "k8s_pvc_rwx"} <= set(found)
    assert {"k8s_policies_passed", "k8s_dry_run_passed"} <= set(found)
    assert "v1.35.4" in found["k8s_api_reachable"].message


def test_every_call_of_the_launcher_is_asked_for_once():
    cluster = Cluster()
    checked(cluster)
    asked = [one[1:] for one in cluster.asked if one[0] == "allowed"]
    wanted = [
        (verb, call.group, *[*call.resource.split("/"), ""][:2]) for call in LAUNCHER_CALLS for verb in call.verbs
    ]
    assert sorted(asked) == sorted(wanted)
    assert ("get", "", "pods", "log") in asked


def test_a_missing_right_is_named():
    found = checked(Cluster(denied={("patch", "jobs"), ("list", "events")}))
    assert bad(found) == {"k8s_rbac_jobs": "error", "k8s_rbac_events": "warn"}
    assert found["k8s_rbac_jobs"].message == "May not patch jobs in paperclip-agents"
    assert found["k8s_rbac_jobs"].hint


def test_rights_that_cannot_be_asked_for_are_not_known():
    found = checked(Cluster(review=ServerFault(500)))
    assert set(bad(found).values()) == {"warn"}
    assert len(bad(found)) == len(LAUNCHER_CALLS)


@pytest.mark.parametrize(
    ("error", "code"),
    [(Unreachable("no route"), "k8s_api_unreachable"), (Unauthorized(401), "k8s_api_unauthorized")],
)
def test_nothing_more_is_tried_without_the_api(error, code):
    cluster = Cluster(version=error)
    assert bad(checked(cluster)) == {code: "error"}
    assert cluster.asked == []


def test_the_version_may_be_secret():
    assert bad(checked(Cluster(version=Forbidden(403)))) == {}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AlreadyExists(409), {}),
        (NotFound(404, "NotFound", 'namespaces "x" not found'), {"k8s_namespace_missing": "error"}),
        (FORBIDDEN, {"k8s_lease_refused": "error"}),
        (Unreachable("x"), {"k8s_namespace_check_failed": "warn"}),
    ],
)
def test_the_namespace_is_tried_by_a_lease(error, expected):
    assert bad(checked(Cluster(dry_leases=error))) == expected


def claim(phase="Bound", *modes, **meta):
    return {"metadata": {"name": "c", **meta}, "status": {"phase": phase, "accessModes": list(modes)}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (NotFound(404), {"k8s_pvc_missing": "error"}),
        (Forbidden(403), {"k8s_pvc_check_failed": "warn"}),
        (claim("Pending", "ReadWriteMany"), {"k8s_pvc_not_bound": "warn"}),
        (claim("Lost", "ReadWriteMany"), {"k8s_pvc_lost": "error"}),
        (claim("Bound", "ReadWriteMany", deletionTimestamp="x"), {"k8s_pvc_lost": "error"}),
        (claim("Bound", "ReadWriteOnce"), {"k8s_pvc_not_rwx": "warn"}),
        (claim("Bound", "ReadWriteOncePod"), {"k8s_pvc_not_rwx": "error"}),
    ],
)
def test_the_claim_must_reach_every_node(answer, expected):
    assert bad(checked(Cluster(get=answer))) == expected


def test_the_secrets_of_agents_are_named_and_never_read():
    cluster = Cluster()
    found = asyncio.run(run_checks(cluster, templates()))
    named = [one.message for one in found if one.code == "k8s_secret_named"]
    assert named == ["Runs need the Secret keys with API_KEY", "Runs need the Secret pull with .dockerconfigjson"]
    assert {one[1] for one in cluster.asked if one[0] == "get"} == {"persistentvolumeclaims"}


def test_templates_of_another_namespace_do_not_fit():
    given = {"templates": templates("elsewhere")}
    assert bad(checked(Cluster(), given=given)) == {"k8s_namespace_mismatch": "error"}


def test_templates_that_cannot_be_read_are_told_with_and_without_the_api():
    for cluster in (Cluster(), Cluster(version=Unreachable("x"))):
        found = checked(cluster, given={}, problems=["claude.yaml: no such file"])
        assert found["k8s_template_invalid"].detail == "claude.yaml: no such file"


def test_a_full_quota_and_a_limit_are_seen_before_a_run_meets_them():
    hard, used = {"pods": "20", "limits.cpu": "8", "odd": "?"}, {"pods": "20", "limits.cpu": "500m", "odd": "?"}
    quota = {"metadata": {"name": "q"}, "status": {"hard": hard, "used": used}}
    limit = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "1Mi"}}]}}
    for one in (quota, limit):
        one["metadata"]["namespace"] = "paperclip-agents"
    found = checked(Cluster(resourcequotas=[quota], limitranges=[limit]))
    assert bad(found)["k8s_quota_full"] == "warn"
    assert found["k8s_quota_full"].detail == "pods: 20 of 20"
    assert bad(found)["k8s_policy_refused"] == "error"
    assert "limitrange-admits" in found["k8s_policy_refused"].message


def test_rules_that_may_not_be_read_do_not_stop_the_rest():
    found = checked(Cluster(resourcequotas=Forbidden(403), limitranges=ServerFault(500)))
    assert bad(found) == {}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AlreadyExists(409), {}),
        (
            Forbidden(403, "Forbidden", 'admission webhook "w" denied the request: no'),
            {"k8s_admission_refused": "error"},
        ),
        (
            Forbidden(403, "Forbidden", "exceeded quota: q, requested: count/jobs.batch=1"),
            {"k8s_quota_exceeded": "warn"},
        ),
        (Invalid(422, "Invalid", 'Job.batch "x" is invalid: spec: wrong'), {"k8s_job_create_failed": "error"}),
        (Unreachable("x"), {"k8s_dry_run_failed": "warn"}),
    ],
)
def test_a_sample_job_is_tried_and_not_kept(error, expected):
    assert bad(checked(Cluster(dry_jobs=error))) == expected


def test_the_report_has_the_servers_shape():
    checks = [Check("a", "info", "fine"), Check("b", "warn", "so so", "why", "how")]
    assert to_environment_report(checks, "claude_k8s", 0) == {
        "adapterType": "claude_k8s",
        "status": "warn",
        "checks": [
            {"code": "a", "level": "info", "message": "fine"},
            {"code": "b", "level": "warn", "message": "so so", "detail": "why", "hint": "how"},
        ],
        "testedAt": "1970-01-01T00:00:00Z",
    }
    assert to_environment_report(checks[:1], "x", 0)["status"] == "pass"
    assert to_environment_report([Check("c", "error", "no")], "x", 0)["status"] == "fail"
