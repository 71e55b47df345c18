"""Every policy shows itself on files: what passes, and what fails it and nothing else."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest

from policies.registry import all_policies
from policies.run import run
from policies.world import World
from tests.support import fixtures

SNAPSHOT = Path(__file__).parent / "messages.txt"
PATHS = fixtures.paths()


def findings(fixture):
    return run(World([(one, None) for one in fixture.objects], fixture.facts))


def test_the_base_is_clean():
    objects, facts = fixtures.base()
    found = run(World([(one, None) for one in objects], facts))
    assert [(one.policy, str(one.object), one.pointer, one.message) for one in found] == []


@pytest.mark.parametrize("folder", fixtures.folders(), ids=lambda folder: folder.name)
def test_each_fixture_raises_its_policy_and_no_other(folder):
    for path in fixtures.paths(folder):
        fixture = fixtures.load(path)
        found = [
            (
                one.policy,
                "/".join(part for part in (one.object.kind, one.object.namespace, one.object.name) if part),
                one.pointer,
            )
            for one in findings(fixture)
        ]
        assert set(found) == {(fixture.policy, *place) for place in fixture.finds}, fixture.name
        assert bool(found) is not fixture.passes, fixture.name
        assert fixture.passes or fixture.finds, fixture.name


def test_every_policy_has_a_fixture_that_passes_and_one_that_fails():
    shown = defaultdict(set)
    for path in PATHS:
        verdict = path.name.partition(".")[0]
        assert verdict in {"pass", "fail"}, path
        shown[path.parent.name].add(verdict)
    checked = {one.id for one in all_policies() if one.check is not None}
    assert {policy for policy, verdicts in shown.items() if verdicts == {"pass", "fail"}} == checked


def test_messages_are_those_of_the_snapshot():
    lines = []
    for path in PATHS:
        fixture = fixtures.load(path)
        if not fixture.passes:
            lines += [
                f"{fixture.name} | {one.severity} | {one.object} | {one.pointer} | {one.message} | {one.remedy}"
                for one in findings(fixture)
            ]
    text = "\n".join(lines) + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(text)
    assert SNAPSHOT.read_text() == text
