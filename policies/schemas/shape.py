"""Makes the schemas of Kubernetes small and exact: no prose, bounds for machine integers, one tree a kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = "#/$defs/"
# Go's decoder refuses what does not fit its field, so these are bounds that every API server has.
_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_PROSE = frozenset({"description", "default", "title", "example"})


def shaped(schema: Schema) -> Schema:
    """A copy without prose and x- keys; "int32" becomes bounds, a choice of bare types a list of types."""
    small: Schema = {}
    for key, value in schema.items():
        if key in _PROSE or key.startswith("x-"):
            continue
        if key in ("properties", "patternProperties"):
            small[key] = {name: shaped(child) for name, child in value.items()}
        elif key in ("items", "additionalProperties", "not") and isinstance(value, dict):
            small[key] = shaped(value)
        elif key in ("oneOf", "anyOf", "allOf"):
            small[key] = [shaped(child) for child in value]
        else:
            small[key] = value
    _merge_bare_types(small)
    _bound(small)
    return small


def _merge_bare_types(schema: Schema) -> None:
    choices = schema.get("oneOf", ())
    if choices and "type" not in schema and all(set(choice) == {"type"} for choice in choices):
        del schema["oneOf"]
        schema["type"] = list(dict.fromkeys(name for choice in choices for name in type_names(choice)))


def _bound(schema: Schema) -> None:
    bounds = _BOUNDS.get(schema.get("format", ""))
    if bounds and "integer" in type_names(schema):
        schema.setdefault("minimum", bounds[0])
        schema.setdefault("maximum", bounds[1])


def type_names(schema: Schema) -> list[str]:
    """What stands under "type", always as a list."""
    names = schema.get("type", [])
    return [names] if isinstance(names, str) else list(names)


def references(schema: Any) -> set[str]:
    """The names of the definitions that `schema` points at."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            target = node.get("$ref")
            if isinstance(target, str):
                found.add(target.removeprefix(_REFERENCE))
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return found


@dataclass
class Definitions:
    """All definitions of one version; what was shaped once is kept, for most kinds share the pod template."""

    raw: dict[str, Schema]
    _ready: dict[str, tuple[Schema, set[str]]] = field(default_factory=dict)

    def bundle(self, root: str) -> Schema:
        """The definition `root` as one document that holds all it points at."""
        needed: dict[str, Schema] = {}
        pointed_at: set[str] = set()
        waiting = [root]
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed[name], targets = self._shaped(name)
                pointed_at |= targets
                waiting.extend(targets)
        whole = {"$schema": DIALECT, **needed[root], "type": "object"}
        return {**whole, "$defs": {name: needed[name] for name in sorted(pointed_at)}} if pointed_at else whole

    def _shaped(self, name: str) -> tuple[Schema, set[str]]:
        if name not in self._ready:
            small = shaped(self.raw[name])
            self._ready[name] = (small, references(small))
        return self._ready[name]
