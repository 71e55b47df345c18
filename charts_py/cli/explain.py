"""`paperclip-gitops explain`: why an object, a value or a finding is there."""

from __future__ import annotations

import argparse
import datetime
import difflib
import textwrap
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
  paperclip-gitops explain policies                           all of them

A path is written spec.ports[0].port or /spec/ports/0/port; one that has values below it explains them all.
"""
_WIDTH = 70


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="say where an object or a value comes from, or what a policy wants",
        description="Says which construct and which config field made an object or a value, or what a policy wants.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "target", nargs="?", metavar="TARGET", help="Kind/name, Kind/namespace/name, the id of a policy, or policies"
    )
    parser.add_argument("path", nargs="?", metavar="PATH", help="a place in the object")
    parser.add_argument("--all", action="store_true", help="list all policies")
    parser.add_argument("--environment", metavar="E", help="of which environment, if several have the object")
    parser.add_argument(
        "--environments", type=Path, default=Path("environments"), metavar="DIR", help="the config files"
    )
    parser.add_argument("--dist", type=Path, default=Path("dist"), metavar="DIR", help="the rendered state")
    parser.add_argument(
        "--images-file", type=Path, default=Path("images.lock"), metavar="FILE", help="the pinned digests"
    )
    parser.add_argument("--templates", type=Path, metavar="DIR", help="the Job templates")
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="how to answer")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.all or arguments.target == "policies":
        return _all_policies(arguments, output)
    if arguments.format == "markdown":
        raise UsageError("--format markdown is the page of all policies", "add --all, or take another format")
    if arguments.target is None:
        raise UsageError("there is nothing to explain", "name a policy or an object, or add --all")
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


def _all_policies(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py import policybook  # noqa: PLC0415  as above

    families = list(policybook.by_family())
    if output.format == "json":
        items = [policybook.as_data(one) for _, group in families for one in group]
        output.data({"apiVersion": "paperclip-gitops/v1", "kind": "PolicyList", "items": items})
    elif arguments.format == "markdown":
        output.product(policybook.page())
    else:
        for family, group in families:
            output.product(family)
            output.table(
                [
                    [f"  {one.id}", str(one.severity), str(one.scope), policybook.admission(one)[0], one.title]
                    for one in group
                ]
            )
        count = sum(len(group) for _, group in families)
        output.note(f"{count} policies: id, severity, scope, whether admission can judge it (CEL), what holds", "quiet")
    return 0


def _policy(arguments: argparse.Namespace, output: Output) -> int:
    from charts_py import policybook  # noqa: PLC0415  as above
    from policies.registry import by_id  # noqa: PLC0415  as above

    known = by_id()
    policy = known.get(arguments.target)
    if policy is None:
        near = difflib.get_close_matches(arguments.target, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"there is no policy {arguments.target!r}",
            f"{hint}`paperclip-gitops explain policies` lists all; an object is written Kind/name",
        )
    shown = policybook.examples(policy.id)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    about = policybook.as_data(policy)
    if output.format == "json":
        more = {"examples": {"pass": shown.passes, "fail": shown.fails}, "waiver": policybook.entry(policy, today)}
        output.data({"apiVersion": "paperclip-gitops/v1", "kind": "Policy", **about, **more})
        return 0
    cel = about["admission"]
    waiver = "can be waived for a while, with a reason" if policy.waivable else "cannot be waived"
    rows = [
        ["  severity", str(policy.severity)],
        ["  kinds", ", ".join(sorted(policy.kinds)) or "all"],
        ["  judges", policybook.scope_of(policy)],
        ["  since", f"Kubernetes {policy.since}" if policy.since else ""],
        ["  why", policy.rationale],
        ["  mend", policy.remedy],
        ["  in CEL", ": ".join(part for part in (cel["cel"], cel["note"]) if part)],
        ["  waiver", waiver],
        *(["  read", link] for link in policy.links),
    ]
    output.product(f"{policy.id}: {policy.title}")
    output.table([row for row in rows if row[1]])
    for title, text in (
        ("as the API server judges it (CEL)", cel["expression"]),
        ("passes", shown.passes),
        ("fails", shown.fails),
        ("to waive it, in waivers.yaml", policybook.entry(policy, today)),
    ):
        if text:
            output.product(f"\n{title}\n{textwrap.indent(text.rstrip(), '  ')}")
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
