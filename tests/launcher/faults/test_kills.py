"""`kill -9` of the real program, at some of its steps; `make faults` does it at all of them, 50 times each."""

from __future__ import annotations

import pytest

from tests.faults.kills import POINTS, SOME, bad_cases, drawn, play


@pytest.mark.parametrize("points", [SOME[:3], SOME[3:]], ids=["before the agent runs", "after it has begun"])
def test_a_killed_launcher_goes_on_to_one_job_one_result_and_the_whole_log(points, tmp_path):
    found = play(drawn(1, points, 1), tmp_path, at_once=3)
    assert bad_cases(found) == []
    assert all(case.deaths for case in found)


def test_there_are_points_enough_and_each_has_a_name_of_its_own():
    assert len({str(point) for point in POINTS}) == len(POINTS) >= 12
