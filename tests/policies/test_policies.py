"""Each policy on one object that passes and on those that must not."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.facts import Facts
from policies.registry import all_policies
from policies.run import run
from policies.world import World

DIGEST = "sha256:" + "0" * 64


def deployment():
    probe = {"tcpSocket": {"port": "http"}}
    container = {
        "name": "paperclip",
        "image": f"ghcr.io/paperclipai/paperclip:1.0@{DIGEST}",
        "ports": [{"name": "http", "containerPort": 3100}],
        "readinessProbe": dict(probe),
        "livenessProbe": dict(probe),
    }
    labels = {"app.kubernetes.io/name": "paperclip", "app.kubernetes.io/component": "server"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "paperclip", "namespace": "paperclip-system", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": dict(labels)}, "spec": {"containers": [container]}},
        },
    }


def claim(storage_class="fast", mode="ReadWriteOnce"):
    spec = {"storageClassName": storage_class, "accessModes": [mode]}
    metadata = {"name": "data", "namespace": "paperclip-system"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def balancer(name, address, key=None):
    annotations = {"lbipam.cilium.io/ips": address} | ({"lbipam.cilium.io/sharing-key": key} if key else {})
    metadata = {"name": name, "namespace": "paperclip-system", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"type": "LoadBalancer"}}


FACTS = Facts(storage_classes={"fast": frozenset({"ReadWriteOnce"})}, address_pools=(("10.0.0.10", "10.0.0.20"),))


def found(*manifests, facts=FACTS):
    findings = run(World([(manifest, None) for manifest in manifests], facts))
    return [(one.policy, one.pointer) for one in findings]


def changed(manifest, pointer, value):
    result = copy.deepcopy(manifest)
    *path, last = [int(part) if part.isdigit() else part for part in pointer.strip("/").split("/")]
    target = result
    for part in path:
        target = target[part]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return result


def test_a_sound_set_has_no_findings():
    pool = {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": "pool"},
        "spec": {"blocks": [{"cidr": "10.1.0.0/30"}]},
    }
    assert found(deployment(), claim(), balancer("one", "10.0.0.10"), balancer("two", "10.1.0.1"), pool) == []


CONTAINER = "/spec/template/spec/containers/0"


@pytest.mark.parametrize(
    ("policy", "pointer", "value", "where"),
    [
        ("name-dns-label", "metadata/name", "Paperclip", "/metadata/name"),
        ("name-dns-label", "metadata/name", "x" * 64, "/metadata/name"),
        ("label-syntax", "metadata/labels/é", "x", "/metadata/labels/é"),
        ("label-syntax", "spec/template/metadata/labels/tier", "x" * 64, "/spec/template/metadata/labels/tier"),
        ("label-syntax", "spec/selector/matchLabels/tier", "-x", "/spec/selector/matchLabels/tier"),
        ("label-syntax", "metadata/labels/tier", 3, "/metadata/labels/tier"),
        ("image-digest", f"{CONTAINER}/image", "ghcr.io/paperclipai/paperclip:1.0", f"{CONTAINER}/image"),
        ("image-digest", f"{CONTAINER}/image", f"Bad Name@{DIGEST}", f"{CONTAINER}/image"),
        ("probe-port-exists", f"{CONTAINER}/livenessProbe", {"httpGet": {"port": 1}}, f"{CONTAINER}/livenessProbe"),
        ("paperclip-tcp-probes", f"{CONTAINER}/readinessProbe", None, f"{CONTAINER}/readinessProbe"),
        ("paperclip-tcp-probes", f"{CONTAINER}/readinessProbe", {"exec": {}}, f"{CONTAINER}/readinessProbe"),
    ],
)
def test_a_fault_is_found_by_its_policy_at_its_place(policy, pointer, value, where):
    findings = found(changed(deployment(), pointer, value))
    assert policy in [one[0] for one in findings]
    assert any(one[0] == policy and one[1].startswith(where) for one in findings)


@pytest.mark.parametrize("image", ["localhost:5000/app", "app", "app:latest", "ghcr.io/owner/app:latest"])
def test_an_image_that_follows_latest_is_refused_however_it_is_written(image):
    findings = found(changed(deployment(), f"{CONTAINER}/image", image))
    assert ("image-no-floating-tag", f"{CONTAINER}/image") in findings


def test_a_claim_is_held_against_its_class():
    assert found(claim(mode="ReadWriteMany")) == [("pvc-storageclass", "/spec/accessModes/0")]
    assert found(claim(storage_class="slow")) == [("pvc-storageclass", "/spec/storageClassName")]
    assert found(claim(storage_class="slow"), facts=Facts()) == []


def test_addresses_are_held_against_pools_and_against_each_other():
    place = "/metadata/annotations/lbipam.cilium.io~1ips"
    assert found(balancer("one", "10.0.0.9")) == [("lb-ip-in-pool", place)]
    assert found(balancer("one", "nonsense")) == [("lb-ip-in-pool", place)]
    assert found(balancer("one", "10.0.0.10"), balancer("two", "10.0.0.10")) == [("lb-ip-unique", place)]
    assert found(balancer("one", "10.0.0.10", "a"), balancer("two", "10.0.0.10", "a")) == []
    assert found(balancer("one", "10.0.0.10", "a"), balancer("two", "10.0.0.10", "b")) == [("lb-ip-unique", place)]


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
trees = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner))


@settings(max_examples=300, deadline=None)
@given(
    pointer=st.sampled_from(
        [
            "metadata",
            "metadata/annotations",
            "metadata/labels",
            "spec",
            "spec/template",
            "spec/template/metadata",
            "spec/template/spec",
            "spec/template/spec/containers",
            "spec/template/spec/containers/0",
            "spec/template/spec/containers/0/ports",
            "spec/template/spec/containers/0/livenessProbe",
            "spec/template/spec/containers/0/image",
            "spec/selector",
        ]
    ),
    tree=trees,
)
def test_no_tree_whatever_stops_a_policy(pointer, tree):
    found(changed(deployment(), pointer, 0 if tree is None else tree))


@settings(max_examples=200, deadline=None)
@given(spec=trees, annotations=trees, blocks=trees)
def test_no_service_claim_or_pool_whatever_stops_a_policy(spec, annotations, blocks):
    odd = {**balancer("one", "10.0.0.10"), "spec": spec}
    odd["metadata"]["annotations"] = annotations
    pool = {"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": "pool"}}
    ranges = {**pool, "spec": {"blocks": [blocks, {"cidr": blocks}, {"start": blocks}]}}
    volume = claim()
    volume["spec"]["accessModes"] = spec
    found(odd, balancer("two", "10.0.0.10"), {**pool, "spec": blocks}, ranges, volume, {**claim(), "spec": spec})


def test_every_policy_tells_why_and_how_to_mend():
    for policy in all_policies():
        assert policy.title
        assert policy.rationale
        assert policy.remedy


def test_a_fingerprint_stays_while_the_finding_does():
    (first,) = run(World([(claim(mode="ReadWriteMany"), None)], FACTS))
    (second,) = run(World([(claim(mode="ReadWriteMany"), None)], FACTS))
    assert first.fingerprint == second.fingerprint
    assert len(first.fingerprint) == 16
