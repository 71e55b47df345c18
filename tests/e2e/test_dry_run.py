"""Every object that stands in dist/, before the real API server: strict, server-side, and without a trace."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SYNCED = ("paperclip-system", "paperclip-agents", "paperclip-policies", "argocd")
shipped = sys.modules["shipped"]

pytestmark = pytest.mark.e2e


def test_every_object_of_an_environment_passes_a_server_side_dry_run(environment):
    assert not environment.refused, "\n".join(f"{file}: {why}" for file, why in environment.refused.items())


def test_no_file_of_a_synced_folder_is_left_out(environment):
    folders = [ROOT / "dist" / environment.name / stack for stack in SYNCED]
    files = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    assert files == set(environment.files)


def test_the_applicationset_of_the_fleet_passes_a_server_side_dry_run(cluster):
    files = shipped.objects_in(ROOT / "dist/_fleet")
    assert [manifest["kind"] for manifest in files.values()] == ["ApplicationSet"]
    assert shipped.refusals(cluster, files, ROOT) == {}


def test_a_refused_object_is_named_by_its_file(cluster, tmp_path):
    good = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good", "namespace": "default"}}
    bad = {**good, "metadata": {"name": "bad", "namespace": "default"}, "dta": {}}
    files = {tmp_path / "good.yaml": good, tmp_path / "bad.yaml": bad}
    for path, manifest in files.items():
        path.write_text(json.dumps(manifest))
    refused = shipped.refusals(cluster, files, tmp_path)
    assert list(refused) == ["bad.yaml"]
    assert ".dta" in refused["bad.yaml"]
    assert cluster.kubectl("get", "configmap", "-n", "default", "good").code == 1, "a dry run left something behind"
