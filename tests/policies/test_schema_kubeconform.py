"""The wrapper around kubeconform, tested with the real binary."""

from __future__ import annotations

import copy
import json
import shutil
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from policies.model import Severity, Source
from policies.schemas import kubeconform
from policies.schemas.crds import CrdSchemas
from policies.schemas.kubeconform import Kubeconform, KubeconformFailed, KubeconformMissing
from tests.support import needed

ROOT = Path(__file__).resolve().parents[2]
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "n"},
    "data": {"k": "v"},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", "namespace": "n"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}
WIDGET = {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
WIDGET_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"size": {"type": "integer"}},
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def binary() -> Path:
    return needed.kubeconform()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "crds" / "example.io" / "widget_v1.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(WIDGET_SCHEMA))
    return tmp_path / "crds"


def runner(binary: Path, *folders: Path, **options: Any) -> Kubeconform:
    return Kubeconform(binary, "1.33", CrdSchemas(folders), **options)


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_sound_objects_pass_with_schemas_from_folders_only(binary: Path, folder: Path, tmp_path: Path) -> None:
    report = runner(binary, folder, cache=tmp_path / "c").check_manifests(
        [(CONFIG_MAP, None), (DEPLOYMENT, None), (WIDGET, None)],
    )
    assert report.findings == ()
    assert report.coverage.checked == 3
    assert {path.name for path in (tmp_path / "c").rglob("*.json")} == {
        "configmap-v1.json",
        "deployment-apps-v1.json",
        "index-1.33.json",
    }


def test_without_a_cache_the_schemas_live_for_one_run(binary: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert runner(binary).check_manifests([(DEPLOYMENT, None)]).findings == ()
    assert list(tmp_path.iterdir()) == []


def test_each_fault_is_a_finding_at_its_place(binary: Path, folder: Path) -> None:
    bad = copy.deepcopy(DEPLOYMENT)
    bad["spec"]["template"]["spec"]["containers"][0].update(name=5, prts=[])
    source = Source("dist/d.yaml", 1)
    report = runner(binary, folder).check_manifests([(bad, source), (CONFIG_MAP, None)])
    assert {(finding.pointer, finding.message) for finding in report.findings} == {
        ("/spec/template/spec/containers/0", "kubeconform: additional properties 'prts' not allowed"),
        ("/spec/template/spec/containers/0/name", "kubeconform: got number, want string"),
    }
    assert {finding.source for finding in report.findings} == {source}
    assert {finding.policy for finding in report.findings} == {"schema-valid"}


def test_equal_names_in_two_namespaces_are_told_apart(binary: Path) -> None:
    good = copy.deepcopy(CONFIG_MAP)
    bad = {**copy.deepcopy(CONFIG_MAP), "metadata": {"name": "a", "namespace": "m"}, "data": {"k": 1}}
    (finding,) = runner(binary).check_manifests([(good, None), (bad, None), (good, None)]).findings
    assert finding.object is not None
    assert finding.object.namespace == "m"


def test_a_kind_without_a_schema_fails(binary: Path) -> None:
    report = runner(binary).check_manifests([(WIDGET, None), (CONFIG_MAP, None)])
    (finding,) = report.findings
    assert finding.severity is Severity.ERROR
    assert finding.message == "kubeconform: no schema for example.io/v1 Widget"
    assert (report.coverage.checked, report.coverage.unchecked) == (1, {"example.io/Widget": 1})


def test_a_declared_kind_without_a_schema_is_counted(binary: Path) -> None:
    declared = frozenset({"example.io/Widget"})
    report = runner(binary, declared_unchecked=declared).check_manifests([(WIDGET, None)])
    assert report.findings == ()
    assert report.coverage.unchecked == {"example.io/Widget": 1}
    assert runner(binary, declared_unchecked=declared, require_all=True).check_manifests([(WIDGET, None)]).findings


def test_a_group_with_the_same_first_label_is_not_taken_for_ours(binary: Path) -> None:
    foreign = {**DEPLOYMENT, "apiVersion": "apps.example.io/v1"}
    assert runner(binary).check_manifests([(foreign, None), (DEPLOYMENT, None)]).findings


def test_no_finding_repeats_a_value_of_a_secret(binary: Path) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"k": 31337},
        "tpye": "x",
    }
    report = runner(binary).check_manifests([(secret, None)])
    assert len(report.findings) == 2
    assert "31337" not in repr(report.findings)


def test_a_folder_is_judged_file_by_file(binary: Path, folder: Path, tmp_path: Path) -> None:
    dist = tmp_path / "dist" / "stack"
    dist.mkdir(parents=True)
    (dist / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: 1}\n")
    (dist / "w.yaml").write_text("apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 1}\n")
    (dist / "provenance.json").write_text('{"not": "a manifest"}')
    (dist / "SHA256SUMS").write_text("0  a.yaml\n")
    report = runner(binary, folder, cache=tmp_path / "c").check_folder(tmp_path / "dist")
    (finding,) = report.findings
    assert finding.pointer == "/data/k"
    assert finding.source == Source(file=str(dist / "a.yaml"))
    assert report.coverage.checked == 2


def test_a_key_given_twice_is_a_finding(binary: Path, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: a\n  k: b\n")
    assert runner(binary).check_folder(tmp_path, {("v1", "ConfigMap")}).findings


def test_a_file_that_is_no_yaml_is_a_finding_with_its_name(binary: Path, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (finding,) = runner(binary).check_folder(tmp_path, ()).findings
    assert finding.object is None
    assert finding.source == Source(file=str(tmp_path / "a.yaml"))


def test_a_folder_without_objects_is_an_error_and_not_a_pass(binary: Path, tmp_path: Path) -> None:
    with pytest.raises(KubeconformFailed, match="no object"):
        runner(binary).check_folder(tmp_path, ())


def test_no_objects_need_no_run() -> None:
    assert runner(Path("/nowhere")).check_manifests([]).findings == ()


def test_the_binary_tells_its_version(binary: Path) -> None:
    assert kubeconform.version(binary).startswith("v0.")


def test_it_is_never_told_to_fetch_or_to_skip(folder: Path, tmp_path: Path) -> None:
    fake = script(tmp_path / "fake", f'for a; do echo "$a"; done > {tmp_path}/arguments; echo nothing')
    with pytest.raises(KubeconformFailed):
        runner(fake, folder).check_manifests([(CONFIG_MAP, None)])
    arguments = (tmp_path / "arguments").read_text().splitlines()
    # Options of kubeconform that we must never give: by two of them it passes what it has not looked at, by the
    # others it takes schemas from the network, or from what an earlier run has fetched.
    assert {"-ignore-missing-schemas", "-skip", "default", "-cache"}.isdisjoint(arguments)
    places = [after for before, after in pairwise(arguments) if before == "-schema-location"]
    assert len(places) == 2
    assert all(place.startswith("/") for place in places)
    assert "-strict" in arguments


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exit 3", "gave no report; it said: nothing, exit code 3"),
        ("echo kaputt >&2; exit 1", "gave no report; it said: kaputt"),
        ("echo '{}'", "gave no report"),
        ("echo '[]'", "gave no report"),
        ("""echo '{"resources": [], "summary": {"valid": 1}}'""", "lists 0 objects and counts 1"),
        ("""echo '{"resources": null, "summary": {"valid": 0}}'""", "judged 0 of 1 objects"),
        ("exec sleep 20", "did not end within 0.5 seconds"),
    ],
)
def test_a_binary_that_misbehaves_is_an_error_and_not_a_pass(tmp_path: Path, text: str, message: str) -> None:
    fake = script(tmp_path / "fake", text)
    with pytest.raises(KubeconformFailed, match=message):
        runner(fake, timeout=0.5).check_manifests([(CONFIG_MAP, None)])


def test_a_skipped_object_is_an_error(tmp_path: Path) -> None:
    skipped = {
        "filename": "/x/0.json",
        "kind": "ConfigMap",
        "name": "a",
        "version": "v1",
        "status": "statusSkipped",
    }
    answer = json.dumps({"resources": [{**skipped, "msg": ""}], "summary": {"skipped": 1}})
    fake = script(tmp_path / "fake", f"echo '{answer}'")
    report = runner(fake).check_manifests([(CONFIG_MAP, None)])
    assert len(report.findings) == 1
    assert report.coverage.checked == 0


def test_a_binary_that_cannot_be_run_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    with pytest.raises(KubeconformFailed, match="did not run"):
        runner(tmp_path / "plain").check_manifests([(CONFIG_MAP, None)])


def test_it_is_found_by_argument_then_beside_the_repository_then_on_path(tmp_path: Path, monkeypatch: Any) -> None:
    ours, others = tmp_path / ".tools" / "bin", tmp_path / "path"
    for place in (ours, others):
        place.mkdir(parents=True)
        script(place / "kubeconform", "true")
    monkeypatch.setenv("PATH", str(others))
    named = script(tmp_path / "named", "true")
    assert kubeconform.find(named, root=tmp_path) == named
    assert kubeconform.find(root=tmp_path) == ours / "kubeconform"
    shutil.rmtree(ours)
    assert kubeconform.find(root=tmp_path) == others / "kubeconform"
    shutil.rmtree(others)
    with pytest.raises(KubeconformMissing, match="on PATH"):
        kubeconform.find(root=tmp_path)
    with pytest.raises(KubeconformMissing, match="no kubeconform at"):
        kubeconform.find(tmp_path / "absent", root=tmp_path)
