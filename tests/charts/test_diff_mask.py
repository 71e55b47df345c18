from __future__ import annotations

import json

import pytest

from charts_py.diff import report
from charts_py.diff.mask import Masked, masked
from charts_py.diff.objects import object_changes

_RANDOM = "q7Xb2Lr9TzKd4WmN8vPs3HcY6fJgA1Eu"
SECRETS = [
    "sk-ant-api03-" + "canary0" * 4,
    "ghp_" + "Canary0123456789abcdefghij",
    "github_pat_" + "11CANARY0123456789_abcdefghij",
    "xoxb-123456789012-canary",
    "AKIA" + "CANARY0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJjYW5hcnkiOjF9." + "c2ln",
    "-----BEGIN RSA PRIVATE KEY-----\ncanary\n",
    "postgres://paperclip:canary@db:5432/paperclip",
    "Bearer canary-canary-canary",
]
HARMLESS = [
    "ghcr.io/owner/app:v1.2@sha256:" + "0123456789abcdef" * 4,
    "0123456789abcdef0123456789abcdef01234567",
    "https://api.anthropic.com/v1",
    "postgres://paperclip:$(PASSWORD)@db:5432/paperclip",
    "paperclip-server-database-backup-schedule-2",
    "system:serviceaccount:paperclip-agents:default",
    "/run/secrets/kubernetes.io/serviceaccount/token",
]


def pod(name: str, value: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"env": [{"name": name, "value": value}]}]},
    }


def value_of(manifest: dict[str, object]) -> object:
    return masked(manifest)["spec"]["containers"][0]["env"][0]["value"]


@pytest.mark.parametrize("field", ["data", "stringData"])
def test_every_value_of_a_secret_is_hidden_but_not_its_keys(field: str) -> None:
    found = masked({"apiVersion": "v1", "kind": "Secret", field: {"user": "paperclip", "n": 1}})

    assert list(found[field]) == ["user", "n"]
    assert all(isinstance(value, Masked) for value in found[field].values())


@pytest.mark.parametrize("value", SECRETS)
def test_what_looks_like_a_secret_is_hidden_anywhere(value: str) -> None:
    assert isinstance(value_of(pod("PLAIN", value)), Masked)
    assert isinstance(masked({"kind": "Any", "spec": {"args": [value]}})["spec"]["args"][0], Masked)


@pytest.mark.parametrize("name", ["DB_PASSWORD", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "AUTH_SECRET", "DATABASE_URL"])
def test_a_variable_with_the_name_of_a_secret_is_hidden(name: str) -> None:
    assert isinstance(value_of(pod(name, "canary")), Masked)


def test_random_text_in_a_variable_is_hidden() -> None:
    assert isinstance(value_of(pod("PLAIN", _RANDOM)), Masked)
    assert isinstance(masked({"kind": "ConfigMap", "data": {"X": _RANDOM}})["data"]["X"], Masked)


@pytest.mark.parametrize("value", HARMLESS)
def test_what_is_no_secret_stays_readable(value: str) -> None:
    assert value_of(pod("PLAIN", value)) == value
    assert masked({"kind": "ConfigMap", "data": {"X": value}})["data"]["X"] == value


@pytest.mark.parametrize("value", ["", "true", "$(OTHER)", "/run/secret/token"])
def test_a_reference_is_no_secret_even_under_the_name_of_one(value: str) -> None:
    assert value_of(pod("API_TOKEN", value)) == value


def test_names_and_keys_of_secrets_stay_readable() -> None:
    spec = {
        "secretName": "paperclip-auth",
        "existingSecret": "paperclip-db",
        "data": [{"secretKey": "ANTHROPIC_API_KEY", "remoteRef": {"key": "ANTHROPIC_API_KEY"}}],
        "automountServiceAccountToken": False,
    }

    assert masked({"kind": "ExternalSecret", "spec": spec})["spec"] == spec


def test_a_password_among_helm_values_is_hidden() -> None:
    assert isinstance(masked({"auth": {"postgresPassword": "canary"}})["auth"]["postgresPassword"], Masked)


def test_the_last_applied_annotation_of_a_secret_is_hidden() -> None:
    key = "kubectl.kubernetes.io/last-applied-configuration"
    found = masked({"kind": "Secret", "metadata": {"annotations": {key: '{"data":{"a":"Y2FuYXJ5"}}'}}})

    assert isinstance(found["metadata"]["annotations"][key], Masked)


def test_masked_values_are_equal_only_if_the_secrets_are_and_tell_nothing() -> None:
    assert Masked("a") == Masked("a")
    assert Masked("a") != Masked("b")
    assert Masked("a") != "***"
    assert repr(Masked("canary")) == "***"
    assert len({Masked("a"), Masked("a")}) == 1


def test_no_secret_reaches_a_report() -> None:
    def files(extra: str) -> dict[str, bytes]:
        objects = [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s"},
                "stringData": {"a": f"canary{extra}"},
            },
            {**pod("API_TOKEN", f"canary{extra}"), "metadata": {"name": "p"}},
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "c"},
                "data": {"u": f"x://u:canary{extra}@h"},
            },
        ]
        found = {f"prod/s/x-{number}.yaml": json.dumps(item).encode() for number, item in enumerate(objects)}
        return {**found, "prod/paperclip-db/values.yaml": f"auth:\n  password: canary{extra}\n".encode()}

    for old, new in ((files("1"), files("2")), ({}, files("1")), (files("1"), {})):
        changes = object_changes(old, new)
        assert len(changes) == 4
        assert "canary" not in report.text(changes)
        assert "canary" not in json.dumps(report.document(changes, "x"))
    assert "*** → *** (changed)" in report.text(object_changes(files("1"), files("2")))
