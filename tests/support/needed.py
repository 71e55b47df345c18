"""What some tests hold our code against, and a machine may lack. The only place that skips a test.

Why there are skips at all: `make test` promises to work on a machine with nothing but Python and make, and none of
these comes with either: kubectl and the shells of container images are programs of the machine, and the schemas of
custom resources stand beside the repository. kubeconform is installed by `make test`, where any of three ways is open.
Why no gap is hidden: .ci/run installs what it can and ends where something is missing, and tests/conftest.py makes a
failure of every skip in CI.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from policies.schemas import kubeconform as runner

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT.parent / "shared" / "schemas"


def program(name: str, what: str) -> str:
    """Its path. `what` is the thing that is not checked without it."""
    found = shutil.which(name)
    if found is None:
        # kubectl, dash, busybox: a package manager installs them, for which `make test` would have to be root.
        pytest.skip(f"NOT CHECKED: {what}. {name} is not on PATH; install it")
    return found


def kubeconform() -> Path:
    """The real one, of `make tools` or of the machine."""
    try:
        return runner.find(root=ROOT)
    except runner.KubeconformMissing as error:
        # scripts/tools.sh tried Go, GitHub and Go from a wheel, and said why none of them was to be had.
        pytest.skip(f"NOT CHECKED: agreement with the real kubeconform. {error}. {error.remedy}")


def schemas() -> Path:
    """The folder with the schemas of custom resources and the catalog's own README."""
    if not SCHEMAS.is_dir():
        # Others' data, which this repository does not copy, and which no package index has: a clone alone has none.
        pytest.skip(f"NOT CHECKED: schemas of custom resources. {SCHEMAS} is not there")
    return SCHEMAS
