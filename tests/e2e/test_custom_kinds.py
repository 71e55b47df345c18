"""The control plane that the other tests trust: real, of the right version, and strict about custom resources too."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from charts_py.config.load import load_environment
from kubekit.identity import CLUSTER_SCOPED, ObjectId
from policies.schemas.crds import CrdSchemas

ROOT = Path(__file__).parents[2]
crds, shipped = sys.modules["crds"], sys.modules["shipped"]

pytestmark = pytest.mark.e2e

# Kinds that no shipped environment has.
_DATABASE = {
    "apiVersion": "postgresql.cnpg.io/v1",
    "kind": "Cluster",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"instances": 1, "storage": {"size": "1Gi"}},
}
_BACKUP = {
    "apiVersion": "postgresql.cnpg.io/v1",
    "kind": "ScheduledBackup",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"schedule": "0 0 2 * * *", "cluster": {"name": "a"}},
}


def one_of_each() -> dict[str, dict[str, Any]]:
    """Kind → an object of it, in the namespace default."""
    found = {"Cluster": _DATABASE, "ScheduledBackup": _BACKUP}
    for manifest in shipped.objects_in(ROOT / "dist").values():
        if manifest["kind"] in {kind.kind for kind in crds.KINDS}:
            found.setdefault(manifest["kind"], copy.deepcopy(manifest))
    for manifest in found.values():
        if not shipped.cluster_scoped(manifest):
            manifest["metadata"]["namespace"] = "default"
    return found


def test_the_api_server_is_of_the_version_that_the_environments_name(cluster):
    for path in sorted((ROOT / "environments").glob("*.yaml")):
        if "kind: Environment" in path.read_text():
            version = load_environment(path).config.cluster.kubernetes_version
            assert cluster.server.startswith(f"v{version}."), path.name


def test_every_custom_kind_is_established(cluster):
    found = {
        item["metadata"]["name"]: item["status"]["conditions"] for item in cluster.items("customresourcedefinitions")
    }
    assert set(found) == {kind.name for kind in crds.KINDS}
    for name, conditions in found.items():
        states = {condition["type"]: condition["status"] for condition in conditions}
        assert states == {"NamesAccepted": "True", "Established": "True"}, f"{name}: {conditions}"


def test_the_scopes_are_those_that_the_generator_goes_by():
    table = {(kind.group, kind.kind) for kind in crds.KINDS if kind.scope == "Cluster"}
    assert table == {one for one in CLUSTER_SCOPED if one in {(kind.group, kind.kind) for kind in crds.KINDS}}


def test_every_custom_kind_that_is_rendered_has_a_definition():
    rendered = {(ObjectId.of(one).group, one["kind"]) for one in shipped.objects_in(ROOT / "dist").values()}
    custom = {pair for pair in rendered if "." in pair[0] and not pair[0].endswith(".k8s.io")}
    assert custom <= {(kind.group, kind.kind) for kind in crds.KINDS}


@pytest.mark.parametrize("kind", crds.KINDS, ids=[kind.kind for kind in crds.KINDS])
def test_an_unknown_field_of_a_custom_resource_is_refused_by_the_server(cluster, kind):
    """With kubectl's own checks out of the way: in an apply, and in a create with strict field validation."""
    good = one_of_each()[kind.kind]
    bad = copy.deepcopy(good)
    bad["spec"]["typo"] = 1
    apply = ("apply", "--server-side", "--dry-run=server", "--validate=ignore", "-f", "-")
    assert cluster.kubectl(*apply, objects=[good]).fine
    answer = cluster.kubectl(*apply, objects=[bad])
    assert answer.code == 1
    assert ".spec.typo: field not declared in schema" in answer.err
    place = "" if kind.scope == "Cluster" else "/namespaces/default"
    path = f"/apis/{good['apiVersion']}{place}/{kind.plural}?dryRun=All&fieldValidation=Strict"
    assert cluster.kubectl("create", "--raw", path, "-f", "-", objects=[good]).fine
    answer = cluster.kubectl("create", "--raw", path, "-f", "-", objects=[bad])
    assert answer.code == 1
    assert 'unknown field \\"spec.typo\\"' in answer.err or 'unknown field "spec.typo"' in answer.err


def test_a_field_of_the_wrong_type_is_refused(cluster):
    bad = copy.deepcopy(one_of_each()["ExternalSecret"])
    bad["spec"]["data"] = "not a list"
    answer = cluster.kubectl("create", "--dry-run=server", "-f", "-", objects=[bad])
    assert answer.code == 1
    assert "spec.data" in answer.err


@pytest.fixture(scope="session")
def pulled(cluster, tmp_path_factory):
    """What `schemas pull --from-cluster` writes."""
    folder = tmp_path_factory.mktemp("pulled")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "charts_py.cli.main",
            "schemas",
            "pull",
            "--from-cluster",
            "--into",
            str(folder),
            "--format=json",
        ],
        cwd=ROOT,
        env={**cluster.environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(json.loads(done.stdout)["folder"]) == folder
    return CrdSchemas([folder])


@pytest.mark.parametrize("kind", crds.KINDS, ids=[kind.kind for kind in crds.KINDS])
def test_schemas_pulled_from_the_cluster_are_as_strict_as_the_cluster(pulled, kind):
    good = one_of_each()[kind.kind]
    for version in kind.versions:
        schema = pulled.find(kind.group, kind.kind, version)
        assert schema is not None, f"no schema of {kind.group}/{version} {kind.kind} was pulled"
        assert schema.checks
        assert schema.compiled.faults({**good, "apiVersion": f"{kind.group}/{version}"}) == []
        bad = copy.deepcopy(good)
        bad["spec"]["typo"] = 1
        assert [fault.pointer for fault in schema.compiled.faults(bad)] == ["/spec/typo"]
