"""The namespaces as they are enforced: the server's pod and the agents' get in, a privileged one does not."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kubekit import labels

controlplane, shipped = sys.modules["controlplane"], sys.modules["shipped"]

pytestmark = pytest.mark.e2e

PRIVILEGED = {"containers": [{"name": "a", "image": "a:1", "securityContext": {"privileged": True}}]}
HOST_PATH = {
    "containers": [{"name": "a", "image": "a:1", "volumeMounts": [{"name": "root", "mountPath": "/host"}]}],
    "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
}
HOST_NETWORK = {"hostNetwork": True, "containers": [{"name": "a", "image": "a:1"}]}
AS_ROOT = {"containers": [{"name": "a", "image": "a:1", "securityContext": {"runAsUser": 0}}]}


def try_pod(cluster: Any, namespace: str, spec: dict[str, Any]) -> Any:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried", "namespace": namespace}, "spec": spec}
    return cluster.kubectl("create", "--dry-run=server", "-f", "-", objects=[pod])


def server_pod(cluster: Any, environment: Any) -> dict[str, Any]:
    selector = ",".join(f"{key}={value}" for key, value in labels.SERVER.items())
    pods = controlplane.wait_until(
        "the ReplicaSet to make the server's pod",
        30,
        lambda: cluster.items("pods", "-n", environment.system, "-l", selector),
        lambda: str(shipped.failed_creates(cluster, environment.namespaces)),
    )
    assert len(pods) == 1
    found: dict[str, Any] = pods[0]
    return found


def test_the_server_gets_its_pod(cluster, environment):
    pod = server_pod(cluster, environment)
    owner = pod["metadata"]["ownerReferences"][0]
    assert (owner["kind"], pod["status"]["phase"]) == ("ReplicaSet", "Pending")
    assert pod["spec"]["serviceAccountName"] == "paperclip"
    assert shipped.failed_creates(cluster, environment.namespaces) == []


def test_the_servers_pod_has_a_token_only_where_it_launches(cluster, environment):
    volumes = server_pod(cluster, environment)["spec"]["volumes"]
    tokens = [
        one
        for volume in volumes
        for one in volume.get("projected", {}).get("sources", [])
        if "serviceAccountToken" in one
    ]
    assert bool(tokens) is environment.config.launcher.enabled


def test_admission_changes_nothing_of_the_servers_pod_that_was_rendered(cluster, environment):
    """Defaults come in; what stands in dist/ stays: no LimitRange and no webhook rewrites the server."""
    (rendered,) = [one for one in environment.of_kind("Deployment") if one["metadata"]["name"] == "paperclip"]
    pod = server_pod(cluster, environment)
    wanted = {one["name"]: one["resources"] for one in rendered["spec"]["template"]["spec"]["containers"]}
    assert {one["name"]: one["resources"] for one in pod["spec"]["containers"]} == wanted
    assert pod["spec"]["nodeSelector"] == rendered["spec"]["template"]["spec"]["nodeSelector"]
    assert pod["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize("spec", [PRIVILEGED, HOST_PATH, HOST_NETWORK], ids=["privileged", "host path", "host network"])
@pytest.mark.parametrize("side", ["system", "agents"])
def test_a_pod_that_could_leave_its_node_is_refused(cluster, environment, side, spec):
    answer = try_pod(cluster, getattr(environment, side), spec)
    version = f"v{environment.config.cluster.kubernetes_version}"
    level = "restricted" if side == "agents" else "baseline"
    assert answer.code == 1
    assert f'violates PodSecurity "{level}:{version}"' in answer.err


def test_a_pod_that_runs_as_root_is_refused_among_the_agents(cluster, environment):
    answer = try_pod(cluster, environment.agents, AS_ROOT)
    assert answer.code == 1
    assert "runAsNonRoot != true" in answer.err


def test_an_agents_container_over_the_limit_is_refused(cluster, environment):
    limits = {"cpu": "1", "memory": "1Ti", "ephemeral-storage": "1Gi"}
    spec = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "a",
                "image": "a:1",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "resources": {"requests": limits, "limits": limits},
            },
        ],
    }
    answer = try_pod(cluster, environment.agents, spec)
    assert answer.code == 1
    assert "maximum memory usage per Container" in answer.err
