"""The schemas of the kinds that Kubernetes itself serves: found by kind, made small, kept in a cache.

The cache holds one closed document a kind in the layout that kubeconform reads
(`v1.33.0-standalone-strict/<kind>-<group>-<version>.json`), so both checks judge by the same bytes. Each file
is moved into place whole; a kind is added when it is first met. Measured: the definitions of one version take
8 to 14 ms to parse, the cached documents of ten kinds 1.5 ms.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from policies.schemas import versions
from policies.schemas.compiled import Compiled
from policies.schemas.shape import Definitions, Schema

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LAYOUT = 1  # goes up when shape.py makes other bytes of the same data


class BuiltinSchemas:
    """What one version of Kubernetes serves. `cache` is a folder (may be absent); None keeps it in memory."""

    def __init__(self, kubernetes_version: str, cache: Path | None) -> None:
        self.version = versions.minor_version(kubernetes_version)
        data = f"builtin-schemas/{versions.package_version()}-{_LAYOUT}"
        self.root = cache / data if cache else None
        self._definitions: Definitions | None = None
        self._compiled: dict[str, Compiled] = {}
        self._index = self._read_index()
        self.groups = frozenset(group_of(api_version) for api_version, _ in self._index)

    def knows(self, api_version: str, kind: str) -> bool:
        return (api_version, kind) in self._index

    def kinds(self) -> frozenset[tuple[str, str]]:
        """Every (apiVersion, kind) that this version serves."""
        return frozenset(self._index)

    def compiled(self, api_version: str, kind: str) -> Compiled:
        """The validator of a kind; raises KeyError for a kind that is not served."""
        return self._compile(self._index[api_version, kind], file_name(api_version, kind))

    def object_meta(self) -> Compiled:
        """The validator of `metadata`: the schemas of custom resources say nothing about it."""
        return self._compile(OBJECT_META, "objectmeta-meta-v1.json")

    def folder(self, root: Path, kinds: Iterable[tuple[str, str]] | None = None) -> Path:
        """Writes the documents of `kinds` (None: all) that are missing below `root`; raises OSError."""
        place = root / f"v{self.version}.0-standalone-strict"
        wanted = self._index if kinds is None else {kind for kind in kinds if kind in self._index}
        for api_version, kind in sorted(wanted):
            path = place / file_name(api_version, kind)
            if _read(path) is None:
                _write(path, self._make(self._index[api_version, kind]))
        return place

    def _compile(self, definition: str, name: str) -> Compiled:
        if definition not in self._compiled:
            self._compiled[definition] = Compiled(self._document(definition, name))
        return self._compiled[definition]

    def _document(self, definition: str, name: str) -> Schema:
        if self.root is None:
            return self._make(definition)
        path = self.root / f"v{self.version}.0-standalone-strict" / name
        document = _read(path)
        if document is None:
            document = self._make(definition)
            with suppress(OSError):  # a cache that cannot be written costs time, nothing else
                _write(path, document)
        return document

    def _make(self, definition: str) -> Schema:
        return self._load().bundle(definition)

    def _load(self) -> Definitions:
        if self._definitions is None:
            path = versions.definitions_file(self.version)
            try:
                self._definitions = Definitions(json.loads(path.read_bytes())["$defs"])
            except (OSError, ValueError, KeyError) as error:
                raise versions.SchemaDataMissing(f"{path} cannot be read: {error}") from error
        return self._definitions

    def _read_index(self) -> dict[tuple[str, str], str]:
        path = self.root / f"index-{self.version}.json" if self.root else None
        known = _read(path) if path else None
        if known is None:
            known = {" ".join(served): name for name, served in _served(self._load().raw)}
            if path:
                with suppress(OSError):
                    _write(path, known)
        pairs = ((key.split(" "), name) for key, name in known.items())
        return {(api_version, kind): name for (api_version, kind), name in pairs}


@lru_cache(maxsize=4)
def builtin_schemas(kubernetes_version: str, cache: Path | None) -> BuiltinSchemas:
    """One set a version and process: what was compiled once is used again."""
    return BuiltinSchemas(kubernetes_version, cache)


def group_of(api_version: str) -> str:
    """The API group, "" for core."""
    return api_version.rpartition("/")[0]


def file_name(api_version: str, kind: str) -> str:
    """The name kubeconform looks for: kind, first label of the group, version, all in lower case."""
    group, _, version = api_version.rpartition("/")
    parts = (kind, group.partition(".")[0], version) if group else (kind, version)
    return "-".join(part.lower() for part in parts) + ".json"


def _served(definitions: dict[str, Schema]) -> Iterable[tuple[str, tuple[str, str]]]:
    """The kinds that stand for themselves: options and events of the protocol name sixty groups each."""
    for name, schema in definitions.items():
        owners = schema.get("x-kubernetes-group-version-kind", ())
        if len(owners) == 1:
            owner = owners[0]
            group, version = owner["group"], owner["version"]
            yield name, (f"{group}/{version}" if group else version, owner["kind"])


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and document else None


def _write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(document, stream, separators=(",", ":"), sort_keys=True)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
