"""`paperclip-gitops egress`: what each workload may reach and what may reach it, by all policies together."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from charts_py.cli.requests import add_configs, add_format
from charts_py.errors import UsageError

if TYPE_CHECKING:
    from charts_py.cli.output import Output
    from charts_py.manifests import Batch
    from kubekit.identity import Manifest
    from policies.model import Source
    from policies.network.report import Direction, Workload
    from policies.world import World

_EPILOG = """\
examples:
  paperclip-gitops egress                                  every workload of dist/, and a run of each Job template
  paperclip-gitops egress paperclip-system/paperclip       one workload: [Kind/][namespace/]name
  helm template x ./chart | paperclip-gitops egress -      manifests of anybody
  paperclip-gitops egress --format json dist/minimal

NetworkPolicy, CiliumNetworkPolicy and CiliumClusterwideNetworkPolicy count together: rules add up, denies win.
A document of kind Facts among the manifests names the ranges of the cluster (clusterCIDRs).
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "egress",
        help="what workloads may reach, and what may reach them",
        description="Tells what each workload may reach and what may reach it, by all network policies together.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("workload", nargs="?", metavar="WORKLOAD", help="[Kind/][namespace/]name (default: all)")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folders, files, or - for stdin (default: dist)")
    add_configs(parser)
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py.manifests import gather  # noqa: PLC0415  only for the verb that runs
    from policies.network.reach import reach_of  # noqa: PLC0415  as above
    from policies.network.report import report  # noqa: PLC0415  as above

    wanted, paths = _arguments(arguments)
    batches = list(gather(paths, arguments.environments))
    every = [(_title(batch), report(reach_of(_world(batch)))) for batch in batches]
    found = [(title, [one for one in workloads if _is(one, wanted)]) for title, workloads in every]
    if not any(workloads for _, workloads in found):
        known = ", ".join(sorted({_short(one) for _, workloads in every for one in workloads})) or "none"
        what = f"no workload is called {wanted}" if wanted else "nothing starts pods"
        raise UsageError(f"{', '.join(paths)}: {what}", f"known: {known}")
    sets: list[dict[str, Any]] = []
    for title, workloads in found:
        for one in workloads if output.format == "text" else ():
            _show(output, title, one)
        sets.append({"name": title, "workloads": [_as_data(one) for one in workloads]})
    output.data({"apiVersion": "paperclip-gitops/v1", "kind": "Egress", "sets": sets})
    for batch in batches:
        for broken in batch.broken:
            output.note(f"left out: {broken.source}: {broken.message}", "warning")
    return 0


def _arguments(arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """(WORKLOAD, paths): the first word is a path if there is one of that name."""
    words = [one for one in (arguments.workload, *arguments.paths) if one]
    wanted = words.pop(0) if words and words[0] != "-" and not Path(words[0]).exists() else ""
    return wanted, words or ["dist"]


def _world(batch: Batch) -> World:
    """The objects of a batch, one run of each of its Job templates, and what is known of its cluster."""
    from charts_py import samples  # noqa: PLC0415  as above
    from charts_py.known import facts  # noqa: PLC0415  as above
    from policies import facts as facts_  # noqa: PLC0415  as above
    from policies.world import World  # noqa: PLC0415  as above

    known = facts(batch.environment)
    for document, place in batch.facts:
        try:
            known = facts_.of(document, known)
        except facts_.FactsError as error:
            raise UsageError(f"{place}: Facts: {error}", "correct the fact") from None
    runs: dict[Source, Manifest] = {}
    for job, place in samples.sample_jobs(batch.templates, str(batch.folder or "")):
        # All sizes of a template have the same pods, as far as policies see.
        name = Path(place.file).stem
        runs.setdefault(place, {**job, "metadata": {**job["metadata"], "name": name}})
    return World([*batch.placed, *((job, place) for place, job in runs.items())], known)


def _title(batch: Batch) -> str:
    return batch.folder.name if batch.folder is not None else ""


def _short(workload: Workload) -> str:
    return workload.name.partition(" ")[2]


def _is(workload: Workload, wanted: str) -> bool:
    """By name, namespace/name, or Kind before either."""
    kind, _, place = workload.name.partition(" ")
    namespace, _, name = place.rpartition("/")
    return wanted in {"", name, place, f"{kind}/{name}", f"{kind}/{namespace}/{name}", workload.name}


def _show(output: Output, title: str, one: Workload) -> None:
    output.product(f"{title}: {one.name}" if title else one.name)
    rows = [*_rows("egress", "to", one.egress), *_rows("ingress", "from", one.ingress)]
    output.table(rows)
    for question, answer in one.reaches:
        output.product(f"  can reach  {question}: {answer}")
    output.product(f"  enforced   {one.enforced}")
    for note in one.notes:
        output.product(f"  note: {note}", "warning")
    output.product("")


def _rows(which: str, word: str, direction: Direction) -> Iterator[tuple[str, str, str, str]]:
    if direction.open:
        yield (f"  {which}", "no policy selects it: everything", "", "")
    elif not direction.allows:
        yield (f"  {which}", "nothing", "", ", ".join(direction.isolated_by))
    for line in direction.allows:
        if not direction.open:
            yield (f"  {which} {word}", line.peer, line.ports, ", ".join(line.policies))
    for line in direction.denies:
        yield (f"  {which} not {word}", line.peer, line.ports, ", ".join(line.policies))


def _as_data(one: Workload) -> dict[str, Any]:
    found = {key: value for key, value in dataclasses.asdict(one).items() if key != "reaches"}
    return {**found, "reaches": [{"what": question, "answer": answer} for question, answer in one.reaches]}
