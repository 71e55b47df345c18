"""The images of a pod: of its containers, and of volumes that are images (Kubernetes 1.31 and newer)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from kubekit import imageref
from kubekit.imageref import ImageRef
from policies.world import Entry, mapping

LINK_NAMES = "https://kubernetes.io/docs/concepts/containers/images/#image-names"

_HOST_LABEL = "[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?"
_PLAIN = "[a-z0-9]+((__?|-+)[a-z0-9]+)*"
_COMPONENT = "[a-z0-9]+(([.]|__?|-+)[a-z0-9]+)*"
_HOST = (
    f"(localhost(:[0-9]{{1,5}})?|{_HOST_LABEL}([.]{_HOST_LABEL})+(:[0-9]{{1,5}})?"
    f"|{_HOST_LABEL}:[0-9]{{1,5}}|[[][0-9A-Fa-f:]+[]](:[0-9]{{1,5}})?)"
)
_NAME = f"(({_HOST}|{_PLAIN})/{_COMPONENT}(/{_COMPONENT})*|{_COMPONENT})"
TAG = ":[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
DIGEST = "@sha256:[0-9a-f]{64}"
VALID = f"^{_NAME}({TAG})?({DIGEST})?$"
"""What kubekit.imageref takes, in RE2: a first part is a host if it has a dot or a port, or is localhost."""
PINNED = f"^{_NAME}({TAG})?{DIGEST}$"
BARE_ID = "^[0-9a-f]{64}([:@]|$)"
"""What looks like a name and is the id of an image, which no registry knows."""
IN_CEL = {
    "images": (
        "variables.containers.filter(c, has(c.image)).map(c, c.image)"
        " + variables.volumes.filter(v, has(v.image) && has(v.image.reference)).map(v, v.image.reference)"
    ),
}


class Use(NamedTuple):
    """One image that a pod uses. `pointer` leads to the text, `where` names the container or volume."""

    pointer: str
    text: str
    where: str
    pull_policy: object
    """What is written: not to be trusted to be text."""
    pull_pointer: str


def uses(entry: Entry) -> Iterator[Use]:
    """Every image of the object's pods, in the order of its containers; what is no text is left out."""
    if entry.pod is None:
        return
    for container in entry.pod.containers:
        image = container.spec.get("image")
        if isinstance(image, str):
            yield Use(
                f"{container.pointer}/image",
                image,
                f'container "{container.name}"',
                container.spec.get("imagePullPolicy"),
                f"{container.pointer}/imagePullPolicy",
            )
    for pointer, volume in entry.pod.items("volumes"):
        source: Mapping[str, Any] = mapping(volume.get("image"))
        reference = source.get("reference")
        if isinstance(reference, str):
            yield Use(
                f"{pointer}/image/reference",
                reference,
                f'volume "{volume.get("name", "")}"',
                source.get("pullPolicy"),
                f"{pointer}/image/pullPolicy",
            )


@lru_cache(maxsize=4096)
def parsed(text: str) -> ImageRef | None:
    """The image that `text` names; None for what no runtime takes, which image-digest says."""
    try:
        return imageref.parse(text)
    except imageref.ImageRefError:
        return None


def problem(text: str) -> str:
    """Why no runtime takes `text`. What stands before an "@" may be a password, so then it is not repeated."""
    try:
        imageref.parse(text)
    except imageref.ImageRefError as error:
        if text.count("@") > 1 or ("@" in text and "@sha256:" not in text):
            return 'the image has an "@" without a digest, and must end in @sha256:...'
        return str(error)
    return ""


@lru_cache(maxsize=1024)
def prefixes(text: str) -> tuple[str, ...]:
    """What the full names of images begin with that `text` allows, such as "ghcr.io/owner" or "docker.io/library".

    As in an image, a first part without dot and port is no host, and Docker Hub's own images need no owner.
    """
    first, _, rest = text.removesuffix("*").strip("/").partition("/")
    if "." in first or ":" in first or first == "localhost":
        host = first.lower()
    else:
        host, rest = imageref.DEFAULT_REGISTRY, f"{first}/{rest}".rstrip("/")
    if host == "index.docker.io":
        host = imageref.DEFAULT_REGISTRY
    if not rest:
        return (host,)
    if host == imageref.DEFAULT_REGISTRY and "/" not in rest and rest != "library":
        return (f"{host}/{rest}", f"{host}/library/{rest}")
    return (f"{host}/{rest}",)


def under(ref: ImageRef, allowed: str) -> bool:
    """Whether `allowed` is the image's name or whole leading parts of it: ghcr.io/a is not above ghcr.io/ab."""
    return any(ref.name == one or ref.name.startswith(f"{one}/") for one in prefixes(allowed))
