"""kubectl as the reader that decides: offline, through --local."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import needed

Kubectl = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def kubectl(tmp_path) -> Kubectl:
    """Runs kubectl offline; its first argument is what it reads from standard input."""
    binary = needed.program("kubectl", "what readers in Go make of the YAML")

    def run(text: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "KUBECONFIG": os.devnull, "HOME": str(tmp_path)}
        return subprocess.run(
            [binary, *arguments, "--local", "-f", "-"],
            input=text.encode(),
            capture_output=True,
            env=environment,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def read_by_go(kubectl) -> Callable[[str], Any]:
    """What kubectl understands of the YAML of one object."""

    def read(text: str) -> Any:
        done = kubectl(text, "annotate", "--overwrite", "-o", "json", "read=back")
        assert done.returncode == 0, done.stderr.decode()
        tree = json.loads(done.stdout)
        del tree["metadata"]["annotations"]
        return tree

    return read
