"""A plain program: its exit code decides, and its last lines are the summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paperclip_launcher.diagnosed import Ending
from paperclip_launcher.dialects.claude import ending_suffix
from paperclip_launcher.dialects.jsonlines import clean, cut, from_whole_line
from paperclip_launcher.dialects.model import Billing, Model, Parsed, StreamParser

_TAIL_BYTES = 8192
_SUMMARY_LINES = 20


class TailParser:
    """A dialects.model.StreamParser that keeps the end of the output, however much there is."""

    def __init__(self) -> None:
        self._first = ""
        self._tail = b""

    def feed(self, lines: bytes) -> None:
        if not self._first:
            line = next((one for one in lines[:65536].split(b"\n") if one.strip()), b"")
            self._first = cut(line.decode("utf-8", "replace").strip(), 500)
        self._tail = (self._tail + lines[-_TAIL_BYTES:])[-_TAIL_BYTES:]

    def parsed(self) -> Parsed:
        lines = clean(self._end.decode("utf-8", "replace")).rstrip().splitlines()
        return Parsed(
            summary="\n".join(lines[-_SUMMARY_LINES:]).strip(),
            first_plain_line=self._first,
        )

    @property
    def _end(self) -> bytes:
        return self._tail if len(self._tail) < _TAIL_BYTES else from_whole_line(self._tail)

    def snapshot(self) -> dict[str, Any]:
        return {"first": self._first, "tail": self._end.decode("utf-8", "replace")}

    def restore(self, state: Mapping[str, Any]) -> None:
        if not state:
            return
        self._first = str(state["first"])
        self._tail = str(state["tail"]).encode()


class Command:
    """A dialects.model.Dialect."""

    name = "command"
    adapter_type = "command_k8s"
    template = "generic"
    resumes = False
    reports = False
    variables: Mapping[str, str] = {}

    def arguments(self, options: Any, session_id: str, bundle: str, files: Mapping[str, str]) -> list[str]:  # noqa: ARG002 - a program has neither
        """The program, named by the config, and its arguments. It finds the prompt on its standard input."""
        program = [options.command] if isinstance(options.command, str) else [*options.command]
        return [*program, *options.extra_args]

    def parser(self) -> StreamParser:
        return TailParser()

    def read_session(self, raw: Any) -> dict[str, str] | None:  # noqa: ARG002
        return None

    def write_session(self, params: Any) -> dict[str, str] | None:  # noqa: ARG002
        return None

    def session_label(self, params: Any) -> str | None:  # noqa: ARG002
        return None

    def models(self, environment: Mapping[str, str]) -> list[Model]:  # noqa: ARG002
        return []

    def billing(self, model: str) -> Billing:  # noqa: ARG002
        return Billing()

    def exit_problem(self, parsed: Parsed, exit_code: int | None, ending: Ending) -> str:
        code = "an unknown code" if exit_code is None else f"code {exit_code}"
        last = parsed.summary.rpartition("\n")[2]
        return (
            f"The program ended with {code}"
            + (f": {cut(last, 500)}" if last else "")
            + ending_suffix(exit_code, ending)
        )
