"""The synth as a whole: read, skip what is unchanged, render, check, and hand over what is to be published."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from charts_py import sources
from charts_py.cachedir import cache_root
from charts_py.dist import skip
from charts_py.dist.layout import RenderedEnvironment
from charts_py.sources import ConfigFile

if TYPE_CHECKING:
    from charts_py.rendering import Judgement, Rendering
    from policies.model import Finding


@dataclass(frozen=True)
class Request:
    """What to render from what. `environments` empty: all of them. `today` decides which waivers are alive."""

    configs: Path = Path("environments")
    dist: Path = Path("dist")
    images: Path = Path("images.lock")
    waivers: Path = Path("waivers.yaml")
    templates: Path | None = None
    environments: tuple[str, ...] = ()
    crd_schemas: tuple[Path, ...] = ()
    require_schemas: bool = False
    force: bool = False
    today: datetime.date = field(default_factory=lambda: datetime.datetime.now(tz=datetime.UTC).date())

    @property
    def complete(self) -> bool:
        return not self.environments


@dataclass(frozen=True)
class Result:
    """`rendered` is what is to be published; `skipped` are environments that are as their inputs say already."""

    rendered: tuple[RenderedEnvironment, ...]
    skipped: tuple[str, ...]
    findings: tuple[Finding, ...]
    judgements: tuple[Judgement, ...]
    renderings: tuple[Rendering, ...]
    digests: Mapping[str, str]


def run(request: Request) -> Result:
    """Renders and checks; writes nothing. Raises ConfigError (all problems of all files), ToolMissing."""
    files = sources.config_files(request.configs, request.environments)
    digests = {_folder(one): _digest(one, request) for one in files}
    cache = cache_root()
    stale = [
        one
        for one in files
        if request.force or not skip.is_current(cache, request.dist, _folder(one), digests[_folder(one)])
    ]
    skipped = tuple(_folder(one) for one in files if one not in stale)
    if not stale:
        return Result((), skipped, (), (), (), digests)
    return _render(request, stale, skipped, digests)


def remember(request: Request, result: Result) -> None:
    """After a publish: the environments that were rendered need no rendering until an input changes."""
    for environment in result.rendered:
        skip.remember(cache_root(), request.dist, environment.name, result.digests[environment.name])


def _folder(one: ConfigFile) -> str:
    return "_fleet" if one.kind == "Fleet" else one.name


def _digest(one: ConfigFile, request: Request) -> str:
    """Over everything that decides the bytes or the verdict; the date, since waivers expire."""
    return skip.inputs_digest(
        {
            "config": one.sha256,
            "images": sources.file_hash(request.images),
            "waivers": sources.file_hash(request.waivers),
            "templates": sources.folder_hash(sources.templates_folder(request.templates)),
            "program": _program_hash(),
            "today": request.today.isoformat(),
            "schemas": os.pathsep.join(map(str, schema_folders(request))),
            "require": str(request.require_schemas),
        },
    )


_PROGRAM: list[str] = []


def _program_hash() -> str:
    if not _PROGRAM:
        _PROGRAM.append(sources.program_hash())
    return _PROGRAM[0]


def _render(
    request: Request, stale: Sequence[ConfigFile], skipped: tuple[str, ...], digests: Mapping[str, str]
) -> Result:
    from charts_py.worker import Worker  # noqa: PLC0415  subprocess and pickle: only when there is work

    with Worker(request, stale, complete=request.complete and not skipped) as worker:
        from charts_py.kernel.tree import through_cdk8s  # noqa: PLC0415  importing it starts Node

        finished, renderings = [], []
        for _ in stale:
            finished.append(worker.next())
            renderings.append(through_cdk8s(finished[-1].rendering))
        findings = worker.next()
    return Result(
        tuple(one.published for one in finished),
        skipped,
        tuple(findings),
        tuple(one.judgement for one in finished),
        tuple(renderings),
        digests,
    )


def schema_folders(request: Request) -> tuple[Path, ...]:
    """Where CRD schemas may be: what was named, $PAPERCLIP_CRD_SCHEMAS, then what `schemas pull` has fetched."""
    named = os.environ.get("PAPERCLIP_CRD_SCHEMAS", "")
    return (
        *request.crd_schemas,
        *(Path(part) for part in named.split(os.pathsep) if part),
        *sources.pulled_schemas(),
    )
