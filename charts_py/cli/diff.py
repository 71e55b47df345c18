"""`diff`: what changes in the cluster if this state is merged."""

from __future__ import annotations

import argparse
from pathlib import Path

from charts_py.cli.output import Output

_EXAMPLES = """\
examples:
  paperclip-gitops diff                                  the working dist against the last commit
  paperclip-gitops diff --against git:origin/main        what a pull request changes
  paperclip-gitops diff --against ../other/dist --environment prod
  paperclip-gitops diff --format json --exit-zero        for a script that reads the worst risk

risks, from harmless to worst: rolls pod, traffic, access widened, recreates, data loss
exit codes: 0 the same (or --exit-zero), 1 differences, 2 wrong use
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "diff",
        help="what changed between two rendered states",
        description="Compares two rendered states object by object and says how dangerous each change is. "
        "Secrets are shown as ***.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--against",
        default="git:HEAD",
        metavar="git:REF|DIR",
        help="the old state: dist in a commit, or a folder laid out like it (default: git:HEAD)",
    )
    parser.add_argument("--environment", metavar="E", help="compare only this environment")
    parser.add_argument("--dist", type=Path, default=Path("dist"), metavar="DIR", help="the new state (default: dist)")
    parser.add_argument("--exit-zero", action="store_true", help="end with 0 also if there are differences")
    parser.add_argument(
        "--limit-bytes",
        type=_bytes,
        default=0,
        metavar="N",
        help="cut the text to N bytes, for comments with a limit; the summary stays (default: no limit)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Raises DiffError, which ends the program with 2."""
    from charts_py.diff import report, sources  # noqa: PLC0415 - PyYAML is not needed to parse the command line
    from charts_py.diff.objects import object_changes  # noqa: PLC0415

    against: str = arguments.against
    dist: Path = arguments.dist
    new = sources.from_dist(dist, arguments.environment)
    if against.startswith("git:"):
        old = sources.from_git(against.removeprefix("git:"), dist, arguments.environment)
    else:
        old = sources.from_folder(Path(against), arguments.environment)
    sources.refuse_unknown(arguments.environment, old, new)
    if new and not old:
        output.note(f"{against} has nothing there: all is new")
    changes = object_changes(old, new)
    if output.format == "json":
        output.data(report.document(changes, against))
    else:
        output.product(report.text(changes, limit_bytes=arguments.limit_bytes))
    return 1 if changes and not arguments.exit_zero else 0


def _bytes(text: str) -> int:
    count = int(text)
    if count < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return count
