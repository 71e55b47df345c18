"""Workloads beyond the fixtures: what secrets look like, how Kubernetes expands and rounds, and trees of any shape."""

from __future__ import annotations

import copy
import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubekit import pointers
from policies.facts import External, Facts
from policies.registry import all_policies, by_id
from policies.run import run
from policies.workloads.secrets import is_random, secret_in
from policies.world import World
from tests.support import celeval, fixtures

OURS = [one for one in all_policies() if one.family in {"workloads", "storage"}]
NAMESPACE = "tools"


def found(policy, *manifests, facts=None):
    findings = run(World([(one, None) for one in manifests], facts), [by_id()[policy]])
    return [(one.pointer, one.severity) for one in findings]


def workload(kind="Deployment", spec=None, pod=None, **container):
    labels = {"app": "side"}
    body = {"containers": [{"name": "main", "image": "side", **container}], **(pod or {})}
    return {
        "apiVersion": {"Job": "batch/v1", "Rollout": "argoproj.io/v1alpha1"}.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": {"name": "side", "namespace": NAMESPACE},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": body}, **(spec or {})},
    }


def volumes(claim):
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


ONCE = Facts(externals=(External("PersistentVolumeClaim", NAMESPACE, "data", modes=frozenset({"ReadWriteOnce"})),))


def test_a_rollout_has_the_claims_of_its_workload_ref():
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "side"}
    rollout = workload("Rollout")
    rollout["spec"] = {"workloadRef": reference}
    assert [one for one, _ in found("no-rollout-on-rwo", rollout, workload(pod=volumes("data")), facts=ONCE)] == [
        "/spec/workloadRef"
    ]
    assert found("no-rollout-on-rwo", rollout, facts=ONCE) == []


def test_a_claim_of_an_unknown_mode_is_not_judged():
    rolling = workload(spec={"replicas": 3}, pod=volumes("data"))
    for policy in ("rwo-recreate", "rwo-single-replica", "rwo-single-consumer"):
        assert found(policy, rolling) == []
    assert found("rwo-recreate", rolling, facts=ONCE)
    assert found("rwo-single-replica", rolling, facts=ONCE)


def test_what_a_controller_made_is_no_second_workload():
    made = workload("ReplicaSet", spec={"replicas": 1}, pod=volumes("data"))
    deployment = workload(spec={"replicas": 1}, pod=volumes("data"))
    assert found("rwo-single-consumer", deployment, made, facts=ONCE)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "side", "uid": "1", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    assert found("rwo-single-consumer", deployment, made, facts=ONCE) == []


def test_the_committed_claim_tells_its_mode():
    committed = {f"{NAMESPACE}/data": {"spec": {"accessModes": ["ReadWriteOncePod"]}}}
    assert found("rwo-recreate", workload(pod=volumes("data")), facts=Facts(committed=committed))


# What a budget lets go: k8s.io/kubernetes/pkg/controller/disruption, GetScaledValueFromIntOrPercent rounds up.
@pytest.mark.parametrize(
    ("field", "amount", "replicas", "blocks"),
    [
        ("minAvailable", 1, 1, True),
        ("minAvailable", 1, 2, False),
        ("minAvailable", 5, 2, True),
        ("minAvailable", 0, 1, False),
        ("minAvailable", "51%", 2, True),
        ("minAvailable", "50%", 2, False),
        ("minAvailable", "67%", 3, True),
        ("minAvailable", "66%", 3, False),
        ("minAvailable", "0%", 1, False),
        ("maxUnavailable", 0, 5, True),
        ("maxUnavailable", "0%", 5, True),
        ("maxUnavailable", "1%", 1, False),
        ("maxUnavailable", 1, 1, False),
        ("maxUnavailable", "x%", 1, False),
        ("maxUnavailable", "5", 1, False),
        ("minAvailable", None, 1, False),
        ("minAvailable", 1, 0, False),
        ("minAvailable", 1, None, True),
    ],
)
def test_a_budget_is_counted_as_the_controller_counts(field, amount, replicas, blocks):
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["side"]}]}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "side", "namespace": NAMESPACE},
        "spec": {"selector": selector, field: amount},
    }
    spec = {} if replicas is None else {"replicas": replicas}
    assert bool(found("no-blocking-pdb", budget, workload(spec=spec))) is blocks
    budget["spec"]["selector"] = {}
    assert bool(found("no-blocking-pdb", budget, workload(spec=spec))) is blocks
    del budget["spec"]["selector"]
    assert found("no-blocking-pdb", budget, workload(spec=spec)) == []


def expanded(text):
    """The names that Kubernetes looks up: a translation of third_party/forked/golang/expansion."""
    names, at = [], 0
    while at < len(text):
        if text[at] == "$" and at + 1 < len(text):
            following = text[at + 1]
            end = text.find(")", at + 1) if following == "(" else -1
            if following == "(" and end >= 0:
                names.append(text[at + 2 : end])
                at = end
            else:
                at += 1
        at += 1
    return names


@settings(deadline=None)
@given(text=st.text(alphabet="$()AB x", max_size=14))
def test_references_are_those_that_kubernetes_sees(text):
    late = [{"name": name, "value": "x"} for name in ("A", "B", "AB", "BA", "AA", "BB")]
    manifest = workload(env=[{"name": "FIRST", "value": text}, *late])
    declared = {one["name"] for one in late}
    expected = sorted(name for name in set(expanded(text)) & declared)
    findings = run(World([(manifest, None)]), [by_id()["env-expansion-order"]])
    errors = [one for one in findings if one.severity == "error"]
    assert sorted(one.message.partition("$(")[2].partition(")")[0] for one in errors) == expected
    cel = by_id()["env-expansion-order"].cel
    assert (celeval.verdict(cel, manifest, kinds=("Deployment",)) == "pass") is (not expected)


@pytest.mark.parametrize("length", [28, 32, 40, 43, 64])
def test_what_chance_wrote_is_told_from_words(length):
    chance = random.Random(length)
    alphabet = string.ascii_letters + string.digits + "-_"
    keys = ["".join(chance.choices(alphabet, k=length)) for _ in range(300)]
    assert sum(map(is_random, keys)) >= 285
    for plain in (string.hexdigits[:16], string.ascii_lowercase + string.digits, string.ascii_letters, string.digits):
        assert not any(is_random("".join(chance.choices(plain, k=length))) for _ in range(50))


WORDS = ["Server", "Side", "paperclip", "Feature", "gate", "Job", "Template", "v1", "Beta2", "claude", "Node", "api"]


@settings(deadline=None)
@given(words=st.lists(st.sampled_from(WORDS), min_size=4, max_size=12), join=st.sampled_from(["", "-", "_", "/"]))
def test_words_that_are_joined_are_no_key(words, join):
    assert not is_random(join.join(words))


@settings(deadline=None)
@given(text=st.from_regex(r"[a-z]{0,4}(sk-|ghp_|eyJ|AKIA|https?://)[A-Za-z0-9:@/$(){}._-]{0,45}", fullmatch=True))
def test_the_api_server_knows_the_same_forms(text):
    manifest = workload(env=[{"name": "VALUE", "value": text}])
    cel = by_id()["env-no-secret-literal"].cel
    assert (celeval.verdict(cel, manifest, kinds=("Deployment",)) == "fail") is bool(secret_in(text))


@pytest.mark.parametrize("policy", ["env-no-secret-literal", "env-secret-by-name"])
def test_no_message_holds_what_it_found(policy):
    judged = 0
    for path in sorted((fixtures.FOLDER / policy).glob("fail.*.yaml")):
        fixture = fixtures.load(path)
        world = World([(one, None) for one in fixture.objects], fixture.facts)
        for one in run(world, [by_id()[policy]]):
            (entry,) = world.by_identity[one.object.identity]
            text = pointers.get(entry.manifest, one.pointer)
            assert not any(text[at : at + 8] in one.message for at in range(max(1, len(text) - 7)))
            judged += 1
    assert judged


def test_a_claim_that_shrinks_is_refused_by_the_api_server_too():
    cel = by_id()["pvc-no-shrink"].cel

    def claim(size="10Gi", modes=("ReadWriteOnce",), **spec):
        spec = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec}
        metadata = {"name": "data", "namespace": NAMESPACE}
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}

    changes = [
        (claim(), claim(), True),
        (claim("20Gi"), claim(), True),
        (claim("10240Mi"), claim(), True),
        (claim("9Gi"), claim(), False),
        (claim(modes=("ReadWriteMany",)), claim(), False),
        (claim(storageClassName="b"), claim(storageClassName="a"), False),
        (claim(), claim(storageClassName="a"), False),
        (claim(storageClassName="a"), claim(), True),
        (claim(volumeMode="Filesystem"), claim(), True),
        (claim(volumeMode="Block"), claim(), False),
    ]
    for new, old, passes in changes:
        assert (celeval.verdict(cel, new, kinds=("PersistentVolumeClaim",), old=old) == "pass") is passes, (new, old)
        facts = Facts(committed={f"{NAMESPACE}/data": old})
        assert (found("pvc-no-shrink", new, facts=facts) == []) is passes, (new, old)


def test_hosts_are_compared_as_the_server_does():
    objects, facts = fixtures.base()
    (settings_map,) = [one for one in objects if one["metadata"]["name"] == "paperclip-config"]

    def missing(listed):
        changed = copy.deepcopy(settings_map)
        changed["data"]["PAPERCLIP_ALLOWED_HOSTNAMES"] = listed
        others = [one for one in objects if one is not settings_map]
        findings = run(World([(one, None) for one in (changed, *others)], facts), [by_id()["server-allowed-hostnames"]])
        return sorted(one.message.split()[3].rstrip(",") for one in findings)

    inside = "paperclip.paperclip-system.svc.cluster.local"
    assert missing("") == ["192.168.55.212", inside]
    assert missing(f" 192.168.55.212:3100 ,{inside.upper()}.") == []
    assert missing("192.168.55.21,[::1]:3100") == ["192.168.55.212", inside]


# Trees of any shape where the policies look: none may stop one.
scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["$(A)", "50%", "1Gi"])
trees = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner))
PLACES = (
    "metadata/labels",
    "metadata/annotations",
    "data",
    "spec",
    "spec/*",
    "spec/template/metadata",
    "spec/template/metadata/annotations",
    "spec/template/spec/*",
    "spec/template/spec/containers/0/*",
    "spec/template/spec/containers/0/env/0/*",
    "spec/template/spec/containers/0/volumeMounts/0/*",
    "spec/template/spec/volumes/0/*",
    "spec/template/spec/volumes/0/persistentVolumeClaim/*",
    "spec/scaleTargetRef",
    "spec/selector",
    "spec/accessModes",
    "spec/resources",
)


def laid(tree, path, value, choose):
    """`value` at `path`, where `*` is some key that is there; False where the path leads nowhere."""
    *way, last = path
    for part in way:
        key = int(part) if part.isdigit() else part
        if not isinstance(tree, dict | list) or (isinstance(tree, dict) and key not in tree):
            return False
        tree = tree[key]
    keys = sorted(tree) if isinstance(tree, dict) else []
    if not keys:
        return False
    tree[choose(keys) if last == "*" else last] = value
    return True


@settings(deadline=None)
@given(data=st.data(), tree=trees, place=st.sampled_from(PLACES))
def test_no_tree_whatever_stops_a_policy(data, tree, place):
    objects, facts = fixtures.base()
    changed = [copy.deepcopy(one) for one in objects]
    for one in changed:
        laid(one, place.split("/"), tree, lambda keys: data.draw(st.sampled_from(keys)))
    run(World([(one, None) for one in changed], facts), OURS)
