"""`paperclip-launcher list`: the runs of the namespace."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from paperclip_launcher.cli.usage import FINE, add_cluster, add_verb

if TYPE_CHECKING:
    from paperclip_launcher.cli.lookup import Seen
    from paperclip_launcher.cli.printing import Printer

_EXAMPLES = """\
  paperclip-launcher list
  paperclip-launcher list --agent frank --format json
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "list",
        "list the runs of the namespace",
        "Lists the runs whose Job is there, with their state and whether a launcher looks after them.",
        _EXAMPLES,
    )
    parser.add_argument("--agent", metavar="ID", help="only of this agent")
    add_cluster(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher.cli.lookup import all_runs  # noqa: PLC0415  only for the verb that runs
    from paperclip_launcher.cli.place import Place  # noqa: PLC0415

    place = Place.of(arguments, printer)

    async def read() -> list[Seen]:
        async with place.cluster() as cluster:
            return await all_runs(cluster)

    found = [one for one in asyncio.run(read()) if arguments.agent in {None, one.agent_id}]
    printer.data("RunList", namespace=place.namespace, items=[as_data(one) for one in found])
    if printer.format == "text":
        _table(printer, found)
        printer.note(f"{len(found)} runs in {place.namespace}", "quiet")
    return FINE


def as_data(one: Seen) -> dict[str, Any]:
    return {
        "runId": one.run_id,
        "agentId": one.agent_id,
        "jobName": one.job["metadata"]["name"],
        "podName": one.pod["metadata"]["name"] if one.pod else None,
        "state": one.state,
        "createdAt": one.job["metadata"].get("creationTimestamp"),
        "owner": one.owner,
        "ownerState": one.owner_state,
    }


def _table(printer: Printer, found: list[Seen]) -> None:
    if not found:
        return
    head = ("RUN", "AGENT", "STATE", "AGE", "LAUNCHER")
    rows = [(one.run_id, one.agent_id, one.state, one.age, f"{one.owner} ({one.owner_state})") for one in found]
    printer.table([head, *rows])
