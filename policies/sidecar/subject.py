"""A server with a launcher beside it, and where a path of one of its containers leads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubekit.podspec import ContainerView
from policies.workloads.subjects import SERVER_CEL, is_server
from policies.world import Entry, PodView, mapping, sequence

SERVER, LAUNCHER = "paperclip", "launcher"
"""The names of the two containers."""
LINK = "https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/"
CEL_VARIABLES = {
    "servers": f"variables.mainContainers.filter(c, c.name == '{SERVER}')",
    "launchers": (
        f"(variables.mainContainers + variables.podSpec.?initContainers.orValue([])).filter(c, c.name == '{LAUNCHER}')"
    ),
    "beside": f"{SERVER_CEL} && size(variables.servers) > 0 && size(variables.launchers) > 0",
}


@dataclass(frozen=True)
class Beside:
    """The two containers of one pod."""

    pod: PodView
    server: ContainerView
    launcher: ContainerView


@dataclass(frozen=True)
class Place:
    """Where a path leads: a volume (`pointer` is its place), and from there on `inside`. `mount` is who says so."""

    mount: str
    pointer: str
    volume: Mapping[str, Any]
    inside: tuple[str, ...]
    read_only: bool


def server_of(entry: Entry) -> tuple[PodView, ContainerView] | None:
    """The server's container in its pod."""
    if entry.pod is None or not is_server(entry):
        return None
    found = [one for one in entry.pod.containers if one.name == SERVER and one.list_name == "containers"]
    return (entry.pod, found[0]) if found else None


def launcher_of(pod: PodView) -> ContainerView | None:
    """The launcher's container, one that goes on or an ordinary one."""
    found = [one for one in pod.containers if one.name == LAUNCHER and one.list_name != "ephemeralContainers"]
    return found[0] if found else None


def beside(entry: Entry) -> Beside | None:
    """None where no launcher stands beside a server."""
    found = server_of(entry)
    launcher = launcher_of(found[0]) if found else None
    return Beside(*found, launcher) if found and launcher else None


def words(container: ContainerView) -> Iterator[tuple[str, str]]:
    """(pointer, word) of its command line."""
    for field in ("command", "args"):
        for index, word in enumerate(sequence(container.spec.get(field))):
            if isinstance(word, str):
                yield f"{container.pointer}/{field}/{index}", word


def option(container: ContainerView, name: str) -> tuple[str, str] | None:
    """(pointer, value) of `--name=value` or `--name value`; the last one counts."""
    every = list(words(container))
    for index in range(len(every) - 1, -1, -1):
        pointer, word = every[index]
        if word.startswith(f"{name}="):
            return pointer, word.removeprefix(f"{name}=")
        if word == name and index + 1 < len(every):
            return every[index + 1]
    return None


def place_of(pod: PodView, container: ContainerView, path: str) -> Place | None:
    """Where `path` leads in the container; None where no volume is mounted above it."""
    best: tuple[int, str, Mapping[str, Any], tuple[str, ...]] | None = None
    steps = _steps(path)
    for index, one in enumerate(sequence(container.spec.get("volumeMounts"))):
        mount = mapping(one)
        above = _steps(mount.get("mountPath"))
        if above and steps[: len(above)] == above and (best is None or len(above) > best[0]):
            inside = (*_steps(mount.get("subPath")), *steps[len(above) :])
            best = (len(above), f"{container.pointer}/volumeMounts/{index}", mount, inside)
    if best is None:
        return None
    _, where, mount, inside = best
    for pointer, volume in pod.items("volumes"):
        if volume.get("name") == mount.get("name"):
            return Place(where, pointer, volume, inside, mount.get("readOnly") is True)
    return None


def _steps(path: object) -> tuple[str, ...]:
    return tuple(step for step in path.split("/") if step) if isinstance(path, str) else ()
