"""Custom resources: what is checked, and that what is not checked is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policies.model import Severity
from policies.schemas.check import SchemaReport, check
from policies.schemas.crds import CrdSchemas, SchemaFileBroken, relative_path, says_something
from tests.support import needed

ROOT = Path(__file__).resolve().parents[2]
WIDGET = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "mode": {"enum": ["Fast", "Careful"]},
                "name": {"type": "string", "maxLength": 5, "pattern": "^[a-z]+$"},
                "port": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "from": {
                    "type": "object",
                    "properties": {"file": {"type": "string"}, "key": {"type": "string"}},
                    "oneOf": [{"required": ["file"]}, {"required": ["key"]}],
                },
                "list": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
            },
        },
    },
}


def widget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.io/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "n"},
        "spec": {"size": 1, **spec},
    }


def store(folder: Path, schema: object, name: str = "example.io/widget_v1.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(schema))
    return folder


def judge(
    *manifests: dict[str, Any],
    folders: tuple[Path, ...] = (),
    declared: frozenset[str] = frozenset(),
    require_all: bool = False,
) -> SchemaReport:
    return check(
        [(each, None) for each in manifests],
        kubernetes_version="1.33",
        crds=CrdSchemas(folders),
        declared_unchecked=declared,
        require_all=require_all,
        cache=None,
    )


def told(report: SchemaReport) -> list[tuple[str, str]]:
    return [(finding.pointer, finding.message) for finding in report.findings]


def test_a_sound_custom_resource_is_counted_as_checked(tmp_path: Path) -> None:
    report = judge(widget(), widget(mode="Fast"), folders=(store(tmp_path, WIDGET),))
    assert told(report) == []
    assert report.coverage.checked == 2


@pytest.mark.parametrize(
    ("spec", "pointer", "message"),
    [
        ({"sise": 1}, "/spec/sise", 'unknown field "sise"; did you mean "size"?'),
        ({"size": 10}, "/spec/size", "is 10, must be at most 9"),
        ({"size": 0}, "/spec/size", "is 0, must be at least 1"),
        ({"mode": "fast"}, "/spec/mode", 'is "fast", must be one of Fast, Careful'),
        ({"name": "ABC"}, "/spec/name", 'is "ABC", must match ^[a-z]+$'),
        ({"name": "abcdef"}, "/spec/name", "has 6 characters, must have at most 5"),
        ({"port": []}, "/spec/port", "is a list, must be a whole number or text"),
        ({"from": {}}, "/spec/from", 'must have exactly one of the fields "file" or "key"'),
        (
            {"from": {"file": "a", "key": "b"}},
            "/spec/from",
            'must have exactly one of the fields "file" or "key"',
        ),
        ({"list": ["a", "b"]}, "/spec/list", "has 2 entries, must have at most 1"),
    ],
)
def test_a_fault_is_told_in_words(tmp_path: Path, spec: dict[str, Any], pointer: str, message: str) -> None:
    assert told(judge(widget(**spec), folders=(store(tmp_path, WIDGET),))) == [(pointer, message)]


def test_a_value_is_quoted_only_so_far(tmp_path: Path) -> None:
    (finding,) = judge(widget(mode="x" * 5000), folders=(store(tmp_path, WIDGET),)).findings
    assert len(finding.message) < 150


def test_metadata_is_checked_although_the_schema_says_nothing_of_it(tmp_path: Path) -> None:
    manifest = widget()
    manifest["metadata"] = {"name": "w", "lables": {}, "annotations": {"a": 1}}
    assert told(judge(manifest, folders=(store(tmp_path, WIDGET),))) == [
        ("/metadata/annotations/a", "is a number, must be text"),
        ("/metadata/lables", 'unknown field "lables"; did you mean "labels"?'),
    ]


def test_metadata_that_is_no_map_is_told_once(tmp_path: Path) -> None:
    manifest = {**widget(), "metadata": "w"}
    assert told(judge(manifest, folders=(store(tmp_path, WIDGET),))) == [("/metadata", "is text, must be a map")]


def test_a_kind_without_a_schema_is_an_error_with_the_way_out() -> None:
    report = judge(widget())
    (finding,) = report.findings
    assert finding.severity is Severity.ERROR
    assert finding.message == "no schema for example.io/v1 Widget"
    assert "paperclip-gitops schemas pull" in finding.remedy
    assert '"example.io/Widget" as unchecked' in finding.remedy
    assert report.coverage.checked == 0
    assert report.coverage.unchecked == {"example.io/Widget": 1}


def test_a_kind_declared_unchecked_is_counted_and_not_an_error() -> None:
    report = judge(widget(), widget(), declared=frozenset({"example.io/Widget"}))
    assert told(report) == []
    assert report.coverage.unchecked == {"example.io/Widget": 2}


def test_a_declaration_covers_its_own_group_only() -> None:
    assert judge(widget(), declared=frozenset({"other.io/Widget", "Widget", "example.io/widget"})).findings


def test_where_all_must_be_checked_a_declaration_does_not_help() -> None:
    (finding,) = judge(widget(), declared=frozenset({"example.io/Widget"}), require_all=True).findings
    assert finding.message == "no schema for example.io/v1 Widget"
    assert "unchecked" not in finding.remedy


def test_a_declared_kind_is_checked_all_the_same_when_there_is_a_schema(tmp_path: Path) -> None:
    folders = (store(tmp_path, WIDGET),)
    assert judge(widget(size=99), folders=folders, declared=frozenset({"example.io/Widget"})).findings


def test_another_version_of_the_kind_does_not_answer_but_is_named(tmp_path: Path) -> None:
    store(tmp_path, WIDGET, "example.io/widget_v1beta1.json")
    store(tmp_path, WIDGET, "example.io/widget_v1alpha1.json")
    (finding,) = judge(widget(), folders=(tmp_path,)).findings
    assert finding.message == (
        "no schema for example.io/v1 Widget; there is one for example.io/v1alpha1, example.io/v1beta1"
    )


def test_the_first_folder_that_has_the_kind_answers(tmp_path: Path) -> None:
    loose = {
        **WIDGET,
        "properties": {**WIDGET["properties"], "spec": {"properties": {"a": {"type": "string"}}}},
    }
    first, second = store(tmp_path / "1", WIDGET), store(tmp_path / "2", loose)
    assert told(judge(widget(zzz=1), folders=(tmp_path / "absent", first, second)))
    assert not told(judge(widget(zzz=1), folders=(tmp_path / "absent", second, first)))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {}},
    ],
)
def test_a_schema_that_accepts_any_spec_is_reported_as_not_checking(tmp_path: Path, spec: dict[str, Any]) -> None:
    schema = {**WIDGET, "properties": {**WIDGET["properties"], "spec": spec}}
    report = judge(widget(zzz=1), folders=(store(tmp_path, schema),))
    (finding,) = report.findings
    assert finding.severity is Severity.WARNING
    assert (finding.pointer, "not checking" in finding.message) == ("/spec", True)
    assert report.coverage.checked == 0
    assert report.coverage.unchecked == {"example.io/Widget": 1}


@pytest.mark.parametrize(
    "properties",
    [
        {"spec": {"properties": {"a": {}}}},
        {"spec": {"additionalProperties": {"type": "string"}}},
        {"spec": {"type": "object", "additionalProperties": False}},
        {"spec": {"type": "string"}},
        {"value": {"type": "integer"}},
        {"spec": {"x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}}},
    ],
)
def test_a_schema_that_types_something_counts_as_checking(properties: dict[str, Any]) -> None:
    assert says_something({"type": "object", "properties": {"metadata": {"type": "object"}, **properties}})


def test_an_object_that_is_only_a_name_leaves_nothing_unchecked(tmp_path: Path) -> None:
    manifest = {key: value for key, value in widget().items() if key != "spec"}
    report = judge(manifest, folders=(store(tmp_path, {"type": "object"}),))
    assert told(report) == []
    assert report.coverage.checked == 1


def test_a_schema_without_fields_of_its_own_is_not_checking() -> None:
    assert not says_something({"type": "object"})
    assert not says_something({"type": "object", "properties": {"status": {"properties": {"a": {}}}}})


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '"text"'])
def test_a_broken_schema_file_is_a_finding_that_names_the_file(tmp_path: Path, content: str) -> None:
    path = store(tmp_path, {}) / "example.io" / "widget_v1.json"
    path.write_text(content)
    (finding,) = judge(widget(), folders=(tmp_path,)).findings
    assert str(path) in finding.message
    assert "schemas pull" in finding.remedy


@pytest.mark.parametrize(
    "spec",
    [{"pattern": "("}, {"type": "nonsense"}, {"$ref": "http://127.0.0.1:1/x.json"}, {"$ref": "#/nowhere"}],
)
def test_a_schema_that_cannot_be_used_is_a_finding(tmp_path: Path, spec: dict[str, Any]) -> None:
    schema = {"properties": {"spec": {"properties": {"a": spec}}}}
    (finding,) = judge(widget(a="x"), folders=(store(tmp_path, schema),)).findings
    assert finding.severity is Severity.ERROR


def test_a_pattern_that_python_does_not_know_is_still_told(tmp_path: Path) -> None:
    schema = {"properties": {"spec": {"properties": {"a": {"type": "string", "pattern": r"^\p{Lu}+$"}}}}}
    folders = (store(tmp_path, schema),)
    assert told(judge(widget(a="ÄÖ"), folders=folders)) == []
    ((pointer, _),) = told(judge(widget(a="äö"), folders=folders))
    assert pointer == "/spec/a"


@pytest.mark.parametrize(
    ("group", "kind", "version"),
    [
        ("../../etc", "passwd", "v1"),
        ("..", "Widget", "v1"),
        ("example.io", "../Widget", "v1"),
        ("example.io", "Widget", "v1/../../x"),
        ("", "Widget", "v1"),
        ("example.io", "W\n", "v1"),
        ("/etc", "Widget", "v1"),
    ],
)
def test_a_manifest_cannot_lead_the_lookup_out_of_its_folder(group: str, kind: str, version: str) -> None:
    assert relative_path(group, kind, version) == ""


def test_a_name_that_leads_out_is_a_kind_without_a_schema(tmp_path: Path) -> None:
    store(tmp_path, WIDGET, "outside/widget_v1.json")
    inside = tmp_path / "inside"
    inside.mkdir()
    manifest = {**widget(), "apiVersion": "../outside/v1"}
    assert told(judge(manifest, folders=(inside,))) == [("", "no schema for ../outside/v1 Widget")]


def test_a_file_is_read_once(tmp_path: Path) -> None:
    crds = CrdSchemas([store(tmp_path, WIDGET)])
    first = crds.find("example.io", "Widget", "v1")
    (tmp_path / "example.io" / "widget_v1.json").unlink()
    assert crds.find("example.io", "Widget", "v1") is first


def test_a_folder_in_the_place_of_a_schema_is_no_schema(tmp_path: Path) -> None:
    (tmp_path / "example.io" / "widget_v1.json").mkdir(parents=True)
    assert CrdSchemas([tmp_path]).find("example.io", "Widget", "v1") is None


def test_a_broken_file_raises_for_a_direct_caller(tmp_path: Path) -> None:
    (store(tmp_path, {}) / "example.io" / "widget_v1.json").write_text("{")
    with pytest.raises(SchemaFileBroken):
        CrdSchemas([tmp_path]).find("example.io", "Widget", "v1")


def test_every_schema_of_the_catalog_compiles_and_checks() -> None:
    folder = needed.schemas()
    crds = CrdSchemas([folder])
    seen = 0
    for path in sorted(folder.glob("*/*.json")):
        kind, _, version = path.stem.rpartition("_")
        found = crds.find(path.parent.name, kind, version)
        assert found is not None
        # Kargo's Project is its name and no more; its schema leaves the root open.
        assert found.checks or path.parent.name == "kargo.akuity.io", path
        assert found.compiled.faults([], secret=False)
        seen += 1
    assert seen > 30
