"""`paperclip-gitops explain`: why an object, a value or a finding is there."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from charts_py.errors import UsageError

if TYPE_CHECKING:
    from charts_py.cli.output import Output
    from charts_py.explain import Answer, FieldUse, Made, Workshop

_EPILOG = """\
examples:
  paperclip-gitops explain Deployment/paperclip --environment minimal
  paperclip-gitops explain Deployment/paperclip spec.template.spec.containers[0].image --environment minimal
  paperclip-gitops explain NetworkPolicy/paperclip-agents/default-deny --environment minimal
  paperclip-gitops explain image-digest                       what a policy wants, and why

A path is written spec.ports[0].port or /spec/ports/0/port; one that has values below it explains them all.
"""
_WIDTH = 70
# Checks that are no policies over objects; findings name them.
_OTHER_CHECKS = {
    "schema-valid": (
        "Every object fits the schema of its kind",
        "The API server refuses what does not fit, and drops fields it does not know.",
        "correct the field that the finding names; for a kind without a schema run `paperclip-gitops schemas pull`",
    ),
    "waiver-live": (
        "A waiver is alive and covers something",
        "A waiver that expired, or that covers nothing any more, hides what nobody has decided.",
        "renew it in the waivers file with a reason, or remove it",
    ),
    "yaml-go-safe": (
        "What is written reads back as what was meant",
        "Readers of YAML disagree: text such as no, 1e3 or 2024-01-01 becomes something else in one of them.",
        "this is a defect of the writer: please report the object",
    ),
}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="say where an object or a value comes from, or what a policy wants",
        description="Says which construct and which config field made an object or a value, or what a policy wants.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="TARGET", help="Kind/name, Kind/namespace/name or the id of a policy")
    parser.add_argument("path", nargs="?", metavar="PATH", help="a place in the object")
    parser.add_argument("--environment", metavar="E", help="of which environment, if several have the object")
    parser.add_argument(
        "--environments", type=Path, default=Path("environments"), metavar="DIR", help="the config files"
    )
    parser.add_argument("--dist", type=Path, default=Path("dist"), metavar="DIR", help="the rendered state")
    parser.add_argument(
        "--images-file", type=Path, default=Path("images.lock"), metavar="FILE", help="the pinned digests"
    )
    parser.add_argument("--templates", type=Path, metavar="DIR", help="the Job templates")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to answer")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    if "/" not in arguments.target:
        return _policy(arguments, output)
    from charts_py import images, sources  # noqa: PLC0415  only for the verb that runs
    from charts_py.explain import find, pointer_of, workshops  # noqa: PLC0415  starts Node: 0.3 s

    wanted = (arguments.environment,) if arguments.environment else ()
    found = workshops(
        arguments.environments,
        wanted,
        images.load(arguments.images_file),
        sources.templates_folder(arguments.templates),
    )
    workshop, made = find(arguments.target, found)
    if arguments.path is None:
        _show_object(arguments, output, workshop, made)
    else:
        pointer = pointer_of(made.manifest, arguments.path)
        _show_values(arguments, output, made, workshop.answer(made, pointer))
    return 0


def _policy(arguments: argparse.Namespace, output: Output) -> int:
    from policies.registry import all_policies  # noqa: PLC0415  as above

    known: dict[str, dict[str, Any]] = {
        one.id: {
            "title": one.title,
            "severity": str(one.severity),
            "kinds": sorted(one.kinds),
            "rationale": one.rationale,
            "remedy": one.remedy,
            "waivable": one.waivable,
        }
        for one in all_policies()
    }
    for name, (title, rationale, remedy) in _OTHER_CHECKS.items():
        known[name] = {
            "title": title,
            "severity": "error",
            "kinds": [],
            "rationale": rationale,
            "remedy": remedy,
            "waivable": False,
        }
    about = known.get(arguments.target)
    if about is None:
        near = difflib.get_close_matches(arguments.target, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"there is no policy {arguments.target!r}",
            f"{hint}known: {', '.join(sorted(known))}; an object is written Kind/name",
        )
    if output.format == "json":
        output.data({"apiVersion": "paperclip-gitops/v1", "kind": "Policy", "id": arguments.target, **about})
        return 0
    output.product(f"{arguments.target}: {about['title']}")
    waiver = "can be waived for a while, with a reason" if about["waivable"] else "cannot be waived"
    output.table(
        [
            ["  severity", about["severity"]],
            ["  kinds", ", ".join(about["kinds"]) or "all"],
            ["  why", about["rationale"]],
            ["  mend", about["remedy"]],
            ["  waiver", waiver],
        ],
    )
    return 0


def _show_object(arguments: argparse.Namespace, output: Output, workshop: Workshop, made: Made) -> None:
    fields = workshop.fields(made.reads)
    if output.format == "json":
        output.data({**_head(arguments, made), "fields": [_as_data(field) for field in fields]})
        return
    _text_head(arguments, output, made)
    output.product("  reads")
    output.table([[f"    {field.name}", _short(field.value), field.place] for field in fields])
    output.note(f"hint: `paperclip-gitops explain {arguments.target} PATH` says which of them makes a value", "quiet")


def _show_values(arguments: argparse.Namespace, output: Output, made: Made, answer: Answer) -> None:
    if output.format == "json":
        leaves = [
            {
                "pointer": leaf.pointer,
                "value": leaf.value,
                "verbatim": leaf.verbatim,
                "fields": [_as_data(field) for field in leaf.fields],
            }
            for leaf in answer.leaves
        ]
        rest = {
            "conditions": [_as_data(field) for field in answer.conditions],
            "undecided": [_as_data(field) for field in answer.undecided],
        }
        output.data({**_head(arguments, made), "values": leaves, **rest})
        return
    _text_head(arguments, output, made)
    output.table([[f"  there by   {field.name}", _short(field.value), field.place] for field in answer.conditions])
    for leaf in answer.leaves:
        output.product(f"\n{leaf.pointer or 'the object'} = {_short(leaf.value)}")
        if not leaf.fields:
            output.product("  written by the construct; no field changes it")
        word = "is" if leaf.verbatim else "made from"
        output.table([[f"  {word} {field.name}", _short(field.value), field.place] for field in leaf.fields])
    if answer.undecided and any(not leaf.verbatim for leaf in answer.leaves):
        names = ", ".join(field.name for field in answer.undecided)
        output.note(f"not tried, since no other value fits the rest of the config: {names}", "quiet")


def _head(arguments: argparse.Namespace, made: Made) -> dict[str, Any]:
    one = made.id
    return {
        "apiVersion": "paperclip-gitops/v1",
        "kind": "Explanation",
        "environment": made.folder,
        "object": {"apiVersion": one.api_version, "kind": one.kind, "namespace": one.namespace, "name": one.name},
        "construct": made.construct,
        "code": made.producer.code,
        "file": str(arguments.dist / made.file),
    }


def _text_head(arguments: argparse.Namespace, output: Output, made: Made) -> None:
    output.product(f"{made.id} of {made.folder}")
    output.table(
        [
            ["  construct", f"{made.construct} ({made.producer.code})"],
            ["  file", str(arguments.dist / made.file)],
        ],
    )


def _as_data(field: FieldUse) -> dict[str, Any]:
    return {"field": field.name, "value": field.value, "place": field.place}


def _short(value: Any) -> str:
    """One line: a script or a template does not fit."""
    if value is None:
        return "absent"
    text = str(value).lower() if isinstance(value, bool) else "none" if value in ((), {}, []) else str(value)
    text = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
