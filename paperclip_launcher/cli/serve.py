"""`paperclip-launcher serve`: one launcher for any number of runs, driven by JSON-RPC."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from paperclip_launcher.cli.usage import UsageError, add_cluster, add_state, add_stock, add_verb

if TYPE_CHECKING:
    from paperclip_launcher.cli.printing import Printer

_EXAMPLES = """\
  paperclip-launcher serve --stdio
  paperclip-launcher serve --socket /run/paperclip/launcher.sock --http :9464
  paperclip-launcher serve --stdio --workspace /workspace --skills /paperclip/skills

The protocol stands in docs/launcher-protocol.md. SIGTERM detaches from all runs, and stops none of them.
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "serve",
        "run agents for Paperclip's adapter, by JSON-RPC",
        "Runs agents for programs that speak JSON-RPC 2.0 with it, one object a line, until it is told to end.",
        _EXAMPLES,
    )
    group = parser.add_argument_group("doors", "at least one")
    group.add_argument("--stdio", action="store_true", help="one client on stdin and stdout")
    group.add_argument("--socket", type=Path, metavar="PATH", help="a Unix socket for any number of clients")
    group.add_argument("--http", metavar="[HOST]:PORT", help="healthz, readyz and metrics (host: this machine)")
    add_stock(parser)
    add_cluster(parser)
    add_state(parser)
    parser.set_defaults(run=run, quiet_level="info")


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher.cli import identity  # noqa: PLC0415  only for the verb that runs
    from paperclip_launcher.cli.place import Place, needed_templates, state_of, stock_of  # noqa: PLC0415
    from paperclip_launcher.serve.main import serve  # noqa: PLC0415
    from paperclip_launcher.serve.options import ServeOptions, http_address  # noqa: PLC0415
    from paperclip_launcher.settings import Settings  # noqa: PLC0415

    if not arguments.stdio and arguments.socket is None:
        raise UsageError("nobody could reach it", "give --stdio, or --socket PATH, or both")
    try:
        http = http_address(arguments.http) if arguments.http else None
    except ValueError as error:
        raise UsageError(f"--http: {error}") from None
    templates = needed_templates(arguments)
    place, state = Place.of(arguments, printer, templates), state_of(arguments)
    with identity.held_by_some(state, arguments.identity) as name:
        return serve(
            ServeOptions(
                access=place.access,
                settings=Settings(place.namespace, name),
                templates=templates,
                journal=state / identity.JOURNAL,
                stdio=arguments.stdio,
                socket=arguments.socket,
                http=http,
                stock=stock_of(arguments),
                mask=printer.mask,
            )
        )
