"""Logins to image registries: what docker's config.json holds, and what WWW-Authenticate asks for."""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from charts_py.errors import ConfigError

DOCKER_HUB = "docker.io"
DOCKER_HUB_API = "registry-1.docker.io"
"""Where the API of docker.io is; docker itself files its login under a third name."""
_DOCKER_HUB_NAMES = frozenset({DOCKER_HUB, DOCKER_HUB_API, "index.docker.io"})
_LONGEST_HEADER = 4096  # characters; beyond, the search below takes its time
_CHALLENGE = re.compile(r'([A-Za-z_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))|([A-Za-z]+)(?=\s|,|$)')


@dataclass(frozen=True)
class Credential:
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        return base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    @property
    def secrets(self) -> tuple[str, ...]:
        basic = self.basic if self.password else ""
        return tuple(text for text in (basic, self.password, self.identity_token) if text)


def read_credentials(path: Path | None = None) -> dict[str, Credential]:
    """Registry host -> login, from docker's config.json ($DOCKER_CONFIG or ~/.docker); no file is no login.

    Raises ConfigError, which never quotes the file.
    """
    remedy = "log in again with `docker login`, or remove the entry"
    try:
        path = path or Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    except RuntimeError:  # a user without a home, as in many containers
        return {}
    try:
        tree = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", remedy) from error
    except (ValueError, RecursionError):
        raise ConfigError(f"{path}: is not JSON", remedy) from None  # the cause would carry the text
    auths = tree.get("auths", {}) if isinstance(tree, dict) else None
    if not isinstance(auths, dict):
        raise ConfigError(f"{path}: `auths` is not a map", remedy)
    found: dict[str, Credential] = {}
    for name, entry in auths.items():
        credential = _credential(entry)
        if credential is None:
            raise ConfigError(f"{path}: auths.{name}: `auth` is not base64 of user:password", remedy)
        if credential.secrets:
            found[_login_host(name)] = credential
    return found


def _credential(entry: object) -> Credential | None:
    if not isinstance(entry, dict):
        return None
    auth, token = entry.get("auth", ""), entry.get("identitytoken", "")
    if not isinstance(auth, str) or not isinstance(token, str):
        return None
    try:
        user, colon, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except ValueError:
        return None
    if auth and not colon:
        return None
    return Credential(user, password, token)


def _login_host(name: str) -> str:
    """The host of a key: docker writes a key as a host or as a URL with a path."""
    host = name.partition("://")[2] or name
    host = host.partition("/")[0].lower()
    return DOCKER_HUB if host in _DOCKER_HUB_NAMES else host


def parse_challenges(header: str) -> dict[str, dict[str, str]]:
    """WWW-Authenticate as {scheme in lower case: {parameter: value}}; what does not parse is left out."""
    found: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for key, quoted, bare, scheme in _CHALLENGE.findall(header[:_LONGEST_HEADER]):
        if scheme:
            current = found.setdefault(scheme.lower(), {})
        else:
            current[key.lower()] = re.sub(r"\\(.)", r"\1", quoted) or bare
    return found
