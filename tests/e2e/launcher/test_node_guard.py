"""The node leaves nothing behind, however its tests end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

controlplane = sys.modules["controlplane"]

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("node_parts")]

_HERE = Path(__file__).parents[1]
_CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import controlplane, standin, kubelet
with kubelet.running(Path(sys.argv[2]), [], print):
    input()
"""


@pytest.mark.parametrize("begun", ["cluster.env", "holder.pid", "pids/kubelet"])
def test_a_cluster_whose_tests_are_killed_at_any_moment_is_taken_away(tmp_path, begun):
    state = tmp_path / "cluster"
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(_HERE), str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            controlplane.wait_until(begun, 60, (state / begun).exists)
            settings = (state / "cluster.env").read_text().splitlines()
        finally:
            child.kill()
    name = dict(line.split("=", 1) for line in settings)["NAME"]
    controlplane.wait_until(
        "all of it to be gone", 30, lambda: _left(name, state) == [], lambda: str(_left(name, state))
    )


def _left(name: str, state: Path) -> list[str]:
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{name}")]
    links = [str(path) for path in Path("/sys/class/net").glob(f"{name}*")]
    return [*groups, *links, *([str(state)] if state.exists() else [])]
