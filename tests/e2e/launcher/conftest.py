"""A real node for the tests of the launcher, started only where one of them asks for it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

controlplane, kubelet, standin = sys.modules["controlplane"], sys.modules["kubelet"], sys.modules["standin"]
ground = sys.modules["ground"]


@pytest.fixture(scope="session")
def kubelet_cluster(say: Callable[[str], None]) -> Iterator[Any]:
    """Kubernetes with one real node that has the image of the stand-in."""
    folder = Path(tempfile.mkdtemp(prefix="paperclip-node-"))
    try:
        busybox = kubelet.parts_folder(say) / "bin/busybox"
        state = folder / "cluster"
        image = standin.build(busybox, controlplane.tools_folder(), state / "images")
        with kubelet.running(state, [image], say) as found:
            yield found
    except controlplane.ControlPlaneError as error:
        pytest.fail(f"no node: {error}", pytrace=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        say("node stopped")


@pytest.fixture(scope="session")
def prepared(kubelet_cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The environment of these tests on that cluster."""
    return ground.bring_up(kubelet_cluster, tmp_path_factory.mktemp("launcher"))


@pytest.fixture
def site(prepared: Any) -> Iterator[Any]:
    """The same, with nothing of another test in it."""
    yield prepared
    prepared.clear()
