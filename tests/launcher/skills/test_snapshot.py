"""What the skills tab shows."""

from __future__ import annotations

from paperclip_launcher.skills.snapshot import skills_snapshot

OFFERED = [
    {"key": "acme/review", "runtimeName": "review", "source": "/skills/review"},
    {"key": "acme/deploy", "runtimeName": "acme--deploy", "source": "/skills/deploy"},
    {"name": "plain", "source": "/skills/plain"},
]


def snapshot(desired, installed=()):
    config = {"paperclipRuntimeSkills": OFFERED, "paperclipSkillSync": {"desiredSkills": desired}}
    return skills_snapshot(config, adapter_type="claude_k8s", installed=installed)


def test_offered_skills_are_configured_where_wanted_by_key_name_or_end_of_key():
    answer = snapshot([{"key": "ACME/review", "versionId": None}, "deploy", " plain "])
    assert answer["adapterType"] == "claude_k8s"
    assert (answer["supported"], answer["mode"], answer["warnings"]) == (True, "ephemeral", [])
    assert answer["desiredSkills"] == ["acme/deploy", "acme/review", "plain"]
    assert [(one["key"], one["runtimeName"], one["state"], one["desired"]) for one in answer["entries"]] == [
        ("acme/deploy", "acme--deploy", "configured", True),
        ("acme/review", "review", "configured", True),
        ("plain", "plain", "configured", True),
    ]
    assert all(one["managed"] and not one["readOnly"] and one["detail"] for one in answer["entries"])
    assert answer["entries"][1]["sourcePath"] == "/skills/review"


def test_what_is_not_wanted_is_available():
    (entry, *_) = snapshot([])["entries"]
    assert (entry["state"], entry["desired"], entry["detail"], entry["targetPath"]) == ("available", False, None, None)
    assert (entry["origin"], entry["originLabel"]) == ("company_managed", "Managed by Paperclip")


def test_what_is_wanted_and_unknown_is_missing_with_a_warning():
    answer = snapshot(["gone"])
    (entry,) = [one for one in answer["entries"] if one["key"] == "gone"]
    assert (entry["state"], entry["origin"], entry["desired"], entry["managed"]) == (
        "missing",
        "external_unknown",
        True,
        False,
    )
    assert answer["warnings"] == ['Desired skill "gone" is not available from the Paperclip skills directory.']
    assert answer["desiredSkills"] == ["gone"]


def test_what_the_agent_installed_itself_is_external():
    answer = snapshot([], installed=["mine", "review"])
    (entry,) = [one for one in answer["entries"] if one["state"] == "external"]
    assert (entry["key"], entry["runtimeName"], entry["readOnly"], entry["locationLabel"]) == (
        "mine",
        "mine",
        True,
        "~/.claude/skills",
    )


def test_any_config_gives_an_answer():
    for config in (
        {},
        {"paperclipRuntimeSkills": "x", "paperclipSkillSync": 3},
        {"paperclipSkillSync": {"desiredSkills": [1, None, {}]}},
    ):
        answer = skills_snapshot(config, adapter_type="a")
        assert answer["entries"] == []
