"""What the API server says becomes one error each, with nothing of a body that is not a Status."""

from __future__ import annotations

import json

import pytest

from paperclip_launcher.cluster import errors
from paperclip_launcher.cluster.errors import api_error, is_not_found
from paperclip_launcher.cluster.transport import Response
from tests.launcher.cluster.scripted import refusal

SECRET = "canary-5e1f"


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (refusal(400, "BadRequest", "container is waiting to start"), errors.Invalid),
        (refusal(401, "Unauthorized"), errors.Unauthorized),
        (refusal(403, "Forbidden", 'cannot create resource "jobs"'), errors.Forbidden),
        (refusal(403, "Forbidden", 'jobs.batch "x" is forbidden: exceeded quota: q'), errors.QuotaExceeded),
        (refusal(404, "NotFound"), errors.NotFound),
        (refusal(409, "AlreadyExists"), errors.AlreadyExists),
        (refusal(409, "Conflict"), errors.Conflict),
        (refusal(410, "Expired"), errors.Gone),
        (refusal(400, "Expired"), errors.Gone),
        (refusal(504, "Timeout", "Too large resource version: 9, current: 8"), errors.Gone),
        (refusal(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}]), errors.Gone),
        (refusal(422, "Invalid"), errors.Invalid),
        (refusal(429, "TooManyRequests"), errors.TooManyRequests),
        (refusal(500, "InternalError"), errors.ServerFault),
        (refusal(504, "Timeout"), errors.ServerFault),
        (refusal(408, "RequestTimeout"), errors.ServerFault),
        (refusal(302), errors.ApiError),
    ],
)
def test_each_status_is_an_error_of_its_own(response, kind):
    assert type(api_error(response)) is kind


def test_only_the_words_of_a_status_are_kept_and_not_many():
    page = Response(502, {}, f"<html>{SECRET}</html>".encode())
    other = Response(500, {}, json.dumps({"kind": "Secret", "message": SECRET}).encode())
    for one in (page, other, Response(500, {}, b"{" * 100_000), Response(500, {}, b"\xff")):
        assert str(api_error(one)) == f"{one.status}"
    long = api_error(refusal(422, "Invalid", "x" * 256 + SECRET))
    assert len(long.message) == 256
    assert SECRET not in repr(long) + str(long)


@pytest.mark.parametrize(
    ("response", "seconds"),
    [
        (refusal(429, headers={"retry-after": "7"}), 7),
        (refusal(429, headers={"retry-after": "7"}, retryAfterSeconds=9), 7),
        (refusal(429, retryAfterSeconds=9), 9),
        (refusal(429, retryAfterSeconds=-1), None),
        (refusal(429, retryAfterSeconds="soon"), None),
        (refusal(429, headers={"retry-after": "Sat, 21 Nov 2026 06:00:00 GMT"}), None),
        (refusal(429), None),
    ],
)
def test_the_server_may_name_the_time_of_the_next_try(response, seconds):
    assert api_error(response).retry_after == seconds


class OfAnotherClient(Exception):
    def __init__(self, message="", **fields):
        super().__init__(message)
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (errors.NotFound(404, "NotFound"), True),
        (errors.Forbidden(403), False),
        (OfAnotherClient("HTTP-Code: 404 Message: x"), True),
        (OfAnotherClient("HTTP-Code: 4040"), False),
        (OfAnotherClient("404"), False),
        (OfAnotherClient(code=404), True),
        (OfAnotherClient(response=OfAnotherClient(status_code=404)), True),
        (OfAnotherClient(response={"statusCode": 404}), True),
        (OfAnotherClient(statusCode="404"), False),
        (404, False),
        ({"error": 404}, False),
    ],
)
def test_404_is_known_in_every_shape(error, found):
    assert is_not_found(error) is found
