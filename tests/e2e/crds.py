"""CustomResourceDefinitions for an API server, wrapped around the JSON Schemas of the kinds that we render.

The schemas are those that kubeconform reads, in $PAPERCLIP_CRD_SCHEMAS (by default shared/schemas beside the
repository). They come from CustomResourceDefinitions and were made stricter on the way; here they are made structural
again, since the API server refuses all others. An unknown field is still refused: by strict field validation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
_INT_OR_STRING = ({"type": "integer"}, {"type": "string"})
# For people, or of JSON Schema only. Descriptions alone would make a definition too large for etcd.
_DROPPED = frozenset({"description", "$schema", "$id", "title", "example", "examples"})


@dataclass(frozen=True)
class CustomKind:
    """One kind, as its API server knows it. The last of `versions` is the stored one."""

    group: str
    kind: str
    plural: str
    scope: Literal["Namespaced", "Cluster"]
    versions: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"


KINDS = (
    CustomKind("argoproj.io", "AppProject", "appprojects", "Namespaced", ("v1alpha1",)),
    CustomKind("argoproj.io", "Application", "applications", "Namespaced", ("v1alpha1",)),
    CustomKind("argoproj.io", "ApplicationSet", "applicationsets", "Namespaced", ("v1alpha1",)),
    CustomKind("cilium.io", "CiliumL2AnnouncementPolicy", "ciliuml2announcementpolicies", "Cluster", ("v2alpha1",)),
    CustomKind("cilium.io", "CiliumLoadBalancerIPPool", "ciliumloadbalancerippools", "Cluster", ("v2alpha1", "v2")),
    CustomKind("cilium.io", "CiliumNetworkPolicy", "ciliumnetworkpolicies", "Namespaced", ("v2",)),
    CustomKind("external-secrets.io", "ExternalSecret", "externalsecrets", "Namespaced", ("v1",)),
    CustomKind("postgresql.cnpg.io", "Cluster", "clusters", "Namespaced", ("v1",)),
    CustomKind("postgresql.cnpg.io", "ScheduledBackup", "scheduledbackups", "Namespaced", ("v1",)),
)


def schemas_folder() -> Path:
    """Where the schemas are. Raises FileNotFoundError."""
    named = os.environ.get("PAPERCLIP_CRD_SCHEMAS", "").split(os.pathsep)[0]
    folder = Path(named) if named else ROOT.parent / "shared/schemas"
    if not folder.is_dir():
        raise FileNotFoundError(
            f"no CRD schemas in {folder}: set PAPERCLIP_CRD_SCHEMAS to <group>/<kind>_<version>.json"
        )
    return folder


def definitions(folder: Path) -> Iterator[dict[str, Any]]:
    """A CustomResourceDefinition for each of KINDS."""
    for kind in KINDS:
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": kind.name},
            "spec": {
                "group": kind.group,
                "scope": kind.scope,
                "names": {
                    "plural": kind.plural,
                    "singular": kind.kind.lower(),
                    "kind": kind.kind,
                    "listKind": f"{kind.kind}List",
                },
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": version == kind.versions[-1],
                        "schema": {"openAPIV3Schema": structural(_schema(folder, kind, version))},
                        "subresources": {"status": {}},
                    }
                    for version in kind.versions
                ],
            },
        }


def _schema(folder: Path, kind: CustomKind, version: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((folder / kind.group / f"{kind.kind.lower()}_{version}.json").read_bytes())
    # The server owns the metadata: it takes no word on it but that it is a map.
    schema["properties"] = {**schema["properties"], "metadata": {"type": "object"}}
    return schema


def structural(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as the API server demands it (structural schemas in the reference of CustomResourceDefinition).

    `additionalProperties: false` may not stand beside `properties`, and a value that is an integer or a text says so by
    an extension and not by its `type`.
    """
    result = {key: value for key, value in schema.items() if key not in _DROPPED}
    if result.get("additionalProperties") is False:
        del result["additionalProperties"]
    if "properties" in result:
        result["properties"] = {name: structural(child) for name, child in result["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = structural(result[key])
    choices = result.get("anyOf") or result.get("oneOf") or ()
    if sorted(choices, key=str) == list(_INT_OR_STRING):
        result = {key: value for key, value in result.items() if key not in ("type", "anyOf", "oneOf")}
        result |= {"anyOf": list(_INT_OR_STRING), "x-kubernetes-int-or-string": True}
    return result
