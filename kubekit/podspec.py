"""Where pods hide: the pod template of any kind, its containers, and what they refer to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Kind to the JSON pointer of its pod spec.
_POD_SPEC = {
    "Pod": ("spec",),
    "Deployment": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
    "DaemonSet": ("spec", "template", "spec"),
    "ReplicaSet": ("spec", "template", "spec"),
    "Job": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    "Rollout": ("spec", "template", "spec"),
}
PROMPT = "prompt"
"""The volume of an agent's pod that holds its prompt."""
BUNDLE = "bundle"
"""The volume that holds its skills, where they come in Secrets."""
_LISTS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True)
class ContainerView:
    """One container of a pod; `pointer` is where it stands in the object, `list_name` in which list."""

    pointer: str
    list_name: str
    spec: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.spec.get("name", ""))


def pod_pointer(kind: str) -> str | None:
    """The JSON pointer of the pod spec in an object of `kind`; None if it starts no pods."""
    path = _POD_SPEC.get(kind)
    return "/" + "/".join(path) if path else None


def pod_spec(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The pod spec of the object; None if it has none, or what stands there is no mapping."""
    return _walk(manifest, _POD_SPEC.get(str(manifest.get("kind"))))


def pod_metadata(manifest: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """(pointer, metadata) of the pods that the object starts."""
    path = _POD_SPEC.get(str(manifest.get("kind")))
    if path is None:
        return None
    found = _walk(manifest, (*path[:-1], "metadata"))
    return None if found is None else ("/" + "/".join((*path[:-1], "metadata")), found)


def containers(manifest: Mapping[str, Any]) -> Iterator[ContainerView]:
    """Every container, init containers first; what is no mapping is left out."""
    spec, pointer = pod_spec(manifest), pod_pointer(str(manifest.get("kind")))
    if spec is None or pointer is None:
        return
    for name in _LISTS:
        found = spec.get(name)
        for index, container in enumerate(found if isinstance(found, list) else ()):
            if isinstance(container, Mapping):
                yield ContainerView(f"{pointer}/{name}/{index}", name, container)


def prompt_secrets(job: Mapping[str, Any]) -> tuple[str, ...]:
    """The Secrets that hold the prompt and the files of an agent's run, in their order."""
    return tuple(str(one["name"]) for one in _secrets(job, PROMPT))


def bundle_secrets(job: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """{name, items} of the Secrets that hold the skills of an agent's run, in their order."""
    return tuple(_secrets(job, BUNDLE))


def environment_secret(job: Mapping[str, Any]) -> str:
    """The Secret whose keys are variables of an agent's run; "" where there is none."""
    found = [one for container in containers(job) for one in container.spec.get("envFrom") or ()]
    return str(found[0]["secretRef"]["name"]) if found else ""


def run_secrets(job: Mapping[str, Any]) -> tuple[str, ...]:
    """All Secrets that are made for one run alone."""
    bundle = (str(one["name"]) for one in bundle_secrets(job))
    return (*prompt_secrets(job), *bundle, *(one for one in (environment_secret(job),) if one))


def _secrets(job: Mapping[str, Any], volume: str) -> Iterator[Mapping[str, Any]]:
    for one in (pod_spec(job) or {}).get("volumes") or ():
        if one.get("name") == volume:
            yield from (source["secret"] for source in one["projected"]["sources"])


def _walk(tree: object, path: tuple[str, ...] | None) -> Mapping[str, Any] | None:
    if path is None:
        return None
    for part in path:
        if not isinstance(tree, Mapping):
            return None
        tree = tree.get(part)
    return tree if isinstance(tree, Mapping) else None
