"""Which bytes run: digests, tags, the lock, and when they are fetched again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubekit.imageref import ImageRef
from policies.cel import Cel
from policies.images.uses import BARE_ID, DIGEST, IN_CEL, LINK_NAMES, PINNED, TAG, VALID, Use, parsed, problem, uses
from policies.model import Fault, Scope, Severity
from policies.registry import policy
from policies.world import PODS, Entry, World

_LATEST_DIGEST = ":latest@"
_FLOATS = f"!i.matches('{TAG}$') || i.endsWith(':latest')"
"""CEL for a valid image `i` without a digest: whether it has no tag, or `latest`."""


@policy(
    "image-digest",
    title="Images are pinned by digest",
    rationale="A tag can move: what was tested is then not what runs, and two pods of one Deployment can differ.",
    remedy="run `paperclip-gitops images lock` where the registry can be reached",
    kinds=PODS,
    links=(LINK_NAMES, "https://kyverno.io/policies/other/require-image-checksum/require-image-checksum/"),
    cel=Cel(
        f"variables.images.all(i, i.matches('{VALID}') && !i.matches('{BARE_ID}')"
        f" && (i.matches('{DIGEST}$') || {_FLOATS}))",
        variables=IN_CEL,
        message="every image ends in @sha256: and 64 hex digits",
    ),
)
def image_digest(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for use in uses(entry):
        ref = parsed(use.text)
        if ref is None:
            yield Fault(use.pointer, problem(use.text))
        elif not ref.digest and not _floats(ref):
            yield Fault(use.pointer, f"{use.text} has no digest, and must end in @sha256:...")


@policy(
    "image-no-floating-tag",
    title="No image follows `latest`",
    rationale="`latest`, said or unsaid, is a different program next week.",
    remedy="name the version, and pin it with `paperclip-gitops images lock`",
    kinds=PODS,
    waivable=False,
    links=(LINK_NAMES, "https://docs.kubelinter.io/#/generated/checks?id=latest-tag"),
    cel=Cel(
        f"variables.images.all(i, !i.matches('{VALID}') || i.matches('{BARE_ID}') || i.matches('{DIGEST}$')"
        f" || !({_FLOATS}))",
        variables=IN_CEL,
        message="no image follows latest: each names a version",
    ),
)
def image_no_floating_tag(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for use in uses(entry):
        ref = parsed(use.text)
        if ref is not None and not ref.digest and _floats(ref):
            yield Fault(use.pointer, f"{use.text} follows `latest`, and must name a version")


def _floats(ref: ImageRef) -> bool:
    return ref.tag in ("", "latest")


@policy(
    "pull-policy-fits-pin",
    title="What is pinned is not pulled anew at each start",
    rationale=(
        "A digest is the same bytes wherever they lie: `Always` gains nothing and makes each start depend on the"
        " registry. An image without a digest is image-digest's finding, whatever its pull policy."
    ),
    remedy="set imagePullPolicy: IfNotPresent on what has a digest",
    severity=Severity.WARNING,
    kinds=PODS,
    links=("https://kubernetes.io/docs/concepts/containers/images/#image-pull-policy",),
    cel=Cel(
        f"variables.containers.all(c, !c.?image.orValue('').matches('{PINNED}') || c.image.matches('{BARE_ID}')"
        f" || c.?imagePullPolicy.orValue(c.image.contains('{_LATEST_DIGEST}') ? 'Always' : '') != 'Always')"
        f" && variables.volumes.all(v, !v.?image.?reference.orValue('').matches('{PINNED}')"
        f" || v.image.reference.matches('{BARE_ID}')"
        f" || v.image.?pullPolicy.orValue(v.image.reference.contains('{_LATEST_DIGEST}') ? 'Always' : '') != 'Always')",
        message="an image with a digest is pulled IfNotPresent, not Always",
    ),
)
def pull_policy_fits_pin(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for use in uses(entry):
        ref = parsed(use.text)
        if ref is None or not ref.digest:
            continue
        if use.pull_policy == "Always":
            yield Fault(
                use.pull_pointer, f"{use.where} has a digest, and its pull policy must be IfNotPresent (is Always)"
            )
        elif use.pull_policy is None and ref.tag == "latest":
            # The API server looks at the tag alone.
            yield Fault(
                use.pointer,
                f"{use.where} has a digest and the tag `latest`, which makes its pull policy Always: it must be said,"
                " and be IfNotPresent",
            )


@policy(
    "image-lock-parity",
    title="Images are those of images.lock",
    rationale=(
        "A digest that is changed by hand in one manifest is overwritten by the next rendering, and until then what"
        " runs is not what the lock says was chosen."
    ),
    remedy="change digests with `paperclip-gitops images lock --update` and render again",
    severity=Severity.WARNING,
    scope=Scope.SET,
    kinds=PODS,
    links=("https://fluxcd.io/flux/guides/image-update/",),
)
def image_lock_parity(entry: Entry, world: World) -> Iterator[Fault]:
    if not world.facts.pinned_images:
        return
    pinned = world.index(_pinned)
    for use in uses(entry):
        ref = parsed(use.text)
        if ref is None or not ref.digest:
            continue
        locked = pinned.get(_undigested(ref))
        if locked is None:
            yield Fault(
                use.pointer, f"{use.where} has an image that images.lock does not hold, and must have one of it"
            )
        elif locked != ref.digest:
            yield Fault(use.pointer, _differs(use, ref.digest, locked))


def _differs(use: Use, found: str, locked: str) -> str:
    return f"{use.where} is pinned to {found[:19]}..., and must be as in images.lock: {locked[:19]}..."


def _pinned(world: World) -> Mapping[str, str]:
    """Full name and tag to the digest that the lock holds."""
    found = {}
    for text, digest in world.facts.pinned_images.items():
        ref = parsed(text)
        if ref is not None:
            found[_undigested(ref)] = digest
    return found


def _undigested(ref: ImageRef) -> str:
    return f"{ref.name}:{ref.tag}"
