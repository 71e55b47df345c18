"""cdk8s without a Node on the machine, and where HOME is of no use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from charts_py.errors import ToolMissing
from charts_py.kernel import node
from charts_py.kernel.objects import App, Component, ManifestObject, StackChart

ROOT = Path(__file__).resolve().parents[2]
PROBE = "import charts_py.kernel.objects as k; c = k.StackChart(k.App(), 's'); print(c.manifests())"


def deployment(name):
    spec = {"template": {"spec": {"volumes": [{"name": "tmp", "emptyDir": {}}], "hostUsers": False}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_an_object_passes_whole_with_its_empty_maps_and_the_path_of_its_construct():
    chart = StackChart(App(), "stack")
    Component(chart, "server", [deployment("web")])
    assert chart.manifests() == [("stack/server/deployment-web", deployment("web"))]


def test_a_user_can_add_objects_and_dependencies_order_them():
    chart = StackChart(App(), "stack")
    first = ManifestObject(chart, "first", deployment("first"))
    second = ManifestObject(chart, "second", deployment("second"))
    first.add_dependency(second)
    assert [manifest["metadata"]["name"] for _, manifest in chart.manifests()] == ["second", "first"]


@pytest.mark.parametrize("home", ["/nonexistent", "/proc"])
def test_cdk8s_runs_without_a_node_on_path_and_without_a_home(home):
    environment = {"PATH": "/nonexistent", "HOME": home, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


def test_a_missing_node_is_told_with_its_mend(monkeypatch):
    monkeypatch.setattr(node.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ToolMissing) as raised:
        node.node_binary()
    assert "make setup" in raised.value.remedy


def test_a_node_that_the_user_names_is_kept(monkeypatch):
    monkeypatch.setenv("JSII_NODE", "/opt/node")
    node.settle_environment()
    assert os.environ["JSII_NODE"] == "/opt/node"
