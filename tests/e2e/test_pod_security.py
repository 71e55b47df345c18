"""Our Pod Security Standards against those of the API server: pods tried by dry runs, at many levels and versions."""

from __future__ import annotations

import base64
import re
import ssl
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from policies import vap
from policies.cel import Cel
from policies.facts import Facts
from policies.podsecurity import CHECKS, Level, violations
from policies.registry import all_policies
from policies.run import run
from policies.world import World
from tests.support import securitypods

controlplane = sys.modules["controlplane"]

pytestmark = pytest.mark.e2e

BASELINE, RESTRICTED = Level.BASELINE, Level.RESTRICTED
ENFORCE = "pod-security.kubernetes.io/enforce"
# A label of our own in its place: pod admission comes first, and nothing it refuses is shown to a policy.
ASKED = "paperclip.example/enforce"
FAMILY = [one for one in all_policies() if one.family == "podsecurity" and "Pod" in one.kinds]
PINS = [(level, pin) for pin in ("v1.35", "v1.30", "latest") for level in (BASELINE, RESTRICTED)]
# Both sides of every version at which a check changes, and a version that is yet to come.
OLDER_PINS = [(BASELINE, f"v1.{minor}") for minor in (0, 18, 19, 26, 27, 28, 29, 31, 32, 33, 34)]
OLDER_PINS += [(RESTRICTED, f"v1.{minor}") for minor in (7, 8, 18, 19, 21, 22, 23, 24, 25, 34, 99)]
MIXTURES, SEED = 240, 20260801
# What the API server calls what each check finds.
REASONS = {
    "allowPrivilegeEscalation": "allowPrivilegeEscalation != false",
    "appArmorProfile": "forbidden AppArmor profile",
    "capabilities_baseline": "non-default capabilities",
    "capabilities_restricted": "unrestricted capabilities",
    "hostNamespaces": "host namespaces",
    "hostPathVolumes": "hostPath volumes",
    "hostPorts": "hostPort",
    "hostProbesAndHostLifecycle": "probe or lifecycle host",
    "privileged": "privileged",
    "procMount": "procMount",
    "procMount_restricted": "procMount",
    "restrictedVolumes": "restricted volume types",
    "runAsNonRoot": "runAsNonRoot != true",
    "runAsUser": "runAsUser=0",
    "seLinuxOptions": "seLinuxOptions",
    "seccompProfile_baseline": "seccompProfile",
    "seccompProfile_restricted": "seccompProfile",
    "sysctls": "forbidden sysctls",
    "windowsHostProcess": "hostProcess",
}


@pytest.fixture(scope="module")
def api(cluster, tmp_path_factory) -> Iterator[httpx.Client]:
    """An HTTP client that the API server knows as the administrator: thousands of tries are too many for kubectl."""
    config = cluster.must("config", "view", "--raw", "--flatten", "-o", "json").json
    server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(server["certificate-authority-data"]).decode())
    pair = tmp_path_factory.mktemp("client") / "client.pem"
    pair.touch(0o600)
    pair.write_bytes(b"\n".join(base64.b64decode(user[f"client-{kind}-data"]) for kind in ("certificate", "key")))
    context.load_cert_chain(pair)
    with httpx.Client(base_url=server["server"], verify=context, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def namespaces(cluster) -> Iterator[dict[tuple[Level, str], str]]:
    """A namespace for each level and version, as soon as it has its service account."""
    pins = PINS + OLDER_PINS
    names = {(level, version): f"pss-{level}-{version.replace('.', '-')}" for level, version in pins}
    objects = [
        one
        for (level, version), name in names.items()
        for one in space(name, {ENFORCE: str(level), f"{ENFORCE}-version": version})
    ]
    cluster.must("apply", "--server-side", "--force-conflicts", "-f", "-", objects=objects)
    yield names
    cluster.must("delete", "namespace", "--wait=false", *names.values())


def space(name: str, labels: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A namespace and its account: that would come by itself, but pods are admitted only when it is there."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}, account


def verdict(api: httpx.Client, namespace: str, pod: dict[str, Any]) -> frozenset[str] | None:
    """The reasons for which pod security refuses the pod; None where its validation does."""
    answer = api.post(f"/api/v1/namespaces/{namespace}/pods", params={"dryRun": "All"}, json=pod)
    if answer.status_code == 201:
        return frozenset()
    message = answer.json()["message"]
    if answer.status_code == 422:
        return None
    found = re.search(r'violates PodSecurity "[a-z]+:[a-z0-9.]+": (.+)', message, re.DOTALL)
    assert found, (answer.status_code, message)
    return frozenset(reason.removesuffix("s") if "AppArmor" in reason else reason for reason in reasons(found[1]))


def reasons(text: str) -> Iterator[str]:
    """Of "one (details (of it)), two (details)", one and two."""
    depth, outside = 0, ""
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        outside += letter if not depth and letter != ")" else ""
    return (reason.strip() for reason in outside.split(", "))


def ours(pod: dict[str, Any], level: Level, version: str) -> frozenset[str]:
    minor = 1000 if version == "latest" else int(version.removeprefix("v1."))
    return frozenset(REASONS[one.check_id] for one in violations(pod["metadata"], pod["spec"], level, minor))


def test_every_check_has_its_reason():
    assert set(REASONS) == {check.id for check in CHECKS}


def test_we_refuse_what_the_api_server_refuses_and_for_the_same_reasons(api, namespaces, say):
    corners, mixtures = list(securitypods.corners()), list(securitypods.mixtures(MIXTURES, SEED))
    pods = [*corners, *mixtures]
    side = securitypods.restricted()["spec"]["initContainers"]
    distinct = [pod for pod in corners if pod["spec"].get("initContainers") == side or "os" in pod["spec"]]
    tries = [(pod, pin) for pod in pods for pin in PINS] + [(pod, pin) for pod in distinct for pin in OLDER_PINS]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda one: verdict(api, namespaces[one[1]], one[0]), tries))
    invalid = {id(pod) for (pod, _), answer in zip(tries, answers, strict=True) if answer is None}
    judged = [(pod, pin, answer) for (pod, pin), answer in zip(tries, answers, strict=True) if answer is not None]
    shown = Counter(reason for _, _, answer in judged for reason in answer)
    refused = sum(bool(answer) for _, _, answer in judged)
    say(f"{len(pods)} pods ({len(invalid)} invalid), {len(judged)} tries: {refused} refused for {dict(shown)}")
    differing = [
        (pin, sorted(answer), sorted(mine), pod) for pod, pin, answer in judged if answer != (mine := ours(pod, *pin))
    ]
    assert differing == []
    assert len(invalid) < len(pods) / 10
    assert len(pods) - len(invalid) >= 400
    assert set(shown) == set(REASONS.values())
    assert 0 < refused < len(judged)


def admission(policy: Any, facts: Facts) -> Iterator[dict[str, Any]]:
    """The policy in CEL, as an admission policy that only warns, and only in namespaces that carry our label."""
    cel = policy.cel if isinstance(policy.cel, Cel) else policy.cel(facts)
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    variables = [{"name": name, "expression": text.replace(ENFORCE, ASKED)} for name, text in vap.reached(cel)]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "variables": variables,
        "validations": [{"expression": cel.expression, "message": "refused"}],
    }
    selector = {"namespaceSelector": {"matchExpressions": [{"key": ASKED, "operator": "Exists"}]}}
    bound = {"policyName": policy.id, "validationActions": ["Warn"], "matchResources": selector}
    for kind, what in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", bound)):
        yield {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": policy.id},
            "spec": what,
        }


@pytest.fixture(scope="module")
def asked(cluster, api) -> Iterator[dict[tuple[Level, str], str]]:
    """Namespaces where our policies warn in the words of CEL, as soon as all of them do."""
    names = {(BASELINE, "v1.30"): "cel-baseline", (RESTRICTED, "v1.35"): "cel-restricted"}
    spaces = [
        one
        for (level, version), name in names.items()
        for one in space(name, {ASKED: str(level), f"{ASKED}-version": version})
    ]
    policies = [one for policy in FAMILY for one in admission(policy, Facts())]
    cluster.must("apply", "--server-side", "--force-conflicts", "-f", "-", objects=spaces + policies)
    worst = securitypods.worst()
    wanted = {policy.id for policy in FAMILY} - {"pss-host-ports"}
    controlplane.wait_until("every policy to warn", 60, lambda: warnings(api, "cel-restricted", worst) == wanted)
    yield names
    cluster.must("delete", "-f", "-", "--wait=false", objects=policies)
    cluster.must("delete", "namespace", "--wait=false", *names.values())


def warnings(api: httpx.Client, namespace: str, pod: dict[str, Any]) -> set[str] | None:
    """The policies that warn of the pod; None where its validation refuses it."""
    answer = api.post(f"/api/v1/namespaces/{namespace}/pods", params={"dryRun": "All"}, json=pod)
    if answer.status_code == 422:
        return None
    assert answer.status_code == 201, answer.text
    said = answer.headers.get_list("warning")
    assert not any("resulted in error" in one for one in said), said
    return {match[1] for one in said if (match := re.search(r"ValidatingAdmissionPolicy '([a-z-]+)'", one))}


def test_the_policies_say_in_cel_what_they_say_in_python(api, asked, say):
    pods = [*securitypods.corners(), *securitypods.mixtures(MIXTURES // 3, SEED)]
    tries = [(pod, pin) for pod in pods for pin in asked]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda one: warnings(api, asked[one[1]], one[0]), tries))
    differing = []
    for (pod, (level, version)), answer in zip(tries, answers, strict=True):
        manifest = pod | {"metadata": pod["metadata"] | {"namespace": "tried"}}
        namespace, _ = space("tried", {ENFORCE: str(level), f"{ENFORCE}-version": version})
        mine = {one.policy for one in run(World([(manifest, None), (namespace, None)]), FAMILY)}
        if answer is not None and answer != mine:
            differing.append((level, version, sorted(answer ^ mine), pod))
    warned = Counter(policy for answer in answers for policy in answer or ())
    say(f"{len(tries)} tries with {len(FAMILY)} policies in CEL: {dict(warned)}")
    assert differing == []
    assert set(warned) == {policy.id for policy in FAMILY}
