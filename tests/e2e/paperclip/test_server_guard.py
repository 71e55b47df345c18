"""The server leaves nothing behind, however its tests end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

controlplane = sys.modules["controlplane"]

pytestmark = pytest.mark.e2e

_HERE = Path(__file__).parent
_CHILD = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
import controlplane, paperclipapp, paperclipapi, paperclipserver
with paperclipserver.running(print) as server:
    api = server.api
    agent = api.create_agent(api.create_company("Guarded"), "Waits", "process", {"command": "sleep", "args": ["600"]})
    run = api.wake(agent.id)
    controlplane.wait_until("a child", 60, lambda: api.run(run.id).tree["processPid"])
    (server.folder / "has-a-child").touch()
    input()
"""


@pytest.mark.parametrize("begun", ["home/instances/default/db/postmaster.pid", "has-a-child"])
def test_a_server_whose_tests_are_killed_at_any_moment_is_taken_away(tmp_path, begun):
    with subprocess.Popen(
        [sys.executable, "-B", "-c", _CHILD, str(_HERE.parent), str(_HERE)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as child:
        try:
            controlplane.wait_until(begun, 120, lambda: list(tmp_path.glob(f"paperclip-server-*/{begun}")))
            assert family(tmp_path)
        finally:
            child.kill()
    controlplane.wait_until("all of it to be gone", 30, lambda: not left(tmp_path), lambda: str(left(tmp_path)))


def family(folder: Path) -> list[str]:
    """Processes that work in the folder, or did when it was there."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cwd").readlink().is_relative_to(folder):
                found.append(f"{path.name} {(path / 'comm').read_text().strip()}")
        except OSError:
            continue
    return found


def left(folder: Path) -> list[str]:
    return [*family(folder), *map(str, folder.iterdir())]
