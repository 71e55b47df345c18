"""The same config gives the same bytes, whatever the machine looks like."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def rendered(tmp_path, name, *, cwd=ROOT, umask=0o022, **environment):
    dist = tmp_path / name
    command = [sys.executable, "-m", "charts_py.cli.main", "synth", "--force", "--dist", str(dist)]
    for option in ("environments", "templates"):
        command += [f"--{option}", str(ROOT / option)]
    command += ["--images-file", str(ROOT / "images.lock"), "--waivers", str(ROOT / "waivers.yaml")]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    result = subprocess.run(command, cwd=cwd, env=env, umask=umask, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    files = {str(path.relative_to(dist)): path for path in dist.rglob("*") if path.is_file()}
    return {name: (path.read_bytes(), path.stat().st_mode & 0o777) for name, path in files.items()}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return rendered(tmp_path_factory.mktemp("reference"), "dist", PYTHONHASHSEED="0")


@pytest.mark.parametrize(
    "difference",
    [
        {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "Pacific/Kiritimati"},
        {"PYTHONHASHSEED": "4242", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "0", "umask": 0o077},
        {"cwd": Path("/"), "HOME": "/nonexistent", "XDG_CACHE_HOME": "", "PYTHONOPTIMIZE": "1"},
    ],
    ids=["seed-locale-zone", "seed-utf8-umask", "cwd-home-optimised"],
)
def test_the_bytes_and_modes_do_not_depend_on_the_machine(tmp_path, reference, difference):
    assert rendered(tmp_path, "dist", **difference) == reference


def test_nothing_in_the_state_names_a_time_a_host_or_a_path(reference):
    words = [str(ROOT), str(Path.home()), os.uname().nodename]
    for name, (content, _) in reference.items():
        for word in words:
            if len(word) > 5:
                assert word.encode() not in content, name
