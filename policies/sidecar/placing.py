"""What the launcher finds in its container, and the server on its claim."""

from __future__ import annotations

from collections.abc import Iterator

from kubekit.podspec import ContainerView
from policies.cel import Cel
from policies.model import Fault, Severity
from policies.registry import policy
from policies.sidecar.subject import CEL_VARIABLES, LAUNCHER, Beside, beside, option, place_of, words
from policies.world import PODS, Entry, World, mapping, sequence

_TEMPLATES = "/etc/paperclip/job-templates"
"""Where the launcher looks when nobody tells it."""


@policy(
    "launcher-templates-mounted",
    title="The launcher has the Job templates",
    rationale="Without them the launcher ends at its start, again and again, and the pod is never ready.",
    remedy=f"mount the ConfigMap of the Job templates at {_TEMPLATES} in the launcher's container",
    kinds=PODS,
    links=("https://kubernetes.io/docs/concepts/storage/volumes/#configmap",),
    cel=Cel(
        "!variables.beside || variables.launchers.all(l, l.?volumeMounts.orValue([]).exists(m,"
        " variables.volumes.exists(v, v.name == m.name && (has(v.configMap)"
        " || v.?projected.?sources.orValue([]).exists(s, has(s.configMap) && !v.projected.sources.exists(t,"
        " has(t.serviceAccountToken)))))))",
        variables=CEL_VARIABLES,
        partly="It does not compare the folder with --templates.",
    ),
)
def launcher_templates_mounted(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of all
    found = beside(entry)
    if found is None:
        return
    given = option(found.launcher, "--templates")
    folder = given[1] if given else _TEMPLATES
    place = place_of(found.pod, found.launcher, folder)
    where = f'container "{LAUNCHER}" must mount the ConfigMap of the Job templates at {folder}'
    if place is None:
        yield Fault(f"{found.launcher.pointer}/volumeMounts", f"{where} (has nothing there)")
        return
    sources = [mapping(one) for one in sequence(mapping(place.volume.get("projected")).get("sources"))]
    projected = any("configMap" in one for one in sources) and not any("serviceAccountToken" in one for one in sources)
    if "configMap" not in place.volume and not projected:
        yield Fault(place.mount, f"{where} (volume {place.volume.get('name')!r} is none)")


@policy(
    "launcher-state-kept",
    title="The launcher's journal outlives its pod",
    rationale=(
        "A launcher without its journal reads each log from the beginning, waits until the Lease of the one before it"
        " has expired, and cannot give back a result that nobody has taken."
    ),
    remedy="put --state of the launcher on the server's claim, under a subPath of its own",
    severity=Severity.WARNING,
    kinds=PODS,
    links=("https://kubernetes.io/docs/concepts/storage/volumes/#using-subpath",),
    cel=Cel(
        "!variables.beside || variables.launchers.all(l, variables.volumes.exists(v, has(v.persistentVolumeClaim)"
        " && l.?volumeMounts.orValue([]).exists(m, m.name == v.name"
        " && (l.?command.orValue([]) + l.?args.orValue([])).exists(w,"
        " w.startsWith('--state=' + m.mountPath) || w.startsWith(m.mountPath)))))",
        variables=CEL_VARIABLES,
        partly="Of paths it compares no more than how they begin.",
    ),
)
def launcher_state_kept(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    found = beside(entry)
    if found is None:
        return
    given = option(found.launcher, "--state")
    if given is None:
        yield Fault(found.launcher.pointer, f'container "{LAUNCHER}" must be told --state on a claim (is told none)')
        return
    place = place_of(found.pod, found.launcher, given[1])
    if place is None or "persistentVolumeClaim" not in place.volume:
        yield Fault(given[0], f"--state must lie on a claim ({given[1]} does not)")


@policy(
    "launcher-adapter-installed",
    title="An init container installs the adapter where the server looks for it",
    rationale=(
        "Without the adapter the server knows no agent that runs as a Job. One that was installed by hand once stays"
        " what it was, while the launcher beside it is replaced."
    ),
    remedy="run `paperclip-launcher adapter --install` with the server's PAPERCLIP_HOME in an init container",
    severity=Severity.WARNING,
    kinds=PODS,
    links=("https://kubernetes.io/docs/concepts/workloads/pods/init-containers/",),
    cel=Cel(
        "!variables.beside || variables.podSpec.?initContainers.orValue([]).exists(c,"
        " (c.?command.orValue([]) + c.?args.orValue([])).exists(w, w == 'adapter')"
        " && (c.?command.orValue([]) + c.?args.orValue([])).exists(w, w == '--install' || w.startsWith('--install=')))",
        variables=CEL_VARIABLES,
        partly="It does not see where the adapter goes.",
    ),
)
def launcher_adapter_installed(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of all
    found = beside(entry)
    if found is None:
        return
    installing = [
        (one, given)
        for one in found.pod.containers
        if one.list_name == "initContainers" and "adapter" in {word for _, word in words(one)}
        if (given := option(one, "--install")) is not None
    ]
    if not installing:
        yield Fault(
            f"{found.pod.pointer}/initContainers",
            "an init container must run `paperclip-launcher adapter --install` (none does)",
        )
    for container, (pointer, folder) in installing:
        if not _arrives(found, container, folder):
            yield Fault(pointer, f"--install must name a folder of the server's own volume ({folder} is not in one)")


def _arrives(found: Beside, container: ContainerView, folder: str) -> bool:
    """Whether what is written to the folder is there for the server."""
    here, there = place_of(found.pod, container, folder), place_of(found.pod, found.server, folder)
    if here is None or there is None or here.read_only:
        return False
    return (here.pointer, here.inside) == (there.pointer, there.inside)
