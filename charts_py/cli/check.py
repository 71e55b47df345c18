"""`paperclip-gitops check`: what is wrong in manifests, ours or anybody's."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from charts_py.cli.requests import add_configs, add_format, add_schemas
from charts_py.errors import ConfigError, ToolMissing, UsageError
from kubekit import pointers
from kubekit.identity import ObjectId
from policies.model import Finding, Severity, Source

if TYPE_CHECKING:
    from charts_py.cli.output import Output
    from charts_py.config.environment import Environment
    from kubekit.yamlread import Position
    from policies.schemas.check import Placed
    from policies.schemas.crds import CrdSchemas

_EPILOG = """\
examples:
  paperclip-gitops check                                         dist/, with what environments/ says of the clusters
  paperclip-gitops check deploy/ extra.yaml --kubernetes-version 1.33
  helm template x ./chart | paperclip-gitops check - --crd-schemas ../schemas
  paperclip-gitops check --kubeconform require --format json     for CI

A finding of severity error ends it with 1 (--fail-on warning: a warning too); waived ones are shown, not counted.
"""
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_LARGEST = 16 << 20  # bytes; bundles of CRDs have some MiB
_DEEPEST = 100
_READABLE = "yaml-readable"
# Read by kustomize, never sent to a cluster.
_NO_OBJECTS = frozenset({"kustomize.config.k8s.io"})
_FLEET_UNCHECKED = ("argoproj.io/ApplicationSet",)


@dataclass
class Batch:
    """What is judged together: one environment of dist, or everything else that was named.

    `places` leads from the source of an object to where its parts stand: (pointer of the object, positions).
    """

    environment: Environment | None = None
    unchecked: tuple[str, ...] = ()
    placed: list[Placed] = field(default_factory=list)
    places: dict[Source, tuple[str, Mapping[str, Position]]] = field(default_factory=dict)
    broken: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class Rules:
    """By what objects are judged, the same for every batch."""

    version: str | None
    crds: CrdSchemas
    require_schemas: bool
    binary: Path | None


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "check",
        help="judge manifests by policies and schemas",
        description="Judges manifests by the policies, the schemas of their kinds, and the real kubeconform.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folders, files, or - for stdin (default: dist)")
    parser.add_argument("--kubernetes-version", metavar="V", help="judge by this version, not by the config's")
    add_schemas(parser)
    parser.add_argument(
        "--kubeconform", choices=("auto", "require", "off"), default="auto", help="auto: if it is installed"
    )
    parser.add_argument("--fail-on", choices=("error", "warning"), default="error", help="what ends with 1")
    add_configs(parser)
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py import checks  # noqa: PLC0415  only for the verb that runs
    from charts_py.cli import findings as shown  # noqa: PLC0415  as above
    from policies import waivers  # noqa: PLC0415  as above
    from policies.schemas.crds import CrdSchemas  # noqa: PLC0415  as above

    batches = list(gather(arguments.paths or ["dist"], arguments.environments))
    count = sum(len(batch.placed) for batch in batches)
    if not count and not any(batch.broken for batch in batches):
        raise UsageError(
            f"{', '.join(arguments.paths or ['dist'])}: there is nothing to check",
            "name a folder or a file with manifests, or render first: paperclip-gitops synth",
        )
    rules = Rules(
        arguments.kubernetes_version,
        CrdSchemas(schema_folders(tuple(arguments.crd_schemas))),
        arguments.require_schemas,
        _kubeconform(arguments.kubeconform),
    )
    try:
        known = waivers.load(arguments.waivers)
    except waivers.WaiverError as error:
        raise ConfigError(str(error), f"mend {arguments.waivers}") from None
    found = [finding for batch in batches for finding in judge(batch, rules)]
    today = datetime.datetime.now(tz=datetime.UTC).date()
    # A folder of somebody else's never uses up our waivers.
    found = checks.waive(found, known, today, complete=False)
    shown.show(found, output)
    summary = checks.summary(found)
    output.data({**shown.report(found, summary), "objects": count, "kubeconform": str(rules.binary or "not run")})
    failing = _failing(found, arguments.fail_on)
    _tell(output, arguments, rules, summary, count)
    return 1 if failing else 0


def _failing(found: Iterable[Finding], fail_on: str) -> bool:
    counted = {Severity.ERROR} if fail_on == "error" else {Severity.ERROR, Severity.WARNING}
    return any(not one.waived and one.severity in counted for one in found)


def _tell(output: Output, arguments: argparse.Namespace, rules: Rules, summary: Mapping[str, int], count: int) -> None:
    if rules.binary is None:
        why = "switched off" if arguments.kubeconform == "off" else "not installed; `make tools`"
        output.note(f"kubeconform: not run ({why})", "quiet")
    counts = ", ".join(f"{summary[key]} {key}" for key in ("error", "warning", "waived"))
    output.note(f"{count} object{'s' if count != 1 else ''}: {counts}", "good" if not summary["error"] else "error")


def _kubeconform(mode: str) -> Path | None:
    """The binary; None where it shall not or, by `auto`, cannot run. Raises ToolMissing."""
    from policies.schemas import kubeconform  # noqa: PLC0415  as above

    if mode == "off":
        return None
    try:
        return kubeconform.find(root=Path.cwd())
    except kubeconform.KubeconformMissing as error:
        if mode == "require":
            raise ToolMissing(str(error), error.remedy) from None
        return None


def judge(batch: Batch, rules: Rules) -> list[Finding]:
    """All findings of a batch, each with the line it is about. Raises UsageError, ToolMissing."""
    from charts_py.config.cluster import Cluster  # noqa: PLC0415  as above
    from charts_py.known import facts  # noqa: PLC0415  as above
    from policies.run import run as run_policies  # noqa: PLC0415  as above
    from policies.schemas import check, kubeconform, versions  # noqa: PLC0415  as above
    from policies.world import World  # noqa: PLC0415  as above

    environment = batch.environment
    version = rules.version or (environment.cluster if environment else Cluster()).kubernetes_version
    unchecked = frozenset((*batch.unchecked, *(environment.checks.unchecked_kinds if environment else ())))
    try:
        report = check.check(
            batch.placed,
            kubernetes_version=version,
            crds=rules.crds,
            declared_unchecked=unchecked,
            require_all=rules.require_schemas,
            cache=_cache(),
        )
        found = [*run_policies(World(batch.placed, facts(environment))), *report.findings]
        if rules.binary is not None and batch.placed:
            second = kubeconform.Kubeconform(
                rules.binary, version, rules.crds, unchecked, require_all=rules.require_schemas, cache=_cache()
            )
            found += _news(second.check_manifests(batch.placed).findings, report.findings)
    except versions.UnsupportedVersion as error:
        raise UsageError(error.message, error.remedy) from None
    except (versions.SchemaDataMissing, kubeconform.KubeconformFailed) as error:
        raise ToolMissing(str(error), error.remedy) from None
    return [*batch.broken, *(_at_line(one, batch.places) for one in found)]


def _news(second: Iterable[Finding], first: Iterable[Finding]) -> Iterator[Finding]:
    """What only kubeconform has seen: of an object that our own check refused, it says the same in other words."""
    refused = {(one.object, one.source) for one in first}
    return (one for one in second if (one.object, one.source) not in refused)


def _at_line(finding: Finding, places: Mapping[Source, tuple[str, Mapping[str, Position]]]) -> Finding:
    """The line of the field, or of the nearest thing around it."""
    if finding.source not in places or finding.source is None:
        return finding
    root, positions = places[finding.source]
    here = root + finding.pointer
    while here not in positions and here:
        here = here.rpartition("/")[0]
    return replace(finding, source=replace(finding.source, line=positions[here].line))


def gather(paths: Sequence[str], configs: Path) -> Iterator[Batch]:
    """The manifests behind `paths`. Raises UsageError for what is not there; ConfigError for a broken config."""
    from charts_py.dist.layout import environments_in  # noqa: PLC0415  as above
    from charts_py.dist.sums import SUMS  # noqa: PLC0415  as above

    others = Batch()
    for text in paths:
        path = Path(text)
        if text == "-":
            _read(others, "stdin", sys.stdin.buffer.read())
        elif path.is_dir() and (path / SUMS).is_file():
            yield _rendered(path, configs)
        elif path.is_dir() and (names := environments_in(path)):
            yield from (_rendered(path / name, configs) for name in names)
        elif path.is_dir():
            for file in sorted(one for one in path.rglob("*") if one.suffix in _SUFFIXES and one.is_file()):
                _read(others, str(file), file.read_bytes())
        elif path.is_file():
            _read(others, text, path.read_bytes())
        else:
            raise UsageError(f"{text}: there is no such file or folder", "name one that is there, or - for stdin")
    if others.placed or others.broken:
        yield others


def _rendered(folder: Path, configs: Path) -> Batch:
    """One environment of dist, with what its config says of the cluster."""
    from charts_py.dist.layout import is_object_path  # noqa: PLC0415  as above

    batch = Batch(_config_of(folder.name, configs), _FLEET_UNCHECKED if folder.name.startswith("_") else ())
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        if is_object_path(file.relative_to(folder).as_posix()):
            _read(batch, str(file), file.read_bytes())
    return batch


def _config_of(name: str, configs: Path) -> Environment | None:
    """None where there is no config: the rendered state may stand in a repository of its own."""
    from charts_py import sources  # noqa: PLC0415  as above
    from charts_py.config.load import load_environment  # noqa: PLC0415  as above

    if not configs.is_dir():
        return None
    files = (one for one in sources.config_files(configs) if (one.kind, one.name) == ("Environment", name))
    return next((load_environment(one.path).config for one in files), None)


def _read(batch: Batch, name: str, raw: bytes) -> None:
    from kubekit import yamlread  # noqa: PLC0415  as above

    try:
        documents = yamlread.read_all(raw, name, max_bytes=_LARGEST, max_depth=_DEEPEST)
    except yamlread.YamlProblem as problem:
        place = Source(name, problem.position.line)
        message = f"line {problem.position.line}, column {problem.position.column}: {problem.message}"
        batch.broken.append(Finding(_READABLE, Severity.ERROR, None, "", message, problem.remedy, place))
        return
    for document in documents:
        for root, value in _items(document.value):
            place = Source(name, document.positions[root].line)
            if said := _no_manifest(value):
                batch.broken.append(
                    Finding(_READABLE, Severity.ERROR, None, root, said, "mend it, or take it out", place)
                )
            elif ObjectId.of(value).group not in _NO_OBJECTS:
                batch.placed.append((value, place))
                batch.places[place] = (root, document.positions)


def _no_manifest(value: object) -> str:
    """Why it cannot be judged at all; "" if it can."""
    if not isinstance(value, dict):
        return "is no manifest: a mapping with apiVersion, kind and metadata"
    lacking = [key for key in ("apiVersion", "kind") if not isinstance(value.get(key), str) or not value[key]]
    return f"is no manifest: {' and '.join(lacking)} must be text" if lacking else ""


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """A `kind: List`, as kubectl writes it, is what it holds."""
    if isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            yield pointers.join("/items", index), item
    else:
        yield "", value


def schema_folders(named: tuple[Path, ...]) -> tuple[Path, ...]:
    """Where schemas of custom resources may be: those that are named, then where synth looks too."""
    from charts_py.pipeline import Request, schema_folders  # noqa: PLC0415  as above

    return schema_folders(Request(crd_schemas=named))


def custom_kinds(dist: Path) -> list[ObjectId]:
    """One object of each custom kind in dist, by kind."""
    from charts_py.config.cluster import Cluster  # noqa: PLC0415  as above
    from policies.schemas.builtin import builtin_schemas  # noqa: PLC0415  as above

    builtin = builtin_schemas(Cluster().kubernetes_version, _cache())
    placed = [one for batch in gather([str(dist)], Path()) for one in batch.placed] if dist.is_dir() else []
    found = {(one.api_version, one.kind): one for one in (ObjectId.of(manifest) for manifest, _ in placed)}
    return [one for key, one in sorted(found.items()) if not builtin.knows(*key)]


def _cache() -> Path:
    from charts_py.cachedir import cache_root  # noqa: PLC0415  as above

    return cache_root() / "kubernetes"
