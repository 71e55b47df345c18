"""`paperclip-gitops init`: a first config file."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from charts_py.errors import GitopsError, UsageError

if TYPE_CHECKING:
    from charts_py.cli.output import Output
    from charts_py.starter import Answers

# (field of Answers, flag, question, what it is for)
_QUESTIONS = (
    ("lb_ip", "--lb-ip", "address of the load balancer", "the address that people use; without: only inside"),
    (
        "storage_class",
        "--storage-class",
        "storage class of the server's claim",
        "without: the cluster's default",
    ),
    (
        "rwx_class",
        "--rwx-class",
        "storage class of the agents' claim (ReadWriteMany)",
        "without: the cluster's default",
    ),
    (
        "secret_store",
        "--secret-store",
        "ClusterSecretStore of External Secrets",
        "without: Secrets are made elsewhere",
    ),
    ("host", "--host", "host name that people open", "a host or a URL; without: the address, or localhost"),
)
# Which flag a field comes from, for what is wrong with it.
_FLAGS = {
    "name": "NAME",
    "server.image": "--image",
    "agents.jobs.kinds[0].image": "--image",
    "server.publicUrl": "--host",
    "server.loadBalancer.ip": "--lb-ip",
    "secretStore.name": "--secret-store",
}
_EPILOG = """\
examples:
  paperclip-gitops init                                     asks, and writes environments/production.yaml
  paperclip-gitops init staging --host paperclip.example.com
  paperclip-gitops init home --lb-ip 192.168.1.200 --storage-class longhorn --rwx-class longhorn \\
      --secret-store vault

Questions are asked only where a person can answer: else flags and defaults decide.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "init",
        help="write a first config file",
        description="Writes a commented config: what matters is set, all else is there with its default.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", default="production", metavar="NAME", help="of the environment (production)")
    for field, flag, _, purpose in _QUESTIONS:
        parser.add_argument(flag, dest=field, metavar=field.rpartition("_")[2].upper(), help=purpose)
    parser.add_argument("--image", metavar="IMAGE", help="image of the server and of the agents, with its tag")
    parser.add_argument(
        "--environments", type=Path, default=Path("environments"), metavar="DIR", help="where the file goes"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to answer")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py.starter import starter  # noqa: PLC0415  pydantic: only for the verb that runs

    folder: Path = arguments.environments
    path = folder / f"{arguments.name}.yaml"
    if path.exists() and not arguments.force:
        raise _exists(path)
    answers = _answers(arguments, output)
    text = starter(answers)
    _check(text, answers)
    _write(path, text.encode(), overwrite=arguments.force)
    following = _following(folder, answers)
    output.note(f"{path}: written", "good")
    output.note("next:")
    for command in following:
        output.note(f"  {command}")
    output.data({"apiVersion": "paperclip-gitops/v1", "kind": "Init", "file": str(path), "next": following})
    return 0


def _exists(path: Path) -> GitopsError:
    return UsageError(f"{path}: the file exists", "choose another NAME, or overwrite it with --force")


def _answers(arguments: argparse.Namespace, output: Output) -> Answers:
    from charts_py.starter import IMAGE, Answers  # noqa: PLC0415  as above

    given = {field: getattr(arguments, field) for field, _, _, _ in _QUESTIONS}
    if output.format == "text" and sys.stdin.isatty() and sys.stderr.isatty():
        for field, _, question, purpose in _QUESTIONS:
            if given[field] is None:
                output.note(f"{question}? ({purpose}; Enter to leave it out)")
                given[field] = sys.stdin.readline().strip()
    said = {field: value or "" for field, value in given.items()}
    return Answers(name=arguments.name, image=arguments.image or IMAGE, **said)


def _check(text: str, answers: Answers) -> None:
    """What was typed may be no address, no name, no host: the loader says so before a file is there."""
    from charts_py.config.environment import Environment  # noqa: PLC0415  as above
    from charts_py.config.load import InvalidConfig, parse  # noqa: PLC0415  as above

    try:
        parse(text.encode(), f"{answers.name}.yaml", Environment)
    except InvalidConfig as error:
        first = error.problems[0]
        flag = _FLAGS.get(first.field, "--storage-class or --rwx-class")
        raise UsageError(f"{flag}: {first.message}", "correct it; nothing was written") from None


def _following(folder: Path, answers: Answers) -> list[str]:
    where = "" if folder == Path("environments") else f" --environments {folder}"
    return [
        f"paperclip-gitops images lock {answers.image}",
        f"paperclip-gitops synth{where} --environment {answers.name}",
    ]


def _write(path: Path, content: bytes, *, overwrite: bool) -> None:
    """The whole file or none; without `overwrite` one that appeared meanwhile stays. Raises GitopsError."""
    partial = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True)
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            partial.replace(path)
        else:
            path.hardlink_to(partial)
    except OSError as error:
        if path.exists() and not overwrite:
            raise _exists(path) from None
        raise GitopsError(f"{path}: cannot be written: {error.strerror}", "name another --environments") from error
    finally:
        with suppress(OSError):
            partial.unlink()
