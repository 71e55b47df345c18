"""One control plane for all tests of this folder, with the shipped environments on it one after the other; and one real
node, for those who need pods that run."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.dont_write_bytecode = True


def _load(path: Path) -> ModuleType:
    """Test folders are no packages; what stands beside is found by its path and known by its bare name."""
    if path.stem not in sys.modules:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[path.stem])
    return sys.modules[path.stem]


controlplane = _load(ROOT / "tests/e2e/controlplane.py")
crds = _load(ROOT / "tests/e2e/crds.py")
_BESIDE = ("shipped", "trial", "standin", "kubelet", "launcher/ground", "launcher/driving")
_PAPERCLIP = ("paperclipapp", "paperclipapi", "paperclipserver")
_ADAPTER = ("relay", "sidecar", "stage", "browser")
_IN_E2E = (*_BESIDE, *(f"paperclip/{name}" for name in _PAPERCLIP), *(f"adapter/{name}" for name in _ADAPTER))
for _name in (*(f"e2e/{name}" for name in _IN_E2E), "support/config_strategy", "support/edge_configs"):
    _load(ROOT / f"tests/{_name}.py")
shipped, kubelet, standin, ground = (sys.modules[name] for name in ("shipped", "kubelet", "standin", "ground"))

ENVIRONMENTS = sorted(path.name for path in (ROOT / "dist").iterdir() if (path / "provenance.json").is_file())


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """A line for whoever waits, past pytest's capture."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    begun = time.monotonic()

    def line(text: str) -> None:
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"\ne2e {time.monotonic() - begun:5.1f} s  {text}")
            sys.stderr.flush()

    return line


@pytest.fixture(scope="session")
def cluster(say: Callable[[str], None]) -> Iterator[Any]:
    """The control plane, with all custom kinds established and the namespace that Argo CD brings along."""
    # Not in pytest's own folder: the last three runs are kept there, and this holds keys and a data base.
    folder = Path(tempfile.mkdtemp(prefix="paperclip-e2e-"))
    try:
        with controlplane.running(folder / "cluster", say) as found:
            definitions = list(crds.definitions(crds.schemas_folder()))
            found.must("apply", "--server-side", "-f", "-", objects=definitions)
            controlplane.wait_until(
                "the custom kinds to be established", 60, lambda: _established(found, len(definitions))
            )
            found.must("create", "namespace", shipped.ARGOCD_NAMESPACE)
            say(f"{len(definitions)} custom kinds established")
            yield found
    except controlplane.ControlPlaneError as error:
        pytest.fail(f"no control plane: {error}", pytrace=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        say("control plane stopped")


@pytest.fixture(scope="session")
def node_parts(say: Callable[[str], None]) -> Path:
    """All programs of a node, built and fetched; the folder of Debian's."""
    try:
        found: Path = kubelet.fetch_and_build(say)
    except controlplane.ControlPlaneError as error:
        pytest.fail(f"no node: {error}", pytrace=False)
    return found


@pytest.fixture(scope="session")
def kubelet_cluster(say: Callable[[str], None], node_parts: Path) -> Iterator[Any]:
    """Kubernetes with one real node that has the image of the stand-in."""
    folder = Path(tempfile.mkdtemp(prefix="paperclip-node-"))
    try:
        busybox = node_parts / "bin/busybox"
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
    """The environment of the tests that run agents, on that cluster."""
    return ground.bring_up(kubelet_cluster, tmp_path_factory.mktemp("launcher"))


@pytest.fixture
def site(prepared: Any) -> Iterator[Any]:
    """The same, with nothing of another test in it."""
    yield prepared
    prepared.clear()


def _established(cluster: Any, count: int) -> bool:
    """`kubectl wait` fails on a definition that has no status yet."""
    states = [
        condition["status"]
        for item in cluster.items("customresourcedefinitions")
        for condition in item.get("status", {}).get("conditions") or ()
        if condition["type"] == "Established"
    ]
    return states == ["True"] * count


@pytest.fixture(scope="session", params=[name for name in ENVIRONMENTS if not name.startswith("_")])
def environment(request: pytest.FixtureRequest, cluster: Any, say: Callable[[str], None]) -> Iterator[Any]:
    """A shipped environment: tried by a dry run, then applied, and gone again before the next one comes."""
    found = shipped.bring_up(cluster, ROOT, request.param)
    say(f"{found.name}: {len(found.files)} objects tried and applied")
    try:
        yield found
    finally:
        shipped.take_down(cluster, found)
        say(f"{found.name}: taken down")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs no environment comes first: it must not meet the objects of one that stands. The node comes last."""
    order = ("environment", "kubelet_cluster")
    items.sort(key=lambda item: [name in getattr(item, "fixturenames", ()) for name in reversed(order)])
