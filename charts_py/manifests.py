"""Manifests of anybody, from folders, files and stdin, with the place of everything in them.

What cannot be read is a finding at its place and never a silence: the rest is still judged.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from charts_py.errors import UsageError
from kubekit import pointers
from kubekit.identity import Manifest, ObjectId
from policies.model import Finding, Severity, Source

if TYPE_CHECKING:
    from charts_py.config.environment import Environment
    from kubekit.jobtemplate import JobTemplate
    from kubekit.yamlread import Position
    from policies.schemas.check import Placed

_SUFFIXES = (".yaml", ".yml", ".json")
_LARGEST = 16 << 20  # bytes; bundles of CRDs have some MiB
_DEEPEST = 100
_READABLE = "yaml-readable"
_KUSTOMIZATIONS = frozenset({"kustomization.yaml", "kustomization.yml"})
# Not sent to a cluster: (API group, kinds; empty: all) and who reads them.
_READ_BY_OTHERS = (
    (
        "kustomize.config.k8s.io",
        frozenset[str](),
        "kustomize reads it: `kustomize build DIR | paperclip-gitops check -`",
    ),
    ("paperclip-gitops", frozenset({"Environment", "Fleet"}), "a config: `paperclip-gitops synth` reads it"),
)
_HELM = "it looks like a template of Helm; render it first: `helm template NAME CHART | paperclip-gitops check -`"
_FLEET_UNCHECKED = ("argoproj.io/ApplicationSet",)

Place = tuple[Source, ObjectId]


@dataclass
class Batch:
    """What is judged together: one environment of dist, or everything else that was named.

    `places` leads from an object to where its parts stand: (pointer of the object, positions of its document).
    `facts` are documents of kind Facts among the manifests; `texts` are the files of an environment, by name;
    `skipped` says what is no object of a cluster, and why.
    """

    folder: Path | None = None
    environment: Environment | None = None
    config: str = ""
    unchecked: tuple[str, ...] = ()
    placed: list[Placed] = field(default_factory=list)
    places: dict[Place, tuple[str, Mapping[str, Position]]] = field(default_factory=dict)
    broken: list[Finding] = field(default_factory=list)
    facts: list[tuple[Mapping[str, Any], Source]] = field(default_factory=list)
    templates: tuple[JobTemplate, ...] = ()
    texts: dict[str, bytes] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)

    def unread(self, name: str, message: str, remedy: str, *, line: int = 0, pointer: str = "") -> None:
        self.broken.append(
            Finding(_READABLE, Severity.ERROR, None, pointer, message, remedy, Source(name, line)),
        )

    def line_of(self, source: Source, identity: ObjectId, pointer: str) -> int:
        """The line of a field, or of the nearest thing around it; that of the source where nothing is known."""
        found = self.places.get((source, identity))
        return _nearest(found[1], found[0] + pointer) if found else source.line


def gather(paths: Sequence[str], configs: Path) -> Iterator[Batch]:
    """The manifests behind `paths`. Raises UsageError for what is not there; ConfigError for a broken config."""
    others = Batch()
    for text in paths:
        path = Path(text)
        try:
            yield from _named(text, path, configs, others)
        except OSError as error:
            raise UsageError(f"{shown(path)}: {error.strerror}", "name one that can be read, or - for stdin") from None
    if others.placed or others.broken or others.facts:
        yield others


def _named(text: str, path: Path, configs: Path, others: Batch) -> Iterator[Batch]:
    """Environments as batches of their own; all else goes into `others`."""
    from charts_py.dist.layout import environments_in  # noqa: PLC0415  only for the verbs that read manifests
    from charts_py.dist.sums import SUMS  # noqa: PLC0415  as above

    if text == "-":
        _read(others, "stdin", sys.stdin.buffer.read(_LARGEST + 1))
    elif path.is_dir() and (path / SUMS).is_file():
        yield _rendered(path, configs)
    elif path.is_dir() and (names := environments_in(path)):
        yield from (_rendered(path / name, configs) for name in names)
    elif path.is_dir():
        for file in _files(path, others):
            _read_file(others, file)
    elif path.exists():
        _read_file(others, path, named=True)
    else:
        raise UsageError(f"{shown(path)}: there is no such file or folder", "name one that is there, or - for stdin")


def shown(path: Path) -> str:
    """A path as text that every report can hold: bytes that are no UTF-8 are written out."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _files(folder: Path, batch: Batch) -> Iterator[Path]:
    """Everything below `folder` that is called a manifest; a folder that leads back to itself is entered once."""
    waiting, entered = [folder], set()
    found: list[Path] = []
    while waiting:
        here = waiting.pop()
        try:
            about = here.stat()
            if (about.st_dev, about.st_ino) in entered:
                continue
            entered.add((about.st_dev, about.st_ino))
            inside = sorted(here.iterdir())
        except OSError as error:
            batch.unread(shown(here), f"the folder cannot be read: {error.strerror}", "let it be read, or leave it out")
            continue
        for one in inside:
            if _is_folder(one):
                waiting += [one] if one.name != ".git" else []
            elif one.suffix in _SUFFIXES:
                found.append(one)
    yield from sorted(found)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # reading it says what is wrong


def _read_file(batch: Batch, path: Path, *, named: bool = False) -> bytes:
    """What was read, b"" for nothing. `named`: by the user, who may well name a pipe (`check <(helm template ...)`)."""
    name = shown(path)
    try:
        about = path.stat()
        if stat.S_ISREG(about.st_mode):
            # By two names it is still one file: two objects of one identity would be a false alarm.
            if (about.st_dev, about.st_ino) in batch.seen:
                return b""
            batch.seen.add((about.st_dev, about.st_ino))
        elif not named:
            batch.unread(name, "is no regular file", "take it out, or name it on the command line")
            return b""
        if about.st_size > _LARGEST:
            batch.unread(name, f"has {about.st_size:,} bytes; at most {_LARGEST:,} are read", "split it")
            return b""
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        batch.unread(name, f"cannot be read: {error.strerror}", "let it be read, or leave it out")
        return b""
    if path.name in _KUSTOMIZATIONS and b"\nkind:" not in raw and not raw.startswith(b"kind:"):
        batch.skipped.append(f"{name}: {_READ_BY_OTHERS[0][2]}")
        return b""
    _read(batch, name, raw)
    return raw


def _rendered(folder: Path, configs: Path) -> Batch:
    """One environment of dist, with what its config says of the cluster."""
    from charts_py.dist.layout import is_object_path  # noqa: PLC0415  as above

    config, environment = _config_of(folder.name, configs)
    unchecked = _FLEET_UNCHECKED if folder.name.startswith("_") else ()
    batch = Batch(folder, environment, config, unchecked)
    for file in _files(folder, batch):
        if is_object_path(file.relative_to(folder).as_posix()):
            batch.texts[shown(file)] = _read_file(batch, file)
    _read_templates(batch, folder)
    return batch


def _read_templates(batch: Batch, folder: Path) -> None:
    from charts_py.samples import FOLDER, templates_in  # noqa: PLC0415  as above
    from kubekit.jobtemplate import TemplateError  # noqa: PLC0415  as above
    from kubekit.yamlread import YamlProblem  # noqa: PLC0415  as above

    place = Source(shown(folder / FOLDER))
    remedy = "run `paperclip-gitops synth`: it writes them"
    try:
        batch.templates = templates_in(folder)
    except YamlProblem as problem:
        message, place = problem.message, Source(shown(folder / problem.source), problem.position.line)
    except TemplateError as error:
        message = str(error)
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
    else:
        return
    batch.broken.append(Finding("jobtemplate-complete", Severity.ERROR, None, "", message, remedy, place))


def _config_of(name: str, configs: Path) -> tuple[str, Environment | None]:
    """("", None) where there is no config: the rendered state may stand in a repository of its own."""
    from charts_py import sources  # noqa: PLC0415  as above
    from charts_py.config.load import load_environment  # noqa: PLC0415  as above

    if configs.is_dir():
        for one in sources.config_files(configs):
            if (one.kind, one.name) == ("Environment", name):
                return str(one.path), load_environment(one.path).config
    return "", None


def _read(batch: Batch, name: str, raw: bytes) -> None:
    from kubekit import yamlread  # noqa: PLC0415  as above

    try:
        documents = yamlread.read_all(raw, name, max_bytes=_LARGEST, max_depth=_DEEPEST, foreign=True)
    except yamlread.YamlProblem as problem:
        message = f"line {problem.position.line}, column {problem.position.column}: {problem.message}"
        remedy = _HELM if b"{{" in raw else problem.remedy
        batch.unread(name, message, remedy, line=problem.position.line)
        return
    for document in documents:
        for root, value in _items(document.value):
            _take(batch, name, root, value, document.positions)


def _take(batch: Batch, name: str, root: str, value: Any, positions: Mapping[str, Position]) -> None:
    """One item of a document: an object, facts, or what is neither."""
    from policies import facts  # noqa: PLC0415  as above

    place = Source(name, _nearest(positions, root))
    if said := _no_manifest(value):
        remedy = "mend it, or take it out"
        if Path(name).name in {"Chart.yaml", "values.yaml"}:
            remedy = _HELM.replace("a template", "a part of a chart")
        batch.unread(name, said, remedy, line=place.line, pointer=root)
        return
    identity = ObjectId.of(value)
    reader = next(
        (
            why
            for group, kinds, why in _READ_BY_OTHERS
            if identity.group == group and identity.kind in (kinds or {identity.kind})
        ),
        None,
    )
    if facts.is_facts(value):
        batch.facts.append((value, place))
    elif reader is not None:
        batch.skipped.append(f"{name}: {reader}")
    else:
        batch.placed.append((value, place))
        batch.places[place, identity] = (root, positions)


def _nearest(positions: Mapping[str, Position], pointer: str) -> int:
    """The line of what stands at `pointer`, or of the nearest thing around it: an alias has no parts of its own."""
    while pointer not in positions and pointer:
        pointer = pointer.rpartition("/")[0]
    return positions[pointer].line


def _no_manifest(value: object) -> str:
    """Why it cannot be judged at all; "" if it can."""
    if not isinstance(value, dict):
        return "is no manifest: a mapping with apiVersion, kind and metadata"
    lacking = [key for key in ("apiVersion", "kind") if not isinstance(value.get(key), str) or not value[key]]
    return f"is no manifest: {' and '.join(lacking)} must be text" if lacking else ""


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """A `kind: List`, as kubectl writes it, is what it holds; items of a PodList need not say that they are Pods."""
    if not _is_list(value):
        yield "", value
        return
    kind = value["kind"].removesuffix("List")
    for index, item in enumerate(value["items"] or ()):
        named: Manifest = {"apiVersion": value.get("apiVersion"), "kind": kind} if kind else {}
        whole = {**named, **item} if named and isinstance(item, dict) else item
        for pointer, inner in _items(whole):
            yield pointers.join("/items", index) + pointer, inner


def _is_list(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("items", ""), list | None):
        return False
    kind, metadata = value.get("kind"), value.get("metadata")
    named = isinstance(metadata, dict) and "name" in metadata
    return kind == "List" or (isinstance(kind, str) and kind.endswith("List") and not named)
