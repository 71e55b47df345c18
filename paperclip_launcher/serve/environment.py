"""environment.test: whether an agent with a given config could run here, in the shape of Paperclip's Test button."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paperclip_launcher.checks import run_checks, to_environment_report
from paperclip_launcher.errors import ConfigInvalid
from paperclip_launcher.judging import of_template
from paperclip_launcher.launcher import Launcher, dialect_of
from paperclip_launcher.manifest import Plan
from paperclip_launcher.options import RunOptions
from paperclip_launcher.request import RunRequest

_AGENT = "paperclip-launcher-check"
_NONCE = "check"


async def environment_report(launcher: Launcher, config: Mapping[str, Any], adapter_type: str) -> dict[str, Any]:
    """The report. ConfigInvalid where the adapter type is not known; all else is a check that failed."""
    dialect = dialect_of(adapter_type)
    problems: tuple[str, ...] = ()
    plan: Plan | None = None
    try:
        plan = probe_of(launcher, config, dialect.adapter_type)
    except ConfigInvalid as error:
        problems = error.problems
    secrets = plan.secret_values if plan is not None else ()
    launcher.mask.add(*secrets)
    try:
        checks = await run_checks(
            launcher.cluster,
            launcher.templates,
            probe=plan.job if plan is not None else None,
            problems=problems,
            waived=_waived(launcher, plan),
        )
        report = to_environment_report(checks, dialect.adapter_type, launcher.clock.now())
        masked: dict[str, Any] = launcher.mask.tree(report)
        return masked
    finally:
        launcher.mask.forget(*secrets)


def probe_of(launcher: Launcher, config: Mapping[str, Any], adapter_type: str) -> Plan:
    """A run that is never begun, under a name that no other has. ConfigInvalid."""
    number = f"{launcher.rng.getrandbits(64):016x}"
    request = RunRequest.of(
        {
            "runId": f"{_AGENT}-{number}",
            "agent": {"id": _AGENT, "name": _AGENT, "companyId": _AGENT, "adapterType": adapter_type},
            "config": config,
        }
    )
    options = RunOptions.of(request.config, dialect_of(adapter_type))
    return launcher.plan(request, options, _NONCE)


def _waived(launcher: Launcher, plan: Plan | None) -> frozenset[tuple[str, str]]:
    if plan is None or launcher.templates is None:
        return frozenset()
    return of_template(plan.template, launcher.templates.facts)
