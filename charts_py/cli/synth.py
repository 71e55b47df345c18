"""`paperclip-gitops synth`: every environment into dist/."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from charts_py.cli.requests import add_sources, request_of
from charts_py.errors import UsageError

if TYPE_CHECKING:
    from charts_py.cli.output import Output
    from charts_py.dist.publish import PublishResult
    from charts_py.pipeline import Request, Result

_EPILOG = """\
examples:
  paperclip-gitops synth                                  all environments into dist/
  paperclip-gitops synth --environment operating-post     one of them; the others stay as they are
  paperclip-gitops synth --stdout --stack paperclip-agents | kubectl diff -f -
  paperclip-gitops synth --check                          exit 1 and the difference, if dist/ is stale

What is written was checked: an open finding of severity error leaves dist/ as it was. dist/ is exchanged as a whole,
so a kill at any moment leaves all of the old or all of the new.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "synth",
        help="render the environments into dist/",
        description="Renders every environment, checks it, and writes it into dist/.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_sources(parser)
    parser.add_argument(
        "--stack",
        action="append",
        default=[],
        metavar="S",
        help="with --stdout: only this stack (repeatable)",
    )
    parser.add_argument("--allow-removal", action="store_true", help="let objects and environments go away")
    parser.add_argument("--force", action="store_true", help="render what is unchanged too")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--stdout", action="store_true", help="print the objects instead of writing dist/")
    how.add_argument(
        "--check", action="store_true", help="exit 1 with the difference if dist/ is stale; writes nothing"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py import pipeline  # noqa: PLC0415  only for the verb that runs

    begun = time.monotonic()
    if arguments.stack and not arguments.stdout:
        raise UsageError(
            "--stack goes with --stdout: dist/ is exchanged as a whole", "add --stdout, or leave --stack out"
        )
    request = request_of(arguments, force=arguments.force or arguments.check or arguments.stdout)
    result = pipeline.run(request)
    if blocked(result, output):
        return 1
    if arguments.stdout:
        return _print_objects(arguments, output, result)
    if arguments.check:
        return _check(request, result, output)
    return _publish(arguments, request, result, output, begun)


def blocked(result: Result, output: Output) -> bool:
    """Shows what was found; True if it stops the synth."""
    if not result.findings and not result.judgements:
        return False
    from charts_py.cli.findings import show  # noqa: PLC0415  as above

    show(result.findings, output)
    stopping = [one for one in result.findings if one.stops]
    if stopping:
        output.note(f"{len(stopping)} error{'s' if len(stopping) != 1 else ''}: nothing was written", "error")
        output.data({"apiVersion": "paperclip-gitops/v1", "kind": "Synth", "written": [], "errors": len(stopping)})
    return bool(stopping)


def _print_objects(arguments: argparse.Namespace, output: Output, result: Result) -> int:
    from kubekit import yamlwrite  # noqa: PLC0415  as above

    known = {one.stack for rendering in result.renderings for one in rendering.objects}
    if unknown := sorted(set(arguments.stack) - known):
        raise UsageError(f"there is no stack {unknown[0]!r}", f"known: {', '.join(sorted(known))}")
    objects = [
        one.manifest
        for rendering in result.renderings
        for one in rendering.objects
        if not arguments.stack or one.stack in arguments.stack
    ]
    if output.format == "json":
        output.data({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        output.product(yamlwrite.dump_all(objects))
    return 0


def _check(request: Request, result: Result, output: Output) -> int:
    from charts_py.dist.stale import stale  # noqa: PLC0415  as above

    report = stale(request.dist, result.rendered, complete=request.complete)
    groups = {
        "missing": report.missing,
        "different": tuple(one.path for one in report.different),
        "unexpected": report.unexpected,
        "stray": report.strays,
        "sum wrong": report.sums_wrong,
    }
    output.data(
        {
            "apiVersion": "paperclip-gitops/v1",
            "kind": "Stale",
            "policy": "dist-clean",
            "clean": report.clean,
            **{name.replace(" ", "_"): list(paths) for name, paths in groups.items()},
        },
    )
    if report.clean:
        output.note(f"{request.dist} is what the config says: {len(result.rendered)} environments", "good")
        return 0
    if output.format == "text":
        for one in report.different:
            output.product(one.text)
        output.table([[name, path] for name, paths in groups.items() if name != "different" for path in paths])
    count = len({path for paths in groups.values() for path in paths})
    output.note(
        f"{request.dist} is stale: {count} files; run `paperclip-gitops synth` and commit (dist-clean)", "error"
    )
    return 1


def _publish(arguments: argparse.Namespace, request: Request, result: Result, output: Output, begun: float) -> int:
    from charts_py import pipeline  # noqa: PLC0415  as above
    from charts_py.dist.layout import environments_in  # noqa: PLC0415  as above
    from charts_py.dist.publish import PublishResult, publish  # noqa: PLC0415  as above
    from charts_py.dist.swap import recover  # noqa: PLC0415  as above

    recover(request.dist)
    known = {one.name for one in result.rendered} | set(result.skipped)
    gone = [name for name in environments_in(request.dist) if name not in known] if request.complete else []
    written = PublishResult((), (), (), ())
    if result.rendered or gone:
        written = publish(
            request.dist,
            result.rendered,
            remove_environments=gone,
            allow_removal=arguments.allow_removal,
        )
        pipeline.remember(request, result)
    _tell(request, result, written, output, time.monotonic() - begun)
    return 0


def _tell(request: Request, result: Result, written: PublishResult, output: Output, seconds: float) -> None:
    for rendering, judgement in zip(result.renderings, result.judgements, strict=True):
        kinds = ", ".join(judgement.unchecked)
        rest = f"; no schema on this machine for {kinds}" if kinds else ""
        output.note(f"{rendering.name}: {len(rendering.objects)} objects, {judgement.checked} judged by schema{rest}")
    for name in result.skipped:
        output.note(f"{name}: unchanged", "quiet")
    for path in written.strays:
        output.note(f"{path}: not ours, left alone", "warning")
    for path in written.edited:
        output.note(f"{path}: was edited by hand, and is as rendered again", "warning")
    changed = (
        f"{len(written.written)} files written, {len(written.removed)} removed"
        if written.changed
        else "nothing changed"
    )
    output.note(f"{request.dist}: {changed} in {seconds:.2f} s", "good")
    output.data(
        {
            "apiVersion": "paperclip-gitops/v1",
            "kind": "Synth",
            "environments": {one.name: len(one.objects) for one in result.renderings},
            "skipped": list(result.skipped),
            "written": list(written.written),
            "removed": list(written.removed),
            "strays": list(written.strays),
            "edited": list(written.edited),
        },
    )
