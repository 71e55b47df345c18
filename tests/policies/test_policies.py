"""What holds for every policy, whatever it is about."""

from __future__ import annotations

import copy

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubekit import pointers
from policies.facts import Facts
from policies.model import Fault
from policies.registry import FAMILIES, all_policies
from policies.run import object_policies, run
from policies.world import World
from tests.support import fixtures

PATHS = [path for path in fixtures.paths() if path.name.startswith("fail.")]

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["*", "0", ""])
)
trees = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner))


def everything_in(tree, pointer=""):
    yield pointer
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from everything_in(value, pointers.join(pointer, key))


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(PATHS), data=st.data())
def test_no_tree_whatever_stops_a_policy(path, data):
    fixture = fixtures.load(path)
    broken = copy.deepcopy(fixture.subjects or fixture.objects)
    subject = data.draw(st.sampled_from(broken))
    for _ in range(3):
        place = data.draw(st.sampled_from([one for one in everything_in(subject) if one]))
        *way, last = pointers.split(place)
        here = subject
        for token in way:
            here = here[int(token)] if isinstance(here, list) else here[token]
        here[int(last) if isinstance(here, list) else last] = data.draw(trees)
    for finding in run(World([(one, None) for one in broken], fixture.facts)):
        assert isinstance(finding.message, str)


def test_a_set_without_facts_is_judged_without_them():
    objects, _ = fixtures.base()
    found = run(World([(one, None) for one in objects], Facts()))
    assert all("pool" not in one.message and "class" not in one.message for one in found)


def test_every_policy_tells_why_and_how_to_mend():
    for policy in all_policies():
        assert policy.title, policy.id
        assert policy.rationale, policy.id
        assert policy.remedy, policy.id
        assert policy.family in FAMILIES, policy.id
        assert not policy.title.endswith("."), policy.id


def test_a_policy_of_objects_needs_no_other_object_than_the_namespace():
    objects, facts = fixtures.base()
    namespaces = [(one, None) for one in objects if one["kind"] == "Namespace"]
    for one in objects:
        alone = run(World([*namespaces, (one, None)], facts), object_policies()) if one["kind"] != "Namespace" else []
        assert [(found.policy, found.message) for found in alone] == []


def test_a_fingerprint_stays_while_the_finding_does():
    fixture = fixtures.load(PATHS[0])
    first, second = (run(World([(one, None) for one in fixture.objects], fixture.facts)) for _ in range(2))
    assert [one.fingerprint for one in first] == [one.fingerprint for one in second]
    assert all(len(one.fingerprint) == 16 for one in first)


def test_a_fault_may_be_milder_than_its_policy():
    assert Fault("", "said") == Fault("", "said", None, "")
