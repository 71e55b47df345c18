"""The environment of containers: what is in it, and whether a change of it reaches the pod.

Kubernetes expands `$(NAME)` in `env` with names declared earlier and with those of `envFrom`, in `command` and `args`
with all of them; what it does not know stays as it stands, and `$$` is a dollar sign (EnvVar.value and
Container.command in the API reference; third_party/forked/golang/expansion in the source).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import labels
from kubekit.podspec import ContainerView
from policies.cel import Cel
from policies.model import Fault, Scope, Severity
from policies.registry import policy
from policies.world import PODS, Entry, PodView, World, mapping, sequence

_ENV = "https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/"
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_UNMISTAKABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
"""A name that is no command of a shell: `$(date)` in a script is meant for that."""
_OF_SERVICES = re.compile(r".*(?:_SERVICE_HOST|_SERVICE_PORT|_PORT)(?:_.*)?")
"""What the kubelet adds for the Services of the namespace."""
_NOWHERE = ", which must be the name of a variable of the container (there is none)"
_RELOADERS = ("reloader.stakater.com/", "configmap.reloader.stakater.com/")
_HASHED = re.compile(r".+-[bcdfghkmt2456789]{10}")
"""A name with the hash of its content, as kustomize writes it."""


@policy(
    "env-unique",
    title="No variable stands twice in a container",
    rationale="The last one wins without a word, and a server-side apply refuses the object.",
    remedy="keep one of them",
    kinds=PODS,
    links=("https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/",),
    cel=Cel("variables.containers.all(c, c.?env.orValue([]).all(e, c.env.exists_one(o, o.name == e.name)))"),
)
def env_unique(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for container in entry.pod.containers if entry.pod else ():
        seen: dict[str, str] = {}
        for pointer, name, _ in _variables(container):
            if name in seen:
                first = seen[name].rpartition("/")[2]
                yield Fault(
                    f"{pointer}/name",
                    f"container {container.name!r} must have the variable {name!r} once (env/{first} has it too)",
                )
            else:
                seen[name] = pointer


_NAMES = "c.?env.orValue([]).map(x, x.name)"
_FOUND = r"replace('$$', '\n').findAll('[$][(][^)]*[)]')"
_NAME = "r.substring(2, size(r) - 1)"


@policy(
    "env-expansion-order",
    title="`$(NAME)` stands after the variable it names",
    rationale=(
        "Kubernetes knows only names that are declared earlier; any other reference stays as it is written, and the"
        " program gets `$(PG_PASSWORD)` for a password."
    ),
    remedy="move the variable before the one that uses it; write $$( for a text that is no reference",
    kinds=PODS,
    links=(_ENV,),
    cel=Cel(
        "variables.containers.all(c, c.?env.orValue([]).all(e,"
        # Looked for first: taking a large value apart would cost more than an API server grants.
        " !e.?value.orValue('').contains('$(') ||"
        f" e.?value.orValue('').{_FOUND}.all(r, {_NAMES}.indexOf({_NAME}) < {_NAMES}.indexOf(e.name))))",
        partly="It judges names that are declared too late, not those that are declared nowhere.",
    ),
)
def env_expansion_order(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for container in entry.pod.containers if entry.pod else ():
        variables = list(_variables(container))
        places: dict[str, int] = {}
        for place, (_, name, _) in enumerate(variables):
            places.setdefault(name, place)
        known = None if sequence(container.spec.get("envFrom")) else frozenset(places)
        for place, (pointer, name, variable) in enumerate(variables):
            for used in _references(variable.get("value")):
                told = f"container {container.name!r}: {name} uses $({used})"
                if places.get(used, -1) >= place:
                    where = "the variable itself" if used == name else f"declared later (env/{places[used]})"
                    yield Fault(f"{pointer}/value", f"{told}, which must be declared before it (is {where})")
                elif _unknown(used, known):
                    yield Fault(f"{pointer}/value", f"{told}{_NOWHERE}", Severity.WARNING)
        yield from _in_words(container, known)


def _in_words(container: ContainerView, known: frozenset[str] | None) -> Iterator[Fault]:
    for field in ("command", "args"):
        for place, text in enumerate(sequence(container.spec.get(field))):
            for used in _references(text):
                if _unknown(used, known):
                    yield Fault(
                        f"{container.pointer}/{field}/{place}",
                        f"container {container.name!r}: {field} uses $({used}){_NOWHERE}",
                        Severity.WARNING,
                    )


def _unknown(name: str, known: frozenset[str] | None) -> bool:
    """Whether a name is surely meant for a variable that there is not; `known` is None where envFrom may have it."""
    if known is None or name in known:
        return False
    return bool(_UNMISTAKABLE.fullmatch(name)) and not _OF_SERVICES.fullmatch(name)


def _references(text: object) -> Iterator[str]:
    if isinstance(text, str) and "$(" in text:
        yield from dict.fromkeys(match[1] for match in _REFERENCE.finditer(text) if match[1])


def _variables(container: ContainerView) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(pointer, name, variable) of each item of env."""
    for place, one in enumerate(sequence(container.spec.get("env"))):
        if isinstance(one, Mapping) and isinstance(one.get("name"), str):
            yield f"{container.pointer}/env/{place}", one["name"], one


@policy(
    "config-checksum",
    title="A change of a ConfigMap that a pod cannot see starts a new pod",
    rationale=(
        "Variables and files mounted by subPath are read when the container starts: the new ConfigMap is in the cluster"
        ' and the pod goes on with the old one, and Argo CD says "Synced".'
    ),
    remedy=(
        f"put a hash of the ConfigMap's content on the pod template as annotation {labels.CONFIG_CHECKSUM} (or"
        " checksum/NAME), or give the ConfigMap a name with its hash"
    ),
    severity=Severity.WARNING,
    scope=Scope.SET,
    kinds=("Deployment", "StatefulSet", "DaemonSet"),
    links=(
        "https://kubernetes.io/docs/concepts/configuration/configmap/#mounted-configmaps-are-updated-automatically",
        "https://helm.sh/docs/howto/charts_tips_and_tricks/#automatically-roll-deployments",
    ),
)
def config_checksum(entry: Entry, world: World) -> Iterator[Fault]:
    pod = entry.pod
    if pod is None or _rolls(entry, pod):
        return
    frozen: dict[str, str] = {}
    for container in pod.containers:
        for name, use in _config_maps(container, pod):
            known = world.find("ConfigMap", entry.id.namespace, name)
            if known is not None and known.manifest.get("immutable") is not True and not _HASHED.fullmatch(name):
                frozen.setdefault(name, f"{name!r} ({use} of container {container.name!r})")
    if frozen:
        yield Fault(
            f"{pod.pointer.removesuffix('/spec')}/metadata/annotations",
            f"the pod template must carry a checksum of what it reads only at its start: {', '.join(frozen.values())}",
        )


def _rolls(entry: Entry, pod: PodView) -> bool:
    """Whether something starts new pods: a checksum on the template, or a controller that watches ConfigMaps."""
    if any(key == labels.CONFIG_CHECKSUM or str(key).startswith("checksum/") for key in pod.annotations):
        return True
    return any(str(key).startswith(_RELOADERS) for key in (*entry.annotations, *pod.annotations))


def _config_maps(container: ContainerView, pod: PodView) -> Iterator[tuple[str, str]]:
    """(name, use) of each ConfigMap that the container reads once."""
    found: list[tuple[Any, str]] = [
        (mapping(mapping(one).get("configMapRef")).get("name"), "envFrom")
        for one in sequence(container.spec.get("envFrom"))
    ]
    found += [
        (mapping(mapping(one.get("valueFrom")).get("configMapKeyRef")).get("name"), "env")
        for _, _, one in _variables(container)
    ]
    by_part = {
        mount.get("name")
        for mount in sequence(container.spec.get("volumeMounts"))
        if isinstance(mount, Mapping)
        and isinstance(mount.get("name"), str)
        and (mount.get("subPath") or mount.get("subPathExpr"))
    }
    for _, volume in pod.items("volumes") if by_part else ():
        if isinstance(volume.get("name"), str) and volume["name"] in by_part:
            sources = [volume, *(mapping(one) for one in sequence(mapping(volume.get("projected")).get("sources")))]
            found += [(mapping(one.get("configMap")).get("name"), "subPath mount") for one in sources]
    yield from ((name, use) for name, use in found if isinstance(name, str))
