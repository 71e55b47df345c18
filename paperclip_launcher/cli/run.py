"""`paperclip-launcher run`: one run, from its request to its result."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paperclip_launcher.cli.requests import add_request, request_of
from paperclip_launcher.cli.usage import EXIT_CODES, FINE, add_cluster, add_state, add_stock, add_verb

if TYPE_CHECKING:
    from paperclip_launcher.cli.place import Place
    from paperclip_launcher.cli.printing import Printer
    from paperclip_launcher.outcome import RunResult
    from paperclip_launcher.provision import Provision, Stock
    from paperclip_launcher.request import RunRequest
    from paperclip_launcher.templates import Templates

_EXAMPLES = f"""\
  paperclip-launcher run request.json --output run.log --result result.json
  paperclip-launcher run --prompt @task.md --set model=opus --env ANTHROPIC_API_KEY
  paperclip-launcher run --prompt - -- sh -c 'wc -c'
  paperclip-launcher run request.json --dry-run

Killed and started again with the same request, it goes on with the same run; with --output
the log goes on to the byte. With --format json the last line of stdout is the result.
{EXIT_CODES}
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs, "run", "run an agent as a Job", "Runs an agent as a Job, shows its log, and ends as it does.", _EXAMPLES
    )
    add_request(parser)
    group = parser.add_argument_group("result")
    group.add_argument("--output", type=Path, metavar="FILE", help="the log goes to the end of FILE, not to stdout")
    group.add_argument("--result", type=Path, metavar="FILE", help="the result as JSON, as Paperclip gets it")
    group.add_argument("--raw", action="store_true", help="the agent's own lines, also on a terminal")
    group.add_argument("--dry-run", action="store_true", help="ask policies and the API server, and create nothing")
    add_stock(parser)
    add_cluster(parser)
    add_state(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    # What is imported here takes longer than a request that is wrong need wait.
    from paperclip_launcher.cli.place import Place, needed_templates, stock_of  # noqa: PLC0415
    from paperclip_launcher.handover import leaves  # noqa: PLC0415
    from paperclip_launcher.request import RunRequest  # noqa: PLC0415

    tree = request_of(arguments)
    request = RunRequest.of(tree)
    # Before the run itself adds what it holds: an error may quote it.
    printer.mask.add(request.auth_token, *(value for _, value in leaves(request.config.get("env"))))
    templates = needed_templates(arguments)
    place = Place.of(arguments, printer, templates)
    if arguments.dry_run:
        return asyncio.run(_dry_run(place, printer, request, templates, stock_of(arguments)))
    from paperclip_launcher.cli.planning import provided  # noqa: PLC0415

    return _real(arguments, printer, place, request, provided(request, templates, stock_of(arguments), printer))


def _real(arguments: argparse.Namespace, printer: Printer, place: Place, request: RunRequest, given: Provision) -> int:
    from kubekit.names import job_name  # noqa: PLC0415  as above
    from paperclip_launcher.cli import identity  # noqa: PLC0415
    from paperclip_launcher.cli.driving import Drive  # noqa: PLC0415
    from paperclip_launcher.cli.place import state_of  # noqa: PLC0415
    from paperclip_launcher.cli.readers import LogFile, Screen  # noqa: PLC0415
    from paperclip_launcher.journal import FolderJournal  # noqa: PLC0415
    from paperclip_launcher.settings import Settings  # noqa: PLC0415

    state = state_of(arguments)
    key = job_name(request.agent_id, request.run_id)
    if printer.watched or arguments.request is None:
        printer.note(f"run {request.run_id} of agent {request.agent_id}", "quiet")
    name = arguments.identity or identity.identity_of_run(state, key)
    with identity.held(state, name):
        journal = FolderJournal(state / identity.JOURNAL)
        sink: Screen | LogFile
        if arguments.output is not None:
            sink = LogFile(printer, arguments.output, request.run_id, known=journal.read(key) is not None)
        else:
            sink = Screen(printer, pretty=printer.interactive and not arguments.raw)
        drive = Drive(
            place,
            printer,
            Settings(place.namespace, name),
            journal,
            sink,
            lambda result: keep(arguments, printer, request.run_id, result),
        )
        bundle, extras = given.bundle, given.extras
        return asyncio.run(drive.to_end(lambda one: one.begin(request, sink, bundle=bundle, extras=extras)))


def keep(arguments: argparse.Namespace, printer: Printer, run_id: str, result: RunResult) -> None:
    """Stores the result where it was asked for, and tells it. OSError where it cannot be kept: the Job stays then."""
    from paperclip_launcher.cli.driving import write_whole  # noqa: PLC0415  as above

    tree = result.to_json()
    if arguments.result is not None:
        write_whole(arguments.result, json.dumps(tree, indent=2, ensure_ascii=False) + "\n")
    if printer.format == "json":
        printer.line("RunResult", runId=run_id, exit=result.exit, result=tree)
        printer.flush()
    tell(printer, run_id, tree)


def tell(printer: Printer, run_id: str, tree: dict[str, Any]) -> None:
    """The result for people, on stderr."""
    meta = tree.get("errorMeta") or {}
    cost = tree.get("costUsd")
    known = (
        f"${cost:.4f}" if cost is not None else "",
        f"session {tree['sessionId']}" if tree.get("sessionId") else "",
    )
    rest = "".join(f"; {one}" for one in known if one)
    if not tree.get("errorCode"):
        printer.note(f"run {run_id} succeeded{rest}", "good")
        return
    printer.note(f"run {run_id} failed: {tree['errorCode']}: {tree.get('errorMessage')}{rest}", "error")
    if meta.get("remedy"):
        printer.note(f"  mend: {meta['remedy']}")


async def _dry_run(place: Place, printer: Printer, request: RunRequest, templates: Templates, stock: Stock) -> int:
    from paperclip_launcher.cli.planning import judged_plan  # noqa: PLC0415  as above

    async with place.cluster() as cluster:
        plan = await judged_plan(request, templates, stock, printer, cluster)
        await cluster.dry_create("jobs", plan.job)
    printer.data("DryRun", job=plan.job_name, namespace=place.namespace, notes=list(plan.notes))
    if printer.format == "text":
        printer.product(f"Job {plan.job_name}: the policies and the API server would take it; nothing was created")
    return FINE
