"""The policies in a real API server: it takes them all, and refuses what they find here and nothing else."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kubekit.identity import Manifest
from policies import vap
from policies.registry import all_policies
from policies.waivers import Waiver
from tests.e2e import judging
from tests.e2e.api import Api, path_of
from tests.support import fixtures

pytestmark = pytest.mark.e2e

PATHS = fixtures.paths()


@dataclass
class Court:
    """The API server with the policies in it; `facts` gives the names that count for a fixture."""

    api: Api
    texts: judging.Texts
    namespaces: dict[str, Manifest]
    installs: int = 0

    def install(self, action: str) -> None:
        self.installs += 1
        judging.install(self.api, judging.objects(self.texts, self.namespaces, action), self.installs)

    def in_its_namespaces(self, fixture: fixtures.Fixture) -> list[Manifest]:
        """The namespaces that the fixture wants otherwise than they are."""
        wanted = {one["metadata"]["name"]: one for one in fixture.objects if one.get("kind") == "Namespace"}
        return [wanted[name] for name, one in self.namespaces.items() if name in wanted and wanted[name] != one]


@pytest.fixture(scope="module")
def loaded() -> list[fixtures.Fixture]:
    return [fixtures.load(path) for path in PATHS]


@pytest.fixture(scope="module")
def court(cluster: Any, loaded: list[fixtures.Fixture], say: Callable[[str], None]) -> Iterator[Court]:
    texts = judging.Texts()
    base, facts = fixtures.base()
    for known in (facts, *(one.facts for one in loaded)):
        texts.of(known)
    namespaces = judging.namespaces_of(loaded)
    accounts = [one for one in base if one["kind"] == "ServiceAccount"]
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5}
    with Api(cluster.kubeconfig) as api:
        withdraw = judging.serve(api, [one for fixture in loaded for one in fixture.objects])
        made = judging.place(
            api, [*namespaces.values(), *accounts, {**urgent, "metadata": {"name": "paperclip-agents-urgent"}}]
        )
        found = Court(api, texts, namespaces)
        try:
            found.install("Warn")
            say(f"{len(texts.known)} policies in force")
            yield found
        finally:
            judging.remove(api)
            for one in reversed(made):
                api.delete(one)
            withdraw()
            judging.wait(lambda: not any(api.get(one).fine for one in made))


def test_it_finds_no_fault_with_types(court):
    """It checks each expression against the schemas of Kubernetes' own kinds; a warning is a misspelt field."""
    told = [
        (name, warning["fieldRef"], warning["warning"])
        for name in court.texts.known
        for warning in _typed(court.api, name)
    ]
    assert told == []


def _typed(api: Api, name: str) -> list[dict[str, Any]]:
    path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}"
    judging.wait(lambda: "typeChecking" in api.call("GET", path).body.get("status", {}))
    found: list[dict[str, Any]] = api.call("GET", path).body["status"]["typeChecking"].get("expressionWarnings", [])
    return found


def test_the_clean_base_is_admitted_without_a_word(court):
    base, facts = fixtures.base()
    counted = court.texts.of(facts)
    for one in base:
        said = judging.ask(court.api, one)
        assert (said.message, judging.named(said.warnings, counted)) == ("", set()), one


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_it_says_of_each_object_what_is_found_here(court, path):
    fixture = fixtures.load(path)
    changed = court.in_its_namespaces(fixture)
    try:
        for one in changed:
            assert court.api.replace(one).fine
        counted = court.texts.of(fixture.facts)
        for case in judging.cases(fixture):
            judging.agree(court.api, case, counted, patient=bool(changed))
    finally:
        for one in changed:
            court.api.replace(court.namespaces[one["metadata"]["name"]])


def test_it_refuses_what_fails_and_names_the_policy(court, loaded):
    court.install("Deny")
    try:
        refused = 0
        for fixture in loaded:
            counted = court.texts.of(fixture.facts)
            # What denies was written for the facts and the namespaces of the base.
            if any("." in name for name in counted) or court.in_its_namespaces(fixture):
                continue
            for case in judging.cases(fixture):
                if case.old is not None or fixture.policy not in case.found - case.excused:
                    continue
                said = judging.ask(court.api, case.manifest)
                assert not said.fine, f"{fixture.name}: {case.manifest['kind']} is admitted"
                if judging.by_itself(said):
                    continue
                assert fixture.policy in judging.named([said.message], counted), said.message
                refused += 1
        assert refused > len({one.policy for one in loaded}) // 3
    finally:
        court.install("Warn")


ODD_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "of-nobody", "uid": "0-0-0-0", "controller": True}
SCHEME = vap.Scheme(
    whole=("paperclip-agents",), labelled=("paperclip-system",), actions=("Deny", "Audit"), prefix="shipped"
)


@pytest.fixture(scope="module")
def shipped(court) -> Iterator[Api]:
    """The policies as the stack renders them, denying, with a waiver for two objects."""
    _, facts = fixtures.base()
    until = datetime.date(2030, 1, 1)
    waivers = [
        Waiver("image-digest", name, "", "a test", "tests", until, 1)
        for name in ("Deployment/paperclip-system/paperclip", "Job/paperclip-agents/claude")
    ]
    judging.remove(court.api)
    try:
        judging.install(court.api, vap.objects(all_policies(), facts, SCHEME, waivers), 100)
        yield court.api
    finally:
        judging.remove(court.api, "shipped")
        judging.remove(court.api)


def object_of(kind: str, image: str, **metadata: Any) -> Manifest:
    """From the base, with another image in its first container."""
    found = copy.deepcopy(next(one for one in fixtures.base()[0] if one["kind"] == kind))
    found["spec"]["template"]["spec"]["containers"][0]["image"] = image
    labels = {**found["metadata"]["labels"], **metadata.pop("labels", {})}
    found["metadata"] = {**found["metadata"], **metadata, "labels": labels}
    return found


UNPINNED = "ghcr.io/paperclipai/paperclip:v2026.325.0"


def test_the_stack_admits_the_base(shipped):
    for one in fixtures.base()[0]:
        said = judging.ask(shipped, one)
        assert (said.message, judging.named(said.warnings, {})) == ("", set()), one


@pytest.mark.parametrize(
    ("one", "refused"),
    [
        (object_of("Deployment", UNPINNED), False),
        (object_of("Deployment", UNPINNED, name="other"), True),
        (object_of("Job", UNPINNED), False),
        (object_of("Job", UNPINNED, labels={"paperclip.io/template": "generic"}), True),
    ],
    ids=["waived", "another-name", "of-a-waived-template", "of-another-template"],
)
def test_a_waiver_lets_through_what_it_names(shipped, one, refused):
    said = judging.ask(shipped, one)
    assert said.fine is not refused, said.message
    assert not refused or "'shipped-image-digest'" in said.message


def test_what_is_not_of_paperclip_is_not_judged_in_the_servers_namespace(shipped):
    others = object_of("Deployment", UNPINNED, name="postgresql")
    others["metadata"]["labels"] = {"app.kubernetes.io/name": "postgresql"}
    assert judging.ask(shipped, others).fine
    assert not judging.ask(
        shipped, {**others, "metadata": {**others["metadata"], "namespace": "paperclip-agents"}}
    ).fine


@pytest.mark.parametrize(
    ("user", "admitted"),
    [("system:serviceaccount:kube-system:job-controller", True), ("", False)],
    ids=["controller", "administrator"],
)
def test_only_a_controller_is_believed_to_be_one(shipped, user, admitted):
    job = object_of("Job", UNPINNED, name="run-3", labels={"paperclip.io/template": "generic"})
    template = job["spec"]["template"]
    metadata = {
        "name": "run-3-x",
        "namespace": "paperclip-agents",
        "ownerReferences": [ODD_OWNER],
        **template["metadata"],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    said = shipped.create(pod, dry=True, user=user)
    assert said.fine is admitted, said.message


def test_the_children_of_a_waived_deployment_come_into_being(shipped):
    """Through the real controllers: the Deployment is made, and its ReplicaSet and Pod are not refused."""
    one = object_of("Deployment", UNPINNED)
    said = shipped.create(one)
    assert said.fine, said.message
    try:
        pods = "/api/v1/namespaces/paperclip-system/pods"
        wanted = ",".join(f"{key}={value}" for key, value in one["spec"]["selector"]["matchLabels"].items())
        judging.wait(lambda: shipped.call("GET", pods, labelSelector=wanted).body["items"])
    finally:
        shipped.call("DELETE", f"{path_of(one)}/paperclip", {"propagationPolicy": "Foreground"})
        judging.wait(lambda: not shipped.get(one).fine)


def test_what_was_there_before_can_go(court, shipped):
    """A finalizer is taken off by a controller or by hand, though the object would not be let in today."""
    judging.remove(court.api, "shipped")
    one = object_of("Deployment", UNPINNED, name="old", finalizers=["paperclip.io/test"])
    one["spec"]["replicas"] = 0
    path = f"{path_of(one)}/old"
    judging.wait(lambda: court.api.create(one).code in {201, 409})
    try:
        judging.install(court.api, vap.objects(all_policies(), fixtures.base()[1], SCHEME), 101)
        said = shipped.call("PATCH", path, {"metadata": {"annotations": {"a": "b"}}})
        assert "'shipped-" in said.message
    finally:
        gone = [shipped.delete(one), shipped.call("PATCH", path, {"metadata": {"finalizers": []}})]
    assert [said.message for said in gone] == ["", ""]
    judging.wait(lambda: not shipped.get(one).fine)
