"""Waivers: shown and counted, never for ever, and never for what must not be waived."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from kubekit.identity import ObjectId
from policies import waivers
from policies.model import Finding, Severity, Source

TODAY = datetime.date(2026, 11, 20)
SERVER = ObjectId("apps/v1", "Deployment", "paperclip-system", "paperclip")


def finding(policy="image-digest", message="app:1 has no digest"):
    return Finding(policy, Severity.ERROR, SERVER, "/spec", message)


def waiver(**changes):
    fields = {
        "policy": "image-digest",
        "object": "Deployment/paperclip-system/paperclip",
        "reason": "no registry here",
        "owner": "platform",
        "expires": '"2027-03-01"',
        **changes,
    }
    lines = [f"    {key}: {value}" for key, value in fields.items() if value is not None]
    return "waivers:\n  -" + "\n".join(lines)[3:] + "\n"


def load(tmp_path, text):
    path = tmp_path / "waivers.yaml"
    path.write_text(text)
    return waivers.load(path)


def applied(tmp_path, text, *findings):
    return [(one.policy, one.waived, one.message) for one in waivers.apply(findings, load(tmp_path, text), TODAY)]


def test_a_waived_finding_stays_with_its_reason(tmp_path):
    assert applied(tmp_path, waiver(), finding()) == [("image-digest", "no registry here", "app:1 has no digest")]


def test_a_waiver_that_has_expired_covers_nothing_and_is_a_finding(tmp_path):
    result = applied(tmp_path, waiver(expires='"2026-11-19"'), finding())
    assert ("image-digest", "", "app:1 has no digest") in result
    assert any("expired on 2026-11-19" in message for _, _, message in result)


def test_a_waiver_covers_its_last_day(tmp_path):
    assert len(applied(tmp_path, waiver(expires='"2026-11-20"'), finding())) == 1


def test_a_waiver_for_more_than_180_days_is_a_finding(tmp_path):
    result = applied(tmp_path, waiver(expires='"2027-05-20"'), finding())
    assert any("at most 180 days" in message for _, _, message in result)


def test_a_waiver_that_covers_nothing_is_a_finding(tmp_path):
    result = applied(tmp_path, waiver(object="Deployment/other/paperclip"), finding())
    assert any("covers nothing any more" in message for _, _, message in result)


def test_a_waiver_can_be_narrowed_to_one_message(tmp_path):
    result = applied(tmp_path, waiver(containing="app:1"), finding(), finding(message="app:2 has no digest"))
    assert [waived for _, waived, _ in result] == ["no registry here", ""]


def test_what_must_not_be_waived_is_not(tmp_path):
    result = applied(tmp_path, waiver(policy="unique-identity"), finding("unique-identity", "stands twice"))
    assert ("unique-identity", "", "stands twice") in result
    assert any("cannot be waived" in message for _, _, message in result)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must be a mapping with the one key `waivers`"),
        ("waivers: {}", "must be a mapping with the one key `waivers`"),
        ("waivers: [1]", "a waiver is a mapping with"),
        (waiver(reasn="x"), "there is no field 'reasn'"),
        (waiver(container="[a]"), "`container` must be text"),
        (waiver(expires="soon"), "must be a date such as 2027-03-31"),
        (waiver(owner='" "'), "`owner` must be text"),
        ("waivers:\n  - policy: a\n    policy: b\n", 'the key "policy" stands here'),
    ],
)
def test_a_broken_file_is_refused_with_the_place(tmp_path, text, message):
    with pytest.raises(waivers.WaiverError, match=r"waivers\.yaml:[0-9]+:[0-9]+") as raised:
        load(tmp_path, text)
    assert message in str(raised.value)


def test_no_file_is_no_waivers(tmp_path):
    assert waivers.load(tmp_path / "none.yaml").entries == ()


def test_a_waiver_of_no_policy_is_a_finding_with_a_guess(tmp_path):
    ((policy, _, message),) = applied(tmp_path, waiver(policy="image-digst"))
    assert (policy, message) == ("waiver-live", "there is no policy 'image-digst'; did you mean image-digest?")


def test_a_waiver_can_be_narrowed_to_one_container(tmp_path):
    other = replace(finding(message="app:2 has no digest"), container="sidecar")
    result = applied(tmp_path, waiver(container="sidecar"), finding(), other)
    assert [(waived, message) for _, waived, message in result] == [
        ("", "app:1 has no digest"),
        ("no registry here", "app:2 has no digest"),
    ]


def test_a_finding_about_no_object_is_waived_by_its_file(tmp_path):
    odd = Finding("image-digest", Severity.ERROR, None, "", "odd", source=Source("a.yaml", 3))
    text = waiver(object="a.yaml")
    assert applied(tmp_path, text, odd) == [("image-digest", "no registry here", "odd")]


def test_a_waiver_of_another_folder_is_not_dead_where_only_some_was_judged(tmp_path):
    known = load(tmp_path, waiver())
    assert waivers.apply([], known, TODAY, complete=False) == []
    assert len(waivers.apply([], known, TODAY, complete=True)) == 1


def test_what_is_suggested_is_ready_and_good_for_thirty_days(tmp_path):
    open_ones = [finding(), replace(finding(), container='od"d: \n'), finding("unique-identity", "twice")]
    text = waivers.suggest([*open_ones, finding().with_waiver("so")], TODAY)
    known = load(tmp_path, text)
    assert [(one.policy, one.container, str(one.expires)) for one in known.entries] == [
        ("image-digest", "", "2026-12-20"),
        ("image-digest", 'od"d: \n', "2026-12-20"),
    ]
    result = waivers.apply(open_ones, known, TODAY)
    assert [one.policy for one in result if not one.waived] == ["unique-identity"]


def test_nothing_to_waive_suggests_nothing():
    assert waivers.suggest([finding("unique-identity", "twice")], TODAY) == ""
