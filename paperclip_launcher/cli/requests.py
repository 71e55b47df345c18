"""The request of one run, as Paperclip would send it: from a file, from options for people, or from both."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from paperclip_launcher.cli.usage import UsageError, near

_LARGEST = 64 << 20  # bytes
_PROMPT = "{{context.prompt}}"
"""What a template makes of this is the text itself, whatever braces are in it."""


def add_request(parser: argparse.ArgumentParser) -> None:
    """The options that say what is run."""
    parser.add_argument(
        "request", nargs="?", metavar="REQUEST.json", help="the context of a run as Paperclip sends it; - for stdin"
    )
    parser.usage = f"{parser.prog} [REQUEST.json|-] [options] [-- PROGRAM ARGS]"
    parser.set_defaults(program=[])
    group = parser.add_argument_group("what", "they come on top of REQUEST.json, or stand in its place")
    group.add_argument("--agent", metavar="ID", help="default: cli-USER")
    group.add_argument("--run-id", metavar="ID", help="default: a new one; the same one is the same run")
    group.add_argument("--prompt", metavar="TEXT|@FILE", help="what the agent is told; @- reads stdin")
    group.add_argument("--dialect", metavar="NAME", help="claude, opencode or command")
    group.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a field of the config")
    group.add_argument("--env", action="append", default=[], metavar="NAME[=VALUE]", help="a variable of the agent")


def request_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The tree that RunRequest reads. UsageError for what is no request at all."""
    plain = arguments.request is None
    if plain and arguments.prompt is None and not arguments.program:
        raise UsageError("nothing says what to run", "name a REQUEST.json, or give --prompt TEXT, or -- PROGRAM ARGS")
    tree: dict[str, Any] = {} if plain else _read_json(arguments.request)
    agent, config, context = (_part(tree, key) for key in ("agent", "config", "context"))
    if plain or arguments.agent:
        agent["id"] = arguments.agent or f"cli-{getpass.getuser()}"
        agent.setdefault("name", agent["id"])
    if arguments.run_id or "runId" not in tree:
        tree["runId"] = arguments.run_id or str(uuid.uuid4())
    if dialect := _dialect(arguments.dialect) or ("command" if arguments.program else "claude" if plain else ""):
        agent["adapterType"] = dialect
    if arguments.prompt is not None:
        context["prompt"] = _text(arguments.prompt)
        config["promptTemplate"] = _PROMPT
    if arguments.program:
        config["program"], config["extraArgs"] = arguments.program[0], arguments.program[1:]
    config.update(_pair(one, "--set") for one in arguments.set)
    if arguments.env:
        _part(config, "env").update(_variable(one) for one in arguments.env)
    return tree


def _dialect(name: str | None) -> str:
    if name is None:
        return ""
    from paperclip_launcher.dialects import BY_ADAPTER, DIALECTS  # noqa: PLC0415  only for those who name one

    known = {**DIALECTS, **BY_ADAPTER}
    if name not in known:
        raise UsageError(f"there is no dialect {name!r}", f"{near(name, known)}there are {', '.join(DIALECTS)}")
    return known[name].adapter_type


def _part(tree: dict[str, Any], key: str) -> dict[str, Any]:
    found = tree.get(key)
    if found is None:
        found = tree[key] = {}
    # What is no map is told of by the reader of the request; changes to it would be lost.
    return found if isinstance(found, dict) else {}


def _read_json(name: str) -> dict[str, Any]:
    where = "stdin" if name == "-" else name
    raw = _read(name)
    try:
        tree = json.loads(raw)
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: byte {error.start} is not UTF-8", "write the request as JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        message = f"{where}:{error.lineno}:{error.colno}: {error.msg}"
        raise UsageError(message, "write the request as JSON") from None
    except RecursionError:
        raise UsageError(f"{where}: is nested too deeply", "write the request as Paperclip does") from None
    if not isinstance(tree, dict):
        raise UsageError(f"{where}: is no JSON object", "write the request as Paperclip does: an object with runId")
    return tree


def _read(name: str) -> bytes:
    """Of a file, or of stdin for "-"."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with Path(name).open("rb") as stream:
                raw = stream.read(_LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}", "look at its path and its mode") from None
    if len(raw) > _LARGEST:
        raise UsageError(f"{name}: has more than {_LARGEST} bytes", "no run needs so many")
    return raw


def _text(given: str) -> str:
    if not given.startswith("@"):
        return given
    try:
        return _read(given[1:]).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{given[1:]}: byte {error.start} is not UTF-8", "a prompt is text in UTF-8") from None


def _pair(given: str, option: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not key or not equals:
        raise UsageError(f"{option} {key}: is not KEY=VALUE", "`paperclip-launcher schema` lists the keys")
    return key, value


def _variable(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if equals:
        return name, value
    if name not in os.environ:
        raise UsageError(f"--env {name}: there is no such variable here", "give its value: --env NAME=VALUE")
    return name, os.environ[name]
