"""What a cluster publishes becomes a schema that refuses what the cluster refuses.

PUBLISHED is the answer of a real kube-apiserver to /openapi/v3/apis/example.io/v1 for a CRD that uses each
feature, cut down to the components that matter; VERDICTS is what that server said of each spec to
`kubectl create --dry-run=server --validate=strict`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.schemas.compiled import Compiled
from policies.schemas.openapi import KindNotPublished, published, strict_schema

META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
PUBLISHED: dict[str, Any] = {
    "openapi": "3.0.0",
    "components": {
        "schemas": {
            "io.example.v1.Probe": {
                "type": "object",
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"description": "Standard object's metadata.", "allOf": [{"$ref": META}]},
                    "spec": {
                        "type": "object",
                        "required": ["a"],
                        "properties": {
                            "a": {"type": "string"},
                            "map": {
                                "type": "object",
                                "additionalProperties": {
                                    "type": "object",
                                    "properties": {"c": {"type": "boolean", "default": True}},
                                },
                            },
                            "n": {"type": "string", "nullable": True},
                            "one": {
                                "type": "object",
                                "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
                                "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
                            },
                            "open": {
                                "type": "object",
                                "properties": {"b": {"type": "integer"}},
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                            "port": {
                                "anyOf": [{"type": "integer"}, {"type": "string"}],
                                "x-kubernetes-int-or-string": True,
                            },
                            "template": {
                                "type": "object",
                                "required": ["kind", "apiVersion"],
                                "properties": {
                                    "apiVersion": {"type": "string"},
                                    "kind": {"type": "string"},
                                    "metadata": {"allOf": [{"$ref": META}]},
                                    "spec": {"type": "object", "properties": {"d": {"type": "string"}}},
                                },
                                "x-kubernetes-embedded-resource": True,
                            },
                        },
                    },
                },
                "x-kubernetes-group-version-kind": [{"group": "example.io", "kind": "Probe", "version": "v1"}],
            },
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "namespace": {"type": "string"},
                    "labels": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
                },
            },
            "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions": {
                "type": "object",
                "x-kubernetes-group-version-kind": [
                    {"group": "", "kind": "DeleteOptions", "version": "v1"},
                    {"group": "example.io", "kind": "DeleteOptions", "version": "v1"},
                ],
            },
        },
    },
}
SOUND = {
    "a": "1",
    "n": None,
    "port": 5,
    "open": {"z": 1},
    "map": {"k": {"c": False}},
    "template": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "q"}, "spec": {"d": "e"}},
    "one": {"x": "1"},
}
VERDICTS = [
    ({"a": "1", "zz": 1}, "/spec/zz"),
    ({"a": "1", "open": {"b": "x"}}, "/spec/open/b"),
    ({"a": "1", "map": {"k": {"d": 1}}}, "/spec/map/k/d"),
    (
        {"a": "1", "template": {"apiVersion": "v1", "kind": "X", "spec": {"zz": "e"}}},
        "/spec/template/spec/zz",
    ),
    ({"a": "1", "one": {"x": "1", "y": "2"}}, "/spec/one"),
    ({"a": "1", "port": []}, "/spec/port"),
    ({}, "/spec"),
]


def probe(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "example.io/v1", "kind": "Probe", "metadata": {"name": "x"}, "spec": spec}


@pytest.fixture
def compiled() -> Compiled:
    return Compiled(strict_schema(PUBLISHED, "example.io", "v1", "Probe"))


def test_what_the_server_takes_passes(compiled: Compiled) -> None:
    assert compiled.faults(probe(SOUND)) == []


@pytest.mark.parametrize(("spec", "pointer"), VERDICTS)
def test_what_the_server_refuses_is_refused_at_the_same_place(
    compiled: Compiled, spec: dict[str, Any], pointer: str
) -> None:
    assert [fault.pointer for fault in compiled.faults(probe(spec))] == [pointer]


def test_unknown_fields_of_the_root_and_of_metadata_are_refused(compiled: Compiled) -> None:
    manifest = {**probe({"a": "1"}), "extra": 1, "metadata": {"name": "x", "lables": {}}}
    assert [fault.pointer for fault in compiled.faults(manifest)] == ["/extra", "/metadata/lables"]


def test_no_reference_is_left() -> None:
    assert "$ref" not in json.dumps(strict_schema(PUBLISHED, "example.io", "v1", "Probe"))


def test_a_kind_that_is_not_published_is_named() -> None:
    with pytest.raises(KindNotPublished, match=r"example\.io/v1 Nothing"):
        strict_schema(PUBLISHED, "example.io", "v1", "Nothing")


def test_options_of_the_protocol_are_no_kinds() -> None:
    assert published(PUBLISHED) == [("example.io", "v1", "Probe")]


def test_a_schema_that_holds_itself_ends() -> None:
    reference = {"$ref": "#/components/schemas/Node"}
    document = {
        "components": {
            "schemas": {
                "Node": {
                    "type": "object",
                    "properties": {"child": reference},
                    "x-kubernetes-group-version-kind": [{"group": "g.io", "kind": "Node", "version": "v1"}],
                },
                "Loop": {"$ref": "#/components/schemas/Loop"},
            },
        },
    }
    faults = Compiled(strict_schema(document, "g.io", "v1", "Node")).faults({"child": {"child": {"x": 1}}})
    assert [fault.pointer for fault in faults] == ["/child/child/x"]
