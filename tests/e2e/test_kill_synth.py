"""kill -9 at random moments of a whole synth: dist/ is wholly old or wholly new, every time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KILLS = 100

pytestmark = pytest.mark.e2e


def synth(project):
    command = [sys.executable, "-m", "charts_py.cli.main", "synth", "--force"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(project / "cache")}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=project, env=environment, start_new_session=True, **quiet)


def state(project):
    digest = hashlib.sha256()
    dist = project / "dist"
    for path in sorted(path for path in dist.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(dist)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def write(project, size):
    for name in ("minimal", "operating-post", "frank-2026-08"):
        text = (ROOT / "environments" / f"{name}.yaml").read_text()
        text = text.replace("\nagents:\n", f"\nagents:\n  quota: {{pods: {size}}}\n", 1)
        (project / "environments" / f"{name}.yaml").write_text(text)


def test_a_hundred_kills_never_leave_a_mixed_state(tmp_path):
    for name in ("environments", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("waivers.yaml", "images.lock"):
        shutil.copy(ROOT / name, tmp_path / name)
    known, took = {}, 0.0
    for size in (30, 40):
        write(tmp_path, size)
        begun = time.monotonic()
        assert synth(tmp_path).wait() == 0
        took = time.monotonic() - begun
        known[state(tmp_path)] = size
    assert len(known) == 2
    seed = random.randrange(1 << 32)
    print(f"seed {seed}, one synth takes {took:.2f} s")
    dice = random.Random(seed)
    killed, seen = 0, set()
    for number in range(3 * KILLS):
        write(tmp_path, (30, 40)[number % 2])
        process = synth(tmp_path)
        time.sleep(dice.uniform(0, took) if number % 2 else dice.uniform(0.6, 1.1) * took)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            killed += 1
        else:
            took *= 0.95  # the machine has become faster: most kills must hit a synth that runs
        seen.add(state(tmp_path))
        assert seen <= set(known), f"mixed state after kill {number} of seed {seed}"
        if killed == KILLS:
            break
    print(f"{killed} of {number + 1} kills hit a synth that was running; states seen: {len(seen)}")
    assert killed == KILLS
    write(tmp_path, 30)
    assert synth(tmp_path).wait() == 0
    assert known[state(tmp_path)] == 30
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".dist")] == []
