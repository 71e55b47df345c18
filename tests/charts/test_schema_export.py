"""The JSON Schema that editors read: complete, current, and of one mind with the loader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from charts_py import schema_export
from charts_py.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
KINDS = sorted(schema_export.KINDS)
SHIPPED = sorted((ROOT / "environments").glob("*.yaml"))


def validator(kind):
    return Draft202012Validator(schema_export.schema(kind))


def objects_of(schema):
    """(name, schema) of the root and of each model."""
    yield schema["title"], schema
    yield from schema["$defs"].items()


def faults(document):
    return [error.message for error in validator(document["kind"]).iter_errors(document)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_committed_file_is_current(kind):
    path = ROOT / "schemas" / schema_export.file_name(kind)
    assert path.read_text() == schema_export.text(kind), "run `paperclip-gitops schema --write`"


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_schema_of_the_dialect_it_names(kind):
    schema = schema_export.schema(kind)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:paperclip-gitops:v1:{kind.lower()}"
    assert schema["title"] == f"paperclip-gitops {kind}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_every_model_says_what_it_means(kind):
    silent = [
        f"{name}.{field}"
        for name, model in objects_of(schema_export.schema(kind))
        for field, about in model["properties"].items()
        if not about.get("description", "").strip()
    ]
    assert silent == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_model_takes_fields_it_does_not_know(kind):
    open_ones = [
        name for name, model in objects_of(schema_export.schema(kind)) if model.get("additionalProperties") is not False
    ]
    assert open_ones == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_it_accepts_what_is_shipped(path):
    assert faults(yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_file_leads_editors_to_its_schema(path):
    kind = yaml.safe_load(path.read_text())["kind"]
    first = path.read_text().splitlines()[0]
    assert first == f"# yaml-language-server: $schema=../schemas/{schema_export.file_name(kind)}"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("server", "publicURL"), "http://x", "'publicURL' was unexpected"),
        (("server", "public_url"), "http://x", "'public_url' was unexpected"),
        (("database", "kind"), "postgres", "is not valid under any of the given schemas"),
        (("cluster",), {"kubernetesVersion": 1.3}, "1.3 is not of type 'string'"),
    ],
)
def test_it_refuses_what_the_loader_refuses(path, value, said):
    document = yaml.safe_load((ROOT / "environments" / "minimal.yaml").read_text())
    here = document
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    assert any(said in message for message in faults(document))


def test_the_verb_prints_it(capsys):
    assert main(["schema", "--kind", "Fleet"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == schema_export.schema("Fleet")
    assert printed.err == ""


def test_write_makes_every_file_and_then_leaves_it_alone(tmp_path, capsys):
    folder = tmp_path / "schemas"
    assert main(["schema", "--write", "--into", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["environment.schema.json", "fleet.schema.json"]
    assert main(["schema", "--write", "--into", str(folder), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == []
