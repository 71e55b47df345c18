"""Which Secrets a pod needs before its container can start, and what the kubelet says when one is missing."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakeapi.store import Item


@dataclass(frozen=True, slots=True)
class Needs:
    """`volumes` as (volume, Secret, keys), `variables` as (Secret, key or "")."""

    volumes: tuple[tuple[str, str, tuple[str, ...]], ...]
    variables: tuple[tuple[str, str], ...]

    def missing_volume(self, secrets: Mapping[str, Item], present: Container[str]) -> str:
        for volume, name, keys in self.volumes:
            if name in present:
                continue
            if name not in secrets:
                return f'MountVolume.SetUp failed for volume "{volume}" : secret "{name}" not found'
            data = secrets[name].obj.get("data") or {}
            for key in keys:
                if key not in data:
                    return f'MountVolume.SetUp failed for volume "{volume}" : references non-existent secret key: {key}'
        return ""

    def missing_variable(self, secrets: Mapping[str, Item], present: Container[str]) -> str:
        for name, key in self.variables:
            if name in present:
                continue
            if name not in secrets:
                return f'secret "{name}" not found'
            if key and key not in (secrets[name].obj.get("data") or {}):
                return f"couldn't find key {key} in Secret {secrets[name].key[1]}/{name}"
        return ""


def needs_of(spec: Mapping[str, Any]) -> Needs:
    volumes = []
    for volume in spec.get("volumes") or ():
        direct = volume.get("secret")
        sources = [one["secret"] for one in (volume.get("projected") or {}).get("sources") or () if "secret" in one]
        if direct:
            sources.append({**direct, "name": direct["secretName"]})
        for source in sources:
            if not source.get("optional"):
                keys = tuple(one["key"] for one in source.get("items") or ())
                volumes.append((volume["name"], source["name"], keys))
    variables = []
    for container in spec["containers"]:
        for source in container.get("envFrom") or ():
            reference = source.get("secretRef")
            if reference and not reference.get("optional"):
                variables.append((reference["name"], ""))
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference and not reference.get("optional"):
                variables.append((reference["name"], reference["key"]))
    return Needs(tuple(volumes), tuple(variables))
