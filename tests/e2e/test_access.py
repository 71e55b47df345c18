"""Who may do what, asked of the real authorizer: the launcher exactly its calls, the agents nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kubekit.calls import LAUNCHER_CALLS

pytestmark = pytest.mark.e2e

Right = tuple[str, str, str]
"""(group, resource, verb), the resource with its subresource."""

NEEDED = [(call.group, call.resource, verb) for call in LAUNCHER_CALLS for verb in call.verbs]
# What a server taken over by somebody must not lead to.
FORBIDDEN = [
    ("", "secrets", "get"),
    ("", "secrets", "list"),
    ("", "secrets", "watch"),
    ("", "secrets", "update"),
    ("", "pods", "create"),
    ("", "pods", "patch"),
    ("", "pods/exec", "create"),
    ("", "pods/exec", "get"),
    ("", "pods/attach", "create"),
    ("", "pods/portforward", "create"),
    ("", "pods/ephemeralcontainers", "patch"),
    ("", "serviceaccounts/token", "create"),
    ("", "configmaps", "get"),
    ("", "resourcequotas", "update"),
    ("apps", "deployments", "create"),
    ("networking.k8s.io", "networkpolicies", "delete"),
    ("rbac.authorization.k8s.io", "roles", "create"),
    ("rbac.authorization.k8s.io", "rolebindings", "create"),
]


def server(environment: Any) -> str:
    return f"system:serviceaccount:{environment.system}:paperclip"


def runner(environment: Any) -> str:
    return f"system:serviceaccount:{environment.agents}:{environment.config.agents.service_account}"


def can(cluster: Any, account: str, rights: list[Right], *where: str) -> dict[Right, bool]:
    """The answers of `kubectl auth can-i` to each right."""

    def ask(right: Right) -> bool:
        group, resource, verb = right
        name, _, subresource = resource.partition("/")
        arguments = [
            verb,
            f"{name}.{group}" if group else name,
            *([f"--subresource={subresource}"] if subresource else []),
        ]
        answer = cluster.kubectl("auth", "can-i", *arguments, f"--as={account}", *where)
        said = answer.out.strip().split(" ")[0]
        assert said in ("yes", "no"), answer
        return said == "yes"

    with ThreadPoolExecutor(4) as threads:
        return dict(zip(rights, threads.map(ask, rights), strict=True))


def rights_of(cluster: Any, account: str, namespace: str) -> set[tuple[Right, tuple[str, ...]]]:
    """Every right in a namespace, as the authorizer lists it: (right, names of objects it is bound to)."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = cluster.must("create", "--validate=false", "-f", "-", "-o", "json", f"--as={account}", objects=[review])
    status = answer.json["status"]
    assert not status["incomplete"], status
    return {
        ((group, resource, verb), tuple(rule.get("resourceNames", ())))
        for rule in status["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def beyond_everybody(cluster: Any, account: str, namespace: str) -> set[tuple[Right, tuple[str, ...]]]:
    """The rights that an account nobody has granted anything does not have."""
    nobody = "system:serviceaccount:default:nobody-has-made-this-account"
    return rights_of(cluster, account, namespace) - rights_of(cluster, nobody, namespace)


def test_the_launcher_may_make_each_of_its_calls_where_it_is_enabled(cluster, environment):
    answers = can(cluster, server(environment), NEEDED, "-n", environment.agents)
    wrong = [right for right, allowed in answers.items() if allowed is not environment.config.launcher.enabled]
    assert wrong == []


def test_the_launcher_may_do_nothing_beyond_its_calls(cluster, environment):
    expected = {(right, ()) for right in NEEDED} if environment.config.launcher.enabled else set()
    assert beyond_everybody(cluster, server(environment), environment.agents) == expected


def test_the_launcher_can_neither_read_secrets_nor_enter_pods_nor_grant_rights(cluster, environment):
    answers = can(cluster, server(environment), FORBIDDEN, "-n", environment.agents)
    assert [right for right, allowed in answers.items() if allowed] == []


@pytest.mark.parametrize("where", ["its own namespace", "kube-system", "the whole cluster"])
def test_the_launcher_may_do_nothing_elsewhere(cluster, environment, where):
    place = {"its own namespace": ("-n", environment.system), "the whole cluster": ("-A",)}.get(where, ("-n", where))
    answers = can(cluster, server(environment), [*NEEDED, *FORBIDDEN], *place)
    assert [right for right, allowed in answers.items() if allowed] == []
    if place[0] == "-n":
        assert beyond_everybody(cluster, server(environment), place[1]) == set()


def test_an_agent_may_do_nothing_anywhere(cluster, environment):
    for namespace in (environment.agents, environment.system, "kube-system", "default"):
        assert beyond_everybody(cluster, runner(environment), namespace) == set()
    answers = can(
        cluster, runner(environment), [("", "pods", "list"), ("", "secrets", "get"), ("batch", "jobs", "create")]
    )
    assert not any(answers.values())


def test_a_check_of_rights_would_see_a_right_too_many(cluster, environment):
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "one-too-many", "namespace": environment.agents},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": environment.config.agents.service_account,
                "namespace": environment.agents,
            },
        ],
    }
    cluster.must("apply", "-f", "-", objects=[role])
    try:
        seen = beyond_everybody(cluster, runner(environment), environment.agents)
        assert (("", "pods", "list"), ()) in seen
    finally:
        cluster.must("delete", "-f", "-", objects=[role])
