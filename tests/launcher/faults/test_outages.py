"""Some of the outages of `make faults`, made short."""

from __future__ import annotations

from tests.faults import outages, refusals
from tests.faults.outages import WELL


def test_a_run_outlives_restarts_of_the_api_server():
    ended, count = outages.restarts(3, count=2, long=20.0, speed=75.0)
    assert (ended, count) == (WELL, 3)


def test_a_run_outlives_a_third_of_its_calls_failing():
    ended, _, _ = outages.bad_calls(2, seconds=60.0, speed=75.0)
    assert ended == WELL


def test_a_log_that_falls_silent_or_is_rotated_away_goes_on():
    assert outages.silent_stall(1, seconds=52.0, speed=75.0)[0] == WELL
    assert outages.rotation(1, seconds=60.0, speed=75.0)[0] == WELL


def test_of_a_stale_watch_comes_one_list_each_time():
    told, lists, _, same = refusals.stale_watches(count=5, speed=300.0)
    assert (told, same) == (5, True)
    assert lists <= 6


def test_a_missing_right_is_told_at_once_and_a_full_quota_is_waited_for():
    code, message, _, tries = refusals.forbidden()
    assert (code, tries) == ("k8s_forbidden", 1)
    assert "create" in message
    assert refusals.no_room(seconds=60.0, speed=100.0)[0] == WELL


def test_a_deleted_job_and_a_sleeping_controller():
    code, prefix, _ = outages.job_deleted(speed=50.0)
    assert (code, prefix) == ("k8s_job_deleted_externally", True)
    assert outages.late_controller(speed=50.0)[0] == WELL


def test_a_new_token_is_read_in_the_midst_of_a_run():
    assert refusals.rotated_token(turns=1, speed=75.0)[0] == WELL


def test_signs_of_life_come_on_time_however_slow_calls_are():
    code, error = outages.slow_calls(1, seconds=600.0)
    assert code == ""
    assert error <= 1.0
