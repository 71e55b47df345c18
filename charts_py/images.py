"""images.lock: the digest each image had when it was locked. Only `load` and `write` touch a file.

A digest in the lock was computed from bytes that the registry served. One that is not known is left out.
"""

from __future__ import annotations

import hashlib
import os
import re
import textwrap
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from charts_py.errors import ConfigError, GitopsError
from kubekit import imageref, yamlread, yamlwrite
from kubekit.imageref import ImageRef
from kubekit.pointers import join

API_VERSION = "paperclip-gitops/v1"
KIND = "ImageLock"
HEAD = """\
# The digest of each image, as its registry served it. Rendering takes digests from here and asks no registry.
# To lock new images: paperclip-gitops images lock. To see which tags moved: images lock --check. To follow
# them: images lock --update. An image without a digest says why.
"""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Resolver(Protocol):
    """Whatever knows digests. `resolve` raises charts_py.registry.RegistryError."""

    def resolve(self, ref: ImageRef) -> str: ...


@dataclass(frozen=True)
class LockedImage:
    """`image`: the reference as the config writes it, tag and no digest. `unresolved`: why no digest."""

    image: str
    digest: str | None = None
    unresolved: str = ""


@dataclass(frozen=True)
class ImageLock:
    """`images` are sorted, each image once. `source` is the file, for messages."""

    images: tuple[LockedImage, ...] = ()
    source: str = field(default="images.lock", compare=False)

    def find(self, ref: ImageRef) -> LockedImage | None:
        return self._by_name.get(_name(ref))

    def digest_of(self, text: str) -> str | None:
        """The digest in the reference, else the one in the lock.

        Raises ConfigError where `text` is no reference, and where both are there and differ.
        """
        return self._digest(_parse(text))

    def pin(self, text: str) -> str:
        """registry/repository:tag@digest, or `text` while the digest is not known; raises as digest_of."""
        ref = _parse(text)
        digest = self._digest(ref)
        return str(ref.with_digest(digest)) if digest else text

    @property
    def sha256(self) -> str:
        """64 hex digits over `text`: what `sha256sum images.lock` says of the file as `write` leaves it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def text(self) -> str:
        """The whole file. Equal locks give equal text."""
        lines = [HEAD, yamlwrite.dump({"apiVersion": API_VERSION, "kind": KIND})]
        if not self.images:
            return "".join([*lines, yamlwrite.dump({"images": []})])
        lines.append("images:\n")
        for entry in self.images:
            # One key a time: the image stands first, whatever the writer's order of keys.
            lines.append("- " + yamlwrite.dump({"image": entry.image}))
            if entry.digest:
                lines.append("  " + yamlwrite.dump({"digest": entry.digest}))
            elif entry.unresolved:
                lines.append(textwrap.indent(yamlwrite.dump({"unresolved": entry.unresolved}), "  "))
        return "".join(lines)

    def _digest(self, ref: ImageRef) -> str | None:
        entry = self.find(ref)
        locked = entry.digest if entry else None
        if ref.digest and locked and ref.digest != locked:
            raise ConfigError(
                f"{ref}: {self.source} has another digest for this tag: {locked}",
                "remove the digest from the reference, or take the entry out of the lock",
            )
        return ref.digest or locked

    @cached_property
    def _by_name(self) -> dict[str, LockedImage]:
        return {_name(imageref.parse(entry.image)): entry for entry in self.images}


@dataclass(frozen=True)
class Change:
    """A digest that is not what it was; None where there is none."""

    image: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class RelockResult:
    """What became of each image.

    `changed`: digests only; the lock may differ in more. `unresolved`: (image, error) for each that failed.
    `asked`: number of images that a registry was asked for.
    """

    lock: ImageLock
    changed: tuple[Change, ...]
    unresolved: tuple[tuple[str, GitopsError], ...]
    asked: int

    @property
    def exit_code(self) -> int:
        """0 all answered, 5 no registry could be reached, 1 something in between."""
        lost = [error for _, error in self.unresolved if error.exit_code == _UNREACHABLE]
        return _UNREACHABLE if lost and len(lost) == self.asked else int(bool(self.unresolved))


_UNREACHABLE = 5


def load(path: Path) -> ImageLock:
    """The lock in `path`; a file that is not there is an empty lock.

    Raises ConfigError with all that is wrong, each with file:line:column.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return ImageLock(source=str(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", "make it a readable file") from error
    return parse(text, str(path))


def parse(text: str | bytes, source: str = "images.lock") -> ImageLock:
    """As `load`, from text."""
    try:
        document = yamlread.read(text, source)
    except yamlread.YamlProblem as problem:
        raise ConfigError(str(problem), problem.remedy) from problem
    reader = _Reader(document, source)
    entries = reader.entries()
    if reader.problems:
        remedy = "mend the lines, or remove the entries and run `paperclip-gitops images lock`"
        raise ConfigError("\n".join(reader.problems), remedy)
    return ImageLock(tuple(sorted(entries, key=_by_image)), source)


def write(lock: ImageLock, path: Path) -> bool:
    """Puts `lock` in `path` whole or not at all; False where the file said the same already.

    Raises GitopsError where it cannot be written; the old file is then as it was.
    """
    path = path.resolve()  # a link stays a link
    content = lock.text.encode()
    staged = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and path.read_bytes() == content:
            return False
        with staged.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        staged.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        remedy = "check that the folder is there, may be written and has room"
        raise GitopsError(f"{path}: cannot be written: {error.strerror}", remedy) from error
    finally:
        staged.unlink(missing_ok=True)
    return True


def relock(lock: ImageLock, images: Iterable[str], client: Resolver, *, again: Collection[str] = ()) -> RelockResult:
    """A lock that holds exactly `images`. Digests that are known stay, save for those of `again`, asked anew.

    An image whose registry fails keeps what it had; a new one is listed with the reason. A reference that
    carries a digest needs no entry; in `again`, it is checked to exist. ConfigError for bad references.
    """
    from charts_py.registry import RegistryError, RegistryUnreachable  # noqa: PLC0415 - httpx takes 0.1 s

    refs = _references(images)
    anew = {_name(ref) for ref in _references(again)}
    entries, changed, unresolved, asked = [], [], [], 0
    for ref in refs:
        known = lock.find(ref)
        before = lock.digest_of(ref.text)
        after, reason = before, known.unresolved if known else ""
        if before is None or _name(ref) in anew:
            asked += 1
            try:
                after, reason = client.resolve(ref), ""
            except RegistryError as error:
                unresolved.append((ref.text, error))
                # Being offline says nothing new about an image that is listed already.
                keep = known is not None and isinstance(error, RegistryUnreachable)
                reason = reason if keep or before else error.reason
        if after != before:
            changed.append(Change(ref.text, before, after))
        if not ref.digest:
            entries.append(LockedImage(known.image if known else ref.text, after, reason))
    kept = {_name(ref) for ref in refs}
    gone = [entry for entry in lock.images if _name(imageref.parse(entry.image)) not in kept]
    changed += [Change(entry.image, entry.digest, None) for entry in gone if entry.digest]
    new = ImageLock(tuple(sorted(entries, key=_by_image)), lock.source)
    return RelockResult(new, tuple(changed), tuple(unresolved), asked)


def _references(texts: Iterable[str]) -> list[ImageRef]:
    """`texts` parsed, sorted, each image once; all that is wrong in one ConfigError."""
    found: dict[tuple[str, str], ImageRef] = {}
    problems = []
    for text in sorted(set(texts)):
        try:
            ref = _parse(text)
        except ConfigError as error:
            problems.append(error.message)
            continue
        if not (ref.tag or ref.digest):
            problems.append(f"image {text!r} has no tag")
        found.setdefault((_name(ref), ref.digest or ""), ref)
    if problems:
        raise ConfigError("\n".join(problems), "write each image as registry/repository:tag")
    return list(found.values())


def _parse(text: str) -> ImageRef:
    try:
        return imageref.parse(text)
    except imageref.ImageRefError as error:
        raise ConfigError(str(error), "write the image as registry/repository:tag") from error


def _name(ref: ImageRef) -> str:
    """What is the same for all spellings of an image: `nginx:1` is `docker.io/library/nginx:1`."""
    return f"{ref.name}:{ref.tag}"


def _by_image(entry: LockedImage) -> str:
    return entry.image


class _Reader:
    """Takes the tree apart and collects every problem with its place."""

    def __init__(self, document: yamlread.Document, source: str) -> None:
        self._tree = document.value
        self._positions = document.positions
        self._source = source
        self._places: dict[str, str] = {}
        self.problems: list[str] = []

    def entries(self) -> list[LockedImage]:
        tree = self._map(self._tree, "", ("apiVersion", "kind", "images"))
        for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
            if tree is not None and tree.get(name) != wanted:
                self._problem(join("", name), f"{name} must be {wanted}")
        items = (tree or {}).get("images", [])
        if not isinstance(items, list):
            self._problem("/images", "images must be a list")
            return []
        found = [self._entry(item, join("/images", str(index))) for index, item in enumerate(items)]
        return [entry for entry in found if entry]

    def _entry(self, item: object, place: str) -> LockedImage | None:
        fields = self._map(item, place, ("image", "digest", "unresolved"))
        if fields is None:
            return None
        image, digest, reason = fields.get("image"), fields.get("digest"), fields.get("unresolved", "")
        if digest is not None and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
            self._problem(place + "/digest", "digest must be sha256: and 64 of 0-9a-f, or left out")
        if not isinstance(reason, str):
            self._problem(place + "/unresolved", "unresolved must be text")
        if digest is not None and reason:
            self._problem(place + "/unresolved", "unresolved says why there is no digest, but there is one")
        if not isinstance(image, str):
            self._problem(place + "/image", "image must be a reference: registry/repository:tag")
            return None
        self._reference(image, place + "/image")
        return LockedImage(image, digest, reason)

    def _reference(self, image: str, place: str) -> None:
        try:
            ref = imageref.parse(image)
        except imageref.ImageRefError as error:
            self._problem(place, str(error))
            return
        if ref.digest or not ref.tag:
            what = "has a digest, which belongs in its own field" if ref.digest else "has no tag"
            self._problem(place, f"image {image!r} {what}")
            return
        first = self._places.setdefault(_name(ref), place)
        if first != place:
            self._problem(place, f"image {image!r} is in line {self._position(first).line} already")

    def _map(self, value: object, place: str, names: tuple[str, ...]) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            self._problem(place, f"expected a map with {', '.join(names)}")
            return None
        for name in value:
            if name not in names:
                self._problem(join(place, name), f"unknown field {name[:80]!r}; known: {', '.join(names)}")
        return value

    def _position(self, place: str) -> yamlread.Position:
        """Of the nearest thing that is there: a field that is missing has its parent's place."""
        while place and place not in self._positions:
            place = place.rpartition("/")[0]
        return self._positions.get(place) or yamlread.Position(1, 1)

    def _problem(self, place: str, message: str) -> None:
        at = self._position(place)
        self.problems.append(f"{self._source}:{at.line}:{at.column}: {message}")
