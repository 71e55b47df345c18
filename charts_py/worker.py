"""The second process of a synth: reads the config, makes the objects and judges them, while the first starts Node.

Each process spends about a quarter of a second on imports alone, so together they take little longer than one. The
request comes in on stdin, the answers go out on stdout, as pickles between two processes of one program.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from charts_py import sources
from charts_py.cachedir import cache_root
from charts_py.dist.layout import RenderedEnvironment
from charts_py.errors import ConfigError, GitopsError
from charts_py.rendering import Judgement, Rendering
from charts_py.sources import ConfigFile

if TYPE_CHECKING:
    from charts_py.checks import CheckSettings
    from charts_py.config.argocd import Fleet
    from charts_py.config.environment import Environment
    from charts_py.config.load import Problem
    from charts_py.images import ImageLock
    from charts_py.pipeline import Request
    from policies.model import Finding
    from policies.waivers import Waivers


_BATCH = 10
"""After how many environments what they left behind is swept up: a few never are, and 200 do not pile up."""


@dataclass(frozen=True)
class Finished:
    """One environment, judged. Its objects have yet to go through cdk8s; its Job templates stay behind."""

    published: RenderedEnvironment
    judgement: Judgement
    rendering: Rendering


class Worker:
    """The second process, as the first one sees it."""

    def __init__(self, request: Request, files: Sequence[ConfigFile], *, complete: bool) -> None:
        # Not -m: what is pickled must not belong to __main__. -P: a yaml.py in the user's folder is not our yaml.
        code = "import sys; sys.path.append(sys.argv[1]); from charts_py.worker import main; main()"
        command = [sys.executable, "-P", "-c", code, str(Path(__file__).resolve().parents[1])]
        # On Linux a pipe takes 1 MiB, a few environments, so that neither process waits for the other all the time.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pipesize=1 << 20)
        self._order = (request, tuple(files), complete)

    def __enter__(self) -> Self:
        assert self._process.stdin is not None  # noqa: S101  PIPE was asked for
        # One that has died already is told by `next`, not by the pipe: a broken pipe means to main that a reader left.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pickle.dump(self._order, pipe)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        assert self._process.stdout is not None  # noqa: S101  as above
        self._process.stdout.close()
        self._process.wait()

    def next(self) -> Any:
        """The next answer: a Finished for each file, then the list of findings. Raises what the worker raised."""
        try:
            answer = pickle.load(self._process.stdout)  # type: ignore[arg-type]  # noqa: S301  our own process
        except (EOFError, pickle.UnpicklingError):
            code = self._process.wait()
            raise GitopsError(f"the process that checks ended with {code}", "its own words stand above") from None
        if isinstance(answer, GitopsError):
            raise answer
        return answer


def main() -> None:
    """Ends silently if the first process has ended, which says why."""
    gc.disable()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        _work()


def _work() -> None:
    request, files, complete = pickle.load(sys.stdin.buffer)  # noqa: S301  from our own process
    try:
        for answer in _answers(request, files, complete=complete):
            pickle.dump(answer, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
            sys.stdout.buffer.flush()
    except GitopsError as error:
        pickle.dump(error, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _answers(request: Request, files: Sequence[ConfigFile], *, complete: bool) -> Iterator[Finished | list[Finding]]:
    from charts_py import images  # noqa: PLC0415  only in the second process
    from policies import waivers  # noqa: PLC0415  as above

    lock = images.load(request.images)
    try:
        known = waivers.load(request.waivers)
    except waivers.WaiverError as error:
        raise ConfigError(str(error), f"mend {request.waivers}") from None
    settings = _check_settings(request)
    findings: list[Finding] = []
    for number, (one, model) in enumerate(_load_all(files), 1):
        finished = _finished(one, model, request, lock, known, settings)
        findings += finished.judgement.findings
        yield finished
        if number == _BATCH:
            gc.freeze()  # what is imported by now stays, and need not be looked at again
        if number % _BATCH == 0:
            gc.collect()
    yield waivers.apply(findings, known, request.today, complete=complete)


def _load_all(files: Iterable[ConfigFile]) -> list[tuple[ConfigFile, Environment | Fleet]]:
    """Every file is read before an error is raised, so that all problems are seen at once."""
    from charts_py.config.load import InvalidConfig, load_environment, load_fleet  # noqa: PLC0415  as above

    problems: list[Problem] = []
    loaded: list[tuple[ConfigFile, Environment | Fleet]] = []
    for one in files:
        try:
            loaded.append((one, load_fleet(one.path) if one.kind == "Fleet" else load_environment(one.path).config))
        except InvalidConfig as error:
            problems += error.problems
    if problems:
        raise InvalidConfig(problems)
    return loaded


def _finished(
    one: ConfigFile,
    model: Environment | Fleet,
    request: Request,
    lock: ImageLock,
    known: Waivers,
    settings: CheckSettings,
) -> Finished:
    from charts_py import checks  # noqa: PLC0415  as above
    from charts_py.config.argocd import Fleet  # noqa: PLC0415  as above
    from charts_py.dist import provenance  # noqa: PLC0415  as above
    from charts_py.render import prepare, prepare_fleet  # noqa: PLC0415  as above

    templates = sources.templates_folder(request.templates)
    config = None if isinstance(model, Fleet) else model
    rendering = prepare_fleet(model) if isinstance(model, Fleet) else prepare(model, lock, templates, known)
    judgement = checks.judge(rendering, config, lock, settings)
    inputs = sources.provenance_inputs(one.sha256, lock.sha256, known.sha256, sources.folder_hash(templates))
    tools = provenance.tools(config.cluster.kubernetes_version if config else "")
    published = RenderedEnvironment(rendering.name, rendering.all_files(), inputs, tools)
    return Finished(published, judgement, replace(rendering, job_templates=()))


def _check_settings(request: Request) -> CheckSettings:
    from charts_py.checks import CheckSettings  # noqa: PLC0415  as above
    from charts_py.pipeline import schema_folders  # noqa: PLC0415  as above
    from policies.schemas.crds import CrdSchemas  # noqa: PLC0415  as above

    cache: Path = cache_root() / "kubernetes"
    return CheckSettings(CrdSchemas(schema_folders(request)), request.require_schemas, cache, request.today)
