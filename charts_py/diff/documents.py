"""Files → objects. Other people's YAML is read as it is, but never into more than it looks like.

PyYAML with libyaml, not our strict reader: a comparison must also read what synth would refuse to write, and
ten times faster.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from charts_py.diff.errors import DiffError
from charts_py.diff.mask import masked
from charts_py.dist.layout import UNSYNCED_FOLDERS
from kubekit.identity import Manifest, ObjectId

_MAX_BYTES = 8 << 20
_MAX_NODES = 500_000
_MAX_DEPTH = 100
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc] # the base depends on whether libyaml was built in
    """Dates stay text, as Kubernetes reads them."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own form
        first: [(tag, form) for tag, form in rules if tag != "tag:yaml.org,2002:timestamp"]
        for first, rules in _Base.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True)
class Located:
    """An object, or a file that is no object (Helm values, Job templates), without its secrets.

    `path` is relative to the environment.
    """

    environment: str
    path: str
    manifest: Manifest
    is_object: bool = True

    @property
    def key(self) -> tuple[str, ...]:
        """What makes it the same thing on both sides; the path plays no part for an object."""
        return ObjectId.of(self.manifest).identity if self.is_object else ("", "File", "", self.path)


def located(path: str, text: bytes) -> list[Located]:
    """The objects of one file, `path` relative to dist. Raises DiffError with line and column."""
    environment, slash, inside = path.partition("/")
    if not slash:
        environment, inside = "", path
    if len(text) > _MAX_BYTES:
        raise DiffError(f"{path}: more than {_MAX_BYTES >> 20} MiB", "split the file: one object a file")
    synced = inside.partition("/")[0] not in UNSYNCED_FOLDERS
    found = []
    for count, document in enumerate(_documents(path, text)):
        if document is None:
            continue
        for item in _items(document):
            is_object = synced and isinstance(item, dict) and bool(ObjectId.of(item).kind)
            manifest = masked(item if isinstance(item, dict) else {"": item})
            name = inside if is_object or not count else f"{inside}#{count + 1}"
            found.append(Located(environment, name, manifest, is_object))
    return found


def _items(document: Any) -> Iterator[Any]:
    """A `kind: List`, as kubectl writes it, is what it holds."""
    if isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list):
        yield from document["items"]
    else:
        yield document


def _documents(path: str, text: bytes) -> Iterator[Any]:
    try:
        for document in yaml.load_all(text, Loader=_Loader):
            yield _Plain(path).tree(document, 0)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        raise DiffError(f"{place}: no YAML: {(problem.problem or 'cannot be read')[:200]}", _MEND) from problem
    except yaml.reader.ReaderError as problem:
        line = text[: problem.position].count(b"\n") + 1
        raise DiffError(f"{path}:{line}: no YAML: {problem.reason}", _MEND) from problem
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise DiffError(f"{path}: no YAML: {str(problem)[:200]}", _MEND) from problem


_MEND = "mend the file, or render again: paperclip-gitops synth"


class _Plain:
    """Copies what YAML made into maps with text keys, lists and scalars; stops where aliases multiply it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.left = _MAX_NODES

    def tree(self, value: Any, depth: int) -> Any:
        self.left -= 1
        if self.left < 0 or depth > _MAX_DEPTH:
            raise DiffError(f"{self.path}: larger than any manifest once its aliases are followed", _MEND)
        if isinstance(value, dict):
            return {_key(key): self.tree(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set):
            return [self.tree(item, depth + 1) for item in value]
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, dt.date):
            return value.isoformat()
        return value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)
