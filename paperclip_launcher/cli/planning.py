"""What a request would become, without a launcher: for verbs that create nothing, and for what a run needs first."""

from __future__ import annotations

import time
from dataclasses import replace

from paperclip_launcher.cli.printing import Printer
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.judging import Judge
from paperclip_launcher.launcher import dialect_of
from paperclip_launcher.manifest import Plan, plan
from paperclip_launcher.options import RunOptions
from paperclip_launcher.provision import Provision, Stock, is_wanted, provide
from paperclip_launcher.request import RunRequest
from paperclip_launcher.templates import Templates

_NONCE = "0000000000"
_OWNER = "paperclip-launcher-preview"


def provided(request: RunRequest, templates: Templates, stock: Stock, printer: Printer) -> Provision:
    """What this machine gives to the run; what it has of a claim is written to. ConfigInvalid, BundleFailed."""
    dialect = dialect_of(request.adapter_type)
    options = RunOptions.of(request.config, dialect)
    if not is_wanted(options):
        return Provision()
    found = provide(request, options, dialect, templates, stock, now=time.time())
    for text in found.notes:
        printer.note(f"warning: {text}", "warning")
    return found


async def judged_plan(
    request: RunRequest, templates: Templates, stock: Stock, printer: Printer, cluster: Cluster | None = None
) -> Plan:
    """The plan, after the policies; with a cluster, after the rules of its namespace too. ConfigInvalid.

    Skills are read, and nothing is copied.
    """
    dialect = dialect_of(request.adapter_type)
    options = RunOptions.of(request.config, dialect)
    given = provided(request, templates, replace(stock, writes=False), printer)
    planned = plan(
        request,
        options,
        dialect,
        templates,
        owner=_OWNER,
        nonce=_NONCE,
        bundle=given.bundle,
        extras=given.extras,
    )
    printer.mask.add(*planned.secret_values)
    for text in planned.notes:
        printer.note(f"warning: {text}", "warning")
    await Judge(templates, cluster).judge(planned)
    return planned
