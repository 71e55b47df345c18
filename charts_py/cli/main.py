"""paperclip-gitops: the command line. Each verb is a module of this package."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from charts_py.cli.output import Output
from charts_py.errors import GitopsError, UsageError

VERBS = ("synth", "check", "egress", "diff", "explain", "init", "schema", "images", "schemas", "tools", "doctor")

_EPILOG = """\
exit codes: 0 fine, 1 findings or differences, 2 wrong use, 3 config invalid, 4 tool missing, 5 cluster unreachable
examples:
  paperclip-gitops synth                     render every environment into dist/
  paperclip-gitops synth --check             is dist/ what the config says?
  paperclip-gitops diff --against git:main   what would change in the cluster
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see `{self.prog} --help`")


def parser() -> argparse.ArgumentParser:
    """The whole command line. Verbs import what is heavy only when they run."""
    root = _Parser(
        prog="paperclip-gitops",
        description="Renders everything Paperclip needs on Kubernetes, and proves it safe before it reaches a cluster.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--debug", action="store_true", help="show the trace of an error")
    verbs = root.add_subparsers(title="verbs", metavar="VERB", required=True, dest="verb")
    for name in VERBS:
        importlib.import_module(f"charts_py.cli.{name}").register(verbs)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    debug = "--debug" in (sys.argv[1:] if argv is None else argv)
    output = Output()
    try:
        arguments = parser().parse_args(argv)
        output = Output(getattr(arguments, "format", "text"))
        code = int(arguments.run(arguments, output))
        sys.stdout.flush()  # here, where a reader that has gone is no error
        return code  # noqa: TRY300  the flush belongs to the run
    except GitopsError as error:
        output.failure(error)
        if debug:
            raise
        return error.exit_code
    except KeyboardInterrupt:
        output.note("interrupted; nothing was left half done")
        return 130
    except OSError as error:
        # The reader has gone (`| head`), or the disk is full; Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        output.note(f"error: {error.filename or 'the output'}: {error.strerror}", "error")
        return 1


def program() -> int:
    """The whole process: every verb makes trees, hardly a cycle, and ends, so looking for cycles is a tenth wasted."""
    gc.disable()
    return main()


if __name__ == "__main__":
    sys.exit(program())
