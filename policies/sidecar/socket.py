"""The socket between the server and its launcher."""

from __future__ import annotations

from collections.abc import Iterator

from policies.cel import Cel
from policies.model import Fault
from policies.registry import policy
from policies.sidecar.subject import (
    CEL_VARIABLES,
    LAUNCHER,
    LINK,
    Place,
    beside,
    launcher_of,
    option,
    place_of,
    server_of,
)
from policies.workloads.subjects import SERVER_CEL
from policies.world import PODS, Entry, World, mapping, sequence

VARIABLE = "PAPERCLIP_LAUNCHER_SOCKET"
_TOLD = f"s.?env.orValue([]).filter(e, e.name == '{VARIABLE}')"
_WORDS = "(' ' + (l.?command.orValue([]) + l.?args.orValue([])).join(' ') + ' ')"


def _told(entry: Entry) -> tuple[str, str] | None:
    """(pointer, path) of what the server is told; the path is "" where the variable holds no text."""
    found = server_of(entry)
    for index, one in enumerate(sequence(found[1].spec.get("env")) if found else ()):
        if found and mapping(one).get("name") == VARIABLE:
            value = mapping(one).get("value")
            return f"{found[1].pointer}/env/{index}", value if isinstance(value, str) else ""
    return None


@policy(
    "launcher-socket-agrees",
    title="The server asks for the launcher's socket where the launcher has it",
    rationale=(
        "With another path, or none, the server starts no run: each fails before it begins, or the server starts a"
        " launcher of its own that has no rights."
    ),
    remedy=f"give {VARIABLE} of the server's container and --socket of the launcher's one path",
    kinds=PODS,
    links=(LINK,),
    cel=Cel(
        f"!({SERVER_CEL}) || variables.servers.all(s, size(variables.launchers) == 0 ? size({_TOLD}) == 0"
        f" : size({_TOLD}) > 0 && {_TOLD}.all(e, variables.launchers.all(l,"
        f" {_WORDS}.contains(' --socket=' + e.?value.orValue('') + ' ')"
        f" || {_WORDS}.contains(' --socket ' + e.?value.orValue('') + ' '))))",
        variables=CEL_VARIABLES,
    ),
)
def launcher_socket_agrees(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    found, told = server_of(entry), _told(entry)
    if found is None:
        return
    pod, server = found
    launcher = launcher_of(pod)
    if launcher is None:
        if told is not None:
            yield Fault(told[0], f"{VARIABLE} is set, and no container of the pod is called {LAUNCHER!r}")
        return
    given = option(launcher, "--socket")
    if given is None:
        yield Fault(launcher.pointer, f'container "{LAUNCHER}" must be told --socket (is not)')
    elif told is None:
        yield Fault(f"{server.pointer}/env", f"{VARIABLE} must be {given[1]} (is absent)")
    elif told[1] != given[1]:
        yield Fault(
            f"{told[0]}/value", f"{VARIABLE} must be {given[1]}, the launcher's socket (is {told[1] or 'no text'})"
        )


@policy(
    "launcher-socket-shared",
    title="The server and its launcher share the folder of the socket, which goes with the pod",
    rationale=(
        "A socket in a folder of one container alone is not there for the other. On a claim, the socket of a pod that"
        " is gone stays, and not every file system holds one."
    ),
    remedy="mount one emptyDir at the folder of the socket in both containers",
    kinds=PODS,
    links=(LINK, "https://kubernetes.io/docs/concepts/storage/volumes/#emptydir"),
    cel=Cel(
        f"!variables.beside || variables.servers.all(s, {_TOLD}.all(e, variables.volumes.exists(v, has(v.emptyDir)"
        " && (variables.servers + variables.launchers).all(c, c.?volumeMounts.orValue([]).exists(m, m.name == v.name"
        " && e.?value.orValue('').startsWith(m.mountPath + '/'))))))",
        variables=CEL_VARIABLES,
        partly="It does not see that a mount stands inside another one, or shows a subPath.",
    ),
)
def launcher_socket_shared(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    found, told = beside(entry), _told(entry)
    if found is None or told is None:
        return
    places: list[Place] = []
    for container in (found.server, found.launcher):
        place = place_of(found.pod, container, told[1])
        if place is None:
            wanted = f'container "{container.name}" must mount a volume above {told[1] or VARIABLE} (has none there)'
            yield Fault(f"{container.pointer}/volumeMounts", wanted)
            continue
        places.append(place)
    if len(places) != 2:
        return
    server, launcher = places
    if (server.pointer, server.inside) != (launcher.pointer, launcher.inside):
        yield Fault(server.mount, f"{told[1]} must be one place for both containers (leads to two)")
    elif "emptyDir" not in server.volume:
        yield Fault(server.pointer, f"volume {server.volume.get('name')!r} holds the socket, and must be an emptyDir")
