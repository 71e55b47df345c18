"""Hostile input, a small part of that of `make faults`."""

from __future__ import annotations

from tests.faults import hostile, pods


def test_names_of_jobs_are_names_and_never_the_same():
    assert hostile.names(1, 2_000) == (0, 2_000)


def test_senseless_answers_are_met_by_proper_errors():
    count, wrong = hostile.answers()
    assert wrong == []
    assert count > 100


def test_changed_bytes_of_http_are_met_by_proper_errors():
    refused, wrong = hostile.mutations(1, 60)
    assert wrong == []
    assert refused > 20


def test_a_run_outlives_senseless_watches():
    assert hostile.senseless_watches("jobs", speed=100.0) == ""


def test_what_befalls_a_pod_has_a_name():
    for fate in (fate for fate in pods.FATES if not fate.soft):
        assert pods.play(fate, speed=60.0).code == fate.code
