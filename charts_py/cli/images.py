"""`images`: look at images.lock, and bring it up to date with the registries."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from charts_py.cli.output import Output
    from charts_py.images import RelockResult

_LOCK_EXAMPLES = """\
examples:
  paperclip-gitops images lock                           the images of every environment
  paperclip-gitops images lock ghcr.io/owner/app:1.2     and one more
  paperclip-gitops images lock --check                   did a tag move? changes nothing
  paperclip-gitops images lock --update                  take over what every tag is now
  paperclip-gitops images lock --update ghcr.io/owner/app:1.2   the same for one image

exit codes: 0 all images have a digest, 1 some have none or (--check) a tag moved, 5 no registry answered
"""
_LIST_EXAMPLES = """\
examples:
  paperclip-gitops images list
  paperclip-gitops images list --format json
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "images",
        help="image digests: lock and list",
        description="images.lock holds the digest of each image; rendering pins images by it.",
        epilog=_LOCK_EXAMPLES + "\n" + _LIST_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="images_verb", required=True, metavar="{lock,list}")
    purpose = "Ask the registries for the digests that are missing."
    _register_lock(_subparser(verbs, "lock", purpose, _LOCK_EXAMPLES))
    _subparser(verbs, "list", "Show each image with its digest.", _LIST_EXAMPLES).set_defaults(run=run_list)


def _subparser(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    description: str,
    examples: str,
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        name,
        help=description[0].lower() + description[1:].rstrip("."),
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--images-file", type=Path, default=Path("images.lock"), metavar="FILE")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    return parser


def _register_lock(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("images", nargs="*", metavar="IMAGE", help="besides those of the environments")
    parser.add_argument(
        "--environments", type=Path, default=Path("environments"), metavar="DIR", help="whose images to lock"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="ask anew and report; write nothing")
    how.add_argument("--update", action="store_true", help="ask anew for IMAGE, or for all where none is named")
    parser.add_argument(
        "--insecure-registry",
        action="append",
        default=[],
        type=_host,
        metavar="HOST[:PORT]",
        help="ask this registry over plain HTTP; may be given again",
    )
    parser.add_argument("--timeout", type=_seconds, default=10.0, metavar="S", help="seconds for an answer (10)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py import images, registry, registry_login  # noqa: PLC0415 - httpx takes 0.1 s

    lock = images.load(arguments.images_file)
    wanted = [*(_configured(arguments.environments) or (one.image for one in lock.images)), *arguments.images]
    again = (arguments.images or wanted) if arguments.check or arguments.update else []
    with registry.RegistryClient(
        credentials=registry_login.read_credentials(),
        insecure=arguments.insecure_registry,
        timeout=arguments.timeout,
    ) as client:
        result = images.relock(lock, wanted, client, again=again)
    written = not arguments.check and result.lock != lock and images.write(result.lock, arguments.images_file)
    _report(result, output, file=arguments.images_file, written=written)
    return result.exit_code or int(arguments.check and bool(result.changed))


def _configured(folder: Path) -> list[str]:
    """The images of every environment; none where there is no such folder, and the lock then keeps what it has."""
    from charts_py import sources  # noqa: PLC0415  only for this verb
    from charts_py.config.load import load_environment  # noqa: PLC0415  as above

    if not folder.is_dir():
        return []
    files = [one for one in sources.config_files(folder) if one.kind == "Environment"]
    return sorted({image for one in files for image in load_environment(one.path).config.images})


def _report(result: RelockResult, output: Output, *, file: Path, written: bool) -> None:
    if output.format == "json":
        output.data(
            {
                "apiVersion": "paperclip-gitops/v1",
                "kind": "ImageLockResult",
                "file": str(file),
                "written": written,
                "changed": [
                    {"image": change.image, "before": change.before, "after": change.after} for change in result.changed
                ],
                "unresolved": [
                    {"image": image, "message": error.message, "remedy": error.remedy}
                    for image, error in result.unresolved
                ],
            },
        )
    elif result.changed:
        rows = [(change.image, change.before or "-", change.after or "-") for change in result.changed]
        output.table([("IMAGE", "LOCKED", "REGISTRY"), *rows])
    for _, error in result.unresolved:
        output.note(f"error: {error.message}", "error")
        if error.remedy:
            output.note(f"  mend: {error.remedy}")
    total = len(result.lock.images)
    state = "written" if written else "not written" if result.changed else "unchanged"
    changes = f"{len(result.changed)} digests changed, asked for {result.asked}"
    output.note(f"{file}: {state}; {total} images, {changes}")


def run_list(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py import images  # noqa: PLC0415 - ruamel.yaml is not needed to parse the command line

    lock = images.load(arguments.images_file)
    if output.format == "json":
        rows = [{"image": entry.image, "digest": entry.digest, "unresolved": entry.unresolved} for entry in lock.images]
        head = {"apiVersion": images.API_VERSION, "kind": images.KIND, "file": str(arguments.images_file)}
        output.data({**head, "sha256": lock.sha256, "images": rows})
        return 0
    if not lock.images:
        output.note(f"{arguments.images_file}: no images; lock some with `paperclip-gitops images lock IMAGE`")
        return 0
    rows_of_text = [
        (entry.image, entry.digest or f"not pinned: {entry.unresolved or 'not locked yet'}") for entry in lock.images
    ]
    output.table([("IMAGE", "DIGEST"), *rows_of_text])
    return 0


def _host(text: str) -> str:
    if not re.fullmatch(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST or HOST:PORT, as in registry.lan:5000")
    return text.lower()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0, at most 3600")
    return seconds
