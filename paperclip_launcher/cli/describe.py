"""`paperclip-launcher describe`: how one run stands, what is wrong with it, and what to do."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from paperclip_launcher.cli.usage import FINE, add_cluster, add_verb

if TYPE_CHECKING:
    from kubekit.identity import Manifest
    from paperclip_launcher.cli.lookup import Seen
    from paperclip_launcher.cli.place import Place
    from paperclip_launcher.cli.printing import Printer

_EXAMPLES = """\
  paperclip-launcher describe 0198f2c4
  paperclip-launcher describe run-0198f2c4-5d41402abc4b2a76 --lines 50 --format json
"""
_LONGEST = 240
"""Characters of an event's text."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "describe",
        "say how a run stands, and why",
        "Says how a run stands: its Job, pod and launcher, what is wrong and how to mend it, events, end of the log.",
        _EXAMPLES,
    )
    parser.add_argument("name", metavar="RUN", help="id of the run, name of its Job, or the beginning of either")
    parser.add_argument("--lines", type=int, default=10, metavar="N", help="of the log's end (default: 10)")
    add_cluster(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher.cli.place import Place  # noqa: PLC0415  only for the verb that runs

    place = Place.of(arguments, printer)
    seen, lines = asyncio.run(_read(place, arguments.name, arguments.lines))
    if printer.format == "json":
        printer.data("Run", namespace=place.namespace, **_as_data(seen, lines))
        return FINE
    _describe(printer, seen, place.namespace)
    _list_events(printer, seen)
    if lines:
        printer.product(f"\nend of the log ({len(lines)} lines)")
        for line in lines:
            printer.product(f"  {line}")
    _next_steps(printer, seen)
    return FINE


async def _read(place: Place, name: str, count: int) -> tuple[Seen, list[str]]:
    from paperclip_launcher.cli.lookup import find  # noqa: PLC0415  as above
    from paperclip_launcher.cli.podlog import last_lines  # noqa: PLC0415

    async with place.cluster() as cluster:
        seen = await find(cluster, name, events=True)
        return seen, await last_lines(cluster, seen, count)


def _describe(printer: Printer, seen: Seen, namespace: str) -> None:
    from paperclip_launcher import marks, podstate  # noqa: PLC0415  as above

    pod = seen.pod or {}
    asked = marks.annotation(seen.job, marks.CANCEL)
    rows = [
        ("agent", f"{seen.agent_id} {marks.annotation(seen.job, 'paperclip.io/agent-name')}".strip()),
        ("state", seen.state + (", its end was asked for" if asked else "")),
        ("job", f"{namespace}/{seen.job['metadata']['name']}, made {seen.age} ago"),
        ("pod", podstate.progress(seen.job, seen.pod)),
        ("node", str((pod.get("spec") or {}).get("nodeName") or "")),
        ("image", _image(seen.job)),
        ("launcher", f"{seen.owner}, {seen.owner_state}"),
        ("taken over", marks.annotation(seen.job, marks.ADOPTED_BY)),
        ("session", marks.annotation(seen.job, marks.SESSION_ID)),
    ]
    printer.product(f"run {seen.run_id}")
    printer.table([(f"  {name}", value) for name, value in rows if value])
    found = seen.diagnosis
    if found is not None:
        from paperclip_launcher.codes import CODES  # noqa: PLC0415  as above

        printer.product(f"\n{found.code}: {found.summary}", "error" if found.hard else "warning")
        again = CODES[found.code].retry if found.code in CODES else ""
        parts = [("  detail", found.detail), ("  mend", found.remedy), ("  try again", str(again))]
        printer.table([part for part in parts if part[1]])


def _image(job: Manifest) -> str:
    containers = job["spec"]["template"]["spec"].get("containers") or [{}]
    return str(containers[0].get("image") or "")


def _list_events(printer: Printer, seen: Seen) -> None:
    from paperclip_launcher.cli.lookup import duration, event_time, seconds_of  # noqa: PLC0415  as above

    if not seen.events:
        return
    import time  # noqa: PLC0415

    rows = []
    for event in seen.events[-15:]:
        at = seconds_of(event_time(event))
        age = duration(time.time() - at) if at is not None else ""
        about = str((event.get("involvedObject") or {}).get("kind") or "")
        text = " ".join(str(event.get("message") or "").split())[:_LONGEST]
        rows.append((f"  {age}", str(event.get("type") or ""), about, str(event.get("reason") or ""), text))
    printer.product("\nevents")
    printer.table(rows)


def _next_steps(printer: Printer, seen: Seen) -> None:
    if seen.state == "running":
        printer.note(f"hint: paperclip-launcher logs --follow {seen.run_id}", "quiet")
    if seen.owner_state != "alive":
        printer.note(f"hint: nobody looks after it: paperclip-launcher attach {seen.run_id}", "quiet")


def _as_data(seen: Seen, lines: list[str]) -> dict[str, Any]:
    from paperclip_launcher.cli.list import as_data  # noqa: PLC0415  as above

    found = seen.diagnosis
    diagnosis = None
    if found is not None:
        diagnosis = {
            "code": found.code,
            "hard": found.hard,
            "summary": found.summary,
            "detail": found.detail,
            "remedy": found.remedy,
        }
    events = [
        {
            "type": event.get("type"),
            "reason": event.get("reason"),
            "message": event.get("message"),
            "about": (event.get("involvedObject") or {}).get("kind"),
            "count": event.get("count"),
            "lastSeen": event.get("lastTimestamp") or event.get("eventTime"),
        }
        for event in seen.events
    ]
    return {**as_data(seen), "diagnosis": diagnosis, "events": events, "logTail": lines}
