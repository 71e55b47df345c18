"""scripts/tools.sh: where neither Go nor GitHub is to be had, Go comes from a wheel."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Stand-ins: the program ends with CODE unless a `go` is on PATH; pip puts Go where --target says.
PROGRAM = 'echo program >> called; command -v go > went || exit "$CODE"\n'
PIP = 'echo pip >> called; mkdir -p .tools/go/go/bin; cp "$0" .tools/go/go/bin/go; exit "$PIP"\n'


def played(folder: Path, *, code: int, pip: int = 0) -> tuple[int, list[str]]:
    """The script's exit code, and which of the two it called."""
    for name, body in (("paperclip-gitops", PROGRAM), ("python", PIP)):
        path = folder / ".venv" / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}")
        path.chmod(0o755)
    bare = folder / "bare"
    bare.mkdir()
    for name in ("mkdir", "cp", "ln"):
        (bare / name).symlink_to(str(shutil.which(name)))
    environment = {"PATH": str(bare), "CODE": str(code), "PIP": str(pip)}
    script = ["/bin/sh", str(ROOT / "scripts" / "tools.sh")]
    done = subprocess.run(script, cwd=folder, env=environment, capture_output=True, check=False, timeout=20)
    return done.returncode, (folder / "called").read_text().split()


def test_what_the_program_installs_is_all_that_happens(tmp_path: Path) -> None:
    assert played(tmp_path, code=0) == (0, ["program"])
    assert not (tmp_path / ".tools").exists()


@pytest.mark.parametrize("code", [4, 5])
def test_without_go_and_without_github_go_is_installed_and_stays_in_tools(tmp_path: Path, code: int) -> None:
    assert played(tmp_path, code=code) == (0, ["program", "pip", "program"])
    assert (tmp_path / ".tools" / "bin" / "go").resolve() == tmp_path / ".tools/go/go/bin/go"


def test_an_archive_that_is_not_the_release_is_no_reason_to_go_on(tmp_path: Path) -> None:
    assert played(tmp_path, code=1) == (1, ["program"])


def test_a_wheel_that_cannot_be_had_is_told_by_the_exit_code(tmp_path: Path) -> None:
    assert played(tmp_path, code=5, pip=3)[0] == 3
