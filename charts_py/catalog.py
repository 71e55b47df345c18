"""Fetches the schemas of custom resources: from the public catalog at a pinned commit, or from a cluster.

The catalog is https://github.com/datreeio/CRDs-catalog. `crd-schemas.lock` names the commit and the sha256 of
every file, so what is fetched is the same everywhere or is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from charts_py.cachedir import cache_root
from charts_py.errors import ClusterUnreachable, ConfigError, GitopsError, ToolMissing, UsageError
from policies.schemas.crds import relative_path
from policies.schemas.openapi import published, strict_schema

if TYPE_CHECKING:
    import httpx

LOCK = "crd-schemas.lock"
CATALOG = "https://raw.githubusercontent.com/datreeio/CRDs-catalog"
_COMMIT = re.compile(r"commit ([0-9a-f]{40})")
_ENTRY = re.compile(r"([0-9a-f]{64})  ([a-z0-9][a-z0-9.-]*/[a-z0-9]+_v[a-z0-9]+\.json)")
_LARGEST = 16 << 20  # bytes; the largest schema of the catalog has 2 MB
_KUBECTL_SECONDS = 60


@dataclass(frozen=True)
class Wanted:
    """A kind as a user names it: "Kind", "group/Kind" or "group/version/Kind"; "" is what was left open."""

    group: str
    version: str
    kind: str

    @classmethod
    def parse(cls, name: str) -> Wanted:
        """Raises UsageError."""
        parts = name.split("/")
        if not all(parts) or len(parts) > 3:
            raise UsageError(f'"{name}" is not a kind', "Write Kind, group/Kind or group/version/Kind.")
        return cls(parts[0] if len(parts) > 1 else "", parts[1] if len(parts) == 3 else "", parts[-1])

    @classmethod
    def of_path(cls, path: str) -> Wanted:
        """The kind that a file `<group>/<kind>_<version>.json` is the schema of, in lower case."""
        group, _, name = path.removesuffix(".json").partition("/")
        kind, _, version = name.rpartition("_")
        return cls(group, version, kind)

    def takes(self, other: Wanted) -> bool:
        same_kind = self.kind.lower() == other.kind.lower()
        return same_kind and self.group in ("", other.group) and self.version in ("", other.version)

    def __str__(self) -> str:
        return "/".join(part for part in (self.group, self.version, self.kind) if part)


@dataclass(frozen=True)
class Lock:
    """The pinned commit of the catalog, and the sha256 of each `<group>/<kind>_<version>.json`."""

    commit: str
    sums: dict[str, str]

    def select(self, names: Sequence[str]) -> list[str]:
        """The files of the kinds in `names`, written as Wanted says; all where none is named.

        Raises UsageError.
        """
        if not names:
            return sorted(self.sums)
        return sorted({path for name in names for path in self._files(name)})

    def _files(self, name: str) -> list[str]:
        wanted = Wanted.parse(name)
        found = [path for path in self.sums if wanted.takes(Wanted.of_path(path))]
        if found:
            return found
        known = sorted({Wanted.of_path(path).kind for path in self.sums})
        near = get_close_matches(wanted.kind.lower(), known, n=1)
        hint = f'Did you mean "{near[0]}"? ' if near else ""
        raise UsageError(
            f"{LOCK} pins no schema of the kind {wanted}",
            f"{hint}A cluster may have it: `paperclip-gitops schemas pull --from-cluster {wanted}`.",
        )


def read_lock(path: Path) -> Lock:
    """Lines of "commit <40 hex>", once, and "<sha256>  <path>" as sha256sum writes them; # is a comment."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "Restore it from git.") from error
    commit, sums = "", {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        named, entry = _COMMIT.fullmatch(line), _ENTRY.fullmatch(line)
        if named and not commit:
            commit = named[1]
        elif entry and entry[2] not in sums:
            sums[entry[2]] = entry[1]
        else:
            raise ConfigError(
                f"{path}:{number}: neither the commit (once) nor a sha256 with a new file: {line[:80]}",
                "Restore the file from git.",
            )
    if not commit or not sums:
        raise ConfigError(f"{path} names no commit or no file", "Restore it from git.")
    return Lock(commit, sums)


def catalog_folder(lock: Lock) -> Path:
    """Where the files of the catalog are kept: a folder a commit."""
    return cache_root() / "schemas" / lock.commit


def cluster_folder() -> Path:
    """Where the schemas that came from a cluster are kept."""
    return cache_root() / "schemas" / "cluster"


def schema_folders(lock: Lock | None) -> tuple[Path, ...]:
    """Where a check looks: what is pinned comes first, so that a cluster's own schemas only fill gaps."""
    return (*((catalog_folder(lock),) if lock else ()), cluster_folder())


def pull_from_catalog(
    lock: Lock,
    names: Sequence[str],
    into: Path,
    *,
    catalog: str = CATALOG,
    transport: httpx.BaseTransport | None = None,
) -> tuple[list[Path], int]:
    """Fetches the files that are absent or differ; (the files written, how many were right already).

    Raises UsageError, ClusterUnreachable (no answer) and GitopsError (an answer with another sha256).
    """
    import httpx  # noqa: PLC0415 - 50 ms that --from-cluster need not cost

    selected = lock.select(names)
    absent = [name for name in selected if _sum_of(into / name) != lock.sums[name]]
    written = []
    with httpx.Client(transport=transport, timeout=30.0, follow_redirects=True) as client:
        for name in absent:
            address = f"{catalog}/{lock.commit}/{name}"
            content = _download(client, address)
            actual = hashlib.sha256(content).hexdigest()
            if actual != lock.sums[name]:
                raise GitopsError(
                    f"{name} has the sha256 {actual}, {LOCK} pins {lock.sums[name]}",
                    f"Fetched from {address}. Try again; if it stays, do not use that file.",
                )
            written.append(_put(into / name, content))
    return written, len(selected) - len(absent)


def pull_from_cluster(
    lock: Lock | None,
    names: Sequence[str],
    into: Path,
    *,
    ask: Callable[[str], Any] | None = None,
) -> tuple[list[Path], list[Wanted]]:
    """Writes what the cluster serves of the kinds named, else of the lock: (files, kinds not served).

    `ask` answers a path of the API with parsed JSON; None asks the cluster of the current kubectl context.
    Raises UsageError, ToolMissing and ClusterUnreachable.
    """
    if not names and lock is None:
        raise UsageError("no kind is named", f"Name the kinds, or run where {LOCK} is.")
    wanted = [Wanted.parse(name) for name in names] or [Wanted.of_path(path) for path in (lock.sums if lock else ())]
    ask_once = cache(ask or _kubectl)
    paths = sorted(ask_once("/openapi/v3").get("paths", {}))
    written: set[Path] = set()
    absent = []
    for each in wanted:
        files = [
            _put_schema(into, document, owner)
            for path in paths
            if _may_hold(path, each)
            for document in (ask_once(f"/openapi/v3/{path}"),)
            for owner in published(document)
            if each.takes(Wanted(*owner))
        ]
        written.update(files)
        if not files:
            absent.append(each)
    return sorted(written), absent


def _may_hold(path: str, wanted: Wanted) -> bool:
    """Whether a document, named as "apis/<group>/<version>", is to be asked for the kind."""
    head, _, rest = path.partition("/")
    group, _, version = rest.partition("/")
    return head == "apis" and wanted.group in ("", group) and wanted.version in ("", version) and bool(version)


def _put_schema(into: Path, document: Any, owner: tuple[str, str, str]) -> Path:
    group, version, kind = owner
    name = relative_path(group, kind, version)
    if not name:
        raise GitopsError(f"the cluster names a kind {group}/{version} {kind}", "That is no name; ask another cluster.")
    text = json.dumps(strict_schema(document, group, version, kind), indent=1, sort_keys=True) + "\n"
    return _put(into / name, text.encode())


def _sum_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _download(client: httpx.Client, address: str) -> bytes:
    import httpx  # noqa: PLC0415

    content = b""
    try:
        with client.stream("GET", address) as response:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > _LARGEST:
                    raise GitopsError(f"{address} is larger than {_LARGEST >> 20} MiB", "That is no schema.")
    except httpx.HTTPError as error:
        raise ClusterUnreachable(
            f"{address} cannot be fetched: {error}",
            "Check the network and proxy settings, or use `schemas pull --from-cluster`.",
        ) from error
    return content


def _kubectl(path: str) -> Any:
    try:
        done = subprocess.run(
            ["kubectl", "get", "--raw", path],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_KUBECTL_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise ToolMissing("kubectl is not on PATH", "Install kubectl, or pull from the catalog.") from error
    except (OSError, UnicodeError, subprocess.TimeoutExpired) as error:
        raise ClusterUnreachable(f"kubectl get --raw {path} did not answer: {error}", _CONTEXT) from error
    if done.returncode != 0:
        said = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        raise ClusterUnreachable(f"kubectl get --raw {path} failed: {said}", _CONTEXT)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise ClusterUnreachable(f"kubectl get --raw {path} gave no JSON: {error}", _CONTEXT) from error


_CONTEXT = "Check the context: `kubectl config current-context`, `kubectl version`."


def _put(path: Path, content: bytes) -> Path:
    """Writes through a file beside it, so that `path` is whole or absent."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise GitopsError(f"{path} cannot be written: {error}", "Give another folder with --into.") from error
    return path
