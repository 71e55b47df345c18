"""What LimitRanges and ResourceQuotas do to pods: the rules one by one. tests/e2e asks the API server the same."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission.limits import claim_refusals, limit_range_refusals, with_defaults
from policies.admission.quotas import concerns, quota_refusals, room, usage
from policies.registry import all_policies
from policies.run import run
from policies.world import World

FAMILIES = [one for one in all_policies() if one.family in {"admission", "jobs"}]


def ranged(*limits, name="l"):
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name, "namespace": "n"},
        "spec": {"limits": list(limits)},
    }


def quota(hard, name="q", **more):
    metadata = {"name": name, "namespace": "n"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **more}}


def pod(requests=None, limits=None, **more):
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return {"containers": [{"name": "a", "resources": resources}], **more}


def as_pod(spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": spec}


def resources(spec, where="containers"):
    return [one.get("resources") for one in spec[where]]


def test_a_limit_is_the_request_even_without_a_limit_range():
    found = with_defaults(pod({"memory": "1"}, {"cpu": "2", "memory": "3"}), [])
    assert resources(found) == [{"requests": {"cpu": "2", "memory": "1"}, "limits": {"cpu": "2", "memory": "3"}}]


def test_a_written_limit_is_the_request_before_the_default_request_is():
    """The order matters: a LimitRange that came first would give the smaller request."""
    default = ranged({"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "100m"}})
    assert resources(with_defaults(pod(limits={"cpu": "1"}), [default])) == [
        {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    ]


@pytest.mark.parametrize(
    ("entry", "limits", "requests"),
    [
        ({"max": {"cpu": "2"}}, {"cpu": "2"}, {"cpu": "2"}),
        ({"min": {"cpu": "1"}}, None, {"cpu": "1"}),
        ({"min": {"cpu": "1"}, "max": {"cpu": "2"}}, {"cpu": "2"}, {"cpu": "2"}),
        ({"default": {"cpu": "2"}, "min": {"cpu": "1"}}, {"cpu": "2"}, {"cpu": "2"}),
        ({"max": {"cpu": "4"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}, {"cpu": "2"}, {"cpu": "1"}),
    ],
)
def test_what_a_limit_range_does_not_say_follows_from_the_rest(entry, limits, requests):
    (found,) = resources(with_defaults(pod(), [ranged({"type": "Container", **entry})]))
    assert (found.get("limits"), found.get("requests")) == (limits, requests)


def test_defaults_change_nothing_that_was_given():
    spec = pod({"cpu": "1"})
    before = copy.deepcopy(spec)
    with_defaults(spec, [ranged({"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}})])
    assert spec == before


@pytest.mark.parametrize(
    ("spec", "entry", "said"),
    [
        (
            pod({"cpu": "50m"}),
            {"type": "Container", "min": {"cpu": "100m"}},
            'container "a" asks for 50m CPU, under the LimitRange minimum of 100m (LimitRange l)',
        ),
        (
            pod({"cpu": "1"}, {"cpu": "8"}),
            {"type": "Container", "max": {"cpu": "4"}},
            'container "a" may take 8 CPU, over the LimitRange maximum of 4 (LimitRange l)',
        ),
        (
            pod({"memory": "1Gi"}),
            {"type": "Pod", "max": {"memory": "2Gi"}},
            "the pod has no limit of memory, and must have one for the LimitRange maximum of 2Gi (LimitRange l)",
        ),
        (
            pod({"cpu": "1"}, {"cpu": "4"}),
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            (
                'container "a" has a limit of CPU 4 times its request (4 to 1), over the LimitRange ratio of 2 '
                "(LimitRange l)"
            ),
        ),
        (
            pod({"cpu": "3"}),
            {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}},
            (
                'container "a" has a request of 3 CPU, which does not fit the limit of 2 that a LimitRange gives it; '
                "write both"
            ),
        ),
    ],
)
def test_refusals_name_the_numbers(spec, entry, said):
    (found,) = limit_range_refusals(spec, [ranged(entry)])
    assert found.message == said


def test_init_containers_count_by_the_largest_and_sidecars_on_top():
    def taken(*init):
        cost = usage(as_pod({**pod({"cpu": "1"}), "initContainers": list(init)}))
        return cost["requests.cpu"]

    def one(cpu, **more):
        return {"name": "i", "resources": {"requests": {"cpu": cpu}}, **more}

    assert taken() == 1
    assert taken(one("500m"), one("3"), one("2")) == 3
    assert taken(one("1", restartPolicy="Always")) == 2
    assert taken(one("1", restartPolicy="Always"), one("3")) == 4
    assert taken(one("3"), one("1", restartPolicy="Always")) == 3


def test_overhead_counts_for_quotas_and_not_for_limit_ranges():
    spec = pod({"cpu": "1"}, {"cpu": "1"}, overhead={"cpu": "500m", "memory": "64Mi"})
    cost = usage(as_pod(spec))
    assert (cost["requests.cpu"], cost["limits.cpu"], cost["requests.memory"]) == (1.5, 1.5, 64 * 2**20)
    assert "limits.memory" not in cost
    assert limit_range_refusals(spec, [ranged({"type": "Pod", "max": {"cpu": "1"}})]) == []


def test_the_pods_own_resources_replace_the_sums():
    spec = pod({"cpu": "1"}, resources={"requests": {"cpu": "4"}, "limits": {"cpu": "8"}})
    assert usage(as_pod(with_defaults(spec, [])))["requests.cpu"] == 4
    found = quota_refusals(as_pod(spec), [quota({"limits.memory": "1Gi", "cpu": "4"})])
    assert found == [], "what the pod says of itself, its containers need not"


def test_every_container_says_how_much_it_takes_of_what_a_quota_counts():
    (found,) = quota_refusals(as_pod(pod({"cpu": "1"})), [quota({"limits.cpu": "4", "memory": "1Gi", "pods": "5"})])
    assert found.pointer == "/containers/0/resources"
    assert found.message == (
        'container "a" has no limits.cpu and no requests.memory, and must say how much, since ResourceQuota q counts it'
    )
    assert quota_refusals(as_pod(pod()), [quota({"limits.ephemeral-storage": "1Gi"})]) == []


@pytest.mark.parametrize(
    ("scope", "spec", "is_in"),
    [
        ("Terminating", pod(activeDeadlineSeconds=0), True),
        ("NotTerminating", pod(), True),
        ("NotTerminating", pod(activeDeadlineSeconds=5), False),
        ("BestEffort", pod(), True),
        ("BestEffort", pod({"ephemeral-storage": "1"}), True),
        ("BestEffort", pod({"cpu": "0"}), True),
        ("NotBestEffort", pod({"cpu": "1"}), True),
        ("PriorityClass", pod(priorityClassName="x"), True),
        ("PriorityClass", pod(), False),
        ("Elsewhere", pod(), False),
    ],
)
def test_scopes(scope, spec, is_in):
    assert concerns(quota({"pods": "1"}, scopes=[scope]), as_pod(spec)) is is_in


def test_a_quota_with_a_scope_counts_nothing_but_pods():
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    assert usage(service)["services"] == 1
    assert not concerns(quota({"services": "1"}, scopes=["NotTerminating"]), service)


def test_how_many_fit():
    one = as_pod(pod({"cpu": "300m"}, {"memory": "1Gi"}))
    assert room(one, [quota({"requests.cpu": "1", "pods": "9"})]) == 3
    assert room(one, [quota({"requests.cpu": "1"}), quota({"pods": "2"}, name="r")]) == 2
    assert room(one, [quota({"services": "0"})]) is None
    assert room(one, []) is None


def test_replicas_are_charged_together():
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod({"cpu": "1"})}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n"},
        "spec": {"replicas": 3, "template": template},
    }
    said = [
        one.message
        for one in run(World([(deployment, None), (quota({"cpu": "2"}), None)]))
        if one.policy == "quota-admits"
    ]
    assert said == ["3 such pods take 3 of cpu, more than the 2 of ResourceQuota q"]


def test_a_claim_counts_for_its_class_and_in_whole_bytes():
    spec = {"storageClassName": "fast", "resources": {"requests": {"storage": "0.5"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
    cost = usage(claim)
    assert cost["requests.storage"] == cost["fast.storageclass.storage.k8s.io/requests.storage"] == 1
    bounds = ranged({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}})
    assert len(claim_refusals(spec, [bounds])) == 1


def test_a_kind_of_another_group_costs_nothing_of_ours():
    assert usage({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {}, "spec": {}}) == {}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["cpu", "1", "Container"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "limits",
                    "requests",
                    "type",
                    "min",
                    "max",
                    "default",
                    "cpu",
                    "hard",
                    "scopes",
                    "containers",
                    "resources",
                    "initContainers",
                    "spec",
                    "overhead",
                    "affinity",
                    "maxLimitRequestRatio",
                    "restartPolicy",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(ANYTHING, ANYTHING, ANYTHING)
def test_nothing_that_is_malformed_is_a_crash(spec, limits, hard):
    objects = [ranged(*limits) if isinstance(limits, list) else ranged(limits), quota(hard), as_pod(spec)]
    objects += [
        {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x", "namespace": "n"}, "spec": spec}
        for kind in ("Deployment", "Job", "PersistentVolumeClaim", "Service")
    ]
    run(World([(one, None) for one in objects]), FAMILIES)
