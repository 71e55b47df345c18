"""The synth as a whole: read, skip what is unchanged, render, check, and hand over what is to be published."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from charts_py import sources
from charts_py.cachedir import cache_root
from charts_py.dist import skip
from charts_py.dist.layout import RenderedEnvironment
from charts_py.errors import ConfigError
from charts_py.sources import ConfigFile

if TYPE_CHECKING:
    from charts_py.checks import CheckSettings, Judgement
    from charts_py.config.argocd import Fleet
    from charts_py.config.environment import Environment
    from charts_py.config.load import Problem
    from charts_py.images import ImageLock
    from charts_py.render import Rendering
    from policies.model import Finding
    from policies.waivers import Waivers


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
    with ThreadPoolExecutor(1) as background:
        # Node takes 0.2 s to start; meanwhile the config is read here.
        kernel: Future[None] = background.submit(_start_kernel)
        from charts_py import images  # noqa: PLC0415  as above
        from policies import waivers  # noqa: PLC0415  as above

        lock = images.load(request.images)
        try:
            known = waivers.load(request.waivers)
        except waivers.WaiverError as error:
            raise ConfigError(str(error), f"mend {request.waivers}") from None
        loaded = list(_load_all(stale))
        kernel.result()
    return _rendered(request, loaded, lock, known, skipped, digests)


def _start_kernel() -> None:
    import charts_py.kernel.objects  # noqa: F401, PLC0415  importing it starts Node


def _load_all(files: Iterable[ConfigFile]) -> Iterator[tuple[ConfigFile, Environment | Fleet]]:
    """Every file is read before an error is raised, so that all problems are seen at once."""
    from charts_py.config.load import InvalidConfig, load_environment, load_fleet  # noqa: PLC0415  pydantic: 0.15 s

    problems: list[Problem] = []
    loaded: list[tuple[ConfigFile, Environment | Fleet]] = []
    for one in files:
        try:
            loaded.append((one, load_fleet(one.path) if one.kind == "Fleet" else load_environment(one.path).config))
        except InvalidConfig as error:
            problems += error.problems
    if problems:
        raise InvalidConfig(problems)
    return iter(loaded)


def _rendered(
    request: Request,
    loaded: Sequence[tuple[ConfigFile, Environment | Fleet]],
    lock: ImageLock,
    known: Waivers,
    skipped: tuple[str, ...],
    digests: Mapping[str, str],
) -> Result:
    from charts_py import checks  # noqa: PLC0415  after the kernel has started
    from charts_py.config.argocd import Fleet  # noqa: PLC0415  as above
    from charts_py.render import render, render_fleet  # noqa: PLC0415  as above

    settings = _check_settings(request)
    templates = sources.templates_folder(request.templates)
    # While one environment is judged here, the next one is with Node: each waits for the other half of the time.
    with ThreadPoolExecutor(1) as background:
        waiting: list[Future[tuple[RenderedEnvironment, Judgement, Rendering]]] = []
        for one, model in loaded:
            config = None if isinstance(model, Fleet) else model
            rendering = render_fleet(model) if isinstance(model, Fleet) else render(model, lock, templates)
            waiting.append(background.submit(_finished, one, rendering, config, lock, known, templates, settings))
        done = [future.result() for future in waiting]
    findings = checks.waive(
        [finding for _, judgement, _ in done for finding in judgement.findings],
        known,
        request.today,
        complete=request.complete and not skipped,
    )
    published, judgements, renderings = zip(*done, strict=True)
    return Result(tuple(published), skipped, tuple(findings), tuple(judgements), tuple(renderings), digests)


def _finished(
    one: ConfigFile,
    rendering: Rendering,
    config: Environment | None,
    lock: ImageLock,
    known: Waivers,
    templates: Path,
    settings: CheckSettings,
) -> tuple[RenderedEnvironment, Judgement, Rendering]:
    from charts_py import checks  # noqa: PLC0415  after the kernel has started
    from charts_py.dist import provenance  # noqa: PLC0415  as above

    judgement = checks.judge(rendering, config, lock, settings)
    inputs = sources.provenance_inputs(one.sha256, lock.sha256, known.sha256, sources.folder_hash(templates))
    tools = provenance.tools(config.cluster.kubernetes_version if config else "")
    return RenderedEnvironment(rendering.name, rendering.all_files(), inputs, tools), judgement, rendering


def _check_settings(request: Request) -> CheckSettings:
    from charts_py.checks import CheckSettings  # noqa: PLC0415  as above
    from policies.schemas.crds import CrdSchemas  # noqa: PLC0415  as above

    folders = CrdSchemas(schema_folders(request))
    return CheckSettings(folders, request.require_schemas, cache_root() / "kubernetes", request.today)


def schema_folders(request: Request) -> tuple[Path, ...]:
    """Where CRD schemas may be: what was named, $PAPERCLIP_CRD_SCHEMAS, then what `schemas pull` has fetched."""
    named = os.environ.get("PAPERCLIP_CRD_SCHEMAS", "")
    return (
        *request.crd_schemas,
        *(Path(part) for part in named.split(os.pathsep) if part),
        *sources.pulled_schemas(),
    )
