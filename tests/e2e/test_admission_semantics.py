"""Our admission against that of the API server: the same questions to both, by dry runs."""

from __future__ import annotations

import itertools
import os
import random
import time
from typing import Any

import pytest

from kubekit import quantity
from policies.admission import amounts
from policies.admission.limits import claim_refusals, limit_range_refusals, with_defaults
from policies.admission.quotas import quota_refusals, room
from policies.admission.soundness import limit_range_defects, quota_defects
from tests.e2e.api import Api

pytestmark = pytest.mark.e2e

SEED = int(os.environ.get("ADMISSION_SEED", "20261121"))
ACCOUNT = "tried"
CPU = ("0", "1m", "50m", "100m", "0.1", "250m", "500m", "0.75", "1", "1.5", "2", "2000m", "4")
MEMORY = (
    "0",
    "64Mi",
    "128M",
    "128Mi",
    "0.5Gi",
    "512Mi",
    "1e9",
    "1Gi",
    "1073741824",
    "1.5Gi",
    "2Gi",
    "8Pi",
    "9Pi",
    "0.0001",
)
STORAGE = ("1Gi", "2Gi", "2G", "10Gi", "10.5Gi")
GPU = ("1", "2", "3")
POOLS = {"cpu": CPU, "memory": MEMORY, "ephemeral-storage": STORAGE, "example.com/gpu": GPU}
ORDER = ("min", "defaultRequest", "default", "max")
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def api(cluster):
    with Api(cluster.kubeconfig) as found:
        yield found


@pytest.fixture
def places(api):
    """Makes namespaces with an account for pods; they are on their way out when the test ends."""
    made: list[str] = []

    def place() -> str:
        name = f"semantics-{next(_numbers)}"
        for kind, metadata in (("Namespace", {"name": name}), ("ServiceAccount", {"name": ACCOUNT, "namespace": name})):
            assert api.create({"apiVersion": "v1", "kind": kind, "metadata": metadata}).fine
        made.append(name)
        return name

    yield place
    for name in made:
        api.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def core(kind: str, namespace: str, spec: dict[str, Any], name: str = "tried") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def sorted_sample(draw: random.Random, name: str, count: int) -> list[str]:
    """Quantities of a resource, rising."""
    return sorted((draw.choice(POOLS[name]) for _ in range(count)), key=quantity.parse)


def resources(draw: random.Random) -> dict[str, Any]:
    """Of a container that is valid as it is written: no request above its limit."""
    requests, limits = {}, {}
    for name in ("cpu", "memory", "ephemeral-storage"):
        low, high = sorted_sample(draw, name, 2)
        shape = draw.randrange(4)
        if shape in (0, 2):
            requests[name] = low
        if shape in (1, 2):
            limits[name] = high
    if draw.random() < 0.15:
        limits["example.com/gpu"] = draw.choice(GPU)
    found = {"requests": requests, "limits": limits}
    return {part: value for part, value in found.items() if value}


def pod_spec(draw: random.Random) -> dict[str, Any]:
    spec: dict[str, Any] = {"serviceAccountName": ACCOUNT, "automountServiceAccountToken": False}
    for name, most, least in (("containers", 3, 1), ("initContainers", 2, 0)):
        spec[name] = [
            {"name": f"{name[0]}{index}", "image": "a:1", "resources": resources(draw)}
            for index in range(draw.randint(least, most))
        ]
    for one in spec["initContainers"]:
        if draw.random() < 0.4:
            one["restartPolicy"] = "Always"
    if draw.random() < 0.2:
        spec["activeDeadlineSeconds"] = draw.choice((1, 3600))
    if draw.random() < 0.1:
        spec["resources"] = {"limits": {"cpu": "16", "memory": "32Gi"}}
        for one in (*spec["containers"], *spec["initContainers"]):
            one["resources"] = {"requests": {"cpu": "100m"}}
    return spec


def bounds(draw: random.Random, kind: str) -> dict[str, Any]:
    """An entry of a LimitRange that is in order; some are so narrow that little gets in."""
    entry: dict[str, Any] = {"type": kind}
    for name in draw.sample(("cpu", "memory", "ephemeral-storage"), draw.randint(1, 3)):
        for part, text in zip(ORDER, sorted_sample(draw, name, 4), strict=True):
            if draw.random() < 0.35 and (kind == "Container" or part in {"min", "max"}):
                entry.setdefault(part, {})[name] = text
        if draw.random() < 0.15 and "min" not in entry:
            entry.setdefault("maxLimitRequestRatio", {})[name] = draw.choice(("1", "2", "1.5", "10"))
    return entry


def agreed(ask, ours, patience: float = 3.0) -> Any:
    """The server's last word; asked again for a while, since its view of the namespace may still be old."""
    end = time.monotonic() + patience
    while True:
        said = ask()
        if ours(said) or time.monotonic() > end:
            return said
        time.sleep(0.1)


def written(spec: dict[str, Any]) -> list[Any]:
    """The amounts of all containers, and of the pod itself, in the order of the spec."""
    places = [*spec["containers"], *spec.get("initContainers", ()), spec]
    return [[amounts.of_container(one, part) for part in ("requests", "limits")] for one in places]


def test_limit_ranges(api, places):
    draw, tried, refused = random.Random(SEED), 0, 0
    for _ in range(45):
        namespace = places()
        kinds = draw.choice((["Container"], ["Container"], ["Pod"], ["Container", "Pod"]))
        spec = {"limits": [bounds(draw, kind) for kind in kinds]}
        limit_range = core("LimitRange", namespace, spec)
        if list(limit_range_defects(spec)):
            assert not api.create(limit_range).fine
            continue
        stored = api.create(limit_range)
        assert stored.fine, (spec, stored.message)
        for pod in (pod_spec(draw) for _ in range(8)):
            found = limit_range_refusals(pod, [limit_range])
            expected = with_defaults(pod, [limit_range])

            def same(said, found=found, expected=expected) -> bool:
                if said.fine is bool(found) or said.code not in (201, 403, 422):
                    return False
                return not said.fine or written(said.body["spec"]) == written(expected)

            said = agreed(lambda pod=pod, namespace=namespace: api.create(core("Pod", namespace, pod), dry=True), same)
            assert same(said), _told(spec, pod, found, said, expected)
            tried, refused = tried + 1, refused + bool(found)
    assert tried >= 200
    assert tried // 4 < refused < tried * 9 // 10


def _told(spec, pod, found, said, expected) -> str:
    """What was asked, and what each side made of it."""
    theirs = (
        [one.get("resources") for one in (*said.body["spec"]["containers"], said.body["spec"])] if said.fine else []
    )
    ours = [one.get("resources") for one in (*expected["containers"], expected)]
    return f"\n{spec}\n{pod}\nours: {found}\n{ours}\ntheirs: {said.code} {said.message}\n{theirs}"


def test_bounds_of_claims(api, places):
    draw, outcomes = random.Random(SEED + 1), []
    for _ in range(15):
        namespace = places()
        low, high = sorted((draw.choice(STORAGE) for _ in range(2)), key=quantity.parse)
        entry = {"type": "PersistentVolumeClaim", "min": {"storage": low}, "max": {"storage": high}}
        entry = {key: value for key, value in entry.items() if key == "type" or draw.random() < 0.7}
        limit_range = core("LimitRange", namespace, {"limits": [entry]})
        assert api.create(limit_range).fine is not bool(list(limit_range_defects(limit_range["spec"])))
        for text in (*STORAGE, "1", "2147483648"):
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": text}}}
            sound = len(entry) > 1
            found = claim_refusals(spec, [limit_range]) if sound else []
            claim = core("PersistentVolumeClaim", namespace, spec)
            said = agreed(
                lambda claim=claim: api.create(claim, dry=True), lambda said, found=found: said.fine is not bool(found)
            )
            assert said.fine is not bool(found), (entry, text, found, said.message)
            outcomes.append(bool(found))
    assert 0 < sum(outcomes) < len(outcomes)


def test_what_a_limit_range_may_say(api, places):
    draw, namespace, outcomes = random.Random(SEED + 2), places(), []
    for _ in range(150):
        entries = []
        for kind in draw.choices(
            ("Container", "Pod", "PersistentVolumeClaim", "Node"), (8, 4, 2, 1), k=draw.randint(1, 2)
        ):
            entry: dict[str, Any] = {"type": kind}
            for part in (*ORDER, "maxLimitRequestRatio"):
                name = draw.choice(("cpu", "cpu", "example.com/gpu", "storage"))
                if draw.random() < 0.4:
                    entry[part] = {
                        name: draw.choice(("1", "2", "2", "3", "500m") if name != "example.com/gpu" else GPU)
                    }
            entries.append(entry)
        found = list(limit_range_defects({"limits": entries}))
        said = api.create(core("LimitRange", namespace, {"limits": entries}), dry=True)
        assert said.fine is not bool(found), (entries, found, said.message)
        outcomes.append(bool(found))
    assert 20 < sum(outcomes) < 130


HARD = {
    "pods": ("0", "1", "5"),
    "count/pods": ("0", "3"),
    "cpu": ("0", "250m", "1", "2", "8"),
    "memory": ("512Mi", "2Gi", "8Gi"),
    "requests.cpu": ("100m", "500m", "2", "8"),
    "requests.memory": ("128Mi", "1Gi", "4Gi"),
    "limits.cpu": ("1", "2", "8"),
    "limits.memory": ("1Gi", "4Gi"),
    "requests.ephemeral-storage": ("1Gi", "10Gi"),
    "limits.ephemeral-storage": ("2Gi", "20Gi"),
    "requests.example.com/gpu": ("0", "2"),
    "services": ("0", "1"),
    "services.loadbalancers": ("0", "1"),
    "services.nodeports": ("0", "1"),
    "persistentvolumeclaims": ("0", "1"),
    "requests.storage": ("1Gi", "10Gi"),
    "fast.storageclass.storage.k8s.io/requests.storage": ("1Gi", "10Gi"),
    "fast.storageclass.storage.k8s.io/persistentvolumeclaims": ("0", "1"),
    "count/jobs.batch": ("0", "1"),
    "count/deployments.apps": ("0", "1"),
    "secrets": ("0", "1"),
}
SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass")


def quota_spec(draw: random.Random) -> dict[str, Any]:
    names = draw.sample(sorted(HARD), draw.randint(1, 4))
    spec: dict[str, Any] = {"hard": {name: draw.choice(HARD[name]) for name in names}}
    if draw.random() < 0.4:
        scope = draw.choice(SCOPES)
        narrow = ("pods",) if scope == "BestEffort" else ("pods", "cpu", "requests.memory", "limits.cpu")
        spec["hard"] = {name: draw.choice(HARD[name]) for name in draw.sample(narrow, min(2, len(narrow)))}
        if scope == "PriorityClass":
            one: dict[str, Any] = {
                "scopeName": scope,
                "operator": draw.choice(("In", "NotIn", "Exists", "DoesNotExist")),
            }
            one |= {"values": ["system-node-critical"]} if one["operator"] in {"In", "NotIn"} else {}
            spec["scopeSelector"] = {"matchExpressions": [one]}
        else:
            spec["scopes"] = [scope]
    return spec


def charged(draw: random.Random, namespace: str) -> dict[str, Any]:
    """Something that a quota may count."""
    kind = draw.choice(("Pod", "Pod", "Pod", "Service", "PersistentVolumeClaim", "Secret", "Job", "Deployment"))
    if kind == "Pod":
        spec = pod_spec(draw)
        if draw.random() < 0.3:
            spec["priorityClassName"] = draw.choice(("system-node-critical", "system-cluster-critical"))
        if draw.random() < 0.3:
            for one in (*spec["containers"], *spec["initContainers"]):
                one["resources"] = {}
        return core("Pod", namespace, spec)
    if kind == "Service":
        ports = [{"name": f"p{port}", "port": port} for port in range(80, 80 + draw.randint(1, 2))]
        spec = {"type": draw.choice(("ClusterIP", "NodePort", "LoadBalancer")), "ports": ports}
        if spec["type"] == "LoadBalancer" and draw.random() < 0.5:
            spec["allocateLoadBalancerNodePorts"] = False
        return core("Service", namespace, spec)
    if kind == "PersistentVolumeClaim":
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": draw.choice(STORAGE)}}}
        return core(kind, namespace, spec | draw.choice(({}, {"storageClassName": "fast"}, {"storageClassName": ""})))
    if kind == "Secret":
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "tried", "namespace": namespace}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
    metadata = {"name": "tried", "namespace": namespace}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": {"template": template}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def test_quotas(api, places):
    draw, asked, outcomes = random.Random(SEED + 3), [], []
    for _ in range(40):
        namespace = places()
        quotas = [
            core("ResourceQuota", namespace, quota_spec(draw), f"q{index}") for index in range(draw.randint(1, 2))
        ]
        for quota in quotas:
            stored = api.create(quota)
            assert stored.fine is not bool(list(quota_defects(quota["spec"]))), (quota, stored.message)
            assert stored.fine
        asked.append((namespace, quotas))
    for _, quotas in asked:
        for quota in quotas:
            said = agreed(lambda quota=quota: api.get(quota), lambda said: _counted(said.body), 20)
            assert _counted(said.body), "the controller counts what a new quota covers"
    for namespace, quotas in asked:
        for manifest in [charged(draw, namespace) for _ in range(8)]:
            judged = manifest
            if manifest["kind"] == "Pod":
                judged = {**manifest, "spec": with_defaults(manifest["spec"], [])}
            found = quota_refusals(judged, quotas)
            said = agreed(
                lambda manifest=manifest: api.create(manifest, dry=True),
                lambda said, found=found: said.fine is not bool(found) and "status unknown" not in said.message,
            )
            assert said.code in (201, 403), said.message
            assert said.fine is not bool(found), (manifest, [one["spec"] for one in quotas], found, said.message)
            outcomes.append(bool(found))
    assert len(outcomes) // 10 < sum(outcomes) < len(outcomes) * 9 // 10


def _counted(quota: Any) -> bool:
    status = quota.get("status", {})
    return set(status.get("hard", {})) == set(quota["spec"]["hard"]) == set(status.get("used", {}))


def test_how_many_fit(api, places):
    namespace = places()
    quota = core("ResourceQuota", namespace, {"hard": {"requests.cpu": "1", "pods": "9", "limits.memory": "3Gi"}})
    assert api.create(quota).fine
    asked = {"requests": {"cpu": "300m"}, "limits": {"memory": "1Gi"}}
    spec = {
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "containers": [{"name": "a", "image": "a:1", "resources": asked}],
    }
    agreed(lambda: api.get(quota), lambda said: _counted(said.body), 20)
    fits = room(core("Pod", namespace, with_defaults(spec, [])), [quota])
    for number in range(4):
        pod = core("Pod", namespace, spec, f"pod-{number}")
        said = agreed(lambda pod=pod: api.create(pod), lambda said: said.fine or "exceeded" in said.message)
        assert said.fine is (number < 3), said.message
    assert fits == 3
