"""`paperclip-launcher render`: the objects of a run, without a cluster."""

from __future__ import annotations

import argparse
import asyncio
import base64
from typing import TYPE_CHECKING

from paperclip_launcher.cli.requests import add_request, request_of
from paperclip_launcher.cli.usage import FINE, add_stock, add_templates, add_verb

if TYPE_CHECKING:
    from kubekit.identity import Manifest
    from paperclip_launcher.cli.printing import Printer

_EXAMPLES = """\
  paperclip-launcher render request.json --templates dist/minimal/job-templates
  paperclip-launcher render --prompt hello --set model=opus | kubectl apply --dry-run=server -f -
  paperclip-launcher render --prompt - --set resources.limits.memory=4Gi -- make test
  paperclip-launcher render request.json --skills /paperclip/skills

Needs no cluster. The Job passes the policies first; of Secrets only the sizes are shown.
Skills are read as for a run, and nothing is copied: with --workspace they are a folder of
the agents' claim, without it they are in Secrets.
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "render",
        "show the Job of a run as YAML",
        "Shows the Job that a request would become, and its Secrets without what is in them.",
        _EXAMPLES,
    )
    add_request(parser)
    group = parser.add_argument_group("where")
    add_templates(group)
    add_stock(parser)
    parser.add_argument("--job-only", action="store_true", help="leave the Secrets out")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, printer: Printer) -> int:
    from kubekit.yamlwrite import dump  # noqa: PLC0415  only for the verb that runs
    from paperclip_launcher.cli.place import needed_templates, stock_of  # noqa: PLC0415
    from paperclip_launcher.cli.planning import judged_plan  # noqa: PLC0415
    from paperclip_launcher.request import RunRequest  # noqa: PLC0415

    request = RunRequest.of(request_of(arguments))
    printer.mask.add(request.auth_token)
    planned = asyncio.run(judged_plan(request, needed_templates(arguments), stock_of(arguments), printer))
    live = {**planned.job, "metadata": {**planned.job["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
    secrets = [] if arguments.job_only else [_sealed(one) for one in planned.secrets_for(live)]
    objects = [planned.job, *secrets]
    printer.data("Rendered", items=objects)
    if printer.format == "text":
        printer.product("---\n".join(dump(printer.mask.tree(one)) for one in objects))
    return FINE


def _sealed(secret: Manifest) -> Manifest:
    sizes = {key: f"*** {len(base64.b64decode(value))} bytes" for key, value in secret["data"].items()}
    return {**{key: value for key, value in secret.items() if key != "data"}, "stringData": sizes}
