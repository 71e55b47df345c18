"""What stands in dist/, as Argo CD would sync it: read, tried by a server-side dry run, applied, taken away again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from charts_py.config.environment import Environment
from charts_py.config.load import load_environment
from kubekit import labels
from kubekit.identity import CLUSTER_SCOPED, Manifest, ObjectId

ARGOCD_NAMESPACE = "argocd"
MANAGER = "argocd-controller"
"""The field manager under which Argo CD applies."""
APPLY = ("apply", "--server-side", f"--field-manager={MANAGER}", "--validate=strict")
DRY_RUN = (*APPLY, "--dry-run=server")


@dataclass(frozen=True)
class Shipped:
    """`refused` maps a file to what the dry run said of it; `config` is what it was rendered from."""

    name: str
    config: Environment
    files: Mapping[Path, Manifest]
    refused: Mapping[str, str]

    @property
    def paths(self) -> list[str]:
        """For kubectl: in the order in which Argo CD applies, wave by wave and in each by kind."""
        return in_order(self.files)

    @property
    def namespaces(self) -> list[str]:
        return [manifest["metadata"]["name"] for manifest in self.files.values() if manifest["kind"] == "Namespace"]

    @property
    def system(self) -> str:
        return self.config.namespace.name

    @property
    def agents(self) -> str:
        return self.config.agents.namespace

    def of_kind(self, kind: str) -> list[Manifest]:
        return [manifest for manifest in self.files.values() if manifest["kind"] == kind]


def objects_in(folder: Path) -> dict[Path, Manifest]:
    """Every Kubernetes object below a folder of dist/; the chart's values and the Job templates are none."""
    read = {path: yaml.safe_load(path.read_bytes()) for path in sorted(folder.rglob("*.yaml"))}
    return {path: tree for path, tree in read.items() if "apiVersion" in tree and "metadata" in tree}


def in_order(files: Mapping[Path, Manifest]) -> list[str]:
    """Arguments of kubectl that name the files, sorted by wave and kind."""

    def place(path: Path) -> tuple[int, int, str]:
        wave = files[path]["metadata"].get("annotations", {}).get(labels.SYNC_WAVE, "0")
        return (int(wave), ObjectId.of(files[path]).rank, str(path))

    return [argument for path in sorted(files, key=place) for argument in ("-f", str(path))]


def refusals(cluster: Any, files: Mapping[Path, Manifest], root: Path) -> dict[str, str]:
    """What a server-side dry run refuses: file → why. One call where all is well, since kubectl names no file."""
    if cluster.kubectl(*DRY_RUN, *in_order(files)).fine:
        return {}
    answers = {path: cluster.kubectl(*DRY_RUN, "-f", str(path)) for path in files}
    found = {str(path.relative_to(root)): answer.err for path, answer in answers.items() if not answer.fine}
    assert found, "kubectl refused the files together and none of them alone"
    return found


def bring_up(cluster: Any, root: Path, name: str) -> Shipped:
    """Tries every object, then applies them all: the namespaces before the rest."""
    files = objects_in(root / "dist" / name)
    config = load_environment(root / "environments" / f"{name}.yaml").config
    namespaces = {path: manifest for path, manifest in files.items() if manifest["kind"] == "Namespace"}
    refused = refusals(cluster, namespaces, root)
    if not refused:
        cluster.must(*APPLY, *in_order(namespaces))
        refused = refusals(cluster, files, root)
    found = Shipped(name, config, files, refused)
    cluster.kubectl(*APPLY, *found.paths)
    return found


def take_down(cluster: Any, environment: Shipped) -> None:
    """All that `bring_up` made. No Argo CD is there to serve the finalizers, so they go first."""
    outside = [
        manifest
        for manifest in environment.files.values()
        if manifest["kind"] != "Namespace" and manifest["metadata"].get("namespace") not in environment.namespaces
    ]
    bare = [{**one, "metadata": {**one["metadata"], "finalizers": []}} for one in outside]
    if bare:
        cluster.kubectl(*APPLY, "-f", "-", objects=bare)
        cluster.must("delete", "--ignore-not-found", "--timeout=60s", "-f", "-", objects=outside)
    cluster.must("delete", "--ignore-not-found", "--timeout=90s", "namespace", *environment.namespaces)


def stored(cluster: Any, environment: Shipped) -> dict[ObjectId, Manifest]:
    """The objects as the API server holds them."""
    items = cluster.must("get", "-o", "json", *environment.paths).json["items"]
    return {ObjectId.of(item): item for item in items}


def cluster_scoped(manifest: Manifest) -> bool:
    one = ObjectId.of(manifest)
    return (one.group, one.kind) in CLUSTER_SCOPED


def failed_creates(cluster: Any, namespaces: Sequence[str]) -> list[str]:
    """What controllers say of pods that they were not let make."""
    events = [event for name in namespaces for event in cluster.items("events", "-n", name)]
    return [
        f"{event['involvedObject']['kind']}: {event['message']}"
        for event in events
        if event["reason"] == "FailedCreate"
    ]
