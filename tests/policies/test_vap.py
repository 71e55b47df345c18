"""The policies as objects for the API server: whom they judge, what they do, and what a waiver lets through."""

from __future__ import annotations

import copy
import datetime

import pytest

from kubekit.resources import resource_of
from policies import vap
from policies.cel import Cel
from policies.facts import Facts
from policies.model import Policy, Scope, Severity
from policies.registry import all_policies
from policies.waivers import Waiver
from tests.support import celeval, fixtures

SCHEME = vap.Scheme(whole=("paperclip-agents",), labelled=("argocd", "paperclip-system"), actions=("Deny", "Audit"))
OURS = {"app.kubernetes.io/part-of": "paperclip"}


def policy(cel, **changed):
    values = {"severity": Severity.ERROR, "kinds": frozenset({"Deployment", "Pod"}), "waivable": True, "since": ""}
    fixed = {"id": "p", "title": "It holds", "scope": Scope.OBJECT, "family": "f", "rationale": "", "remedy": "do it"}
    return Policy(**{**fixed, "links": (), "check": None, "cel": cel, **values, **changed})


def waiver(name, policy_id="p"):
    return Waiver(policy_id, name, "", "because", "me", datetime.date(2030, 1, 1), 3)


def made(*args, **kwargs):
    return list(vap.objects(*args, **kwargs))


def manifest(kind="Deployment", name="paperclip", namespace="paperclip-system", **metadata):
    known = {"name": name, "namespace": namespace, "labels": OURS}
    return {"apiVersion": "v1", "kind": kind, "metadata": {**known, **metadata}}


def judged(one, *waivers, kinds=("CronJob", "Deployment", "Job", "Pod"), **asked):
    return celeval.matches(vap.conditions(kinds, SCHEME, waivers), one, **asked)


def test_a_policy_and_its_binding():
    body, binding = made([policy(Cel("variables.containers.size() > 0"))], Facts(), SCHEME)
    assert (body["metadata"]["name"], binding["spec"]["policyName"]) == ("paperclip-p", "paperclip-p")
    assert body["spec"]["validations"] == [
        {"expression": "variables.containers.size() > 0", "message": "It holds: do it", "reason": "Invalid"}
    ]
    assert [one["name"] for one in body["spec"]["variables"]] == ["podSpec", "containers"]
    assert [rule["resources"] for rule in body["spec"]["matchConstraints"]["resourceRules"]] == [
        ["pods"],
        ["deployments"],
    ]
    assert binding["spec"]["validationActions"] == ["Deny", "Audit"]


def test_only_what_is_reached_is_written():
    body, _ = made([policy(Cel("true"))], Facts(), SCHEME)
    assert "variables" not in body["spec"]


def test_a_message_may_be_an_expression():
    body, _ = made([policy(Cel("false", message="'name: ' + object.metadata.name"))], Facts(), SCHEME)
    assert body["spec"]["validations"][0]["messageExpression"] == "'name: ' + object.metadata.name"
    assert celeval.message(Cel("false", message="'name: ' + object.metadata.name"), manifest()) == "name: paperclip"


@pytest.mark.parametrize(
    ("severity", "actions", "expected"),
    [
        (Severity.ERROR, ("Audit", "Deny"), ["Deny", "Audit"]),
        (Severity.ERROR, ("Warn", "Audit"), ["Warn", "Audit"]),
        (Severity.WARNING, ("Deny", "Audit"), ["Warn", "Audit"]),
        (Severity.WARNING, ("Deny",), ["Warn"]),
        (Severity.WARNING, ("Audit",), ["Audit"]),
        (Severity.INFO, ("Deny",), ["Audit"]),
    ],
)
def test_only_an_error_is_denied(severity, actions, expected):
    assert vap.actions_of(severity, actions) == expected


def test_facts_decide_whether_there_is_a_text():
    spoken = policy(lambda facts: Cel("true") if facts.registries else None)
    assert made([spoken], Facts(), SCHEME) == []
    assert len(made([spoken], Facts(registries=("ghcr.io/a",)), SCHEME)) == 2
    assert made([policy(Cel("true"), since="1.36")], Facts(kubernetes_version="1.35"), SCHEME) == []


@pytest.mark.parametrize(
    "cel", [Cel("variables.a", variables={"a": "variables.b", "b": "variables.a"}), Cel("variables.x")]
)
def test_a_variable_that_is_not_there_or_needs_itself_is_refused(cel):
    with pytest.raises(ValueError, match=r"variables\.\w"):
        vap.reached(cel)
    assert celeval.problems(cel)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (manifest(), True),
        (manifest(labels={}), False),
        (manifest(labels={}, namespace="paperclip-agents"), True),
        (manifest(labels={"app.kubernetes.io/part-of": "postgresql"}), False),
        (manifest("Namespace", "paperclip-system", "", labels=OURS), True),
        (manifest("Namespace", "others", "", labels={}), False),
        (manifest(deletionTimestamp="2026-01-01T00:00:00Z"), False),
    ],
)
def test_what_belongs_to_paperclip_is_judged(one, expected):
    assert judged(one) is expected


def test_taking_the_label_off_is_judged():
    assert judged(manifest(labels={}), old=manifest())


OWNED = {"ownerReferences": [{"kind": "ReplicaSet", "name": "paperclip-5d", "controller": True}]}


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("system:serviceaccount:kube-system:replicaset-controller", False),
        ("system:kube-controller-manager", False),
        ("system:serviceaccount:cnpg-system:cnpg-manager", False),
        ("system:node:worker-1", False),
        ("system:serviceaccount:paperclip-agents:paperclip-agent-runner", True),
        ("system:serviceaccount:paperclip-system:paperclip", True),
        ("system:serviceaccount:argocd:argocd-application-controller", True),
        ("system:admin", True),
        ("someone", True),
    ],
)
def test_what_a_controller_makes_is_not_judged_again(user, expected):
    assert judged(manifest("Pod", "paperclip-5d-x", **OWNED), user=user) is expected


def test_a_controller_is_judged_for_what_nobody_owns():
    assert judged(manifest("Pod"), user="system:serviceaccount:kube-system:replicaset-controller")
    assert not judged(manifest("Pod"), user="system:serviceaccount:kube-system:generic-garbage-collector")


@pytest.mark.parametrize(
    ("waived", "one", "expected"),
    [
        ("Deployment/paperclip-system/paperclip", manifest(), False),
        ("Deployment/paperclip-system/paperclip", manifest(name="other"), True),
        ("Deployment/paperclip-system/paperclip", manifest(namespace="paperclip-agents"), True),
        ("Deployment/paperclip-system/paperclip", manifest("Pod"), True),
        ("Job/paperclip-agents/claude", manifest("Job", "run-1-3132caff1b886b32", "paperclip-agents"), True),
        (
            "Job/paperclip-agents/claude",
            manifest("Job", "run-1-3132caff1b886b32", "paperclip-agents", labels={"paperclip.io/template": "claude"}),
            False,
        ),
        (
            "Job/paperclip-agents/claude",
            manifest("Job", "run-1-3132caff1b886b32", "paperclip-agents", labels={"paperclip.io/template": "generic"}),
            True,
        ),
        ("Service/paperclip-system/paperclip", manifest(), True),
        ("Deployment/paperclip-system/it's \\ odd", manifest(name="it's \\ odd"), False),
    ],
)
def test_a_waiver_lets_its_object_through(waived, one, expected):
    assert judged(one, waiver(waived)) is expected


def test_many_waivers_fit():
    many = [waiver(f"Deployment/paperclip-system/d{number}") for number in range(80)]
    found = list(vap.conditions(("Deployment",), SCHEME, many))
    assert len(found) <= 64
    assert not celeval.matches(found, manifest(name="d79"))
    assert celeval.matches(found, manifest(name="d80"))


def test_what_cannot_be_waived_is_not():
    (body, _) = made([policy(Cel("true"), waivable=False)], Facts(), SCHEME, [waiver("Deployment/a/b")])
    assert not [one for one in body["spec"]["matchConditions"] if one["name"].startswith("not-waived")]


def test_waivers_of_other_policies_are_not_written():
    (body, _) = made([policy(Cel("true"))], Facts(), SCHEME, [waiver("Deployment/a/b", "q")])
    assert not [one for one in body["spec"]["matchConditions"] if one["name"].startswith("not-waived")]


def test_every_policy_can_be_written_for_the_base():
    _, facts = fixtures.base()
    first = made(all_policies(), facts, SCHEME)
    assert first == made(all_policies(), copy.deepcopy(facts), SCHEME)
    names = [(one["kind"], one["metadata"]["name"]) for one in first]
    assert len(set(names)) == len(names)
    for one in first:
        if one["kind"] == "ValidatingAdmissionPolicy":
            assert all("\n" not in each.get("message", "") for each in one["spec"]["validations"])
            assert len(one["spec"]["matchConditions"]) <= 64


def test_resources_of_admission_policies_are_known():
    assert resource_of("ValidatingAdmissionPolicyBinding") == "validatingadmissionpolicybindings"
