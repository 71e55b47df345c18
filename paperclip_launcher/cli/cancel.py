"""`paperclip-launcher cancel`: ends a run, whoever looks after it."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING

from paperclip_launcher.cli.usage import FINE, add_cluster, add_state, add_verb

if TYPE_CHECKING:
    from paperclip_launcher.cli.lookup import Seen
    from paperclip_launcher.cli.place import Place
    from paperclip_launcher.cli.printing import Printer
    from paperclip_launcher.cluster.api import Cluster

_EXAMPLES = """\
  paperclip-launcher cancel 0198f2c4
  paperclip-launcher cancel 0198f2c4 --wait

Its launcher is asked by a mark on the Job, and gives the agent its time to stop. Where that launcher
is gone, the run is taken over and stopped from here.
"""
_POLL = 2.0


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "cancel",
        "end a run",
        "Ends a run: the agent is asked to stop, then killed; its result says that it was cancelled.",
        _EXAMPLES,
    )
    parser.add_argument("name", metavar="RUN", help="id of the run, name of its Job, or the beginning of either")
    parser.add_argument("--wait", action="store_true", help="until its pod has gone")
    add_cluster(parser)
    add_state(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher.cli.place import Place  # noqa: PLC0415  only for the verb that runs

    place = Place.of(arguments, printer)
    seen, ended = asyncio.run(_ask(place, printer, arguments.name, wait=arguments.wait))
    if ended:
        printer.data("Cancel", runId=seen.run_id, state="ended" if arguments.wait else "asked", owner=seen.owner)
        return FINE
    return _stop_here(arguments, printer, place, seen)


async def _ask(place: Place, printer: Printer, name: str, *, wait: bool) -> tuple[Seen, bool]:
    """The run, and whether that is all: False where nobody is there to be asked."""
    from paperclip_launcher import marks, podstate  # noqa: PLC0415  as above
    from paperclip_launcher.cli.lookup import find  # noqa: PLC0415
    from paperclip_launcher.cluster.errors import NotFound  # noqa: PLC0415

    async with place.cluster() as cluster:
        seen = await find(cluster, name)
        if podstate.terminal(seen.job):
            printer.note(f"run {seen.run_id} has ended already: {seen.state}")
            return seen, True
        mark = {"metadata": {"uid": marks.uid(seen.job), "annotations": {marks.CANCEL: f"{time.time():.0f}"}}}
        try:
            await cluster.merge("jobs", marks.name(seen.job), mark)
        except NotFound:
            printer.note(f"run {seen.run_id} has just ended")
            return seen, True
        if seen.owner_state != "alive":
            printer.note(f"its launcher {seen.owner} is {seen.owner_state}: it is stopped from here")
            return seen, False
        printer.note(f"launcher {seen.owner} is asked to end run {seen.run_id}")
        return seen, not wait or await _gone(cluster, printer, seen)


async def _gone(cluster: Cluster, printer: Printer, seen: Seen) -> bool:
    """Waits until no pod of it is left, or its launcher has gone: False then."""
    from paperclip_launcher import marks  # noqa: PLC0415  as above
    from paperclip_launcher.cli.lookup import find  # noqa: PLC0415
    from paperclip_launcher.errors import NotFoundRun  # noqa: PLC0415

    while True:
        await asyncio.sleep(_POLL)
        try:
            now = await find(cluster, marks.name(seen.job))
        except NotFoundRun:
            now = None
        if now is None or marks.uid(now.job) != marks.uid(seen.job) or (now.pod is None and marks.deleting(now.job)):
            printer.note(f"run {seen.run_id} has ended", "good")
            return True
        if now.owner_state != "alive":
            printer.note(f"its launcher {now.owner} is {now.owner_state}: it is stopped from here")
            return False


def _stop_here(arguments: argparse.Namespace, printer: Printer, place: Place, seen: Seen) -> int:
    """Takes the run over; the mark on its Job stops it."""
    from paperclip_launcher import marks  # noqa: PLC0415  as above
    from paperclip_launcher.cli import identity  # noqa: PLC0415
    from paperclip_launcher.cli.attach import identity_for  # noqa: PLC0415
    from paperclip_launcher.cli.driving import Drive  # noqa: PLC0415
    from paperclip_launcher.cli.place import state_of  # noqa: PLC0415
    from paperclip_launcher.cli.readers import Silence  # noqa: PLC0415
    from paperclip_launcher.codes import CODES  # noqa: PLC0415
    from paperclip_launcher.journal import FolderJournal  # noqa: PLC0415
    from paperclip_launcher.settings import Settings  # noqa: PLC0415

    state = state_of(arguments)
    codes: list[str] = []
    with identity.held(state, arguments.identity or identity_for(state, seen)) as name:
        sink = Silence(printer)
        drive = Drive(
            place,
            printer,
            Settings(place.namespace, name),
            FolderJournal(state / identity.JOURNAL),
            sink,
            lambda result: codes.append(result.code),
        )
        job = marks.name(seen.job)
        code = asyncio.run(drive.to_end(lambda launcher: launcher.attach(job, sink)))
    if not codes:
        return code
    printer.data("Cancel", runId=seen.run_id, state=codes[0] or "succeeded", owner=name)
    known = CODES[codes[0]].exit if codes[0] else FINE
    printer.note(f"run {seen.run_id}: {codes[0] or 'had succeeded'}", "good" if known != 6 else "error")
    return known if known == 6 else FINE
