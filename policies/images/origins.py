"""Where images come from: registries that are allowed, and one that has closed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubekit.imageref import DEFAULT_REGISTRY, ImageRef
from policies.cel import Cel
from policies.facts import Facts
from policies.images.uses import BARE_ID, IN_CEL, LINK_NAMES, VALID, parsed, prefixes, under, uses
from policies.model import Fault
from policies.registry import policy
from policies.world import PODS, Entry, World

_HUB = "((?i:(index[.])?docker[.]io)/)?"
_END = "([/:@]|$)"


def _registries(facts: Facts) -> Cel | None:
    if not facts.registries:
        return None
    names = [one for text in facts.registries for one in prefixes(text)]
    allowed = " || ".join(_begins(one) for one in dict.fromkeys(names))
    return Cel(
        f"variables.images.all(i, !i.matches('{VALID}') || i.matches('{BARE_ID}') || {allowed})",
        variables=IN_CEL,
        message=f"images must come from {', '.join(facts.registries)}",
    )


def _begins(name: str) -> str:
    """CEL that holds where the text `i` of an image has a full name under `name`."""
    host, _, path = name.partition("/")
    if host != DEFAULT_REGISTRY:
        return f"i.matches('^(?i:{_literal(host)})/{_literal(path) + _END if path else ''}')"
    if not path:
        # No host in front: a first part with neither dot nor port, or no slash at all.
        return f"(i.matches('^({_HUB[:-1]}|[^/]*$|[-_a-z0-9]+/)') && !i.startsWith('localhost/'))"
    if path == "library":
        return f"i.matches('^{_HUB}(library/|[^/]+$)')"
    if path.startswith("library/"):
        last = _literal(path.removeprefix("library/"))
        return f"i.matches('^{_HUB}(library/{last}{_END}|{last}([:@]|$))')"
    return f"i.matches('^{_HUB}{_literal(path)}{_END if '/' in path else '/'}')"


def _literal(text: str) -> str:
    """A regular expression for `text` itself, without a backslash, which CEL would want doubled."""
    return re.sub(r"([.+*?()\[\]{}^$|\\])", lambda match: f"[{match[1]}]" if match[1] not in "^\\" else ".", text)


@policy(
    "image-registry-allowed",
    title="Images come from registries that are known",
    rationale="Whoever serves an image decides what runs: a name that is one letter off is somebody else's program.",
    remedy="take the image from an allowed registry, or add its registry to `checks.registries`",
    kinds=PODS,
    links=(
        LINK_NAMES,
        "https://kyverno.io/policies/best-practices/restrict-image-registries/restrict-image-registries/",
    ),
    cel=_registries,
)
def image_registry_allowed(entry: Entry, world: World) -> Iterator[Fault]:
    allowed = world.facts.registries
    if not allowed:
        return
    for use in uses(entry):
        ref = parsed(use.text)
        if ref is not None and not any(under(ref, one) for one in allowed):
            yield Fault(
                use.pointer, f"{use.where} has an image of {ref.name}, and must have one of {', '.join(allowed)}"
            )


_HUBS = frozenset({DEFAULT_REGISTRY, "registry-1.docker.io"})
_MIRROR = "mirror.gcr.io"
_LEGACY = "bitnamilegacy"
_IS_HUB = "((?i:(index[.]|registry-1[.])?docker[.]io)/)?"


@policy(
    "bitnami-mirror",
    title="Bitnami's images come from the mirror of what they were",
    rationale=(
        "Bitnami took the versions out of docker.io/bitnami in 2025: what a tag there still serves is another program"
        " or none, and a database that starts on it is not the one that wrote the data."
    ),
    remedy="use mirror.gcr.io/bitnamilegacy/NAME with a full revision such as 16.2.0-debian-11-r16",
    kinds=PODS,
    links=("https://github.com/bitnami/containers/issues/83267", "https://github.com/bitnami/charts/issues/35164"),
    cel=Cel(
        f"variables.images.all(i, !i.matches('{VALID}') || (!i.matches('^{_IS_HUB}bitnami(legacy)?/')"
        " && !i.matches('^(?i:mirror[.]gcr[.]io)/bitnami/')))",
        variables=IN_CEL,
        message="Bitnami's images come from mirror.gcr.io/bitnamilegacy",
    ),
)
def bitnami_mirror(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for use in uses(entry):
        ref = parsed(use.text)
        if ref is not None and (said := bitnami_problem(ref)):
            yield Fault(use.pointer, f"{use.where} {said}")


def bitnami_problem(ref: ImageRef) -> str:
    """What is wrong with an image of Bitnami, as the rest of a sentence; "" for any other."""
    owner = ref.repository.partition("/")[0]
    wanted = f"{_MIRROR}/{_LEGACY}"
    if (ref.registry in _HUBS and owner in {"bitnami", _LEGACY}) or (ref.registry == _MIRROR and owner == "bitnami"):
        return f"has an image of {ref.registry}/{owner}, and must have one of {wanted}"
    return ""
