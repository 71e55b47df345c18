"""`paperclip-launcher adapter`: the adapter that Paperclip's server loads."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from paperclip_launcher.cli.usage import FINE, UsageError, add_verb

if TYPE_CHECKING:
    from paperclip_launcher.cli.printing import Printer

_EXAMPLES = """\
  paperclip-launcher adapter --install /paperclip    into the home of a server, which must start anew then
  paperclip-launcher adapter --write adapter         described.json of each type, in a checkout

Installing again changes nothing. docs/adapter.md says what a person sees then.
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "adapter",
        "install the adapter that Paperclip's server loads",
        "Installs the adapter into the home of a Paperclip server, beside the adapters that are there.",
        _EXAMPLES,
    )
    parser.add_argument("--install", type=Path, metavar="HOME", help="of the server: its PAPERCLIP_HOME")
    about = "the adapter (default: PAPERCLIP_ADAPTER, /opt/paperclip-adapter, our own)"
    parser.add_argument("--from", default="", metavar="DIR", dest="source", help=about)
    parser.add_argument("--write", type=Path, metavar="DIR", help="only write what the adapter knows of us into DIR")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher.serve import described, installation  # noqa: PLC0415  only for the verb that runs

    if (arguments.install is None) == (arguments.write is None):
        raise UsageError("it is not said what to do", "give --install HOME, or --write DIR")
    if arguments.write is not None:
        written = described.write(arguments.write)
        for path in written:
            _say(printer, f"written: {path}")
        printer.data("AdapterDescribed", written=[str(path) for path in written])
        return FINE
    source = installation.found(arguments.source, os.environ)
    found = installation.installed_now(arguments.install, source)
    for record in found.records:
        _say(printer, f"{record['type']} {record['version']}: {record['localPath']}")
    if found.kept_aside is not None:
        printer.note(f"the list of adapters could not be read; it was put aside: {found.kept_aside}", "warning")
    for path in found.removed:
        _say(printer, f"removed: {path}")
    _say(printer, "installed; the server must start anew" if found.changed else "nothing to do")
    printer.data(
        "AdapterInstalled",
        folder=str(found.folder),
        records=[dict(record) for record in found.records],
        changed=found.changed,
        keptAside=None if found.kept_aside is None else str(found.kept_aside),
        removed=[str(path) for path in found.removed],
    )
    return FINE


def _say(printer: Printer, text: str) -> None:
    if printer.format == "text":
        printer.product(text)
