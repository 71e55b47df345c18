"""paperclip-launcher: the command line. Each verb is a module of this package."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from paperclip_launcher.cli.printing import Printer
from paperclip_launcher.cli.usage import (
    DETACHED,
    EXIT_CODES,
    FAILED,
    FINE,
    INVALID,
    UNREACHABLE,
    WRONG_USE,
    Parser,
    UsageError,
)
from paperclip_launcher.errors import ConfigInvalid, LauncherError, Unreachable

VERBS = (
    "run",
    "attach",
    "logs",
    "list",
    "describe",
    "cancel",
    "gc",
    "check",
    "render",
    "serve",
    "adapter",
    "schema",
    "codes",
    "version",
)

_EPILOG = f"""\
{EXIT_CODES}
examples:
  paperclip-launcher check                      can runs be had here?
  paperclip-launcher run request.json           run an agent, show its log
  paperclip-launcher list                       the runs of the namespace
  paperclip-launcher describe RUN               how it stands, and what to do
"""


def parser() -> argparse.ArgumentParser:
    """The whole command line. Verbs import what is heavy only when they run."""
    root = Parser(
        prog="paperclip-launcher",
        description="Runs every agent as a Kubernetes Job that is never lost.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verbs = root.add_subparsers(title="verbs", metavar="VERB", required=True, dest="verb")
    for name in VERBS:
        importlib.import_module(f"paperclip_launcher.cli.{name}").register(verbs)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    printer = Printer()
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        arguments = _parsed(words)
        printer.format = arguments.format
        _talk(arguments, printer)
        code = int(arguments.run(arguments, printer))
        printer.flush()  # here, where a reader that has gone is no error
        return code  # noqa: TRY300  the flush belongs to the run
    except LauncherError as error:
        if debug:
            printer.trace()
        printer.failure(error)
        return exit_code(error)
    except KeyboardInterrupt:
        printer.note("interrupted")
        return DETACHED
    except OSError as error:
        return _output_failed(printer, error, debug=debug)
    except Exception as error:  # noqa: BLE001  the last place where a defect is turned into a line
        if debug:
            printer.trace()
        printer.note(f"error: a defect of paperclip-launcher: {type(error).__name__}: {error}", "error")
        printer.note("  mend: run it again with --debug, and report what it prints")
        return FAILED


def exit_code(error: LauncherError) -> int:
    """How a program ends for an error."""
    own = getattr(error, "exit_code", None)
    if own is not None:
        return int(own)
    if isinstance(error, UsageError):
        return WRONG_USE
    if isinstance(error, ConfigInvalid):
        return INVALID
    from paperclip_launcher.cluster.errors import AccessInvalid, ApiError  # noqa: PLC0415  only for errors

    if isinstance(error, (Unreachable, AccessInvalid)):
        return UNREACHABLE
    if isinstance(error, ApiError) and (error.status in {401, 403, 429} or error.status >= 500):
        return UNREACHABLE
    return FAILED


def _parsed(words: list[str]) -> argparse.Namespace:
    """What follows a lone -- belongs to the program that is run."""
    at = words.index("--") if "--" in words else len(words)
    arguments = parser().parse_args(words[:at])
    rest = words[at + 1 :]
    if not rest:
        return arguments
    if not hasattr(arguments, "program"):
        raise UsageError(f"{arguments.verb} starts no program", f"see `paperclip-launcher {arguments.verb} --help`")
    arguments.program = rest
    return arguments


def _talk(arguments: argparse.Namespace, printer: Printer) -> None:
    if not hasattr(arguments, "log_level"):
        return
    from paperclip_launcher import talk  # noqa: PLC0415  logging is not needed to print a help text

    level = arguments.log_level or ("debug" if arguments.debug else getattr(arguments, "quiet_level", "warning"))
    talk.configure(level, arguments.log_format, printer.mask)


def _output_failed(printer: Printer, error: OSError, *, debug: bool) -> int:
    """The reader has gone (`| head`), or a disk is full; Python would complain once more when it flushes."""
    if debug:
        printer.trace()
    if isinstance(error, BrokenPipeError):
        _silence()
        return FINE
    printer.note(f"error: {error.filename or 'the output'}: {error.strerror}", "error")
    _silence()
    return FAILED


def _silence() -> None:
    stdout: Any = sys.stdout
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
    except (OSError, ValueError):
        return


def program() -> int:
    """The whole process."""
    return main()


if __name__ == "__main__":
    sys.exit(program())
