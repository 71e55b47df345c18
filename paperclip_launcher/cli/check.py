"""`paperclip-launcher check`: can runs be had here?"""

from __future__ import annotations

import argparse
import asyncio
import secrets
from typing import TYPE_CHECKING

from paperclip_launcher.cli.usage import FAILED, FINE, UNREACHABLE, UsageError, add_cluster, add_verb

if TYPE_CHECKING:
    from kubekit.identity import Manifest
    from paperclip_launcher.checks import Check
    from paperclip_launcher.cli.place import Place
    from paperclip_launcher.cli.printing import Printer
    from paperclip_launcher.templates import Templates

_EXAMPLES = """\
  paperclip-launcher check
  paperclip-launcher check --templates dist/frank-2026-08/job-templates --format json

Asks for the API server, the namespace, every right that the launcher uses, the claim, room in quotas,
and has a Job made as a dry run. Creates nothing.
exit codes: 0 runs can be had (warnings aside), 1 they cannot, 5 the API server cannot be used
"""
_STYLES = {"error": "error", "warn": "warning", "info": "good"}
_WORDS = {"error": "error", "warn": "warning", "info": "ok"}


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "check",
        "say whether runs can be had here",
        "Says whether runs can be had here, and if not, why.",
        _EXAMPLES,
    )
    parser.add_argument(
        "--dialect", metavar="NAME", help="of the Job that is tried (default: each that has a template)"
    )
    add_cluster(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from paperclip_launcher.cli.place import Place, needed_templates  # noqa: PLC0415  only for the verb that runs

    problems: list[str] = []
    templates = None
    try:
        templates = needed_templates(arguments)
    except UsageError as error:
        problems.append(f"{error}; {error.remedy}")
    place = Place.of(arguments, printer, templates)
    found = asyncio.run(_checks(place, arguments.dialect, problems))
    printer.data(
        "CheckList",
        namespace=place.namespace,
        server=str(place.access.address),
        items=[
            {"code": one.code, "level": one.level, "message": one.message, "detail": one.detail, "hint": one.hint}
            for one in found
        ],
    )
    if printer.format == "text":
        _show(printer, place, found)
    unusable = {"k8s_api_unreachable", "k8s_api_unauthorized"}
    if any(one.level == "error" and one.code in unusable for one in found):
        return UNREACHABLE
    return FAILED if any(one.level == "error" for one in found) else FINE


async def _checks(place: Place, dialect: str | None, problems: list[str]) -> list[Check]:
    from paperclip_launcher.checks import run_checks  # noqa: PLC0415  as above
    from paperclip_launcher.errors import ConfigInvalid  # noqa: PLC0415

    probes: list[Manifest] = []
    if place.templates is not None:
        try:
            probes = _probes(place.templates, dialect)
        except ConfigInvalid as error:
            problems += error.problems
    found: list[Check] = []
    async with place.cluster() as cluster:
        tried: list[Manifest | None] = [*probes]
        for probe in tried or [None]:
            found += await run_checks(cluster, place.templates, probe=probe, problems=problems)
    return list(dict.fromkeys(found))


def _probes(templates: Templates, wanted: str | None) -> list[Manifest]:
    """A Job of the smallest run of each kind. ConfigInvalid."""
    from paperclip_launcher.dialects import DIALECTS  # noqa: PLC0415  as above
    from paperclip_launcher.launcher import dialect_of  # noqa: PLC0415
    from paperclip_launcher.manifest import plan  # noqa: PLC0415
    from paperclip_launcher.options import RunOptions  # noqa: PLC0415
    from paperclip_launcher.request import RunRequest  # noqa: PLC0415

    chosen = [dialect_of(wanted)] if wanted else [one for one in DIALECTS.values() if one.template in templates.by_name]
    found = []
    for dialect in chosen:
        request = RunRequest(f"check-{secrets.token_hex(4)}", "paperclip-launcher-check", adapter_type=dialect.name)
        options = RunOptions.of({"program": "true"}, dialect)
        owner, nonce = "paperclip-launcher-check", secrets.token_hex(5)
        found.append(plan(request, options, dialect, templates, owner=owner, nonce=nonce).job)
    return found


def _show(printer: Printer, place: Place, found: list[Check]) -> None:
    printer.product(f"{place.access.address}, by {place.access.source}")
    for one in found:
        detail = f" ({one.detail})" if one.detail else ""
        printer.product(
            f"{_WORDS[one.level]:7} {one.message}{detail}", _STYLES[one.level] if one.level != "info" else ""
        )
        if one.hint and one.level != "info":
            printer.product(f"        mend: {one.hint}")
    counts = {level: sum(one.level == level for one in found) for level in ("error", "warn")}
    printer.note(f"{counts['error']} errors, {counts['warn']} warnings", "error" if counts["error"] else "good")
