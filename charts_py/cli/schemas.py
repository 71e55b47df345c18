"""`paperclip-gitops schemas pull`: the schemas of custom resources, into the cache."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from charts_py.catalog import Lock
    from charts_py.cli.output import Output

_EPILOG = """examples:
  paperclip-gitops schemas pull                                  all that crd-schemas.lock pins
  paperclip-gitops schemas pull ExternalSecret                   one kind
  paperclip-gitops schemas pull --from-cluster                   the same kinds, as this cluster serves them
  paperclip-gitops schemas pull --from-cluster kargo.akuity.io/Stage --into ./schemas
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "schemas",
        help="fetch the schemas of custom resources",
        description="Fetches the schemas of custom resources: from the public catalog at the pinned commit,\n"
        "each verified by its sha256, or from the cluster of the current kubectl context.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # A parser of its own: argparse would end the list of kinds at the first option after "pull".
    pull = parser.add_subparsers(dest="action", required=True, metavar="pull").add_parser(
        "pull",
        description=parser.description,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    pull.add_argument("kinds", nargs="*", metavar="KIND", help="Kind, group/Kind or group/version/Kind")
    pull.add_argument("--from-cluster", action="store_true", help="ask the cluster instead of the catalog")
    pull.add_argument("--into", type=Path, metavar="DIR", help="the folder to fill (default: the user's cache)")
    pull.add_argument("--lock", type=Path, metavar="FILE", help="the pins (default: crd-schemas.lock)")
    pull.add_argument("--format", choices=["text", "json"], default="text", help="how to answer")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py import catalog  # noqa: PLC0415 - keeps the start of other verbs short

    path = arguments.lock or Path(catalog.LOCK)
    # A cluster needs no lock when the kinds are named; a lock that was asked for must be there.
    optional = arguments.from_cluster and arguments.kinds and not arguments.lock
    lock = None if optional and not path.is_file() else catalog.read_lock(path)
    if arguments.from_cluster:
        return _from_cluster(arguments, output, lock)
    return _from_catalog(arguments, output, lock or catalog.read_lock(path))


def _from_catalog(arguments: argparse.Namespace, output: Output, lock: Lock) -> int:
    from charts_py import catalog  # noqa: PLC0415

    into = arguments.into or catalog.catalog_folder(lock)
    written, present = catalog.pull_from_catalog(lock, arguments.kinds, into)
    if arguments.format == "json":
        output.data({"folder": str(into), "written": [str(file) for file in written], "present": present})
    else:
        output.note(f"schemas: {len(written)} fetched, {present} there already, in {into}")
    return 0


def _from_cluster(arguments: argparse.Namespace, output: Output, lock: Lock | None) -> int:
    """1 where the cluster does not serve a kind that was named; of the pinned kinds it need not serve all."""
    from charts_py import catalog  # noqa: PLC0415

    into = arguments.into or catalog.cluster_folder()
    written, absent = catalog.pull_from_cluster(lock, arguments.kinds, into)
    if arguments.format == "json":
        names = [str(kind) for kind in absent]
        output.data({"folder": str(into), "written": [str(file) for file in written], "absent": names})
    else:
        output.note(f"schemas: {len(written)} written from the cluster, in {into}")
        for kind in absent:
            output.note(f"not served there: {kind}")
    return 1 if absent and arguments.kinds else 0
