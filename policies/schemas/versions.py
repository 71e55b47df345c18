"""Which Kubernetes versions can be checked, and where their schemas lie.

The data is that of the package `kubernetes-validate`: one folder a minor version. The package itself is never
imported: that costs 70 ms, and its own check reads 1.8 MB again for every object.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

OLDEST = (1, 29)
_PACKAGE = "kubernetes_validate"
_FOLDER = re.compile(r"v(\d+)\.(\d+)\.0-local-strict")
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:[.+-][0-9A-Za-z.+-]*)?")
_PACKAGE_VERSION = re.compile(r"""__version__\s*=\s*['"]([0-9A-Za-z.+-]+)['"]""")


class UnsupportedVersion(ValueError):
    """A Kubernetes version that there are no schemas for."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class SchemaDataMissing(RuntimeError):
    """The package that carries the schemas is not installed, or is broken."""

    remedy = "Install the package kubernetes-validate 1.37 or newer beside this one."


@cache
def package_folder() -> Path:
    """The folder of the installed package; raises SchemaDataMissing."""
    spec = find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        message = "the package kubernetes-validate, which carries the schemas of Kubernetes, is not installed"
        raise SchemaDataMissing(message)
    return Path(places[0])


@cache
def package_version() -> str:
    """The version of the data, read from the text of the package."""
    try:
        text = (package_folder() / "version.py").read_text(encoding="utf-8")
    except OSError as error:
        raise SchemaDataMissing(f"the package kubernetes-validate is broken: {error}") from error
    match = _PACKAGE_VERSION.search(text)
    return match[1] if match else "unknown"


@cache
def supported_versions() -> tuple[str, ...]:
    """The minor versions that can be checked, oldest first, as "1.29"."""
    data = package_folder() / "kubernetes-json-schema"
    try:
        names = [entry.name for entry in data.iterdir()]
    except OSError as error:
        raise SchemaDataMissing(f"the package kubernetes-validate is broken: {error}") from error
    found = [(int(match[1]), int(match[2])) for match in map(_FOLDER.fullmatch, names) if match]
    return tuple(f"{major}.{minor}" for major, minor in sorted(found) if (major, minor) >= OLDEST)


def minor_version(text: str) -> str:
    """The minor version in "1.33", "v1.33.2" or "1.33.4+k3s1"; UnsupportedVersion where it has no schemas."""
    supported = supported_versions()
    match = _VERSION.fullmatch(text)
    minor = f"{int(match[1])}.{int(match[2])}" if match else ""
    if minor in supported:
        return minor
    span = f"{supported[0]} to {supported[-1]}" if supported else "none"
    if not match:
        raise UnsupportedVersion(f'"{text}" is not a Kubernetes version', f"Write it as 1.33; known are {span}.")
    raise UnsupportedVersion(
        f"there are no schemas for Kubernetes {text}",
        f"Known are {span}; choose one of these, or install a newer kubernetes-validate.",
    )


def definitions_file(minor: str) -> Path:
    """The file that holds every definition of a version, strict form."""
    return package_folder() / "kubernetes-json-schema" / f"v{minor}.0-local-strict" / "_definitions.json"
