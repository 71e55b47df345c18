"""`paperclip-gitops check`: what is wrong in manifests, ours or anybody's."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from charts_py.cli.requests import add_configs, add_schemas
from charts_py.errors import ConfigError, ToolMissing, UsageError

if TYPE_CHECKING:
    from charts_py.cli.output import Output
    from charts_py.judging import Rules
    from policies.facts import External
    from policies.model import Finding
    from policies.reports import Report
    from policies.waivers import Waivers

_EPILOG = """\
examples:
  paperclip-gitops check                                   dist/, with what environments/ says of the clusters
  helm template x ./chart | paperclip-gitops check - --facts cluster.yaml
  paperclip-gitops check deploy/ --output github --output sarif=check.sarif      for CI
Ends with 1 on an open finding of the --fail-on severity or worse. docs/reports.md tells the formats.
"""
_FORMATS = ("text", "json", "sarif", "junit", "github", "markdown")
_FAIL_ON = ("error", "warning", "info", "never")
_SMALLEST = 1_000
_LARGEST = 64 << 20  # bytes of a baseline


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "check",
        help="judge manifests by policies and schemas",
        usage="%(prog)s [PATH ...] [options]",
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
    parser.add_argument("--fail-on", choices=_FAIL_ON, default="error", help="from which severity on it ends with 1")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="a JSON report: what it has does not fail")
    add_configs(parser)
    parser.add_argument("--no-waivers", action="store_true", help="as if there were none")
    parser.add_argument("--suggest-waivers", action="store_true", help="print entries for what is open")
    parser.add_argument(
        "--facts", type=Path, action="append", default=[], metavar="FILE", help="of the cluster (repeatable)"
    )
    parser.add_argument(
        "--external", action="append", default=[], metavar="O", help="made elsewhere: Kind/ns/name[:keys] (repeatable)"
    )
    parser.add_argument("--format", choices=_FORMATS, default="text", help="what stdout gets")
    parser.add_argument(
        "--output", action="append", default=[], metavar="FORMAT[=FILE]", help="another report (repeatable)"
    )
    parser.add_argument("--max-bytes", type=int, default=65_000, metavar="N", help="of a markdown report")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py.judging import judge  # noqa: PLC0415  only for the verb that runs
    from charts_py.manifests import gather  # noqa: PLC0415  as above
    from policies import waivers  # noqa: PLC0415  as above

    stdout, files = outputs(arguments)
    rules = _rules(arguments)
    known = _waivers(arguments)
    paths = arguments.paths or ["dist"]
    batches = list(gather(paths, arguments.environments))
    count = sum(len(batch.placed) for batch in batches)
    if not count and not any(batch.broken for batch in batches):
        raise UsageError(
            f"{', '.join(paths)}: there is nothing to check",
            "name a folder or a file with manifests, or render first: paperclip-gitops synth",
        )
    today = datetime.datetime.now(tz=datetime.UTC).date()
    found = [finding for batch in batches for finding in judge(batch, rules)]
    # A folder of somebody else's never uses up our waivers.
    found = waivers.apply(found, known, today, complete=False)
    report = _report(arguments, rules, found, count)
    _write(report, files, arguments.max_bytes)
    if arguments.suggest_waivers:
        output.product(waivers.suggest(found, today) or "waivers: []")
    elif stdout != "text":
        output.product(_rendered(report, stdout, arguments.max_bytes))
    for skipped in sorted({line for batch in batches for line in batch.skipped}):
        output.note(f"left out: {skipped}", "quiet")
    _tell(output, arguments, report, rules, to_stdout=stdout == "text" and not arguments.suggest_waivers)
    return 1 if report.failed else 0


def outputs(arguments: argparse.Namespace) -> tuple[str, list[tuple[str, Path]]]:
    """The format for stdout, and those for files. Raises UsageError: stdout takes one."""
    plain = [] if arguments.format == "text" else [arguments.format]
    files: list[tuple[str, Path]] = []
    for text in arguments.output:
        name, given, file = text.partition("=")
        if name not in _FORMATS:
            raise UsageError(f"--output {text}: there is no format {name!r}", f"known: {', '.join(_FORMATS)}")
        if given and not file:
            raise UsageError(f"--output {text}: the file has no name", f"write --output {name}=FILE")
        if file in {str(path) for _, path in files}:
            raise UsageError(f"--output {text}: two reports go to one file", "give each its own")
        if given:
            files.append((name, Path(file)))
        else:
            plain.append(name)
    if arguments.suggest_waivers:
        plain.append("suggested waivers")
    if len(plain) > 1:
        raise UsageError(f"{' and '.join(plain)} go both to stdout", "send one to a file: --output FORMAT=FILE")
    if arguments.max_bytes < _SMALLEST:
        raise UsageError(f"--max-bytes {arguments.max_bytes}: the least is {_SMALLEST:,}", "allow more")
    return (plain[0] if plain and not arguments.suggest_waivers else "text"), files


def _rules(arguments: argparse.Namespace) -> Rules:
    from charts_py.judging import Rules, schema_folders  # noqa: PLC0415  as above
    from policies.schemas.crds import CrdSchemas  # noqa: PLC0415  as above

    return Rules(
        arguments.kubernetes_version,
        CrdSchemas(schema_folders(tuple(arguments.crd_schemas))),
        arguments.require_schemas,
        _kubeconform(arguments.kubeconform),
        tuple(document for path in arguments.facts for document in _facts(path)),
        tuple(_external(text) for text in arguments.external),
    )


def _facts(path: Path) -> list[tuple[Mapping[str, Any], str]]:
    """The documents of a file that was named to hold facts. Raises ConfigError."""
    from kubekit import yamlread  # noqa: PLC0415  as above
    from policies import facts  # noqa: PLC0415  as above

    try:
        documents = [one.value for one in yamlread.read_all(path.read_bytes(), str(path))]
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", "name a file with facts") from None
    except yamlread.YamlProblem as problem:
        raise ConfigError(str(problem), problem.remedy) from None
    if not documents or not all(isinstance(one, dict) and facts.is_facts(one) for one in documents):
        remedy = f"begin it with `apiVersion: {facts.API_VERSION}` and `kind: {facts.KIND}`"
        raise ConfigError(f"{path}: holds what is no {facts.KIND}", remedy)
    return [(one, str(path)) for one in documents]


def _external(text: str) -> External:
    from policies.facts import external_of  # noqa: PLC0415  as above

    try:
        return external_of(text)
    except ValueError as error:
        raise UsageError(f"--external: {error}", "such as --external Secret/default/db:password") from None


def _waivers(arguments: argparse.Namespace) -> Waivers:
    from policies import waivers  # noqa: PLC0415  as above

    if arguments.no_waivers:
        return waivers.Waivers()
    try:
        return waivers.load(arguments.waivers)
    except waivers.WaiverError as error:
        raise ConfigError(str(error), f"mend {arguments.waivers}") from None


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


def _report(arguments: argparse.Namespace, rules: Rules, found: Sequence[Finding], count: int) -> Report:
    from charts_py import __version__  # noqa: PLC0415  as above
    from policies.model import Severity  # noqa: PLC0415  as above
    from policies.reports import Report, compare  # noqa: PLC0415  as above

    baseline = None
    if arguments.baseline is not None:
        try:
            text = arguments.baseline.read_bytes()[: _LARGEST + 1]
            baseline = compare(found, json.loads(text), str(arguments.baseline))
        except OSError as error:
            raise UsageError(f"{arguments.baseline}: cannot be read: {error.strerror}", "name a JSON report") from None
        except (ValueError, RecursionError) as error:
            said = error if not isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else "is no JSON"
            raise UsageError(f"{arguments.baseline}: {said}", "name a file from `check --output json=FILE`") from None
    # The severities are in the order of the choices.
    failing = frozenset(list(Severity)[: _FAIL_ON.index(arguments.fail_on) + 1])
    if arguments.fail_on == "never":
        failing = frozenset()
    return Report(tuple(found), count, str(rules.binary or "not run"), failing, baseline, __version__)


def _rendered(report: Report, name: str, max_bytes: int) -> str:
    from policies.reports import render  # noqa: PLC0415  as above

    return render(report, name, max_bytes=max_bytes)


def _write(report: Report, files: Sequence[tuple[str, Path]], max_bytes: int) -> None:
    for name, path in files:
        try:
            path.write_text(_rendered(report, name, max_bytes), encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"{path}: cannot be written: {error.strerror}", "name a file in a folder that is there"
            ) from None


def _tell(output: Output, arguments: argparse.Namespace, report: Report, rules: Rules, *, to_stdout: bool) -> None:
    """The findings for people, and the counts."""
    from charts_py.cli.findings import show  # noqa: PLC0415  as above

    # The log of a workflow shows the annotations already.
    if to_stdout or "github" not in (arguments.format, *arguments.output):
        show(report, output, to_stdout=to_stdout)
    if rules.binary is None:
        why = "switched off" if arguments.kubeconform == "off" else "not installed; `make tools`"
        output.note(f"kubeconform: not run ({why})", "quiet")
    output.note(report.told(), "error" if report.summary["error"] else "good")
