"""The policies in an API server: installed as it gets them from us, and asked object by object.

Every policy is bound to every namespace that a fixture uses, whoever the object belongs to: fixtures also hold objects
that are not Paperclip's. What a policy says depends on facts, so it stands there once for each text that some fixture
gives it, and only what the facts of a fixture give counts for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kubekit.identity import CLUSTER_SCOPED, Manifest, ObjectId
from kubekit.resources import group_of, resource_of
from policies import vap
from policies.cel import Cel
from policies.facts import Facts
from policies.model import Policy, Severity
from policies.registry import all_policies
from policies.run import run
from policies.world import World
from tests.e2e.api import Api, Said, path_of
from tests.support import fixtures

PREFIX = "judging"
_NAMED = re.compile(r"ValidatingAdmissionPolicy '([^']+)' with binding")
_BUILT_IN = re.compile(r"[a-z]*|.*\.k8s\.io")
_PATIENCE = 5  # seconds


@dataclass(frozen=True)
class Case:
    """One object, with the policies that find something in it and those that may say what they like.

    `wrong`: some policy finds something, though it may have nothing to say to an API server. `old` is the object as it
    stands in the cluster.
    """

    manifest: Manifest
    found: frozenset[str]
    excused: frozenset[str]
    wrong: bool
    old: Mapping[str, Any] | None = None


def speaking() -> list[Policy]:
    """The policies that have anything to say to an API server."""
    return [one for one in all_policies() if one.cel is not None]


def cases(fixture: fixtures.Fixture) -> list[Case]:
    """Of what the fixture itself names."""
    found: dict[ObjectId, dict[str, set[Severity]]] = {}
    for finding in run(World([(each, None) for each in fixture.objects], fixture.facts)):
        if finding.object is not None:
            found.setdefault(finding.object, {}).setdefault(finding.policy, set()).add(finding.severity)
    result = []
    for manifest in fixture.subjects:
        one = ObjectId.of(manifest)
        of_it = found.get(one, {})
        spoken = [policy for policy in speaking() if policy.id in of_it]
        excused = {policy.id for policy in spoken if _milder(policy, of_it[policy.id], fixture.facts)}
        old = fixture.facts.committed.get(f"{one.namespace}/{one.name}") if one.kind.endswith("Claim") else None
        result.append(
            Case(
                manifest,
                frozenset(policy.id for policy in spoken),
                frozenset({*excused, *([fixture.policy] if fixture.silent else [])}),
                bool(of_it),
                old,
            )
        )
    return result


def _milder(policy: Policy, found: set[Severity], facts: Facts) -> bool:
    """Whether CEL may leave it out, so that the rest of the policy can be denied."""
    cel = vap.cel_of(policy, facts)
    return cel is not None and bool(cel.partly) and policy.severity not in found


class Texts:
    """What each policy says, by the facts that it is asked with."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[Policy, Cel]] = {}
        self._numbers: dict[tuple[str, str], str] = {}

    def of(self, facts: Facts) -> dict[str, str]:
        """The name in the cluster → the policy's id."""
        result = {}
        for policy in speaking():
            cel = vap.cel_of(policy, facts)
            if cel is None or not facts.reaches(policy.since):
                continue
            key = (policy.id, repr(cel))
            if key not in self._numbers:
                count = sum(one == policy.id for one, _ in self._numbers)
                self._numbers[key] = f"{PREFIX}-{policy.id}" + (f".{count}" if count else "")
                self.known[self._numbers[key]] = (policy, cel)
            result[self._numbers[key]] = policy.id
        return result


def objects(texts: Texts, namespaces: Iterable[str], action: str) -> Iterator[Manifest]:
    """Policies and bindings; of a policy with several texts only the first denies."""
    scheme = vap.Scheme(whole=tuple(sorted(namespaces)), labelled=(), prefix=PREFIX)
    for name, (policy, cel) in texts.known.items():
        for one in vap.objects([replace(policy, cel=cel, since="")], Facts(), scheme):
            one["metadata"]["name"] = name
            if one["kind"] == "ValidatingAdmissionPolicy":
                # Objects of the cluster are judged here without our label.
                one["spec"]["matchConditions"] = one["spec"]["matchConditions"][1:]
            else:
                one["spec"] |= {"policyName": name, "validationActions": ["Warn" if "." in name else action]}
            yield one


def sentinel(number: int) -> Iterator[Manifest]:
    """Refuses a ConfigMap of its own name; it is made last, so when it is in force, so is all before."""
    name = f"{PREFIX}.sentinel-{number}"
    rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["configmaps"]}
    for kind, spec in (
        (
            "ValidatingAdmissionPolicy",
            {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": f"object.metadata.name != '{name}'"}],
            },
        ),
        ("ValidatingAdmissionPolicyBinding", {"policyName": name, "validationActions": ["Deny"]}),
    ):
        yield {"apiVersion": vap.API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def install(api: Api, manifests: Iterable[Manifest], number: int) -> None:
    """All of them, over what is there, until they are in force."""
    for one in [*manifests, *sentinel(number)]:
        known = api.get(one)
        if known.fine:
            body = {
                **one,
                "metadata": {**one["metadata"], "resourceVersion": known.body["metadata"]["resourceVersion"]},
            }
            said = api.replace(body)
        else:
            said = api.create(one)
        assert said.fine, f"{one['kind']} {one['metadata']['name']}: {said.message}"
    probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{PREFIX}.sentinel-{number}"}}
    wait(lambda: not api.create({**probe, "metadata": {**probe["metadata"], "namespace": "default"}}, dry=True).fine)


def remove(api: Api, prefix: str = PREFIX) -> None:
    """Every policy and binding whose name begins so."""
    for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
        empty = {"apiVersion": vap.API_VERSION, "kind": kind}
        for item in api.call("GET", f"/apis/{vap.API_VERSION}/{resource_of(kind)}").body["items"]:
            if item["metadata"]["name"].startswith(prefix):
                api.delete({**empty, "metadata": {"name": item["metadata"]["name"]}})


def place(api: Api, manifests: Iterable[Manifest]) -> list[Manifest]:
    """What must be there before a pod is let in: namespaces, accounts, priorities. Returns what it made."""
    made = []
    for one in manifests:
        said = api.create(one)
        assert said.fine or said.code == 409, said.message
        if said.fine:
            made.append(one)
    return made


def serve(api: Api, manifests: Iterable[Manifest]) -> Callable[[], None]:
    """Lets the API server take every kind and version of an operator that is used; returns what takes it back."""
    versions: dict[tuple[str, str], set[str]] = {}
    for one in map(ObjectId.of, manifests):
        if group_of(one.kind) == one.group and not _BUILT_IN.fullmatch(one.group):
            versions.setdefault((one.group, one.kind), set()).add(one.version)
    undo: list[Callable[[], object]] = []
    for (group, kind), names in sorted(versions.items()):
        definition = _definition(group, kind, sorted(names))
        known = api.get(definition)
        if not known.fine:
            assert (said := api.create(definition)).fine, said.message
            undo.append(partial(api.delete, definition))
            continue
        served = known.body["spec"]["versions"]
        added = [one for one in definition["spec"]["versions"] if one["name"] not in {each["name"] for each in served}]
        if added:
            _set_versions(api, definition, served + [{**one, "storage": False} for one in added])
            undo.append(partial(_set_versions, api, definition, served))
    for (group, kind), names in versions.items():
        for name in names:
            path = f"/apis/{group}/{name}/{resource_of(kind)}"
            wait(lambda path=path: api.call("GET", path, limit="1").fine)  # type: ignore[misc]
    return lambda: [one() for one in undo] and None


def _definition(group: str, kind: str, versions: Iterable[str]) -> Manifest:
    """One that takes anything."""
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    plural = resource_of(kind)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster" if (group, kind) in CLUSTER_SCOPED else "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {"name": name, "served": True, "storage": number == 0, "schema": anything}
                for number, name in enumerate(versions)
            ],
        },
    }


def _set_versions(api: Api, definition: Manifest, versions: list[Any]) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"
    said = api.call("PATCH", path, {"spec": {"versions": versions}})
    assert said.fine, said.message


def ask(api: Api, manifest: Manifest) -> Said:
    """What the API server would say; nothing is kept. What is there is changed, not made."""
    said = api.create(manifest, dry=True)
    return api.replace(manifest, dry=True) if said.code == 409 else said


def agree(api: Api, case: Case, counted: Mapping[str, str], *, patient: bool) -> None:
    """AssertionError where the API server and Python differ; `patient`: a namespace has changed a moment ago.

    What is wrong may also be refused by the API server itself, and so may every change of an object: a claim grows only
    once it is bound. Then it never asks a policy.
    """
    if resource_of(case.manifest["kind"]) is None:
        return  # no policy of ours looks at it
    if case.old is not None:
        assert api.create(case.old).code in {201, 409}
    try:
        said, told = _heard(api, case, counted, patient=patient)
    finally:
        if case.old is not None:
            _forget(api, case.old)
    if (case.wrong or case.old is not None) and by_itself(said):
        return
    assert said.fine, f"{ObjectId.of(case.manifest)}: {said.message}"
    assert told == case.found - case.excused, f"{ObjectId.of(case.manifest)}: {said.warnings}"


def _heard(api: Api, case: Case, counted: Mapping[str, str], *, patient: bool) -> tuple[Said, set[str]]:
    end = time.monotonic() + (_PATIENCE if patient else 0)
    while True:
        said = ask(api, case.manifest)
        told = named(said.warnings, counted) - case.excused
        if (said.fine and told == case.found - case.excused) or time.monotonic() >= end:
            return said, told
        time.sleep(0.1)


def _forget(api: Api, manifest: Mapping[str, Any]) -> None:
    api.delete(manifest)
    path = f"{path_of(manifest)}/{manifest['metadata']['name']}"
    api.call("PATCH", path, {"metadata": {"finalizers": []}})
    wait(lambda: not api.get(manifest).fine)


def by_itself(said: Said) -> bool:
    """Whether the API server refuses the object with no policy: it is invalid, of no version, or too much for a pod."""
    return not said.fine and not _NAMED.search(said.message)


def named(texts: Iterable[str], known: Mapping[str, str]) -> set[str]:
    """The policies that the texts name, of those that `known` counts."""
    return {known[name] for text in texts for name in _NAMED.findall(text) if name in known}


def wait(done: Callable[[], Any]) -> None:
    end = time.monotonic() + _PATIENCE * 6
    while not done():
        assert time.monotonic() < end, "the policies do not come into force"
        time.sleep(0.1)


def namespaces_of(loaded: Iterable[fixtures.Fixture]) -> dict[str, Manifest]:
    """Every namespace that an object of a fixture stands in, with the labels that the base gives it."""
    base = {one["metadata"]["name"]: one for one in fixtures.base()[0] if one["kind"] == "Namespace"}
    names = {ObjectId.of(one).namespace for fixture in loaded for one in fixture.objects} - {""}
    bare = {"apiVersion": "v1", "kind": "Namespace"}
    return {name: base.get(name, {**bare, "metadata": {"name": name}}) for name in sorted({*names, *base})}
