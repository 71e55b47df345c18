"""`paperclip-launcher logs`: what an agent has written, and writes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from paperclip_launcher.cli.usage import FINE, UsageError, add_cluster, add_verb

if TYPE_CHECKING:
    from paperclip_launcher.cli.place import Place
    from paperclip_launcher.cli.printing import Printer

_EXAMPLES = """\
  paperclip-launcher logs 0198f2c4 --tail 100
  paperclip-launcher logs 0198f2c4 --follow --since 10m
  paperclip-launcher logs 0198f2c4 --raw | jq .

On a terminal the lines of an agent are made readable; --raw, or a pipe, gets them as they are.
"""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "logs",
        "show the log of a run",
        "Shows what an agent has written. Reads the pod itself, whoever looks after the run.",
        _EXAMPLES,
    )
    parser.add_argument("name", metavar="RUN", help="id of the run, name of its Job, or the beginning of either")
    parser.add_argument("--follow", "-f", action="store_true", help="go on until the agent has ended")
    parser.add_argument("--since", default="", metavar="TIME", help="10m, 2h, or a time such as 2026-11-21T06:00:00Z")
    parser.add_argument("--tail", type=int, metavar="N", help="only the last N lines")
    parser.add_argument("--raw", action="store_true", help="the agent's own lines, also on a terminal")
    add_cluster(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher.cli.place import Place  # noqa: PLC0415  only for the verb that runs

    if arguments.tail is not None and arguments.tail < 0:
        raise UsageError(f"--tail {arguments.tail}: is less than no line", "give 0 or more")
    since = since_of(arguments.since, time.time())
    place = Place.of(arguments, printer)
    asyncio.run(_show(arguments, printer, place, since))
    return FINE


def since_of(text: str, now: float) -> str:
    """As RFC 3339 in whole seconds, "" for "". UsageError."""
    if not text:
        return ""
    if match := re.fullmatch(r"(\d{1,9})([smhd])", text):
        begin = datetime.fromtimestamp(now, UTC) - timedelta(seconds=int(match[1]) * _UNITS[match[2]])
    else:
        try:
            begin = datetime.fromisoformat(text)
        except ValueError:
            remedy = "write it as 10m, 2h, or 2026-11-21T06:00:00Z"
            raise UsageError(f"--since {text}: is no time", remedy) from None
    begin = begin if begin.tzinfo else begin.replace(tzinfo=UTC)
    return begin.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


async def _show(arguments: argparse.Namespace, printer: Printer, place: Place, since: str) -> None:
    from paperclip_launcher.cli.lookup import find  # noqa: PLC0415  as above
    from paperclip_launcher.cli.podlog import PodLog  # noqa: PLC0415
    from paperclip_launcher.cli.readers import pretty_lines  # noqa: PLC0415
    from paperclip_launcher.cluster.errors import Invalid  # noqa: PLC0415

    pretty = printer.interactive and not arguments.raw

    async def write(data: bytes) -> None:
        masked = printer.mask.whole(data)
        await printer.write(pretty_lines(masked) if pretty else masked)

    async with place.cluster() as cluster:
        log = PodLog(cluster, await find(cluster, arguments.name), since, lambda text: printer.note(text, "warning"))
        # What has not started yet has no log; whoever follows waits for it.
        with contextlib.suppress(*([Invalid] if arguments.follow else [])):
            await log.read(write, arguments.tail)
        if arguments.follow:
            await log.follow(write)
