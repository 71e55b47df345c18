"""The arguments that every verb over environments shares."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from charts_py.pipeline import Request


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Where config, pins, waivers, templates and dist are; the defaults are those of a checkout."""
    parser.add_argument(
        "--environment", action="append", default=[], metavar="E", help="only this environment (repeatable)"
    )
    add_configs(parser)
    parser.add_argument("--dist", type=Path, default=Path("dist"), metavar="DIR", help="the rendered state")
    parser.add_argument(
        "--images-file", type=Path, default=Path("images.lock"), metavar="FILE", help="the pinned digests"
    )
    parser.add_argument(
        "--templates", type=Path, metavar="DIR", help="the Job templates (default: ./templates, else our own)"
    )
    add_schemas(parser)
    add_format(parser)


def add_configs(parser: argparse.ArgumentParser) -> None:
    """Where config and waivers are."""
    parser.add_argument(
        "--environments", type=Path, default=Path("environments"), metavar="DIR", help="the config files"
    )
    parser.add_argument("--waivers", type=Path, default=Path("waivers.yaml"), metavar="FILE", help="the waivers")


def add_schemas(parser: argparse.ArgumentParser, *, judges: bool = True) -> None:
    """Where schemas of custom resources are; and, for a verb that `judges`, whether each kind needs one."""
    parser.add_argument(
        "--crd-schemas",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="schemas of custom resources (repeatable)",
    )
    if judges:
        parser.add_argument(
            "--require-schemas", action="store_true", help="an object without a schema is an error, declared or not"
        )


def add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to answer")


def request_of(arguments: argparse.Namespace, *, force: bool) -> Request:
    from charts_py.pipeline import Request  # noqa: PLC0415  only for the verb that runs

    return Request(
        configs=arguments.environments,
        dist=arguments.dist,
        images=arguments.images_file,
        waivers=arguments.waivers,
        templates=arguments.templates,
        environments=tuple(arguments.environment),
        crd_schemas=tuple(arguments.crd_schemas),
        require_schemas=arguments.require_schemas,
        force=force,
    )
