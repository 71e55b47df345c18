"""Takes secrets out of a tree before anything is compared or shown.

A secret becomes a Masked: two of them are equal if the secrets are, and neither tells more than that.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
from typing import Any, TypeGuard

from kubekit.identity import Manifest, ObjectId

SHOWN = "***"
_SALT = secrets.token_bytes(16)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_ENV_NAME = re.compile(
    r"(?:PASSWORD|PASSWD|PASSPHRASE|TOKEN|SECRET|CREDENTIALS?|DSN|DATABASE_URL"
    r"|(?:API|ACCESS|PRIVATE|SIGNING|MASTER|ENCRYPTION|AUTH|SECRET)_?KEY)$"
)
_MAP_KEY = re.compile(r"(?:^|[a-z0-9_-])(?:[pP]assword|[pP]assphrase|[tT]oken|(?:[aA]pi|[pP]rivate)[_-]?[kK]ey)$")
_VALUE = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}"  # Anthropic, OpenAI, LiteLLM
    r"|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|npm_[A-Za-z0-9]{30,}"
    r"|A[KS]IA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\."  # a JSON web token
    r"|Bearer +[A-Za-z0-9._~+/-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|://[^\s/:@]*:(?!\$\()[^\s/@]+@"  # user:password in a URL
)
_RANDOM = re.compile(r"[A-Za-z0-9+/_-]{32,}={0,2}")
_RANDOM_BITS = 4.0
"""Bits a character. 32 random base64 characters have about 4.4, words joined by dashes 3.5 or less."""
_PLAIN = frozenset({"", "true", "false", "null"})


class Masked:
    """A secret of which only equality is known."""

    __slots__ = ("token",)

    def __init__(self, value: object) -> None:
        text = json.dumps(value, sort_keys=True, default=str)
        self.token = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=_SALT, digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Masked) and other.token == self.token

    def __hash__(self) -> int:
        return hash(self.token)

    def __repr__(self) -> str:
        return SHOWN


def masked(manifest: Manifest) -> Manifest:
    """A copy of the object without its secrets."""
    kind = ObjectId.of(manifest).kind
    result = {
        key: _masked(value, environment_like=kind == "ConfigMap" and key == "data") for key, value in manifest.items()
    }
    if kind == "Secret":
        for key in ("data", "stringData"):
            if key in result:
                result[key] = _all_masked(manifest[key])
        metadata = result.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
            annotations[_LAST_APPLIED] = Masked(annotations[_LAST_APPLIED])
    return result


def _all_masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _all_masked(item) for key, item in value.items()}
    return Masked(value)


def _masked(value: Any, *, environment_like: bool = False) -> Any:
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if not isinstance(value, dict):
        return Masked(value) if _is_secret_text(value) else value
    name = value.get("name")
    result = {}
    for key, item in value.items():
        variable = name if key == "value" and isinstance(name, str) else None
        is_env = environment_like or variable is not None
        if _is_named_secret(variable or key, item, environment_like=is_env):
            result[key] = Masked(item)
        else:
            result[key] = _masked(item)
    return result


def _is_named_secret(label: str, value: Any, *, environment_like: bool) -> bool:
    """By the name of the variable or key; where it is a variable, random text counts under any name."""
    if not _is_text(value):
        return False
    if environment_like:
        return _ENV_NAME.search(label) is not None or _MAP_KEY.search(label) is not None or _is_random(value)
    return _MAP_KEY.search(label) is not None or (label.isupper() and _ENV_NAME.search(label) is not None)


def _is_text(value: Any) -> TypeGuard[str]:
    """Text that could be a secret: a reference to a variable or a path to a file is none."""
    return isinstance(value, str) and value not in _PLAIN and not value.startswith(("/", "$("))


def _is_secret_text(value: Any) -> bool:
    return isinstance(value, str) and _VALUE.search(value) is not None


def _is_random(text: str) -> bool:
    classes = (str.isupper, str.islower, str.isdigit)
    if not _RANDOM.fullmatch(text) or not all(any(map(one, text)) for one in classes):
        return False
    shares = [text.count(character) / len(text) for character in set(text)]
    return -sum(share * math.log2(share) for share in shares) > _RANDOM_BITS
