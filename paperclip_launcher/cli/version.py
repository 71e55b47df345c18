"""`paperclip-launcher version`: what this is."""

from __future__ import annotations

import argparse
import platform
from typing import TYPE_CHECKING

from paperclip_launcher.cli.usage import FINE, add_verb

if TYPE_CHECKING:
    from paperclip_launcher.cli.printing import Printer


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "version",
        "say which version this is",
        "Says which version this is.",
        "  paperclip-launcher version\n  paperclip-launcher version --format json",
    )
    parser.set_defaults(run=run)


def run(_: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher import version  # noqa: PLC0415  reading the package's facts takes a while

    found = version()
    printer.data("Version", version=found, python=platform.python_version())
    if printer.format == "text":
        printer.product(f"paperclip-launcher {found} (Python {platform.python_version()})")
    return FINE
