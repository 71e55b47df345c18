"""`paperclip-launcher attach`: goes on with a run that nobody looks after."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from paperclip_launcher.cli.usage import EXIT_CODES, add_cluster, add_state, add_verb

if TYPE_CHECKING:
    from paperclip_launcher.cli.lookup import Seen
    from paperclip_launcher.cli.place import Place
    from paperclip_launcher.cli.printing import Printer

_EXAMPLES = f"""\
  paperclip-launcher attach 0198f2c4
  paperclip-launcher attach 0198f2c4 --output run.log --result result.json
  paperclip-launcher attach 0198f2c4 --all

A run that another launcher looks after is left to it: `logs --follow` shows what it writes.
{EXIT_CODES}
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "attach",
        "go on with a run that was detached from",
        "Takes over a run that nobody looks after, shows its log from where it was read to, and ends as it does.",
        _EXAMPLES,
    )
    parser.add_argument("name", metavar="RUN", help="id of the run, name of its Job, or the beginning of either")
    parser.add_argument("--all", action="store_true", help="the log from its beginning")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the log goes to the end of FILE, not to stdout")
    parser.add_argument("--result", type=Path, metavar="FILE", help="the result as JSON, as Paperclip gets it")
    parser.add_argument("--raw", action="store_true", help="the agent's own lines, also on a terminal")
    add_cluster(parser)
    add_state(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher import marks  # noqa: PLC0415  only for the verb that runs
    from paperclip_launcher.cli import identity  # noqa: PLC0415
    from paperclip_launcher.cli.driving import Drive  # noqa: PLC0415
    from paperclip_launcher.cli.place import Place, state_of  # noqa: PLC0415
    from paperclip_launcher.cli.readers import LogFile, Screen  # noqa: PLC0415
    from paperclip_launcher.cli.run import keep  # noqa: PLC0415
    from paperclip_launcher.journal import FolderJournal  # noqa: PLC0415
    from paperclip_launcher.settings import Settings  # noqa: PLC0415

    place, state = Place.of(arguments, printer), state_of(arguments)
    seen = asyncio.run(find_run(place, arguments.name))
    name = arguments.identity or identity_for(state, seen)
    with identity.held(state, name):
        sink: Screen | LogFile
        if arguments.output is not None:
            sink = LogFile(printer, arguments.output, seen.run_id, known=True)
        else:
            pretty = printer.interactive and not arguments.raw
            sink = Screen(printer, pretty=pretty, offset=0 if arguments.all else None)
        drive = Drive(
            place,
            printer,
            Settings(place.namespace, name),
            FolderJournal(state / identity.JOURNAL),
            sink,
            lambda result: keep(arguments, printer, seen.run_id, result),
        )
        job = marks.name(seen.job)
        return asyncio.run(drive.to_end(lambda launcher: launcher.attach(job, sink)))


async def find_run(place: Place, name: str) -> Seen:
    from paperclip_launcher.cli.lookup import find  # noqa: PLC0415  as above

    async with place.cluster() as cluster:
        return await find(cluster, name)


def identity_for(state: Path, seen: Seen) -> str:
    """The name under which this folder's launchers have the run, so that nobody waits for a Lease to expire."""
    from paperclip_launcher import marks  # noqa: PLC0415  as above
    from paperclip_launcher.cli import identity  # noqa: PLC0415

    if seen.owner.startswith(identity.identity_of(state)):
        return seen.owner
    return identity.identity_of_run(state, marks.name(seen.job))
