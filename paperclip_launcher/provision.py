"""What the launcher's own machine gives to a run: skills, instructions and variables.

Skills go to the agents' claim where the launcher has it, else into Secrets of the run: a claim is of one namespace, and
the launcher may be in another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from paperclip_launcher.dialects.model import Dialect
from paperclip_launcher.handover import Extras
from paperclip_launcher.options import RunOptions
from paperclip_launcher.request import RunRequest
from paperclip_launcher.skills.bundle import foresee, hold, prepare
from paperclip_launcher.skills.instructions import Instructions, read_instructions
from paperclip_launcher.skills.pack import LIMITS
from paperclip_launcher.templates import Template, Templates


@dataclass(frozen=True, slots=True)
class Stock:
    """What this machine has to give. `claim` is where the agents' claim is mounted here, None where it is not; skills
    and instructions come from folders below `sources` only. `environment` is that of this process. Where not `writes`,
    nothing is copied to the claim, and only what would be is said.
    """

    claim: Path | None = None
    sources: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    writes: bool = True


@dataclass(frozen=True, slots=True)
class Provision:
    """`bundle` is the folder below the claim, "" for none or for one that travels with the extras.

    `notes` are sentences for the run's reader.
    """

    bundle: str = ""
    extras: Extras = field(default_factory=Extras)
    notes: tuple[str, ...] = ()


def is_wanted(options: RunOptions) -> bool:
    """Whether a run asks for anything of this machine; most do not."""
    return bool(options.skills or options.instructions_file or options.env_passthrough or options.log_file)


def provide(
    request: RunRequest, options: RunOptions, dialect: Dialect, templates: Templates, stock: Stock, *, now: float
) -> Provision:
    """Reads and copies files, so it may take a while: call it in a thread. BundleFailed, ConfigInvalid.

    `now` is the time of day, by which unused bundles are found later.
    """
    template = templates.get(options.template or dialect.template)
    found, notes = _instructions(options, template, stock)
    inherited = {name: stock.environment[name] for name in options.env_passthrough if name in stock.environment}
    extras = Extras(found.text if found else "", found is not None, inherited, stock.claim)
    if stock.claim is None:
        given = _without_claim(options, found, extras, template, stock)
        return replace(given, notes=(*notes, *given.notes))
    if stock.writes:
        root = str(stock.claim)
        made = prepare(root, options.skills, found, company=request.company_id, roots=stock.sources, now=now)
    else:
        made = foresee(options.skills, found, company=request.company_id, roots=stock.sources)
    return Provision(made.relative_path, extras, (*notes, *made.notes))


def _without_claim(
    options: RunOptions, found: Instructions | None, extras: Extras, template: Template, stock: Stock
) -> Provision:
    """The bundle in memory. Instructions that stand alone need none: they go with the prompt."""
    known = "bundle_sources" in template.job.placeholders
    held = hold(options.skills if known else (), found, roots=stock.sources, limits=LIMITS)
    notes = held.notes
    if options.skills and not known:
        names = ", ".join(one.runtime_name for one in options.skills)
        notes = (*notes, f"skills are left out, since the Job templates are older than the launcher: {names}")
    if options.log_file:
        notes = (*notes, "logFile is left out, since the launcher does not have the agents' claim")
    alone = not known or not (held.skills or (found and found.files))
    if alone:
        held = replace(held, files=())
    return Provision("", replace(extras, instructions_in_bundle=found is not None and not alone, held=held), notes)


def _instructions(options: RunOptions, template: Template, stock: Stock) -> tuple[Instructions | None, tuple[str, ...]]:
    if not options.instructions_file:
        return None, ()
    return read_instructions(options.instructions_file, stock.sources, mount=template.bundle_mount)
