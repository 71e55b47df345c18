"""What the API server is told in CEL is what the policies find here: on every object of every fixture."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from kubekit.identity import ObjectId
from kubekit.resources import group_of
from policies import vap
from policies.model import Severity
from policies.registry import all_policies
from policies.run import run
from policies.world import World
from tests.support import celeval, fixtures

PATHS = fixtures.paths()
WITH_CEL = [one for one in all_policies() if one.cel is not None]
RANK = (Severity.INFO, Severity.WARNING, Severity.ERROR)
OTHER_OBJECTS = "it takes other objects to tell"
A_FILE = "it is about files, not about what reaches an API server"
ITS_OWN = "the API server says so itself"
WITHOUT_CEL = {
    "agent-sa-unbound": OTHER_OBJECTS,
    "agents-reach-no-more": OTHER_OBJECTS,
    "agents-reach-server": OTHER_OBJECTS,
    "api-version-served": ITS_OWN,
    "config-checksum": OTHER_OBJECTS,
    "configmap-ref-resolves": OTHER_OBJECTS,
    "dist-canonical": A_FILE,
    "dist-clean": A_FILE,
    "env-secret-by-name": "it counts how much of a text looks random, which is beyond CEL",
    "es-consumed": OTHER_OBJECTS,
    "es-target-unique": OTHER_OBJECTS,
    "external-live": A_FILE,
    "external-traffic-policy-local": OTHER_OBJECTS,
    "image-lock-parity": A_FILE,
    "job-podspec-size": "CEL cannot measure an object",
    "jobtemplate-complete": A_FILE,
    "lb-ip-in-pool": OTHER_OBJECTS,
    "lb-ip-unique": OTHER_OBJECTS,
    "limitrange-admits": OTHER_OBJECTS,
    "limitrange-sound": ITS_OWN,
    "namespace-in-set": OTHER_OBJECTS,
    "netpol-covers-pods": OTHER_OBJECTS,
    "netpol-default-deny": OTHER_OBJECTS,
    "netpol-dns": OTHER_OBJECTS,
    "netpol-not-dangling": OTHER_OBJECTS,
    "netpol-wide-hides-narrow": OTHER_OBJECTS,
    "no-blocking-pdb": OTHER_OBJECTS,
    "no-hpa-on-rwo": OTHER_OBJECTS,
    "no-plain-secret": "in a cluster every Secret has its data: only Git must not",
    "pull-secret-resolves": OTHER_OBJECTS,
    "pvc-exists": OTHER_OBJECTS,
    "quota-admits": OTHER_OBJECTS,
    "quota-sound": ITS_OWN,
    "rbac-launcher-minimal": OTHER_OBJECTS,
    "rbac-launcher-sufficient": OTHER_OBJECTS,
    "rbac-ref-resolves": OTHER_OBJECTS,
    "replicas-explicit": "the API server has written its default in before it asks",
    "rwo-single-consumer": OTHER_OBJECTS,
    "sa-exists": OTHER_OBJECTS,
    "schema-valid": ITS_OWN,
    "secret-key-exists": OTHER_OBJECTS,
    "secret-ref-resolves": OTHER_OBJECTS,
    "server-allowed-hostnames": OTHER_OBJECTS,
    "svc-selects-pods": OTHER_OBJECTS,
    "svc-target-port-exists": OTHER_OBJECTS,
    "sync-wave-order": OTHER_OBJECTS,
    "tenant-account-token": OTHER_OBJECTS,
    "tenant-apart": OTHER_OBJECTS,
    "tenant-complete": OTHER_OBJECTS,
    "tenant-deny-stands": OTHER_OBJECTS,
    "tenant-quota": OTHER_OBJECTS,
    "tenant-reaches-server": OTHER_OBJECTS,
    "unique-identity": OTHER_OBJECTS,
    "waiver-live": A_FILE,
    "yaml-go-safe": A_FILE,
    "yaml-readable": A_FILE,
}
"""Nobody leaves `cel` out without saying why."""
_JUDGED: dict[tuple[str, ...], str] = {}


def namespace_of(manifest, objects):
    """What the API server knows of the namespace; one that is not in the set carries only its name."""
    name = ObjectId.of(manifest).namespace
    if not name:
        return None
    known = [one for one in objects if one.get("kind") == "Namespace" and ObjectId.of(one).name == name]
    return known[0] if known else {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}


def unchanged(fixture):
    """The objects of the base as they stand there, which its own test has compared; none if others decide on them."""
    objects, facts = fixtures.base()
    if fixture.facts != facts or any(one.get("kind") == "Namespace" for one in fixture.subjects):
        return frozenset()
    return frozenset(map(id, objects))


def asked(fixture, known):
    """Kind → (identity, object, its namespace, how it stands in the cluster, all as text) of all but `known`."""
    result = defaultdict(list)
    for manifest in fixture.objects:
        one = ObjectId.of(manifest)
        if id(manifest) in known:
            continue
        if group_of(one.kind) in {None, one.group}:
            namespace = namespace_of(manifest, fixture.objects)
            old = fixture.facts.committed.get(f"{one.namespace}/{one.name}") if one.kind.endswith("Claim") else None
            key = json.dumps([manifest, namespace, old], sort_keys=True, default=str)
            result[one.kind].append((one, manifest, namespace, old, key))
    return result


def judged(policy, cel, manifest, namespace, old, key):
    """The verdict; most objects of a fixture are those of the base, which need it only once."""
    known = (policy.id, cel.expression, str(cel.variables), key) if callable(policy.cel) else (policy.id, key)
    if known not in _JUDGED:
        _JUDGED[known] = celeval.verdict(cel, manifest, kinds=policy.kinds, namespace=namespace, old=old)
    return _JUDGED[known]


def ours(one, objects):
    """Whether the policies of our stack would look at it: an agent's, or labelled as Paperclip's."""
    named = [each for each in objects if ObjectId.of(each) == one]
    marks = [(each["metadata"].get("labels") or {}).get("app.kubernetes.io/part-of") for each in named]
    return one.namespace == "paperclip-agents" or "paperclip" in marks


def compared(fixture):
    """(policy, CEL, object, its verdict, the severities that Python finds) for all that CEL may judge."""
    found = defaultdict(set)
    for one in run(World([(one, None) for one in fixture.objects], fixture.facts), WITH_CEL):
        found[one.policy, one.object].add(one.severity)
    kinds = defaultdict(set)
    for by, one in found:
        kinds[by].add(one.kind)
    named = {one for _, one in found}
    known = unchanged(fixture) - {id(each) for each in fixture.objects if ObjectId.of(each) in named}
    objects = asked(fixture, known)
    for policy in WITH_CEL:
        cel = vap.cel_of(policy, fixture.facts)
        if cel is None or not fixture.facts.reaches(policy.since):
            continue
        for kind in {*vap.kinds_of(policy, cel), *kinds[policy.id]}:
            for one, manifest, *rest in objects.get(kind, ()):
                yield policy, cel, one, judged(policy, cel, manifest, *rest), found.get((policy.id, one), ())


@pytest.mark.parametrize("folder", fixtures.folders(), ids=lambda folder: folder.name)
def test_an_api_server_refuses_what_python_finds(folder):
    for path in fixtures.paths(folder):
        agrees(fixtures.load(path))


def agrees(fixture):
    unseen = 0
    for policy, cel, one, verdict, severities in compared(fixture):
        told = f"{fixture.name}: {policy.id} on {one}: {verdict}, Python finds {sorted(severities)}"
        if fixture.silent and policy.id == fixture.policy and severities and verdict == "pass":
            unseen += 1
            continue
        if cel.partly and severities and verdict == "pass" and policy.severity not in severities:
            continue  # the milder part of a policy, left out so that the rest may be denied
        assert (verdict != "pass") == bool(severities), told
        if severities and ours(one, fixture.objects):
            acted = max(map(RANK.index, severities))
            assert RANK.index(cel.severity or policy.severity) <= acted, f"{told}: too hard, see Cel.severity"
    speaks = any(policy.id == fixture.policy for policy in WITH_CEL)
    assert not (fixture.silent and speaks) or unseen, f"{fixture.name}: CEL sees it all, take `# cel: silent` away"


def test_an_api_server_refuses_nothing_of_the_base():
    objects, facts = fixtures.base()
    whole = fixtures.Fixture(fixtures.FOLDER / "base", "", passes=True, objects=objects, subjects=objects, facts=facts)
    told = [(policy.id, str(one), verdict) for policy, _, one, verdict, _ in compared(whole)]
    assert len(told) > 200
    assert [one for one in told if one[2] != "pass"] == []


@pytest.mark.parametrize("policy", WITH_CEL, ids=lambda policy: policy.id)
def test_expressions_compile(policy):
    cel = vap.cel_of(policy, fixtures.base()[1])
    assert cel is not None, "the facts of the base suffice for every policy"
    assert celeval.problems(cel) == []


def test_what_has_no_cel_has_a_reason():
    assert {one.id for one in all_policies() if one.cel is None} == set(WITHOUT_CEL)


def test_cel_that_sees_only_a_part_says_so():
    """A fixture that only Python finds belongs to a policy that says what CEL cannot see."""
    silent = {fixtures.load(path).policy for path in PATHS if "# cel: silent" in path.read_text()}
    _, facts = fixtures.base()
    told = {one.id for one in WITH_CEL if vap.cel_of(one, facts).partly}
    assert silent - set(WITHOUT_CEL) - told == set()
