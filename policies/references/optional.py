"""Which Secrets the server may start without."""

from __future__ import annotations

from collections.abc import Iterator

from kubekit import labels
from policies.cel import Cel
from policies.model import Fault
from policies.references.consumers import Reference, references_of
from policies.references.made import SECRET
from policies.registry import policy
from policies.world import PODS, Entry, World

_OPTIONAL = frozenset({"paperclip-anthropic"})
"""What brings a feature: without it the server runs, and says so."""
_REQUIRED = frozenset({"paperclip-auth", "paperclip-db-auth", "paperclip-llm-key"})
"""What the server does nothing useful without."""

_SERVER = " && ".join(
    f"variables.podLabels[?'{key}'].orValue('') == '{value}'" for key, value in sorted(labels.SERVER.items())
)
_NAMES = "[" + ", ".join(f"'{name}'" for name in sorted(_REQUIRED)) + "]"


def _fits(reference: str, named: str = "name") -> str:
    """CEL: whether the optional reference says of its Secret what it must."""
    name, optional = f"{reference}.?{named}.orValue('')", f"{reference}.?optional.orValue(false)"
    feature = " || ".join(f"{name} == '{one}'" for one in sorted(_OPTIONAL))
    return f"(({feature}) ? {optional} : !({name} in {_NAMES} && {optional}))"


_CEL = Cel(
    expression="!variables.isServer || (variables.envFits && variables.envFromFits && variables.volumesFit)",
    variables={
        "isServer": _SERVER,
        "envFits": f"variables.containers.all(c, c.?env.orValue([]).all(e, {_fits('e.?valueFrom.?secretKeyRef')}))",
        "envFromFits": f"variables.containers.all(c, c.?envFrom.orValue([]).all(e, {_fits('e.?secretRef')}))",
        "volumesFit": (
            f"variables.volumes.all(v, {_fits('v.?secret', 'secretName')}"
            f" && v.?projected.?sources.orValue([]).all(s, {_fits('s.?secret')}))"
        ),
    },
)


@policy(
    "optional-secret",
    title="The server waits for the Secrets that it needs, and for no other",
    rationale=(
        "Without `optional` the server does not start until somebody stores a key that it can do without; with it on a"
        " needed Secret it starts before External Secrets has made it, and fails in ways that name no Secret."
    ),
    remedy=(
        "set `optional: true` where the server reads paperclip-anthropic, and nowhere else on paperclip-auth,"
        " paperclip-db-auth and paperclip-llm-key"
    ),
    kinds=PODS,
    links=("https://kubernetes.io/docs/concepts/configuration/secret/#restriction-secret-must-exist",),
    cel=_CEL,
)
def optional_secret(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.pod is None or not labels.SERVER.items() <= entry.pod.labels.items():
        return
    for one in references_of(entry):
        if one.kind != SECRET or not _can_be_optional(one):
            continue
        if one.name in _OPTIONAL and not one.optional:
            yield Fault(one.said or one.pointer, f'{one.reader} needs Secret "{one.name}", which must be optional')
        if one.name in _REQUIRED and one.optional:
            yield Fault(
                one.said or one.pointer, f'{one.reader} can do without Secret "{one.name}", which must not be optional'
            )


def _can_be_optional(one: Reference) -> bool:
    """Pull secrets and those of storage drivers cannot."""
    return "/envFrom/" in one.pointer or one.pointer.endswith(
        ("/secretKeyRef/name", "/secret/secretName", "/secret/name")
    )
