"""Image references as container runtimes read them: registry, repository, tag, digest.

The grammar is that of github.com/distribution/reference, with sha256 as the only digest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

DEFAULT_REGISTRY = "docker.io"
_LONGEST_NAME = 255

_HOST = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
    r"|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?",
)
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HEX_ID = re.compile(r"[0-9a-f]{64}")


class ImageRefError(ValueError):
    """Text that no container runtime takes for an image."""


@dataclass(frozen=True)
class ImageRef:
    """One image. `tag` and `digest` ("sha256:" and 64 hex digits) are "" where there is none.

    Two references are equal when they mean the same image: "nginx" and "docker.io/library/nginx:" differ only
    in `text`, which is what was written.
    """

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""
    text: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.text:
            object.__setattr__(self, "text", str(self))

    @property
    def name(self) -> str:
        """registry/repository: the image without its version."""
        return f"{self.registry}/{self.repository}"

    def with_digest(self, digest: str) -> ImageRef:
        """The same image pinned to `digest`; the tag stays for the reader."""
        _check_digest(digest, self.text)
        text = f"{self.text.partition('@')[0]}@{digest}"
        return ImageRef(self.registry, self.repository, self.tag, digest, text)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"


def parse(text: str) -> ImageRef:
    """The image that `text` names; ImageRefError says what no runtime would take."""
    if not text:
        raise ImageRefError('an image reference is empty; write for example "ghcr.io/owner/app:1.2"')
    bad = re.search(r"[^\x21-\x7e]", text)
    if bad:
        code = f"U+{ord(bad[0]):04X}"
        raise ImageRefError(f"image {text!r} holds {code} at {bad.start() + 1}; take blanks and the like out")
    named, at, digest = text.partition("@")
    if at:
        _check_digest(digest, text)
    # Only a colon behind the last slash parts the tag off: localhost:5000/app has a port and no tag.
    head, slash, last = named.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        _refuse_tag(tag, text)
    registry, repository = _split_registry(head + slash + last, text)
    _check_repository(repository, text)
    if len(registry) + 1 + len(repository) > _LONGEST_NAME:
        raise ImageRefError(f"image {text!r} has a name of more than {_LONGEST_NAME} characters; shorten it")
    return ImageRef(registry, repository, tag, digest, text)


def _split_registry(name: str, text: str) -> tuple[str, str]:
    """The part before the first slash is a host if it has a dot or a port, or is localhost.

    Docker takes one with a capital for a host too; here it is a mistake, since no such host could be written in lower
    case and stay one.
    """
    first, slash, rest = name.partition("/")
    if not slash:
        if _HEX_ID.fullmatch(name):
            raise ImageRefError(f'image {text!r} is the bare id of an image; write "repository@sha256:{name}"')
        return DEFAULT_REGISTRY, f"library/{name}"
    if "." not in first and ":" not in first and first != "localhost":
        return DEFAULT_REGISTRY, name
    if not _HOST.fullmatch(first):
        raise ImageRefError(f'image {text!r} has {first!r} for a registry; write "host" or "host:port"')
    registry = first.lower()
    if registry in {DEFAULT_REGISTRY, "index.docker.io"}:
        return DEFAULT_REGISTRY, rest if "/" in rest else f"library/{rest}"
    return registry, rest


def _check_repository(repository: str, text: str) -> None:
    for component in repository.split("/"):
        if _COMPONENT.fullmatch(component):
            continue
        if component != component.lower():
            raise ImageRefError(f"image {text!r} has capitals in {component!r}; registries want lower case")
        if not component:
            raise ImageRefError(f'image {text!r} has an empty part in its name; take the extra "/" out')
        allowed = 'a-z and 0-9, joined by ".", "_", "__" or "-"'
        raise ImageRefError(f"image {text!r} has {component!r} in its name; allowed are {allowed}")


def _refuse_tag(tag: str, text: str) -> None:
    if not tag:
        raise ImageRefError(f'image {text!r} ends in ":"; write the tag behind it or take it out')
    if len(tag) > 128:
        raise ImageRefError(f"image {text!r} has a tag of {len(tag)} characters; at most 128 are allowed")
    raise ImageRefError(f'image {text!r} has the tag {tag!r}; allowed are letters, digits, "_", "." and "-"')


def _check_digest(digest: str, text: str) -> None:
    if not _DIGEST.fullmatch(digest):
        wanted = '"sha256:" and 64 hex digits in lower case'
        raise ImageRefError(f"image {text!r} has the digest {digest!r}; it must be {wanted}")
