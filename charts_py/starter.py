"""The starter config: the fields that matter are set, every other one is there as a comment with its default.

It is written from the models themselves, so that it never falls behind them. Two sorts of comments: `# Text.`
is for people; `#field: value` is a field with its default, and takes effect without the `#`.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from charts_py.config.descriptions import descriptions
from charts_py.config.environment import API_VERSION, Environment
from charts_py.config.workload import Resources
from kubekit import yamlread

IMAGE = "ghcr.io/paperclipai/paperclip:sha-d554c47"
_WIDTH = 80
_IDENTITY = ("apiVersion", "kind", "name")
_PLAIN = re.compile(r"[A-Za-z0-9./_-]+(:[A-Za-z0-9./_-]+)*")
# What no default can show, by the path of the field; each is tested to be legal.
EXAMPLES: Mapping[str, str] = {
    "cluster.cilium": "{pool: {name: paperclip, start: 192.168.1.200, stop: 192.168.1.220}}",
    "cluster.storageClasses": "[{name: longhorn, accessModes: [ReadWriteOnce, ReadWriteMany]}]",
    "cluster.nodeCIDRs": "[192.168.1.0/24]",
    "secretStore": "{name: vault, kind: ClusterSecretStore}",
    "server.loadBalancer": "{ip: 192.168.1.200}",
    "server.nodeSelector": "{kubernetes.io/hostname: node-1}",
    "server.tolerations": "[{key: dedicated, operator: Exists, effect: NoSchedule}]",
    "network.callers": "[{name: traefik, namespace: traefik-system}]",
    "network.destinations": "[{name: litellm, namespace: litellm, ports: [4000]}]",
    "agents.egress.destinations": "[{name: litellm, namespace: litellm, ports: [4000]}]",
    "argocd": "{repository: https://github.com/example/state.git}",
    "checks.uncheckedKinds": "[external-secrets.io/ExternalSecret]",
}
_NOTES = {
    "database.kind": "Or `cloudnative-pg` (by its operator), or `bitnami` (by Argo CD), with other fields.",
}


@dataclass(frozen=True)
class Answers:
    """What the starter is made from. "" leaves a feature out; `host` is a host name or a URL."""

    name: str
    image: str = IMAGE
    host: str = ""
    lb_ip: str = ""
    storage_class: str = ""
    rwx_class: str = ""
    secret_store: str = ""

    @property
    def public_url(self) -> str:
        if urlsplit(self.host).scheme in {"http", "https"}:
            return self.host
        if self.host:
            return f"https://{self.host}"
        return f"http://{self.lb_ip}:3100" if self.lb_ip else "http://localhost:3100"


def starter(answers: Answers) -> str:
    """The text of the file."""
    return _head(answers) + "\n".join(_mapping(Environment, _values(answers), "", "")) + "\n"


def _head(answers: Answers) -> str:
    lines = [
        "yaml-language-server: $schema=../schemas/environment.schema.json",
        "",
        "A line `#field: value` is a field with its default: take the # away to change it.",
        *_needed(answers),
    ]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _needed(answers: Answers) -> tuple[str, ...]:
    """What no file can bring along: the values of secrets."""
    if answers.secret_store:
        return (
            f"The store {_flow(answers.secret_store)} must hold PAPERCLIP_AUTH_SECRET and ANTHROPIC_API_KEY.",
            "The Secret paperclip-system/paperclip-database must exist, with the URL as its key `url`.",
        )
    return (
        "These Secrets must exist, with these keys:",
        "- paperclip-system/paperclip-auth: BETTER_AUTH_SECRET",
        "- paperclip-system/paperclip-database: url",
        "- paperclip-agents/paperclip-agent-keys: ANTHROPIC_API_KEY",
    )


def _values(answers: Answers) -> dict[str, Any]:
    """The fields that are set, as they stand in the file."""
    values: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Environment", "name": answers.name}
    if classes := _storage_classes(answers):
        values["cluster"] = {"storageClasses": classes}
    if answers.secret_store:
        values["secretStore"] = {"name": answers.secret_store}
        # No schema of it comes with the program: `schemas pull` fetches it.
        values["checks"] = {"uncheckedKinds": ["external-secrets.io/ExternalSecret"]}
    values["server"] = _server(answers)
    values["database"] = {"kind": "external", "secret": "paperclip-database", "namespace": "postgres"}
    keys = [{"key": "ANTHROPIC_API_KEY", "remote": "ANTHROPIC_API_KEY"}]
    claude = {
        "name": "claude",
        "program": "claude",
        "image": answers.image,
        "secretKeys": ["ANTHROPIC_API_KEY"],
    }
    values["agents"] = {
        "secrets": [{"name": "paperclip-agent-keys", "entries": keys}],
        "jobs": {"kinds": [claude]},
    }
    if answers.rwx_class:
        values["agents"]["workspace"] = {"storageClass": answers.rwx_class}
    return values


def _server(answers: Answers) -> dict[str, Any]:
    secret: dict[str, Any] = {"name": "paperclip-auth"}
    if answers.secret_store:
        secret["entries"] = [{"key": "BETTER_AUTH_SECRET", "remote": "PAPERCLIP_AUTH_SECRET"}]
    server: dict[str, Any] = {
        "image": answers.image,
        "publicUrl": answers.public_url,
        "secrets": [secret],
        "resources": {
            "requests": {"cpu": "250m", "memory": "512Mi"},
            "limits": {"cpu": "2", "memory": "4Gi"},
        },
    }
    if answers.lb_ip:
        server["loadBalancer"] = {"ip": answers.lb_ip}
    if answers.storage_class:
        server["storage"] = {"storageClass": answers.storage_class}
    return server


def _storage_classes(answers: Answers) -> list[dict[str, Any]]:
    modes: dict[str, list[str]] = {}
    for name, mode in ((answers.storage_class, "ReadWriteOnce"), (answers.rwx_class, "ReadWriteMany")):
        if name:
            modes.setdefault(name, []).append(mode)
    return [{"name": name, "accessModes": found} for name, found in modes.items()]


def _mapping(model: type[BaseModel], values: Mapping[str, Any], path: str, indent: str) -> Iterator[str]:
    """The lines of a mapping: each field with what it means, set or as a comment."""
    said = descriptions(model)
    for own, field in model.model_fields.items():
        name = str(field.alias)
        here = f"{path}.{name}" if path else name
        if not path and name not in _IDENTITY:
            yield ""
        if name not in _IDENTITY or path:
            yield from (f"{indent}{line}" for line in _meaning(said[own], here, is_set=name in values))
        if name in values:
            yield from _set(field, name, values[name], here, indent)
        else:
            yield from (f"{indent}#{line}" for line in _default(field, name, here))


def _meaning(text: str, path: str, *, is_set: bool) -> Iterator[str]:
    yield f"# {_NOTES.get(path, text)}"
    if path in EXAMPLES and not is_set:
        yield f"# For example {EXAMPLES[path]}"


def _set(field: FieldInfo, name: str, value: Any, path: str, indent: str) -> Iterator[str]:
    inner = _model_of(field.annotation, value)
    if inner is not None and inner is not Resources:
        yield f"{indent}{name}:"
        yield from _mapping(inner, value, path, indent + "  ")
    else:
        yield from (indent + line for line in _block(name, value))


def _default(field: FieldInfo, name: str, path: str) -> Iterator[str]:
    """Lines of a field with its default, not indented; a section of the file with what its fields mean."""
    default = field.get_default(call_default_factory=True)
    if "." in path or not isinstance(default, BaseModel):
        yield from _block(name, _plain(default))
        return
    yield f"{name}:"
    said = descriptions(type(default))
    for own, inner in type(default).model_fields.items():
        here = f"{path}.{inner.alias}"
        yield from (f"  {line}" for line in _meaning(said[own], here, is_set=False))
        yield from (f"  {line}" for line in _default(inner, str(inner.alias), here))


def _block(name: str, value: Any) -> Iterator[str]:
    line = f"{name}: {_flow(value)}"
    if len(line) <= _WIDTH or not isinstance(value, dict | list):
        yield line
        return
    yield f"{name}:"
    if isinstance(value, dict):
        for key, one in value.items():
            yield from (f"  {inner}" for inner in _block(key, one))
        return
    for one in value:
        lines = [line for key, inner in one.items() for line in _block(key, inner)]
        yield f"  - {lines[0]}"
        yield from (f"    {line}" for line in lines[1:])


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and yamlread.read(value, "").value == value
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def _plain(value: Any) -> Any:
    """A default as it would stand in a file; what is absent by itself is left out of a mapping."""
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(mode="json", by_alias=True))
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _model_of(annotation: Any, value: Any) -> type[BaseModel] | None:
    """The model behind Optional, Annotated and a union told apart by `kind`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in {Annotated, Union, types.UnionType}:
        models = [found for one in get_args(annotation) if (found := _model_of(one, value)) is not None]
        if len(models) > 1:
            return next(one for one in models if value.get("kind") in get_args(one.model_fields["kind"].annotation))
        return models[0] if models else None
    return None
