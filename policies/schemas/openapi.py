"""Turns what an API server publishes of a kind (/openapi/v3/apis/<group>/<version>) into a strict schema."""

from __future__ import annotations

from typing import Any

from policies.schemas.shape import Schema

_COMPONENTS = "#/components/schemas/"
_OPEN = "x-kubernetes-preserve-unknown-fields"
_DEEPEST = 64  # no real kind nests deeper; only a schema that holds itself does
# What an embedded object has without its schema saying so.
_ENVELOPE: Schema = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}


class KindNotPublished(LookupError):
    """The document has no schema of that kind."""


def strict_schema(document: Schema, group: str, version: str, kind: str) -> Schema:
    """The schema of one kind: no references, unknown fields refused wherever fields are named.

    What the server leaves open stays so: x-kubernetes-preserve-unknown-fields, and maps without fields.
    Raises KindNotPublished.
    """
    components: dict[str, Schema] = document.get("components", {}).get("schemas", {})
    wanted = {"group": group, "version": version, "kind": kind}
    for schema in components.values():
        if wanted in schema.get("x-kubernetes-group-version-kind", ()):
            return {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                **_strict(schema, components, 0),
            }
    raise KindNotPublished(f"the cluster publishes no schema of {group}/{version} {kind}")


def published(document: Schema) -> list[tuple[str, str, str]]:
    """The (group, version, kind) of every custom resource that the document has a schema of, sorted."""
    components: dict[str, Schema] = document.get("components", {}).get("schemas", {})
    owners = [schema.get("x-kubernetes-group-version-kind", ()) for schema in components.values()]
    # Options of the protocol belong to every group at once; a kind has one owner.
    return sorted((o[0]["group"], o[0]["version"], o[0]["kind"]) for o in owners if len(o) == 1 and o[0]["group"])


def _strict(schema: Schema, components: dict[str, Schema], depth: int) -> Schema:
    schema = _resolved(schema, components)
    if depth > _DEEPEST:
        return {}
    if schema.get("x-kubernetes-int-or-string"):
        return _nullable({"type": ["integer", "string"], **_kept(schema, "pattern", "description")}, schema)
    result = {key: value for key, value in schema.items() if key not in ("properties", "items", "nullable", "default")}
    properties: dict[str, Any] = dict(schema.get("properties", {}))
    if schema.get("x-kubernetes-embedded-resource"):
        properties = {**_ENVELOPE, **properties}
    if properties:
        result["properties"] = {name: _strict(child, components, depth + 1) for name, child in properties.items()}
        if not schema.get(_OPEN) and "additionalProperties" not in schema:
            result["additionalProperties"] = False
    if isinstance(schema.get("items"), dict):
        result["items"] = _strict(schema["items"], components, depth + 1)
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = _strict(schema["additionalProperties"], components, depth + 1)
    return _nullable(result, schema)


def _resolved(schema: Schema, components: dict[str, Schema]) -> Schema:
    """The schema behind a reference, alone or as the one part of an allOf (as the server writes defaults)."""
    seen: set[str] = set()
    while True:
        parts = schema.get("allOf", ())
        bare = parts[0] if len(parts) == 1 and set(parts[0]) == {"$ref"} else schema
        name = str(bare.get("$ref", "")).removeprefix(_COMPONENTS)
        if not name or name in seen or name not in components:
            return {key: value for key, value in schema.items() if key != "$ref"}
        seen.add(name)
        beside = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        schema = {**components[name], **beside}


def _nullable(result: Schema, schema: Schema) -> Schema:
    if not schema.get("nullable"):
        return result
    kind = result.get("type", [])
    names = [kind] if isinstance(kind, str) else list(kind)
    return {**result, "type": [*names, "null"]} if names else result


def _kept(schema: Schema, *names: str) -> Schema:
    return {name: schema[name] for name in names if name in schema}
