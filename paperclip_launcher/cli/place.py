"""Where a verb works: the API server, the namespace, the Job templates, the folder of the launcher's state."""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paperclip_launcher.cli.usage import UsageError
from paperclip_launcher.errors import TemplateInvalid

if TYPE_CHECKING:
    from paperclip_launcher.cli.printing import Printer
    from paperclip_launcher.cluster.access import Access
    from paperclip_launcher.cluster.api import Cluster
    from paperclip_launcher.metrics import Metrics
    from paperclip_launcher.provision import Stock
    from paperclip_launcher.templates import Templates

MOUNTED = Path("/etc/paperclip/job-templates")
_FOR_PEOPLE = 10.0
"""Seconds for which one call is tried again where somebody waits for the answer."""


@dataclass(frozen=True)
class Place:
    """`templates` is None where none were found, and none are needed."""

    access: Access
    namespace: str
    templates: Templates | None

    @classmethod
    def of(cls, arguments: argparse.Namespace, printer: Printer, templates: Templates | None = None) -> Place:
        """UsageError, AccessInvalid, TemplateInvalid."""
        from paperclip_launcher.cluster.access import Access  # noqa: PLC0415  only for verbs with a cluster

        found = templates or templates_of(arguments, needed=False)
        access = Access.find(os.environ, kubeconfig=arguments.kubeconfig, context=arguments.context)
        printer.mask.add(access.tokens.read(0.0))
        namespace = arguments.namespace or (found.namespace if found else "") or access.namespace
        if not namespace:
            raise UsageError("the agents' namespace is not known", "name it by --namespace, or give --templates")
        return cls(access, namespace, found)

    @asynccontextmanager
    async def cluster(self, metrics: Metrics | None = None, *, patient: bool = False) -> AsyncIterator[Cluster]:
        """`patient` as a launcher is; otherwise somebody waits."""
        from paperclip_launcher.cluster.api import Cluster  # noqa: PLC0415  as above
        from paperclip_launcher.cluster.network import NetworkTransport  # noqa: PLC0415
        from paperclip_launcher.cluster.retry import RetrySettings  # noqa: PLC0415

        retry = RetrySettings() if patient else RetrySettings(budget=_FOR_PEOPLE)
        told = {"on_call": metrics.called} if metrics is not None else {}
        rng = random.Random()  # noqa: S311  jitter, no secrets
        cluster = Cluster(NetworkTransport(self.access), self.namespace, retry=retry, rng=rng, **told)
        try:
            yield cluster
        finally:
            await cluster.close()


def templates_of(arguments: argparse.Namespace, *, needed: bool) -> Templates | None:
    """Those that are named, or found. UsageError where they are needed and there are none; TemplateInvalid."""
    from paperclip_launcher.templates import Templates  # noqa: PLC0415  only where they are read

    named = arguments.templates or os.environ.get("PAPERCLIP_JOB_TEMPLATES", "")
    folders = [Path(named or MOUNTED)]
    if not named and not MOUNTED.is_dir():
        folders = sorted(Path("dist").glob("*/job-templates"))
    if len(folders) == 1:
        try:
            return Templates.load(folders[0])
        except TemplateInvalid:
            if needed or named:
                raise
            return None
    if not needed:
        return None
    if not folders:
        raise UsageError("no Job templates were found", "name their folder by --templates, as dist/E/job-templates")
    raise UsageError(
        f"there are Job templates of several environments: {', '.join(folder.parent.name for folder in folders)}",
        f"name one by --templates, such as {folders[0]}",
    )


def needed_templates(arguments: argparse.Namespace) -> Templates:
    """As templates_of, for a verb that makes Jobs."""
    found = templates_of(arguments, needed=True)
    if found is None:
        raise AssertionError("templates that are needed are found, or it raises")
    return found


def state_of(arguments: argparse.Namespace) -> Path:
    """The folder of the journal."""
    if arguments.state:
        return Path(arguments.state)
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "paperclip-launcher"


def stock_of(arguments: argparse.Namespace) -> Stock:
    """What this machine has to give to runs."""
    from paperclip_launcher.provision import Stock  # noqa: PLC0415  as above

    return Stock(arguments.workspace, tuple(arguments.skills), dict(os.environ))
