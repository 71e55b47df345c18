"""Images: which bytes will really run."""

from __future__ import annotations

from collections.abc import Iterator

from kubekit import imageref
from kubekit.podspec import containers
from policies.model import Fault
from policies.registry import policy
from policies.world import Entry, World

_POD_KINDS = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")


def _images(entry: Entry) -> Iterator[tuple[str, str]]:
    for container in containers(entry.manifest):
        image = container.spec.get("image")
        if isinstance(image, str):
            yield f"{container.pointer}/image", image


@policy(
    "image-digest",
    title="Images are pinned by digest",
    rationale="A tag can move: what was tested is then not what runs, and two pods of one Deployment can differ.",
    remedy="run `paperclip-gitops images lock` where the registry can be reached",
    kinds=_POD_KINDS,
)
def image_digest(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for pointer, image in _images(entry):
        try:
            ref = imageref.parse(image)
        except imageref.ImageRefError as error:
            yield Fault(pointer, str(error))
            continue
        if not ref.digest:
            yield Fault(pointer, f"{image} has no digest, and must end in @sha256:...")


@policy(
    "image-no-floating-tag",
    title="No image follows `latest`",
    rationale="`latest`, said or unsaid, is a different program next week.",
    remedy="name the version",
    kinds=_POD_KINDS,
    waivable=False,
)
def image_no_floating_tag(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for pointer, image in _images(entry):
        try:
            ref = imageref.parse(image)
        except imageref.ImageRefError:
            continue  # image-digest says so
        if not ref.digest and ref.tag in ("", "latest"):
            yield Fault(pointer, f"{image} follows `latest`, and must name a version")
