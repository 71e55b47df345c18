"""Secrets whose values stand in Git."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping

from policies.model import Fault
from policies.references.made import text
from policies.registry import policy
from policies.world import Entry, World, mapping

# What something fills in on the way to the cluster: argocd-vault-plugin writes <path>, Flux ${NAME}.
_FILLED_IN = re.compile(r"\s*(?:<[^<>\n]+>|\$\{[A-Za-z_][A-Za-z0-9_]*\})\s*")
_ARGO_TYPE = "argocd.argoproj.io/secret-type"
# Argo CD reads repositories and clusters from Secrets; these keys of theirs are no secrets.
_ARGO_KEYS = frozenset(
    {
        "enableLfs",
        "enableOCI",
        "forceHttpBasicAuth",
        "insecure",
        "insecureIgnoreHostKey",
        "name",
        "namespaces",
        "project",
        "server",
        "type",
        "url",
        "username",
    }
)


@policy(
    "no-plain-secret",
    title="No Secret stands among the manifests with its values",
    rationale=(
        "Base64 is no encryption: whoever can read the repository, one of its clones or its history, has the values,"
        " and taking the file out does not take them back."
    ),
    remedy="change the values, store them in the secret store, and replace the Secret by an ExternalSecret",
    kinds=("Secret",),
    waivable=False,
    links=(
        "https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
        "https://argo-cd.readthedocs.io/en/stable/operator-manual/secret-management/",
    ),
)
def no_plain_secret(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if mapping(entry.manifest.get("sops")):
        return  # its values are encrypted
    harmless = _ARGO_KEYS if text(entry.labels.get(_ARGO_TYPE)) else frozenset[str]()
    for field in ("data", "stringData"):
        found = sorted(_secret_keys(mapping(entry.manifest.get(field)), field, harmless))
        if found:
            names = ", ".join(f'"{key}"' for key in found[:10])
            more = f" and {len(found) - 10} more" if len(found) > 10 else ""
            yield Fault(f"/{field}", f"Secret {entry.id.name!r} holds the values of {names}{more}, and must hold none")


def _secret_keys(values: Mapping[str, object], field: str, harmless: frozenset[str]) -> Iterator[str]:
    for key, value in values.items():
        if not isinstance(value, str) or not value.strip():
            continue
        shown = _decoded(value) if field == "data" else value
        if _FILLED_IN.fullmatch(shown) or _FILLED_IN.fullmatch(value):
            continue
        if key in harmless and "@" not in shown:
            continue
        yield str(key)


def _decoded(value: str) -> str:
    """What stands in base64; the text itself where it is none."""
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return value
