"""`paperclip-gitops tools install`: the tools that are not Python."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from charts_py.cli.output import Output

_EPILOG = """examples:
  paperclip-gitops tools install                  kubeconform into .tools/bin of this folder
  paperclip-gitops tools install --root ../other  the same for another repository
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "tools",
        help="install the tools that are not Python",
        description="Installs kubeconform at the pinned version: built by Go 1.24 or newer where that is\n"
        "there, else the archive of the release, verified by its sha256.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=["install"], help="what to do")
    parser.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="the repository (default: here)")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="how to answer")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py import toolbox  # noqa: PLC0415 - keeps the start of other verbs short

    done = toolbox.install_kubeconform(
        arguments.root.resolve(),
        go=toolbox.usable_go(),
        system=toolbox.this_platform(),
    )
    if arguments.format == "json":
        output.data({"tool": toolbox.NAME, "version": done.version, "path": str(done.path), "how": done.how})
    else:
        output.note(f"{toolbox.NAME} {done.version}: {done.how}, {done.path}")
    return 0
