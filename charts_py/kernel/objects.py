"""The constructs that every other construct is made of.

How cdk8s is called was chosen by measurement (2 cores, 50 objects in a warm process): a typed class per kind takes
about 45 ms and 3.7 MB of generated code, an ApiObject whose `to_json` calls back into Python 55 to 70 ms, one call an
object with its text 18 ms, and one call a concept with the text of its objects 9 ms. The last is used: `assembly/`
holds a jsii module of three small JavaScript classes, packed here when it is first needed. `jsii.create` is called
directly, since the generated constructors spend 45 ms of their first call on run-time type checks (typeguard, which
jsii pins to 2.13.3) of arguments that mypy has checked already.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias, cast

from charts_py.cachedir import cache_root
from charts_py.kernel.node import settle_environment, writable

settle_environment()

import cdk8s  # noqa: E402  the environment must be settled first
import constructs  # noqa: E402
import jsii  # noqa: E402

Construct: TypeAlias = constructs.Construct

_NAME, _VERSION = "paperclip-objects", "1.0.0"


def _packed() -> bytes:
    """The module as an npm package; the same bytes every time, since jsii's cache goes by content."""
    source = files("charts_py.kernel") / "assembly"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for stored, name in (
            (".jsii", "jsii.json"),
            ("index.js", "index.js"),
            ("package.json", "package.json"),
        ):
            content = (source / name).read_bytes()
            entry = tarfile.TarInfo(f"package/{stored}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def _load_module() -> None:
    content = _packed()
    folder = cache_root() / "jsii"
    if not writable(folder):
        folder = Path(tempfile.mkdtemp(prefix="paperclip-gitops-"))
    path = folder / f"{_NAME}-{hashlib.sha256(content).hexdigest()[:16]}.tgz"
    if not path.exists():
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(content)
        partial.replace(path)
    jsii.kernel.load(_NAME, _VERSION, str(path))


_load_module()


class App(cdk8s.App):
    """The root of one environment's tree."""

    def __init__(self) -> None:
        jsii.create(cdk8s.App, self, [])


class Component(constructs.Construct, metaclass=jsii.JSIIMeta, jsii_type=f"{_NAME}.Component"):
    """A concept and the objects that it stands for, made in one call; each is a child called <kind>-<name>."""

    def __init__(self, scope: constructs.Construct, name: str, manifests: Sequence[Mapping[str, Any]] = ()) -> None:
        jsii.create(Component, self, [scope, name, json.dumps(manifests)])


class ManifestObject(cdk8s.ApiObject, metaclass=jsii.JSIIMeta, jsii_type=f"{_NAME}.ManifestObject"):
    """One object of the cluster, as a plain tree."""

    def __init__(self, scope: constructs.Construct, name: str, manifest: Mapping[str, Any]) -> None:
        jsii.create(ManifestObject, self, [scope, name, json.dumps(manifest)])


class StackChart(cdk8s.Chart, metaclass=jsii.JSIIMeta, jsii_type=f"{_NAME}.StackChart"):
    """One stack: what is synced together."""

    def __init__(self, scope: constructs.Construct, name: str) -> None:
        jsii.create(StackChart, self, [scope, name])

    def manifests(self) -> list[tuple[str, dict[str, Any]]]:
        """(path of the construct, object) in the order in which cdk8s applies them."""
        return [(path, manifest) for path, manifest in json.loads(cast("str", jsii.invoke(self, "manifests", [])))]
