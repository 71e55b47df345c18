"""When the launcher begins and ends, and whom it takes along."""

from __future__ import annotations

from collections.abc import Iterator

from policies.cel import Cel
from policies.model import Fault, Severity
from policies.registry import policy
from policies.sidecar.subject import CEL_VARIABLES, LAUNCHER, LINK, beside
from policies.world import PODS, Entry, World


@policy(
    "launcher-goes-on",
    title="A launcher among the init containers goes on beside the server",
    rationale="An init container is waited for: a launcher never ends by itself, so the server would never start.",
    remedy="set restartPolicy to Always on the launcher's container",
    kinds=PODS,
    links=(LINK,),
    cel=Cel(
        "!variables.beside || variables.podSpec.?initContainers.orValue([]).all(c,"
        f" c.name != '{LAUNCHER}' || c.?restartPolicy.orValue('') == 'Always')",
        variables=CEL_VARIABLES,
    ),
)
def launcher_goes_on(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    found = beside(entry)
    if found is None or found.launcher.list_name != "initContainers":
        return
    restart = found.launcher.spec.get("restartPolicy")
    if restart != "Always":
        told = "is absent" if restart is None else f"is {restart}"
        yield Fault(
            f"{found.launcher.pointer}/restartPolicy",
            f'container "{LAUNCHER}" must have restartPolicy Always among the init containers ({told})',
        )


@policy(
    "launcher-not-awaited",
    title="Nobody waits for the launcher",
    rationale=(
        "A pod is ready while all of its containers are, and begins when its sidecars have: with such a probe, a"
        " launcher that has lost the API server takes the users' pages away too."
    ),
    remedy="leave the launcher a livenessProbe alone; the adapter asks it itself whether it is ready",
    severity=Severity.WARNING,
    kinds=PODS,
    links=(LINK, "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-readiness-status"),
    cel=Cel(
        "!variables.beside || variables.launchers.all(l, !has(l.readinessProbe) && !has(l.startupProbe))",
        variables=CEL_VARIABLES,
    ),
)
def launcher_not_awaited(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    found = beside(entry)
    for name in ("readinessProbe", "startupProbe") if found else ():
        if found and found.launcher.spec.get(name) is not None:
            yield Fault(f"{found.launcher.pointer}/{name}", f'container "{LAUNCHER}" has a {name}, and must have none')
