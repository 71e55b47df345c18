"""A config before the real API server: what of all that it renders is refused."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from charts_py.config.environment import Environment
from charts_py.config.load import load_environment
from charts_py.images import ImageLock, load
from kubekit import podspec, yamlwrite
from kubekit.identity import Manifest
from kubekit.jobtemplate import JobTemplate

# What must be there in truth before pods can be judged, even in a dry run.
_GROUND = ("Namespace", "ServiceAccount", "LimitRange")
_numbers = itertools.count(1)


def read(config: dict[str, Any], folder: Path) -> Environment:
    """The config through a file, in namespaces that no other trial has. Raises GitopsError where it is refused."""
    suffix = f"-{next(_numbers)}"
    config = copy.deepcopy(config)
    for mark, owner, key in (("s", config["namespace"], "name"), ("a", config["agents"], "namespace")):
        if isinstance(owner[key], str):
            # Two long names may differ in nothing but what is cut.
            own = suffix if len(owner[key]) <= 63 - len(suffix) else f"-{mark}{suffix}"
            owner[key] = f"{owner[key][: 63 - len(own)]}{own}"
    for index, tenant in enumerate(config.get("tenants", ())):
        tenant["namespace"] = f"tenant-{index}{suffix}"
    path = folder / "config.yaml"
    path.write_text(yamlwrite.dump(config))
    return load_environment(path).config


def judged(cluster: Any, environment: Environment) -> tuple[str, int]:
    """(what the API server says against them, how many) of the objects, their pods, and the sample Jobs of templates.

    Raises GitopsError where we refuse to render. Nothing stays but namespaces that are on their way out.
    """
    from charts_py.render import render  # not above: it starts Node, and the fast suite looks at this file too
    from charts_py.samples import sample_jobs

    rendering = render(environment, _no_digests())
    rendering.all_files()
    objects = [one.manifest for one in rendering.objects]
    jobs = [manifest for manifest, _ in sample_jobs(rendering.job_templates)]
    ground = [*_classes(jobs), *(one for one in objects if one["kind"] in _GROUND)]
    try:
        pods = [_pod(manifest, index) for index, manifest in enumerate((*objects, *jobs)) if podspec.pod_spec(manifest)]
        said = "\n".join(_objections(cluster, ground, [*objects, *jobs], pods))
        return said, len(objects) + len(jobs) + len(pods)
    finally:
        namespaces = (environment.namespace.name, environment.agents.namespace)
        cluster.must("delete", "--ignore-not-found", "--wait=false", "namespace", *namespaces)


def _no_digests() -> ImageLock:
    return load(Path("there is no such file"))


def _objections(
    cluster: Any,
    ground: list[Manifest],
    objects: list[Manifest],
    pods: list[Manifest],
) -> Iterator[str]:
    made = cluster.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", objects=ground)
    if not made.fine:
        yield made.err
    apply = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-")
    tried = cluster.kubectl(*apply, objects=objects)
    if tried.fine:
        yield from _changed(objects, tried.json["items"])
    else:
        yield tried.err
    admitted = cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", objects=pods)
    if not admitted.fine:
        yield admitted.err


def _changed(sent: list[Manifest], back: list[Manifest]) -> Iterator[str]:
    """Text that comes back as another text: such an object would differ from the state repo for ever."""
    data = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in back if one["kind"] == "ConfigMap"}
    for manifest in sent:
        if manifest["kind"] == "ConfigMap":
            described = manifest["metadata"]
            if manifest["data"] != data[described["namespace"], described["name"]].get("data", {}):
                yield f"ConfigMap {described['name']}: the API server changes its text"


def _pod(owner: Manifest, index: int) -> Manifest:
    """The pod that a controller would make of it."""
    template = owner["spec"]["template"]
    metadata = {**template["metadata"], "name": f"pod-{index}", "namespace": owner["metadata"]["namespace"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _classes(jobs: list[Manifest]) -> Iterator[Manifest]:
    """The classes that the config names are the cluster's own: it has them, or no pod is admitted."""
    named = {job["spec"]["template"]["spec"].get("priorityClassName") for job in jobs} - {None}
    yield from priority_classes(named)
    runtimes = {job["spec"]["template"]["spec"].get("runtimeClassName") for job in jobs}
    yield from (runtime_class(name) for name in sorted(runtimes - {None}))


def runtime_class(name: str) -> Manifest:
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "any"}


def priority_classes(names: set[str]) -> Iterator[Manifest]:
    for name in sorted(names):
        yield {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1000}


def templates_of(manifest: Manifest) -> dict[str, JobTemplate]:
    """What the launcher reads out of the ConfigMap of the Job templates: name → template."""
    data = manifest["data"]
    names = sorted(data.keys() - {"contract.json", "facts.json"})
    return {name.removesuffix(".json"): JobTemplate.load(data[name], data["contract.json"]) for name in names}
