"""`paperclip-gitops schema`: the JSON Schema of the config files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from charts_py.cli.output import Output

_KINDS = ("Environment", "Fleet")
_EPILOG = """\
examples:
  paperclip-gitops schema                               the schema of an environment, on stdout
  paperclip-gitops schema --kind Fleet                  that of the fleet file
  paperclip-gitops schema --write                       both into schemas/, beside environments/
  paperclip-gitops schema | jq '.properties | keys'     the top-level fields

An editor with a YAML language server completes and explains the fields of a file with the first line
  # yaml-language-server: $schema=../schemas/environment.schema.json
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "schema",
        help="print the JSON Schema of the config files",
        description="Prints the JSON Schema of the config files, by which editors complete and check them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kind", choices=_KINDS, default=_KINDS[0], help="of which kind (default: Environment)")
    parser.add_argument("--write", action="store_true", help="write the schemas of all kinds instead")
    parser.add_argument(
        "--into",
        type=Path,
        default=Path("schemas"),
        metavar="DIR",
        help="where --write puts them (default: schemas)",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="how to answer; a schema is JSON anyway"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py import schema_export  # noqa: PLC0415  pydantic: only for the verb that runs

    if not arguments.write:
        output.product(schema_export.text(arguments.kind))
        return 0
    written = schema_export.write(arguments.into)
    output.note(f"{arguments.into}: {len(written)} of {len(_KINDS)} schemas written, the others were current", "good")
    output.data(
        {
            "apiVersion": "paperclip-gitops/v1",
            "kind": "Schemas",
            "folder": str(arguments.into),
            "written": [path.name for path in written],
        },
    )
    return 0
