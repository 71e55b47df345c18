"""Who of the pod may speak to the API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.cel import Cel
from policies.model import Fault
from policies.registry import policy
from policies.sidecar.subject import CEL_VARIABLES, LAUNCHER, LINK, beside
from policies.world import PODS, Entry, PodView, World, mapping, sequence

_TOKENS = (
    "variables.volumes.filter(v, v.?projected.?sources.orValue([]).exists(s, has(s.serviceAccountToken)"
    " && s.serviceAccountToken.?audience.orValue('') == ''))"
)


@policy(
    "launcher-token-apart",
    title="Beside the server, the launcher alone has the token of the account",
    rationale=(
        "What agents make the server run could otherwise create any Job, and read what the account may read, past every"
        " check of the launcher. Through the socket it can only ask for runs."
    ),
    remedy=(
        "set automountServiceAccountToken to false on the pod, and mount a projected serviceAccountToken in the"
        " launcher's container alone"
    ),
    kinds=PODS,
    links=(LINK, "https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken"),
    cel=Cel(
        "!variables.beside || !variables.podSpec.?automountServiceAccountToken.orValue(true)"
        f" && variables.tokens.all(v, variables.containers.all(c, c.name == '{LAUNCHER}'"
        " || !c.?volumeMounts.orValue([]).exists(m, m.name == v.name)))"
        " && variables.launchers.all(l, l.?volumeMounts.orValue([]).exists(m,"
        " variables.tokens.exists(v, v.name == m.name)))",
        variables={**CEL_VARIABLES, "tokens": _TOKENS},
    ),
)
def launcher_token_apart(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    found = beside(entry)
    if found is None:
        return
    automount = found.pod.spec.get("automountServiceAccountToken")
    if automount is not False:
        told = "is true" if automount is True else "is absent, which means true"
        yield Fault(
            f"{found.pod.pointer}/automountServiceAccountToken",
            f"automountServiceAccountToken must be false beside a launcher ({told}): every container has the token",
        )
    tokens = tuple(_token_volumes(found.pod))  # names, junk among what is compared with them
    own = False
    for container in found.pod.containers:
        for index, mount in enumerate(sequence(container.spec.get("volumeMounts"))):
            if mapping(mount).get("name") not in tokens:
                continue
            own = own or container.name == LAUNCHER
            if container.name != LAUNCHER:
                yield Fault(
                    f"{container.pointer}/volumeMounts/{index}",
                    f'container "{container.name}" mounts a token of the account, and only "{LAUNCHER}" must',
                )
    if automount is False and not own:
        yield Fault(f"{found.launcher.pointer}/volumeMounts", f'container "{LAUNCHER}" must mount a token (has none)')


def _token_volumes(pod: PodView) -> Iterator[str]:
    """The names of volumes with a token for the API server; one for another audience is worth nothing there."""
    for _, volume in pod.items("volumes"):
        sources = sequence(mapping(volume.get("projected")).get("sources"))
        name = volume.get("name")
        if isinstance(name, str) and any(_is_token(mapping(one)) for one in sources):
            yield name


def _is_token(source: Mapping[str, Any]) -> bool:
    token = source.get("serviceAccountToken")
    return isinstance(token, Mapping) and not token.get("audience")
