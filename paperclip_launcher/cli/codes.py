"""`paperclip-launcher codes`: every way in which a run can end."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paperclip_launcher.cli.usage import FINE, UsageError, add_verb, near

if TYPE_CHECKING:
    from paperclip_launcher.cli.printing import Printer

_EXAMPLES = """\
  paperclip-launcher codes
  paperclip-launcher codes k8s_oom_killed --format json
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "codes",
        "list the codes of outcomes",
        "Lists the codes of outcomes: what they mean, whether another try makes sense, and our exit code.",
        _EXAMPLES,
    )
    parser.add_argument("code", nargs="?", metavar="CODE", help="only this one")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher.codes import CODES  # noqa: PLC0415  only for the verb that runs

    if arguments.code is not None and arguments.code not in CODES:
        remedy = f"{near(arguments.code, CODES)}`paperclip-launcher codes` lists all"
        raise UsageError(f"there is no code {arguments.code!r}", remedy)
    shown = [CODES[arguments.code]] if arguments.code else list(CODES.values())
    items = [
        {"code": one.code, "meaning": one.meaning, "retry": one.retry.value, "family": one.family, "exit": one.exit}
        for one in shown
    ]
    printer.data("CodeList", items=items)
    if printer.format == "text":
        rows = [(one.code, str(one.exit), one.retry.value, one.meaning) for one in shown]
        printer.table([("CODE", "EXIT", "TRY AGAIN", "MEANING"), *rows])
    return FINE
