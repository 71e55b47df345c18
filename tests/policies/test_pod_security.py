"""The Pod Security Standards, check by check and version by version, and the policies that are made of them."""

from __future__ import annotations

import copy
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubekit import pointers
from policies.cel import Cel
from policies.facts import Facts
from policies.model import Severity
from policies.podsecurity import CHECKS, Level, level_of, version_of, violations
from policies.podsecurity.standard import NEWEST
from policies.registry import all_policies
from policies.run import run
from policies.world import PODS, World
from tests.support import celeval, securitypods

FAMILY = [one for one in all_policies() if one.family == "podsecurity"]
PREFIX = "pod-security.kubernetes.io"
BASELINE, RESTRICTED, PRIVILEGED = Level.BASELINE, Level.RESTRICTED, Level.PRIVILEGED


def judged(spec, level=RESTRICTED, minor=35, annotations=None):
    return [(one.check_id, one.pointer) for one in violations({"annotations": annotations or {}}, spec, level, minor)]


def pod(**spec):
    """A restricted pod with other fields in its spec; `container` changes its only container."""
    made = securitypods.restricted()["spec"]
    del made["initContainers"]
    made["containers"][0] |= spec.pop("container", {})
    return {**made, **spec}


def secure(**fields):
    """A restricted pod with other fields in the securityContext of its container."""
    made = pod()
    made["containers"][0]["securityContext"] |= fields
    return made


def wrapped(kind, spec, namespace="apps", annotations=None):
    template = {"metadata": {"annotations": annotations or {}}, "spec": spec}
    manifest = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a", "namespace": namespace}}
    if kind == "Pod":
        return manifest | {"apiVersion": "v1", "spec": spec}
    if kind == "CronJob":
        return manifest | {"apiVersion": "batch/v1", "spec": {"jobTemplate": {"spec": {"template": template}}}}
    group = {"Job": "batch/v1", "Rollout": "argoproj.io/v1alpha1"}.get(kind, "apps/v1")
    return manifest | {"apiVersion": group, "spec": {"template": template}}


def space(name="apps", labels=None, **levels):
    named = {f"{PREFIX}/{mode.replace('_', '-')}": level for mode, level in levels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": named | (labels or {})}}


def found(*manifests, facts=None):
    return [
        (one.policy, one.pointer) for one in run(World([(manifest, None) for manifest in manifests], facts), FAMILY)
    ]


def test_a_pod_without_a_word_is_fine_at_baseline_and_lacks_four_things_for_restricted():
    bare = securitypods.bare()["spec"]
    assert judged(bare, BASELINE) == []
    assert {check for check, _ in judged(bare)} == {
        "allowPrivilegeEscalation",
        "capabilities_restricted",
        "runAsNonRoot",
        "seccompProfile_restricted",
    }
    assert {place for _, place in judged(bare)} == {"/spec/containers/0"}
    assert judged(pod()) == []


@pytest.mark.parametrize("flags", [("hostPID",), ("hostNetwork", "hostIPC")])
def test_nothing_is_judged_at_privileged(flags):
    spec = dict.fromkeys(flags, True)
    assert judged(spec, PRIVILEGED) == []
    assert judged(spec, BASELINE) == [("hostNamespaces", f"/spec/{flag}") for flag in flags]


def with_sysctl(name):
    return pod(securityContext={"sysctls": [{"name": name, "value": "1"}]})


def with_type(kind):
    return secure(seLinuxOptions={"type": kind})


def with_host(host):
    return pod(container={"livenessProbe": {"httpGet": {"port": 80, "host": host}}})


WINDOWS = {"os": {"name": "windows"}, "containers": [{"name": "a"}], "securityContext": {"runAsNonRoot": True}}
IN_USER_NAMESPACE = {"hostUsers": False, "containers": [{"name": "a", "securityContext": {"runAsUser": 0}}]}


@pytest.mark.parametrize(
    ("check", "level", "spec", "last_off", "first_on"),
    [
        ("hostProbesAndHostLifecycle", BASELINE, with_host("192.0.2.1"), 33, 34),
        ("seLinuxOptions", BASELINE, with_type("container_engine_t"), 31, 30),
        ("seLinuxOptions", BASELINE, with_type("spc_t"), None, 0),
        ("sysctls", BASELINE, with_sysctl("net.ipv4.ip_local_reserved_ports"), 27, 26),
        ("sysctls", BASELINE, with_sysctl("net.ipv4.tcp_keepalive_time"), 29, 28),
        ("sysctls", BASELINE, with_sysctl("net.ipv4.tcp_rmem"), 32, 31),
        ("procMount", BASELINE, secure(procMount="Unmasked") | {"hostUsers": False}, 35, 34),
        ("procMount_restricted", RESTRICTED, secure(procMount="Unmasked") | {"hostUsers": False}, 34, 35),
        ("seccompProfile_baseline", BASELINE, secure(seccompProfile={"type": "Unconfined"}), 18, 19),
        ("seccompProfile_restricted", RESTRICTED, WINDOWS, 25, 24),
        ("allowPrivilegeEscalation", RESTRICTED, WINDOWS, 25, 24),
        ("allowPrivilegeEscalation", RESTRICTED, secure(allowPrivilegeEscalation=True), 7, 8),
        ("capabilities_restricted", RESTRICTED, WINDOWS, 25, 24),
        ("capabilities_restricted", RESTRICTED, secure(capabilities=None), 21, 22),
        ("runAsUser", RESTRICTED, secure(runAsUser=0), 22, 23),
        ("runAsUser", RESTRICTED, IN_USER_NAMESPACE, 35, 34),
        ("runAsNonRoot", RESTRICTED, IN_USER_NAMESPACE, 35, 34),
    ],
)
def test_a_check_begins_and_relaxes_with_its_version(check, level, spec, last_off, first_on):
    assert check in dict(judged(spec, level, first_on))
    if last_off is not None:
        assert check not in dict(judged(spec, level, last_off))


def test_what_restricted_says_more_sharply_is_not_said_twice():
    spec = secure(capabilities={"add": ["SYS_ADMIN"]}, seccompProfile={"type": "Unconfined"}, procMount="Unmasked")
    spec["volumes"] = [{"name": "root", "hostPath": {"path": "/"}}]
    assert {check for check, _ in judged(spec)} == {
        "capabilities_restricted",
        "seccompProfile_restricted",
        "procMount_restricted",
        "restrictedVolumes",
    }
    assert {check for check, _ in judged(spec, RESTRICTED, 18)} == {
        "allowPrivilegeEscalation",
        "capabilities_baseline",
        "procMount",
        "restrictedVolumes",
    } - {"allowPrivilegeEscalation"}


def test_before_1_19_seccomp_was_an_annotation():
    keys = ("seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/main")
    for key in keys:
        place = pointers.join("/metadata/annotations", key)
        assert judged(pod(), BASELINE, 18, {key: "unconfined"}) == [("seccompProfile_baseline", place)]
        assert judged(pod(), BASELINE, 18, {key: "localhost/a"}) == []
        assert judged(pod(), BASELINE, 19, {key: "unconfined"}) == []


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        (secure(privileged=True), "/spec/containers/0/securityContext/privileged"),
        (secure(capabilities={"add": ["CHOWN"]}), "/spec/containers/0/securityContext/capabilities"),
        (secure(capabilities={"drop": ["all"]}), "/spec/containers/0/securityContext/capabilities/drop"),
        (secure(capabilities={"add": ["NET_RAW"]}), "/spec/containers/0/securityContext/capabilities/add/0"),
        (secure(allowPrivilegeEscalation=None), "/spec/containers/0/securityContext"),
        (secure(seLinuxOptions={"user": "root"}), "/spec/containers/0/securityContext/seLinuxOptions/user"),
        (secure(appArmorProfile={"type": "Unconfined"}), "/spec/containers/0/securityContext/appArmorProfile/type"),
        (secure(seccompProfile={"type": "Unconfined"}), "/spec/containers/0/securityContext/seccompProfile/type"),
        (secure(windowsOptions={"hostProcess": True}), "/spec/containers/0/securityContext/windowsOptions/hostProcess"),
        (secure(runAsNonRoot=False), "/spec/containers/0/securityContext/runAsNonRoot"),
        (secure(runAsUser=0), "/spec/containers/0/securityContext/runAsUser"),
        (with_host("a.example"), "/spec/containers/0/livenessProbe/httpGet/host"),
        (
            pod(container={"lifecycle": {"preStop": {"tcpSocket": {"port": 1, "host": "a"}}}}),
            "/spec/containers/0/lifecycle/preStop/tcpSocket/host",
        ),
        (pod(container={"ports": [{"containerPort": 1, "hostPort": 1}]}), "/spec/containers/0/ports/0/hostPort"),
        (pod(volumes=[{"name": "a"}, {"name": "b", "nfs": {"server": "a"}}]), "/spec/volumes/1/nfs"),
    ],
)  # fmt: skip
def test_a_pointer_leads_to_the_field_or_to_its_nearest_parent(spec, place):
    assert place in [pointer for _, pointer in judged(spec)]
    pointers.get({"metadata": {}, "spec": spec}, place)


def test_every_kind_of_container_counts():
    spec = pod(initContainers=[{"name": "one"}], ephemeralContainers=[{"name": "two"}])
    places = [place for check, place in judged(spec) if check == "allowPrivilegeEscalation"]
    assert places == ["/spec/initContainers/0", "/spec/ephemeralContainers/0"]
    messages = [one.message for one in violations({}, spec, RESTRICTED, 35)]
    assert any(one.startswith('init container "one" ') for one in messages)
    assert any(one.startswith('ephemeral container "two" ') for one in messages)


def test_true_is_no_user_id_and_a_null_is_no_field():
    assert judged(secure(runAsUser=False, privileged=None, procMount=None)) == []
    assert judged(pod(volumes=[{"name": "a", "hostPath": None, "emptyDir": {}}])) == []


def test_on_the_network_of_the_node_every_port_is_one_of_the_node():
    spec = pod(hostNetwork=True, container={"ports": [{"containerPort": 80}]})
    port = "/spec/containers/0/ports/0/containerPort"
    assert judged(spec, BASELINE) == [("hostNamespaces", "/spec/hostNetwork"), ("hostPorts", port)]
    spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = True
    assert found(wrapped("Deployment", spec)) == [("pss-host-namespaces", "/spec/template/spec/hostNetwork")]


@pytest.mark.parametrize("kind", PODS)
def test_the_pods_of_every_kind_are_judged_where_they_stand(kind):
    place = {"Pod": "/spec", "CronJob": "/spec/jobTemplate/spec/template/spec"}.get(kind, "/spec/template/spec")
    spec = secure(readOnlyRootFilesystem=True) | {"hostPID": True}
    assert found(wrapped(kind, spec)) == [("pss-host-namespaces", f"{place}/hostPID")]


def test_an_annotation_is_found_on_the_pods_and_its_text_stays_untold():
    key = "container.apparmor.security.beta.kubernetes.io/main"
    manifest = wrapped("Job", secure(readOnlyRootFilesystem=True), annotations={key: "unconfined-hunter2"})
    (finding,) = run(World([(manifest, None)]), FAMILY)
    assert finding.pointer == "/spec/template/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1main"
    assert "hunter2" not in finding.message


@pytest.mark.parametrize(
    ("labels", "level", "version"),
    [
        ({}, None, 35),
        ({"enforce": "restricted"}, RESTRICTED, 35),
        ({"enforce": "baseline", "enforce_version": "v1.30"}, BASELINE, 30),
        ({"enforce": "privileged", "enforce_version": "latest"}, PRIVILEGED, 35),
        ({"enforce": "strict", "enforce_version": "1.30"}, RESTRICTED, 35),
        ({"enforce": "restricted", "enforce_version": "v1.99"}, RESTRICTED, 35),
        ({"enforce": ["restricted"], "enforce_version": 3}, None, 35),
    ],
)
def test_the_level_is_what_the_namespace_says(labels, level, version):
    world = World([(space(**labels), None)])
    assert level_of(world, "apps") is level
    assert version_of(world, "apps") == version
    assert level_of(world, "elsewhere") is None


def test_the_level_decides_what_is_judged():
    bare = wrapped("Deployment", securitypods.bare()["spec"])
    strict = {"pss-privilege-escalation", "pss-capabilities", "pss-run-as-non-root", "pss-seccomp", "read-only-rootfs"}
    assert {policy for policy, _ in found(bare)} == strict
    assert {policy for policy, _ in found(bare, space(enforce="restricted"))} == strict
    assert found(bare, space(enforce="baseline")) == []
    host = wrapped("Deployment", securitypods.bare()["spec"] | {"hostPID": True})
    assert found(host, space(enforce="baseline")) == [("pss-host-namespaces", "/spec/template/spec/hostPID")]
    assert found(host, space(enforce="privileged")) == []


def test_an_older_cluster_knows_fewer_checks():
    tcp = wrapped("Deployment", secure(readOnlyRootFilesystem=True) | with_sysctl("net.ipv4.tcp_rmem"))
    tcp["spec"]["template"]["spec"]["securityContext"] |= {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    place = "/spec/template/spec/securityContext/sysctls/0/name"
    policies_found = [one for one in found(tcp, facts=Facts(kubernetes_version="1.31")) if "knobs" in one[0]]
    assert policies_found == [("pss-kernel-knobs", place)]
    assert [one for one in found(tcp) if "knobs" in one[0]] == []


def test_a_windows_pod_is_not_asked_for_what_it_may_not_set():
    assert found(wrapped("Deployment", WINDOWS)) == []


def test_namespaces_of_others_are_only_warned_but_for_values_that_do_not_exist():
    def said(manifest):
        return [(one.severity, one.pointer) for one in run(World([(manifest, None)]), FAMILY)]

    assert said(space()) == [(Severity.WARNING, "/metadata/labels")]
    assert said(space(enforce="privileged")) == []
    assert said(space(enforce="strict")) == [(Severity.ERROR, f"/metadata/labels/{PREFIX.replace('/', '~1')}~1enforce")]
    wrong = space(enforce="baseline", enforce_version="1.35", audit="all")
    assert [severity for severity, _ in said(wrong)] == [Severity.ERROR, Severity.ERROR]


def test_a_set_of_claims_counts_as_a_claim():
    spec = secure(readOnlyRootFilesystem=True)
    spec["securityContext"]["fsGroup"] = 1000
    manifest = wrapped("StatefulSet", spec)
    assert found(manifest) == []
    manifest["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}}]
    assert found(manifest) == [("fsgroup-on-root-mismatch", "/spec/template/spec/securityContext")]
    volume = {"name": "a", "persistentVolumeClaim": {"claimName": "a", "readOnly": True}}
    assert found(wrapped("Deployment", spec | {"volumes": [volume]})) == []


def test_the_policy_on_probes_finds_what_the_check_finds():
    (policy,) = [one for one in all_policies() if one.id == "probe-host-unset"]
    for one in securitypods.corners():
        theirs = {finding.pointer for finding in run(World([(one, None)]), [policy])}
        assert theirs == {place for check, place in judged(one["spec"]) if check == "hostProbesAndHostLifecycle"}


def test_checks_have_rising_versions_and_stand_in_for_checks_that_exist():
    ids = [check.id for check in CHECKS]
    assert len(ids) == len(set(ids))
    for check in CHECKS:
        starts = [since for since, _ in check.versions]
        assert starts == sorted(set(starts))
        assert not check.instead_of or (check.level is RESTRICTED and check.instead_of in ids)
    assert NEWEST == 35


def expressions(facts):
    for one in FAMILY:
        cel = one.cel if isinstance(one.cel, Cel) else one.cel(facts)
        assert cel is not None, one.id
        yield one, cel


@pytest.mark.parametrize("server", ["1.30", "1.35"])
def test_every_expression_compiles(server):
    for one, cel in expressions(Facts(kubernetes_version=server)):
        assert celeval.problems(cel) == [], one.id


@pytest.mark.parametrize(
    ("server", "labels"),
    [
        ("1.35", {"enforce": "restricted"}),
        ("1.35", {"enforce": "baseline", "enforce_version": "v1.28"}),
        ("1.34", {"enforce": "restricted", "enforce_version": "v1.35"}),
        ("1.35", {"enforce": "privileged"}),
        ("1.35", {}),
    ],
    ids=str,
)
def test_cel_says_of_every_pod_what_python_says(server, labels):
    facts, namespace = Facts(kubernetes_version=server), space(**labels)
    known = [(one, cel) for one, cel in expressions(facts) if "Pod" in one.kinds]
    differing = []
    for one in [*securitypods.corners(), *securitypods.mixtures(40, 7)]:
        manifest = one | {"metadata": one["metadata"] | {"namespace": "apps"}}
        refused = {policy for policy, _ in found(manifest, namespace, facts=facts)}
        for policy, cel in known:
            verdict = celeval.verdict(cel, manifest, kinds=policy.kinds, namespace=namespace)
            # A volume without a source is an emptyDir by default, which CEL sees and a file does not.
            unsaid = policy.id == "pss-volume-types" and manifest["spec"].get("volumes") == [{"name": "a"}]
            if verdict != ("fail" if policy.id in refused else "pass") and not unsaid:
                differing.append((policy.id, verdict, one))
    assert differing == []


@pytest.mark.parametrize(
    "namespace",
    [
        space(),
        space(enforce="baseline"),
        space(enforce="strict"),
        space(enforce="baseline", warn="all"),
        space(enforce="baseline", warn_version="1.35"),
        space(labels={"app.kubernetes.io/part-of": "paperclip"}),
        space(
            labels={"app.kubernetes.io/part-of": "paperclip", "app.kubernetes.io/component": "agents"},
            **dict.fromkeys(("enforce", "audit", "warn"), "restricted"),
            **dict.fromkeys(("enforce_version", "audit_version", "warn_version"), "v1.35"),
        ),
        space(
            labels={"app.kubernetes.io/part-of": "paperclip"},
            enforce="restricted",
            audit="baseline",
            warn="restricted",
            **dict.fromkeys(("enforce_version", "audit_version", "warn_version"), "v1.35"),
        ),
    ],
)
def test_cel_says_of_every_namespace_what_python_says(namespace):
    ((_, cel),) = [one for one in expressions(Facts()) if one[0].id == "pss-namespace-labels"]
    assert celeval.verdict(cel, namespace, kinds=("Namespace",)) == ("fail" if found(namespace) else "pass")


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
trees = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner))
FULL = next(
    one
    for one in securitypods.mixtures(2000, 3)
    if {"volumes", "securityContext"} <= set(one["spec"]) and "sysctls" in one["spec"]["securityContext"]
)["spec"]
PLACES = sorted({re.sub(r"^/", "", place) for place, _ in pointers.walk(FULL)} | {"containers", "securityContext"})


@settings(deadline=None)
@given(place=st.sampled_from(PLACES), depth=st.integers(1, 6), tree=trees, annotations=trees)
def test_no_tree_whatever_stops_a_check(place, depth, tree, annotations):
    spec = copy.deepcopy(FULL)
    here, steps = spec, [int(step) if step.isdigit() else step for step in place.split("/")[:depth]]
    for step in steps[:-1]:
        here = here[step]
    here[steps[-1]] = tree
    for level in Level:
        for minor in (0, 19, 35):
            list(violations({"annotations": annotations}, spec, level, minor))
    labels = {"metadata": {"name": "apps", "labels": tree}, "kind": "Namespace", "apiVersion": "v1"}
    found(wrapped("Deployment", spec), labels, wrapped("CronJob", tree), wrapped("StatefulSet", spec) | {"spec": tree})
