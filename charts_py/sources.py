"""What a synth reads: where the config files are, which kind each is, and a hash over all that decides the bytes.

Only the standard library, and little of it: this is what runs when nothing has changed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from charts_py.cachedir import cache_root
from charts_py.errors import ConfigError, UsageError

_KIND = re.compile(rb"^kind:\s*[\"']?([A-Za-z]+)", re.MULTILINE)
_NAME = re.compile(rb"^name:\s*[\"']?([A-Za-z0-9.-]+)", re.MULTILINE)
_PACKAGES = ("charts_py", "kubekit", "policies")


@dataclass(frozen=True)
class ConfigFile:
    """One file of the environments folder. `name` and `kind` are a first look; the strict reader has the last word."""

    path: Path
    kind: str
    name: str
    sha256: str


def config_files(folder: Path, wanted: tuple[str, ...] = ()) -> tuple[ConfigFile, ...]:
    """Every config below `folder`, sorted by file name; with `wanted`, only those environments.

    Raises ConfigError for no config at all, UsageError for a wanted one that is not there.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder", f"`paperclip-gitops init` writes {folder}/<name>.yaml")
    paths = sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml"} and path.is_file())
    found = tuple(_look(path) for path in paths)
    if not found:
        raise ConfigError(f"{folder}: there is no config in it", f"`paperclip-gitops init` writes {folder}/<name>.yaml")
    _refuse_twins(found)
    if not wanted:
        return found
    known = {one.name for one in found if one.kind == "Environment"}
    if missing := sorted(set(wanted) - known):
        raise UsageError(f"there is no environment {missing[0]!r} in {folder}", f"known: {', '.join(sorted(known))}")
    return tuple(one for one in found if one.name in wanted)


def _look(path: Path) -> ConfigFile:
    raw = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    kind, name = _KIND.search(raw), _NAME.search(raw)
    return ConfigFile(
        path,
        kind.group(1).decode() if kind else "Environment",
        name.group(1).decode() if name else path.stem,
        hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def _refuse_twins(files: tuple[ConfigFile, ...]) -> None:
    seen: dict[tuple[str, str], Path] = {}
    for one in files:
        if (one.kind, one.name) in seen:
            raise ConfigError(
                f"{one.path}: {one.kind} {one.name!r} stands in {seen[one.kind, one.name]} too",
                "give each environment its own name",
            )
        seen[one.kind, one.name] = one.path


def file_hash(path: Path) -> str:
    """sha256 of a file's bytes; "" where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def folder_hash(folder: Path) -> str:
    """sha256 over the names and bytes of all files of a folder; "" where there is none."""
    digest = hashlib.sha256()
    paths = sorted(path for path in folder.glob("*") if path.is_file()) if folder.is_dir() else []
    for path in paths:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest() if paths else ""


def program_hash() -> str:
    """A hash over our own sources and the versions of the libraries."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    for package in _PACKAGES:
        for path in sorted(_sources(str(root / package))):
            with open(path, "rb") as file:  # noqa: PTH123  a hundred files in 5 ms
                digest.update(path.encode() + file.read())
    digest.update("\n".join(_installed()).encode())
    return digest.hexdigest()


def _sources(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            # The examples of `explain`, in a wheel: hundreds of files that decide nothing.
            if entry.is_dir() and entry.name not in {"__pycache__", "_fixtures"}:
                yield from _sources(entry.path)
            elif entry.name.endswith((".py", ".js", ".json", ".j2", ".sh", ".yaml")):
                yield entry.path


def _installed() -> list[str]:
    """The packages beside cdk8s with their versions. By the names of folders: importlib.metadata takes 13 ms."""
    spec = importlib.util.find_spec("cdk8s")
    if spec is None or spec.origin is None:
        return []  # the kernel says what is missing
    return sorted(path.name for path in Path(spec.origin).parents[1].iterdir() if path.suffix == ".dist-info")


def templates_folder(given: Path | None) -> Path:
    """The folder that was named, else ./templates, else the one that comes with the program."""
    if given is not None:
        if not given.is_dir():
            raise UsageError(f"{given}: there is no such folder", "name the folder with job.yaml.j2 and contract.yaml")
        return given
    beside = Path("templates")
    if (beside / "contract.yaml").is_file():
        return beside
    root = Path(__file__).resolve().parent
    packaged = root / "_templates"
    return packaged if packaged.is_dir() else root.parent / "templates"


def pulled_schemas(lock: Path = Path("crd-schemas.lock")) -> tuple[Path, ...]:
    """Where `schemas pull` keeps what it fetched: the pinned commit first, so that a cluster only fills gaps."""
    root = cache_root() / "schemas"
    try:
        commits = [line.split()[1] for line in lock.read_text().splitlines() if line.startswith("commit ")]
    except (OSError, IndexError, UnicodeDecodeError):
        commits = []  # `schemas pull` says what is wrong with the lock
    return (*(root / commit for commit in commits), root / "cluster")


def provenance_inputs(config: str, images: str, waivers: str, templates: str) -> Mapping[str, str]:
    """What provenance.json says the bytes were made from; absent files are left out."""
    named = {"config": config, "images.lock": images, "templates": templates, "waivers": waivers}
    return {name: digest for name, digest in named.items() if digest}
