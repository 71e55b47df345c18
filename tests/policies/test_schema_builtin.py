"""Objects of Kubernetes itself: what is refused, how it is said, and what the cache may not change."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kubekit.identity import ObjectId
from policies.model import Severity, Source
from policies.schemas import builtin, versions
from policies.schemas.check import SchemaReport, check
from policies.schemas.crds import CrdSchemas

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "paperclip", "namespace": "paperclip-system"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "paperclip"}},
        "template": {
            "metadata": {"labels": {"app": "paperclip"}},
            "spec": {
                "containers": [
                    {"name": "server", "image": "paperclip:1", "ports": [{"containerPort": 3100}]},
                ],
            },
        },
    },
}


def judge(*manifests: dict, version: str = "1.33", cache: Path | None = None, **options: object) -> SchemaReport:
    settings = {"declared_unchecked": frozenset(), "require_all": False, "crds": CrdSchemas([]), **options}
    return check([(each, None) for each in manifests], kubernetes_version=version, cache=cache, **settings)


def changed(**spec: object) -> dict:
    manifest = copy.deepcopy(DEPLOYMENT)
    manifest["spec"].update(spec)
    return manifest


def only(report: SchemaReport):
    (finding,) = report.findings
    return finding


@pytest.mark.parametrize("version", versions.supported_versions())
def test_a_sound_object_passes_in_every_supported_version(version: str) -> None:
    report = judge(DEPLOYMENT, version=version)
    assert report.findings == ()
    assert report.coverage.checked == 1
    assert report.coverage.unchecked == {}


def test_an_unknown_field_is_named_with_what_was_meant() -> None:
    finding = only(judge(changed(replcas=2)))
    assert finding.policy == "schema-valid"
    assert finding.severity is Severity.ERROR
    assert finding.object == ObjectId("apps/v1", "Deployment", "paperclip-system", "paperclip")
    assert finding.pointer == "/spec/replcas"
    assert finding.message == 'unknown field "replcas"; did you mean "replicas"?'
    assert finding.remedy == 'Rename it to "replicas".'


def test_an_unknown_field_like_no_other_is_answered_with_what_is_allowed() -> None:
    manifest = copy.deepcopy(DEPLOYMENT)
    manifest["spec"]["template"]["spec"]["containers"][0]["ports"][0]["zzz"] = 1
    finding = only(judge(manifest))
    assert finding.pointer == "/spec/template/spec/containers/0/ports/0/zzz"
    assert finding.remedy == "Remove it; allowed here: containerPort, hostIP, hostPort, name, protocol."


@pytest.mark.parametrize(
    ("spec", "pointer", "message", "remedy"),
    [
        (
            {"replicas": "3"},
            "/spec/replicas",
            "is text, must be a whole number",
            "Write the number without quotes.",
        ),
        ({"replicas": 2.5}, "/spec/replicas", "is a number, must be a whole number", ""),
        (
            {"paused": "true"},
            "/spec/paused",
            "is text, must be true or false",
            "Write true or false without quotes.",
        ),
        ({"strategy": []}, "/spec/strategy", "is a list, must be a map", ""),
        ({"template": None}, "/spec/template", "", ""),
        (
            {"selector": {"matchLabels": {"app": 7}}},
            "/spec/selector/matchLabels/app",
            "is a number, must be text",
            "Put it in quotes.",
        ),
        ({"replicas": 2**31}, "/spec/replicas", "is 2147483648, must be at most 2147483647", ""),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": True}}},
            "/spec/strategy/rollingUpdate/maxSurge",
            "is true or false, must be text or a whole number",
            "Put it in quotes.",
        ),
    ],
)
def test_a_wrong_value_is_told_with_what_must_be(spec: dict, pointer: str, message: str, remedy: str) -> None:
    report = judge(changed(**spec))
    if not message:  # the schemas of Kubernetes let any optional field be null
        assert report.findings == ()
        return
    finding = only(report)
    assert (finding.pointer, finding.message, finding.remedy) == (pointer, message, remedy)


def test_every_fault_of_an_object_is_told_at_once() -> None:
    manifest = changed(replcas=1, paused="no")
    del manifest["spec"]["selector"]
    report = judge(manifest)
    assert [(finding.pointer, finding.message.partition(";")[0]) for finding in report.findings] == [
        ("/spec", 'field "selector" is missing'),
        ("/spec/paused", "is text, must be true or false"),
        ("/spec/replcas", 'unknown field "replcas"'),
    ]


def test_the_source_of_the_object_is_carried_into_the_finding() -> None:
    source = Source("dist/deployment.yaml", 1, "system/server")
    report = check(
        [(changed(replicas="x"), source)],
        kubernetes_version="1.33",
        crds=CrdSchemas([]),
        declared_unchecked=frozenset(),
        require_all=False,
        cache=None,
    )
    assert only(report).source == source


def test_no_message_repeats_a_value_of_a_secret_or_an_env_value() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "labels": {"a": {"x": "canary-1"}}},
        "type": ["canary-2"],
        "data": {"k": ["canary-3"]},
    }
    pod = copy.deepcopy(DEPLOYMENT)
    pod["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": 31337_4242}]
    report = judge(secret, pod)
    assert len(report.findings) == 4
    text = repr(report.findings)
    assert "canary" not in text
    assert "313374242" not in text


def test_a_key_that_is_not_text_is_a_finding_and_not_a_crash() -> None:
    finding = only(judge(changed(selector={"matchLabels": {1: "x"}})))
    assert finding.message.startswith("cannot be written as JSON")


@pytest.mark.parametrize("missing", ["apiVersion", "kind"])
def test_an_object_without_a_kind_or_version_is_a_finding(missing: str) -> None:
    manifest = {key: value for key, value in DEPLOYMENT.items() if key != missing}
    assert only(judge(manifest)).message == f'"{missing}" is missing or not text'


def test_a_version_that_is_gone_is_answered_with_the_one_that_serves() -> None:
    manifest = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}}
    finding = only(judge(manifest))
    assert finding.message == "Kubernetes 1.33 does not serve policy/v1beta1 PodDisruptionBudget"
    assert finding.remedy == "Use policy/v1."


def test_a_misspelt_kind_is_answered_with_the_one_meant() -> None:
    finding = only(judge({"apiVersion": "v1", "kind": "Sevrice", "metadata": {"name": "x"}}))
    assert finding.pointer == "/kind"
    assert finding.remedy == 'Did you mean "Service"?'


def test_a_part_of_an_object_is_not_an_object() -> None:
    """The package has a file for Affinity v1 too; no API server serves it."""
    assert only(judge({"apiVersion": "v1", "kind": "Affinity", "metadata": {"name": "x"}})).pointer == "/kind"


def test_a_foreign_group_with_the_same_first_label_is_not_taken_for_ours() -> None:
    finding = only(judge({**DEPLOYMENT, "apiVersion": "apps.example.io/v1"}))
    assert finding.message == "no schema for apps.example.io/v1 Deployment"


def test_a_declaration_does_not_cover_a_group_of_kubernetes_itself() -> None:
    manifest = {"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "x"}}
    assert judge(manifest, declared_unchecked=frozenset({"apps/Deployment"})).findings


@pytest.mark.parametrize("text", ["1.33", "v1.33", "1.33.4", "v1.33.0+k3s1", "1.33.2-gke.100"])
def test_a_version_may_be_written_as_servers_write_it(text: str) -> None:
    assert versions.minor_version(text) == "1.33"


@pytest.mark.parametrize("text", ["1.28", "1.99", "2.0", "", "latest", "1", "1.33x"])
def test_a_version_that_cannot_be_checked_is_refused_with_those_that_can(text: str) -> None:
    with pytest.raises(versions.UnsupportedVersion) as caught:
        versions.minor_version(text)
    assert "1.29 to" in caught.value.remedy


def test_supported_versions_begin_at_the_oldest_and_have_no_gap() -> None:
    supported = versions.supported_versions()
    assert supported[0] == "1.29"
    assert [f"1.{29 + step}" for step in range(len(supported))] == list(supported)


def test_sound_objects_cost_neither_the_slow_package_nor_jsonschema() -> None:
    program = f"""
import json, sys
from policies.schemas.check import check
from policies.schemas.crds import CrdSchemas
manifest = json.loads({json.dumps(json.dumps(DEPLOYMENT))})
options = dict(declared_unchecked=frozenset(), require_all=True, cache=None)
report = check([(manifest, None)], kubernetes_version="1.33", crds=CrdSchemas([]), **options)
assert report.coverage.checked == 1
print(sorted({{"kubernetes_validate", "jsonschema", "httpx", "yaml"}} & set(sys.modules)))
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# The cache


def test_the_cache_changes_no_verdict_and_holds_only_the_kinds_met(tmp_path: Path) -> None:
    bad = changed(replicas="x", replcas=1)
    plain = judge(bad, DEPLOYMENT)
    cold = judge(bad, DEPLOYMENT, cache=tmp_path)
    builtin.builtin_schemas.cache_clear()
    assert cold == plain
    assert judge(bad, DEPLOYMENT, cache=tmp_path) == plain
    names = sorted(path.name for path in tmp_path.rglob("*.json"))
    assert names == ["deployment-apps-v1.json", "index-1.33.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_broken_cache_file_is_made_again(tmp_path: Path, content: bytes) -> None:
    judge(DEPLOYMENT, cache=tmp_path)
    for path in tmp_path.rglob("*.json"):
        path.write_bytes(content)
    builtin.builtin_schemas.cache_clear()
    assert judge(changed(replicas="x"), cache=tmp_path).findings
    for path in tmp_path.rglob("*.json"):
        assert json.loads(path.read_bytes())


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    assert only(judge(changed(replicas="x"), cache=in_the_way)).pointer == "/spec/replicas"


def test_no_half_written_file_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(builtin.json, "dump", full)
    assert only(judge(changed(replicas="x"), cache=tmp_path)).pointer == "/spec/replicas"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
