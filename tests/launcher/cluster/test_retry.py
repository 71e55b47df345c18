"""Calls are tried again by the table: no longer than the budget, never sooner than the server asks."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from paperclip_launcher.cluster import errors
from paperclip_launcher.cluster.retry import Backoff, Retrier, RetrySettings
from paperclip_launcher.cluster.transport import Broken, NotSent, TimedOut
from paperclip_launcher.errors import Unreachable
from tests.fakeapi.loop import VirtualLoop
from tests.launcher.cluster.scripted import answer, cluster_over, refusal

JOB = {"metadata": {"name": "run-1"}}


def run(main):
    return VirtualLoop().run(main)


def called(*script, call=lambda cluster: cluster.get("jobs", "run-1"), budget=60.0):
    """The transport, and what the call gave or raised."""
    transport, cluster = cluster_over(*script, budget=budget)
    try:
        return transport, run(call(cluster))
    except (errors.ApiError, Unreachable) as error:
        return transport, error


@pytest.mark.parametrize(
    "trouble",
    [NotSent("refused"), Broken("reset"), TimedOut("slow"), *map(refusal, (408, 429, 500, 502, 503, 504))],
    ids=lambda one: str(getattr(one, "status", one)),
)
def test_what_may_pass_is_tried_again(trouble):
    transport, given = called(trouble, trouble, answer(JOB))
    assert given == JOB
    assert len(transport.requests) == 3


@pytest.mark.parametrize(
    ("trouble", "kind", "tries"),
    [
        (refusal(401), errors.Unauthorized, 2),
        (refusal(403), errors.Forbidden, 1),
        (refusal(403, message="exceeded quota"), errors.QuotaExceeded, 1),
        (refusal(404), errors.NotFound, 1),
        (refusal(409, "Conflict"), errors.Conflict, 1),
        (refusal(410), errors.Gone, 1),
        (refusal(422), errors.Invalid, 1),
        (refusal(501), errors.ServerFault, 1),
    ],
    ids=lambda one: str(getattr(one, "status", "")),
)
def test_a_plain_no_is_an_answer(trouble, kind, tries):
    transport, given = called(trouble)
    assert type(given) is kind
    assert len(transport.requests) == tries


def test_a_create_that_meets_the_count_of_a_quota_is_tried_again_but_not_one_whose_name_is_taken():
    def create(cluster):
        return cluster.create("jobs", JOB)

    assert called(refusal(409, "Conflict"), answer(JOB), call=create)[1] == JOB
    assert type(called(refusal(409, "AlreadyExists"), answer(JOB), call=create)[1]) is errors.AlreadyExists


@pytest.mark.parametrize(("first", "repeated"), [(TimedOut("slow"), True), (NotSent("refused"), False)])
def test_what_an_unanswered_try_may_have_done_itself_is_marked(first, repeated):
    _, given = called(first, refusal(409, "AlreadyExists"), call=lambda cluster: cluster.create("jobs", JOB))
    assert given.repeated is repeated


def test_pauses_double_up_to_their_limit_and_the_budget_ends_them():
    transport, given = called(NotSent("refused"), budget=100.0)
    assert isinstance(given, Unreachable)
    assert "refused" in str(given)
    assert given.remedy
    steps = [min(0.2 * 2**at, 20) for at in range(len(transport.pauses))]
    assert all(0.75 * step <= pause <= 1.25 * step for step, pause in zip(steps, transport.pauses, strict=True))
    assert max(transport.pauses) <= 20
    assert 75 < transport.times[-1] <= 100


def test_after_the_budget_the_last_answer_is_the_error():
    assert type(called(NotSent("refused"), refusal(503), budget=5.0)[1]) is errors.ServerFault


def test_a_standstill_of_the_process_takes_no_other_try_away():
    answers = [refusal(500), refusal(500), answer(JOB)]

    async def attempt():
        if len(answers) == 3:
            await asyncio.sleep(1000)  # as the loop's time has it, whatever the call's own timeout is
        status = answers.pop(0).status
        if status == 500:
            raise errors.ServerFault(500)
        return status

    assert run(Retrier(RetrySettings(), random.Random(1)).run("create", "it", attempt, 70.0)) == 200


def test_a_call_may_have_one_try_or_all_time():
    transport, given = called(NotSent("refused"), call=lambda cluster: cluster.get("jobs", "a", retry_seconds=0))
    assert isinstance(given, Unreachable)
    assert len(transport.requests) == 1
    patient = [NotSent("refused")] * 100
    transport, given = called(*patient, answer(JOB), call=lambda cluster: cluster.get("jobs", "a", retry_seconds=None))
    assert given == JOB


@pytest.mark.parametrize("seed", range(20))
def test_the_time_that_a_server_names_is_kept_within_a_fifth(seed):
    backoff = Backoff(0.2, 20, random.Random(seed))
    assert 7 <= backoff.pause(errors.TooManyRequests(429, retry_after=7)) <= 7 * 1.2
    assert 100 <= backoff.pause(errors.ServerFault(503, retry_after=100)) <= 120
    assert backoff.pause(errors.TooManyRequests(429, retry_after=10**9)) <= 720
    assert backoff.pause(errors.TooManyRequests(429, retry_after=0)) > 0


def test_trouble_is_told_once_a_minute_with_its_cause(caplog):
    caplog.set_level(logging.DEBUG)
    called(NotSent("connection refused"), budget=600.0)
    assert 9 <= len(caplog.messages) <= 11
    assert "connection refused" in caplog.messages[0]
    assert "more since" in caplog.messages[1]


def test_a_call_that_is_cancelled_ends_at_once():
    async def main():
        _, cluster = cluster_over(NotSent("refused"), budget=None)
        async with asyncio.timeout(5):
            await cluster.get("jobs", "run-1")

    with pytest.raises(TimeoutError):
        run(main())
