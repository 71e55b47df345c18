"""The API server without kubectl: one connection, some milliseconds a call, and its warnings as it says them."""

from __future__ import annotations

import base64
import re
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

from kubekit.identity import CLUSTER_SCOPED, ObjectId
from kubekit.resources import resource_of

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_SECONDS = 30


@dataclass(frozen=True)
class Said:
    """What the server answered. `message` is that of a Status, "" for a success; `body` the object."""

    code: int
    message: str
    warnings: tuple[str, ...]
    body: Mapping[str, Any]

    @property
    def fine(self) -> bool:
        return self.code < 300


class Api:
    """As administrator, or in the name of another user."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile() as pair:  # ssl reads a certificate from a file only
            pair.write(_decoded(user["client-certificate-data"]) + b"\n" + _decoded(user["client-key-data"]))
            pair.flush()
            context.load_cert_chain(pair.name)
        # Proxies of the machine are not for a server on 127.0.0.1.
        self._client = httpx.Client(base_url=cluster["server"], verify=context, timeout=_SECONDS, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def call(
        self, method: str, path: str, body: Any = None, *, user: str = "", groups: Sequence[str] = (), **query: str
    ) -> Said:
        """`user` and `groups` are those to act as; "" is the administrator."""
        headers = [("Impersonate-User", user)] if user else []
        headers += [("Impersonate-Group", one) for one in groups]
        if method == "PATCH":
            headers.append(("Content-Type", "application/merge-patch+json"))
        answer = self._client.request(method, path, params=query, headers=headers, json=body)
        told = answer.json() if answer.headers.get("content-type", "").startswith("application/json") else {}
        message = str(told.get("message", answer.text)) if answer.is_error else ""
        warnings = [
            found[1].replace('\\"', '"').replace("\\\\", "\\")
            for line in answer.headers.get_list("warning")
            for found in _WARNING.finditer(line)
        ]
        return Said(answer.status_code, message, tuple(warnings), told)

    def create(self, manifest: Mapping[str, Any], *, dry: bool = False, user: str = "") -> Said:
        return self.call("POST", path_of(manifest), manifest, user=user, **_query(dry=dry))

    def replace(self, manifest: Mapping[str, Any], *, dry: bool = False, user: str = "") -> Said:
        path = f"{path_of(manifest)}/{manifest['metadata']['name']}"
        return self.call("PUT", path, manifest, user=user, **_query(dry=dry))

    def get(self, manifest: Mapping[str, Any]) -> Said:
        return self.call("GET", f"{path_of(manifest)}/{manifest['metadata']['name']}")

    def delete(self, manifest: Mapping[str, Any]) -> Said:
        return self.call("DELETE", f"{path_of(manifest)}/{manifest['metadata']['name']}")


def path_of(manifest: Mapping[str, Any]) -> str:
    """Of the collection that the object belongs to. Raises KeyError for a kind whose resource is not known."""
    one = ObjectId.of(manifest)
    resource = resource_of(one.kind)
    if resource is None:
        raise KeyError(one.kind)
    root = f"/apis/{one.api_version}" if one.group else f"/api/{one.api_version}"
    within = "" if (one.group, one.kind) in CLUSTER_SCOPED else f"/namespaces/{one.namespace or 'default'}"
    return f"{root}{within}/{resource}"


def _query(*, dry: bool) -> dict[str, str]:
    return {"fieldValidation": "Strict", **({"dryRun": "All"} if dry else {})}


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)
