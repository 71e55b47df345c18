"""Rules mean what the API server makes of them."""

from __future__ import annotations

import pytest

from kubekit.calls import LAUNCHER_CALLS, rules
from policies.rbac.grants import Account, rules_of, subjects_of
from policies.registry import by_id
from policies.run import run
from policies.world import World, mapping
from tests.support import fixtures

GROUP = "rbac.authorization.k8s.io"


def entry(kind="Role", **fields):
    manifest = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "web", "namespace": "shop"}, **fields}
    return next(iter(World([(manifest, None)]).entries))


def rule(groups=("",), resources=("pods",), verbs=("get",), names=()):
    found = {
        "apiGroups": list(groups),
        "resources": list(resources),
        "verbs": list(verbs),
        "resourceNames": list(names),
    }
    return next(rules_of(entry(rules=[found])))


@pytest.mark.parametrize(
    ("granted", "asked", "allowed"),
    [
        (rule(), ("", "pods", "get"), True),
        (rule(), ("", "pods", "list"), False),
        (rule(), ("apps", "pods", "get"), False),
        (rule(), ("", "pods/log", "get"), False),
        (rule(resources=["pods/log"]), ("", "pods", "get"), False),
        (rule(resources=["*"]), ("", "pods/log", "get"), True),
        (rule(resources=["*/log"]), ("", "pods/log", "get"), True),
        (rule(resources=["*/log"]), ("", "pods", "get"), False),
        (rule(resources=["pods/*"]), ("", "pods/log", "get"), False),
        (rule(groups=["*"], verbs=["*"]), ("apps", "pods", "delete"), True),
        (rule(names=["web-1"]), ("", "pods", "get"), False),
        (rule(groups=[]), ("", "pods", "get"), False),
    ],
)
def test_a_rule_allows_what_the_api_server_would(granted, asked, allowed):
    assert granted.allows(*asked) is allowed


@pytest.mark.parametrize(
    ("subject", "held"),
    [
        ({"kind": "ServiceAccount", "name": "web", "namespace": "shop"}, True),
        ({"kind": "ServiceAccount", "name": "web", "namespace": "front"}, False),
        ({"kind": "User", "name": "system:serviceaccount:shop:web"}, True),
        ({"kind": "User", "name": "web"}, False),
        ({"kind": "Group", "name": "system:serviceaccounts:shop"}, True),
        ({"kind": "Group", "name": "system:serviceaccounts:front"}, False),
        ({"kind": "Group", "name": "system:serviceaccounts"}, True),
        ({"kind": "Group", "name": "system:authenticated"}, True),
        ({"kind": "Group", "name": "system:masters"}, False),
    ],
)
def test_a_subject_holds_an_account_however_it_is_written(subject, held):
    one = next(subjects_of(entry("RoleBinding", subjects=[subject])))
    assert one.holds(Account("shop", "web")) is held


def launcher_findings(changed):
    objects, facts = fixtures.base()
    world = World(
        [(one | {"rules": changed} if _is_launcher(one) else one, None) for one in objects],
        facts,
    )
    known = by_id()
    return [(one.policy, one.message) for one in run(world, [known[name] for name in POLICIES])]


POLICIES = ("rbac-launcher-sufficient", "rbac-launcher-minimal")


def _is_launcher(manifest):
    return (manifest["kind"], mapping(manifest["metadata"])["name"]) == ("Role", "paperclip-launcher")


def test_the_rules_of_the_table_are_sufficient_and_minimal():
    assert launcher_findings(rules()) == []


VERBS = [(call, verb) for call in LAUNCHER_CALLS for verb in call.verbs]


@pytest.mark.parametrize(("call", "verb"), VERBS, ids=lambda one: getattr(one, "resource", one))
def test_each_verb_of_the_table_is_missed_when_it_is_not_granted(call, verb):
    less = rules()
    less[LAUNCHER_CALLS.index(call)]["verbs"].remove(verb)
    found = launcher_findings(less)
    assert [policy for policy, _ in found] == ["rbac-launcher-sufficient"]
    assert call.resource in found[0][1]
    assert verb in found[0][1]


@pytest.mark.parametrize("verb", ["create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"])
def test_each_verb_beyond_the_table_is_one_too_many(verb):
    for index, call in enumerate(LAUNCHER_CALLS):
        if verb not in call.verbs:
            more = rules()
            more[index]["verbs"].append(verb)
            assert [policy for policy, _ in launcher_findings(more)] == ["rbac-launcher-minimal"]


def test_what_is_no_rule_grants_nothing():
    assert list(rules_of(entry())) == []
    assert list(rules_of(entry(rules=None))) == []
    assert [one.verbs for one in rules_of(entry(rules=[None, 3, {"verbs": "get"}]))] == [()]


def test_an_account_without_a_namespace_may_be_the_one_that_is_meant():
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}}
    binding = entry(
        "RoleBinding",
        roleRef={"kind": "ClusterRole", "name": "view"},
        subjects=[{"kind": "ServiceAccount", "name": "web", "namespace": "shop"}],
    ).manifest
    resolves = [by_id()["rbac-ref-resolves"]]
    assert run(World([(account, None), (binding, None)]), resolves) == []
    assert [one.pointer for one in run(World([(binding, None)]), resolves)] == ["/subjects/0/name"]


def test_bindings_that_the_api_server_refuses_are_found():
    binding = entry(
        "ClusterRoleBinding",
        roleRef={"kind": "Role", "name": "web"},
        subjects=[{"kind": "ServiceAccount", "name": "web"}],
    ).manifest
    found = run(World([(binding, None)]), [by_id()["rbac-ref-resolves"]])
    assert [one.pointer for one in found] == ["/roleRef/kind", "/subjects/0"]
