"""`paperclip-launcher schema`: the fields of an agent's config."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from paperclip_launcher.cli.usage import FINE, add_verb

if TYPE_CHECKING:
    from paperclip_launcher.cli.printing import Printer

_EXAMPLES = """\
  paperclip-launcher schema                      the form as Paperclip draws it
  paperclip-launcher schema --as markdown        a page with a table of all fields
"""
_TITLE = "# The config of an agent"


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs, "schema", "show the fields of an agent's config", "Shows the fields of an agent's config.", _EXAMPLES
    )
    parser.add_argument("--as", choices=("form", "markdown"), default="form", dest="shape", help="default: form")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher.fields import config_schema, documentation  # noqa: PLC0415  only for the verb that runs

    if arguments.shape == "markdown":
        printer.product("\n".join((_TITLE, "", *documentation())))
    else:
        printer.product(json.dumps(config_schema(), indent=2, ensure_ascii=False))
    return FINE
