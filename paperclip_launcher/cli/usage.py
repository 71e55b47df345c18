"""How the command line is read: its parser, what a misspelt word is answered, and the codes that programs end with."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from paperclip_launcher.errors import LauncherError

FINE, FAILED, WRONG_USE, INVALID, UNREACHABLE, UNKNOWN, DETACHED = 0, 1, 2, 3, 5, 6, 130
EXIT_CODES = """\
exit codes: 0 fine, 1 the run failed or something was found, 2 wrong use, 3 request or config invalid,
  5 cluster unreachable or a right missing, 6 how the run stands is not known and its Job is kept,
  130 detached (Ctrl-C): the run goes on"""

_CHOICE = re.compile(r"invalid choice: '(?P<word>[^']*)' \(choose from (?P<known>.*)\)")


class UsageError(LauncherError):
    """The command line, or what it names, cannot be used."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class Parser(argparse.ArgumentParser):
    """Raises UsageError, and knows what was meant."""

    def error(self, message: str) -> NoReturn:
        remedy = f"see `{self.prog} --help`"
        if found := _CHOICE.search(message):
            remedy = near(found["word"], re.findall(r"'([^']+)'", found["known"])) + remedy
        elif message.startswith("unrecognized arguments: "):
            word = message.split()[2].partition("=")[0]
            known = self.options()
            remedy = ("another verb has it, this one has not; " if word in known else near(word, known)) + remedy
        raise UsageError(message, remedy)

    def options(self) -> set[str]:
        """Its own, and those of its verbs: what a verb does not know is told by the parser above it."""
        found: set[str] = set()
        for action in self._actions:
            found.update(action.option_strings)
            verbs = action.choices if isinstance(action.choices, dict) else {}
            found.update(*(verb.options() for verb in verbs.values()))
        return found


def near(word: str, known: Iterable[str]) -> str:
    """`did you mean …? `, or "" where nothing is close."""
    found = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {found[0]}? " if found else ""


def add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str, about: str, examples: str
) -> argparse.ArgumentParser:
    """A verb with its help; the options that all verbs have are on it."""
    parser = verbs.add_parser(
        name,
        help=summary,
        description=about,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to answer")
    parser.add_argument("--debug", action="store_true", help="show the trace of an error, and log all")
    return parser


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Where the cluster is, and how to speak of it."""
    group = parser.add_argument_group("where")
    group.add_argument("--namespace", metavar="NAME", help="the agents' namespace (default: that of the templates)")
    group.add_argument("--kubeconfig", default="", metavar="FILE", help="default: KUBECONFIG, or the pod's own account")
    group.add_argument("--context", default="", metavar="NAME", help="of the kubeconfig (default: its current one)")
    add_templates(group)
    group.add_argument("--log-level", choices=("debug", "info", "warning", "error"), help="default: warning")
    group.add_argument("--log-format", choices=("text", "json"), default="text", help="of the lines on stderr")


def add_templates(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--templates",
        metavar="DIR",
        help="Job templates (default: PAPERCLIP_JOB_TEMPLATES, /etc/paperclip/job-templates, the only one in dist)",
    )


def add_stock(parser: argparse.ArgumentParser) -> None:
    """What this machine gives to runs that ask for it."""
    group = parser.add_argument_group("what this machine gives to runs")
    group.add_argument("--workspace", type=Path, metavar="DIR", help="where the agents' claim is mounted here")
    add_skills(group)


def add_skills(group: argparse._ActionsContainer) -> None:
    about = "skills and instructions come from below it alone; may be given again"
    group.add_argument("--skills", action="append", default=[], metavar="DIR", help=about)


def add_state(parser: argparse.ArgumentParser) -> None:
    """What a launcher needs that looks after runs."""
    group = parser.add_argument_group("launcher")
    group.add_argument("--state", metavar="DIR", help="its journal (default: paperclip-launcher in XDG_STATE_HOME)")
    group.add_argument("--identity", default="", metavar="NAME", help="who it is among launchers (default: of DIR)")
