"""The schemas of custom resources: folders of `<group>/<kind>_<version>.json`, the kind in lower case."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from policies.schemas.compiled import Compiled
from policies.schemas.shape import Schema

# A group, kind or version comes out of a manifest: it must not lead out of the folder.
_SAFE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_SAYS_SOMETHING = frozenset(
    {
        "properties",
        "patternProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "required",
    },
)
ENVELOPE = frozenset({"apiVersion", "kind", "metadata", "status"})


class SchemaFileBroken(ValueError):
    """A schema file that cannot be read, or that holds no schema. The message names the file."""


@dataclass(frozen=True)
class CrdSchema:
    """The schema of one kind and the file it was read from."""

    file: Path
    compiled: Compiled

    @property
    def checks(self) -> bool:
        """False where the schema accepts any content: an object that passes it proves nothing."""
        return says_something(self.compiled.schema)


class CrdSchemas:
    """A lookup over `folders`, the first that has the kind answers. A folder that is absent is empty."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self.folders = tuple(folders)
        self._found: dict[str, CrdSchema | None] = {}

    def find(self, group: str, kind: str, version: str) -> CrdSchema | None:
        """The schema of a kind, None where no folder has it; raises SchemaFileBroken."""
        name = relative_path(group, kind, version)
        if name not in self._found:
            path = self._locate(name) if name else None
            self._found[name] = _load(path) if path else None
        return self._found[name]

    def versions(self, group: str, kind: str) -> list[str]:
        """The versions of the kind that there are schemas for, sorted."""
        if not relative_path(group, kind, "v1"):
            return []
        files = (path for folder in self.folders for path in (folder / group).glob(f"{kind.lower()}_*.json"))
        return sorted({path.stem.rpartition("_")[2] for path in files})

    def _locate(self, name: str) -> Path | None:
        return next((path for folder in self.folders if (path := folder / name).is_file()), None)


def relative_path(group: str, kind: str, version: str) -> str:
    """Where the layout keeps a kind, "" for what cannot be a group, kind or version."""
    if not all(_SAFE.fullmatch(part) for part in (group, kind, version)):
        return ""
    return f"{group}/{kind.lower()}_{version}.json"


def says_something(schema: Schema) -> bool:
    """Whether the schema types anything beside what every object has: its spec or fields of its own."""
    fields = {name: child for name, child in schema.get("properties", {}).items() if name not in ENVELOPE}
    return any(_typed(child) for child in fields.values())


def _typed(schema: object) -> bool:
    """Whether `schema` refuses anything; that a map is a map says nothing of what is in it."""
    if not isinstance(schema, dict):
        return schema is False
    if any(schema.get(key) for key in _SAYS_SOMETHING):
        return True
    inner = schema.get("additionalProperties")
    return inner is False or _typed(inner) or schema.get("type") not in (None, "object")


def _load(path: Path) -> CrdSchema:
    try:
        schema = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaFileBroken(f"the schema file {path} cannot be read: {error}") from error
    if not isinstance(schema, dict):
        raise SchemaFileBroken(f"the schema file {path} holds no map")
    return CrdSchema(path, Compiled(schema))
