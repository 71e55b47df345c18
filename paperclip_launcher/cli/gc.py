"""`paperclip-launcher gc`: clears away what runs have left behind."""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from paperclip_launcher.cli.usage import FINE, UsageError, add_cluster, add_state, add_verb

if TYPE_CHECKING:
    from paperclip_launcher.cli.place import Place
    from paperclip_launcher.cli.printing import Printer
    from paperclip_launcher.launcher import Launcher
    from paperclip_launcher.sweep import Leftover

_EXAMPLES = """\
  paperclip-launcher gc --dry-run
  paperclip-launcher gc --bundles --workspace /workspace --older-than-days 14

Deletes no run that a living launcher looks after, and none whose result nobody has read.
"""
_DAY = 86400.0


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "gc",
        "clear away what runs have left",
        "Deletes Jobs that were reported or never began, Leases of dead launchers, old records; with --bundles\n"
        "also copies of skills that no run has used for long.",
        _EXAMPLES,
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.add_argument("--bundles", action="store_true", help="also bundles of skills on the agents' claim")
    parser.add_argument("--workspace", type=Path, metavar="DIR", help="where that claim is mounted here")
    parser.add_argument("--older-than-days", type=float, default=7, metavar="N", help="of bundles (default: 7)")
    add_cluster(parser)
    add_state(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher.cli import identity  # noqa: PLC0415  only for the verb that runs
    from paperclip_launcher.cli.place import Place, state_of  # noqa: PLC0415

    if arguments.bundles and arguments.workspace is None:
        raise UsageError("--bundles: it is not known where the agents' claim is", "name its folder by --workspace")
    if arguments.bundles and arguments.dry_run:
        raise UsageError("--bundles cannot be tried with --dry-run", "leave one of them out")
    place, state = Place.of(arguments, printer), state_of(arguments)
    with identity.held_by_some(state, arguments.identity) as name:
        found, bundles = asyncio.run(_clear(arguments, place, state, name))
    items = [{"kind": one.kind, "name": one.name, "reason": one.reason} for one in found]
    items += [{"kind": "bundle", "name": one, "reason": "no run has used it for long"} for one in bundles]
    printer.data("Leftovers", dryRun=arguments.dry_run, items=items)
    if printer.format == "text":
        printer.table([(one["kind"], one["name"], one["reason"]) for one in items])
        printer.note(f"{len(items)} {'would be ' if arguments.dry_run else ''}cleared away", "quiet")
    return FINE


async def _clear(
    arguments: argparse.Namespace, place: Place, state: Path, name: str
) -> tuple[list[Leftover], list[str]]:
    from paperclip_launcher.cli import identity  # noqa: PLC0415  as above
    from paperclip_launcher.journal import FolderJournal  # noqa: PLC0415
    from paperclip_launcher.launcher import Launcher  # noqa: PLC0415
    from paperclip_launcher.settings import Settings  # noqa: PLC0415
    from paperclip_launcher.sweep import leftovers, sweep  # noqa: PLC0415

    settings, journal = Settings(place.namespace, name), FolderJournal(state / identity.JOURNAL)
    async with (
        place.cluster() as cluster,
        Launcher(cluster, settings, place.templates, journal=journal) as launcher,
    ):
        found = leftovers(launcher) if arguments.dry_run else await sweep(launcher)
        return found, _collect(arguments, launcher) if arguments.bundles else []


def _collect(arguments: argparse.Namespace, launcher: Launcher) -> list[str]:
    """The bundles that went. One that a run mounts, or will, stays whatever its age."""
    from kubekit import podspec  # noqa: PLC0415  as above
    from paperclip_launcher.skills.bundle import BUNDLES  # noqa: PLC0415
    from paperclip_launcher.skills.collect import collect  # noqa: PLC0415

    used: set[str] = set()
    for job in launcher.view.jobs.store.values():
        for container in (podspec.pod_spec(job) or {}).get("containers") or ():
            paths = [str(mount.get("subPath") or "") for mount in container.get("volumeMounts") or ()]
            used.update(path for path in paths if path.startswith(f"{BUNDLES}/"))
    older = arguments.older_than_days * _DAY
    return collect(str(arguments.workspace), older_than_seconds=older, now=time.time(), keep=used)
