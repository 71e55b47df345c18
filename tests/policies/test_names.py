"""Names and labels: what the fixtures of an API server cannot show, and CEL against Python on any text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubekit import labels, names
from policies.facts import External, Facts
from policies.model import Source
from policies.registry import by_id
from policies.run import run
from policies.world import World
from tests.support import celeval

OURS = dict.fromkeys((labels.NAME, labels.INSTANCE, labels.COMPONENT), "x") | {
    labels.PART_OF: "paperclip",
    labels.MANAGED_BY: "paperclip-gitops",
}


def thing(kind="ConfigMap", api="v1", namespace="x", name="one", *, spec=None, **metadata):
    place = {"name": name} if name else {}
    place |= {"namespace": namespace} if namespace else {}
    return {"apiVersion": api, "kind": kind, "metadata": {**place, **metadata}} | ({"spec": spec} if spec else {})


def findings(policy, *manifests, **facts):
    world = World([(one, Source(f"{index}.yaml")) for index, one in enumerate(manifests)], Facts(**facts))
    return [one.pointer for one in run(world, [by_id()[policy]])]


def agrees(policy, manifest):
    one = by_id()[policy]
    cel = one.cel(Facts()) if callable(one.cel) else one.cel
    verdict = celeval.verdict(cel, manifest, kinds=one.kinds)
    return (verdict != "pass") == bool(findings(policy, manifest))


texts = st.text(st.sampled_from("aZ0-_./% ä\n"), max_size=12) | st.sampled_from(
    [
        "a" * 63,
        "a" * 64,
        "a." * 40 + "a",
        "a" * 254,
        f"{'p' * 253}/k",
        f"{'p' * 254}/k",
        f"p/{'k' * 63}",
        f"p/{'k' * 64}",
    ]
)


@settings(deadline=None)
@given(
    name=texts, kind=st.sampled_from(["ConfigMap", "Service", "Namespace", "ServiceAccount", "Pod"]), ours=st.booleans()
)
def test_cel_and_python_read_a_name_alike(name, kind, ours):
    one = thing(kind, name=name, labels=OURS if ours else {}, spec={"containers": []})
    assert agrees("name-dns-label", one)


@settings(deadline=None)
@given(key=texts, value=texts)
def test_cel_and_python_read_a_label_alike(key, value):
    assert agrees("label-syntax", thing(labels={key: value}))
    assert agrees("label-syntax", thing("Service", spec={"selector": {key: value}}))


@settings(deadline=None)
@given(run_id=st.text(st.sampled_from("aB0-_./ "), max_size=70), label=texts | st.none())
def test_cel_refuses_no_label_that_python_takes(run_id, label):
    """Of shortened labels CEL knows only the form, so there it takes more."""
    shown = names.label_value(run_id) if label is None else label
    run_labels = labels.AGENT_JOB | {"paperclip.io/run-id": shown, "paperclip.io/agent-id": "a"}
    one = thing("Job", "batch/v1", labels=run_labels, annotations={"paperclip.io/run-id": run_id})
    one["spec"] = {"template": {"metadata": {"labels": run_labels}, "spec": {"containers": []}}}
    verdict = celeval.verdict(by_id()["run-label-injective"].cel, one, kinds=("Job",))
    if not findings("run-label-injective", one):
        assert verdict == "pass"
    elif names.is_label_value(shown) and not (shown[-17:-16] == "-" and set(shown[-16:]) <= set("0123456789abcdef")):
        assert verdict == "fail"


def test_a_job_whose_template_alone_says_agent_is_an_agents_job():
    one = thing("Job", "batch/v1", labels={"paperclip.io/run-id": "1", "paperclip.io/agent-id": "a"})
    one["spec"] = {"template": {"metadata": {"labels": dict(labels.AGENT_JOB)}, "spec": {"containers": []}}}
    assert len(findings("run-labels", one)) == 2
    assert agrees("run-labels", one)


@pytest.mark.parametrize(
    ("manifest", "pointers"),
    [
        (thing("ServiceAccount", name="cert.manager"), []),
        (thing("Wiki", "example.org/v1", name="a.b"), []),
        (thing("Deployment", "apps/v1", name="a.b"), ["/metadata/name"]),
        (thing("Job", "batch/v1", name="", generateName="a-"), []),
        (thing("Job", "batch/v1", name=""), ["/metadata/name"]),
        (thing("ClusterRole", "rbac.authorization.k8s.io/v1", "", "system:node"), []),
        (thing("ClusterRole", "rbac.authorization.k8s.io/v1", "", "a%2Fb"), ["/metadata/name"]),
    ],
)
def test_names_of_others_need_only_be_what_kubernetes_asks(manifest, pointers):
    assert findings("name-dns-label", manifest) == pointers


def test_cilium_says_where_a_label_comes_from():
    spec = {"endpointSelector": {"matchLabels": {"k8s:io.kubernetes.pod.namespace": "a", "any:app": "-"}}}
    pointers = ["/spec/endpointSelector/matchLabels/any:app"]
    assert findings("label-syntax", thing("CiliumNetworkPolicy", "cilium.io/v2", spec=spec)) == pointers
    assert len(findings("label-syntax", thing("NetworkPolicy", "networking.k8s.io/v1", spec=spec))) == 3


def test_what_only_looks_like_a_selector_is_none():
    schema = {"matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}}
    definition = thing("CustomResourceDefinition", "apiextensions.k8s.io/v1", "", spec={"schema": schema})
    rule = thing("ClusterPolicy", "kyverno.io/v1", "", spec={"selector": {"matchLabels": {"app": "*"}}})
    assert findings("label-syntax", definition, rule) == []


def test_labels_stand_in_templates_of_claims_and_of_jobs():
    bad = {"metadata": {"labels": {"a": "-"}}}
    stateful = thing("StatefulSet", "apps/v1", spec={"volumeClaimTemplates": [bad, "junk"], "template": bad})
    assert findings("label-syntax", stateful) == ["/spec/volumeClaimTemplates/0/metadata/labels/a"]
    cron = thing("CronJob", "batch/v1", spec={"jobTemplate": bad})
    assert findings("label-syntax", cron) == ["/spec/jobTemplate/metadata/labels/a"]


def test_a_kind_of_unknown_scope_may_lack_a_namespace():
    assert findings("namespace-explicit", thing("Wiki", "example.org/v1", "")) == []
    assert findings("namespace-explicit", thing("Service", "serving.knative.dev/v1", "")) == []
    assert findings("namespace-explicit", thing("ClusterRole", "rbac.authorization.k8s.io/v1", "")) == []
    assert findings("namespace-explicit", thing("Role", "rbac.authorization.k8s.io/v1", "")) == ["/metadata"]


def test_a_namespace_is_asked_for_only_where_namespaces_are_known():
    namespace = thing("Namespace", namespace="", name="y")
    assert findings("namespace-in-set", thing()) == []
    assert findings("namespace-in-set", thing(), thing(name="two"), namespace) == ["/metadata/namespace"]
    assert findings("namespace-in-set", thing(), namespaces=frozenset({"x"})) == ["/metadata/namespace"]
    declared = (External("Namespace", "", "x"),)
    assert findings("namespace-in-set", thing(), namespace, externals=declared) == []
    assert findings("namespace-in-set", thing(namespace="kube-system"), namespace) == []


def test_of_two_equal_objects_the_second_is_told_with_the_place_of_the_first():
    world = World([(thing(), Source("a.yaml", 3)), (thing(api="v2"), Source("b.yaml"))])
    (finding,) = run(world, [by_id()["unique-identity"]])
    assert "a.yaml:3" in finding.message
    assert str(finding.source) == "b.yaml"
    nameless = thing("Job", "batch/v1", name="", generateName="a-")
    assert findings("unique-identity", nameless, dict(nameless)) == []


@pytest.mark.parametrize(
    ("kind", "selector", "pod_labels", "count"),
    [
        ("Deployment", {"matchLabels": {"app": "a"}}, {"app": "a"}, 0),
        ("Deployment", {"matchLabels": {"app": "a"}}, {"app": "b"}, 1),
        ("Deployment", {"matchLabels": {"app": "a"}}, {}, 1),
        ("DaemonSet", {"matchLabels": {"helm.sh/chart": "a-1"}}, {"helm.sh/chart": "a-1"}, 1),
        ("StatefulSet", {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}, {"app": "a"}, 0),
        ("StatefulSet", {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}, {"app": "b"}, 1),
        ("StatefulSet", {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, {}, 0),
        ("StatefulSet", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, {}, 1),
        ("ReplicaSet", {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, {}, 0),
    ],
)
def test_a_workload_selects_its_own_pods(kind, selector, pod_labels, count):
    template = {"metadata": {"labels": pod_labels}, "spec": {"containers": []}}
    one = thing(kind, "apps/v1", spec={"selector": selector, "template": template})
    assert len(findings("selector-stable", one)) == count
    assert agrees("selector-stable", one)


@pytest.mark.parametrize("selector", [{"matchLabels": ["x"]}, {"matchExpressions": [3]}, {"x": 1}, "junk", None])
def test_a_broken_selector_is_the_schemas_finding(selector):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}
    assert (
        findings("selector-stable", thing("Deployment", "apps/v1", spec={"selector": selector, "template": template}))
        == []
    )


def test_a_release_of_helm_is_bounded_only_where_helm_renders():
    folder = {"repoURL": "https://example.org/a.git", "path": "x"}
    kind = ("Application", "argoproj.io/v1alpha1", "argocd", "a" * 60)
    assert findings("argo-app-name-headroom", thing(*kind, spec={"source": folder})) == []
    chart = {"sources": [folder, {"chart": "c", "helm": {"releaseName": ""}}]}
    assert findings("argo-app-name-headroom", thing(*kind, spec=chart)) == ["/metadata/name"]
    assert agrees("argo-app-name-headroom", thing(*kind, spec=chart))
