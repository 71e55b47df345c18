"""What would break at 3 a.m. is found: each planted defect, by the right policy, at the right place, and no more."""

from __future__ import annotations

import re

import pytest

from policies.run import run
from policies.world import World
from tests.support import planted

ALL = list(planted.all_planted())


def found(objects, facts):
    return {
        (one.policy, planted.place(one.object), one.pointer)
        for one in run(World([(manifest, None) for manifest in objects], facts))
    }


@pytest.fixture(scope="module")
def standing():
    """What is found in the clean sets: only what a waiver names."""
    return {environment: found(*planted.clean(environment)) for environment in planted.ENVIRONMENTS}


def test_a_clean_set_has_nothing_but_images_that_no_registry_could_pin(standing):
    assert {policy for one in standing.values() for policy, _, _ in one} <= {"image-digest"}


@pytest.mark.parametrize("defect", ALL, ids=lambda one: f"{one.environment}-{one.name}")
def test_a_planted_defect_is_found(defect, standing):
    # An image that the defect replaces is no longer the one that stood there.
    seen = found(defect.objects, defect.facts) - (standing[defect.environment] - set(defect.finds))
    wanted = {
        (policy, where, re.compile(re.escape(pointer).replace(r"\*", "[0-9]+")))
        for policy, where, pointer in defect.finds
    }
    unexpected = {
        one for one in seen if not any(one[:2] == (p, w) and pattern.fullmatch(one[2]) for p, w, pattern in wanted)
    }
    missed = {
        (p, w, pattern.pattern)
        for p, w, pattern in wanted
        if not any(one[:2] == (p, w) and pattern.fullmatch(one[2]) for one in seen)
    }
    assert (missed, unexpected) == (set(), set())


def test_there_are_at_least_eighty_defects():
    assert len({one.name for one in ALL}) >= 80
