"""What a dialect is: how one agent program is called, what it prints, and what its sessions look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one run."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the output of an agent says so far. Texts are "" and numbers None where it did not say."""

    session_id: str = ""
    model: str = ""
    cost_usd: float | None = None
    usage: Usage | None = None
    summary: str = ""
    result: Mapping[str, Any] | None = None
    """The last result event, whole; None while there is none."""
    empty_response: bool = False
    """The model answered nothing, and no content came after."""
    truncated: bool = False
    """Content came, but no result."""
    ended: bool = False
    """The event came that a whole run ends with."""
    login_required: bool = False
    login_url: str = ""
    max_turns: bool = False
    unknown_session: bool = False
    failure: str = ""
    """What the program itself calls the failure; "" for none."""
    first_plain_line: str = ""
    """The first line that is no event, cut at 500 characters: often the only word of a failed start."""
    errors: tuple[str, ...] = field(default=())
    upstream: bool = False
    """The run failed at the model's provider: overloaded, limited, not to be reached."""
    retry_at: float | None = None
    """Seconds since 1970 when a rejected provider takes requests again; None where it did not say."""


class StreamParser(Protocol):
    """Fed with whole lines; bounded memory whatever comes."""

    def feed(self, lines: bytes) -> None:
        """Complete lines, each with its line feed but perhaps the last of all. Never raises on any bytes."""
        ...

    def parsed(self) -> Parsed: ...

    def snapshot(self) -> dict[str, Any]:
        """Plain JSON from which `restore` of a new parser goes on; at most some 100 KB."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """An empty state is that of a new parser. KeyError, TypeError or ValueError where it is no snapshot."""
        ...


@dataclass(frozen=True, slots=True)
class Model:
    id: str
    label: str


@dataclass(frozen=True, slots=True)
class Billing:
    """In Paperclip's words: `provider` and `biller` such as anthropic, `kind` such as api. "" for unknown."""

    provider: str = ""
    biller: str = ""
    kind: str = ""


class Dialect(Protocol):
    """One agent program: one file."""

    name: str
    """As in the config and on the command line: claude, opencode, command."""
    adapter_type: str
    """As Paperclip knows it, such as claude_k8s."""
    template: str
    """The Job template that its runs are made from."""
    resumes: bool
    """Whether it has sessions that a later run may go on with."""
    reports: bool
    """Whether its output says how the run went; else its exit code alone decides."""
    variables: Mapping[str, str]
    """What the program needs in its environment, whatever the run."""

    def arguments(self, options: Any, session_id: str, bundle: str, files: Mapping[str, str]) -> list[str]:
        """The run's own arguments. `session_id` "" for a new session, `bundle` the folder of skills in the pod or "".
        `files` are further files of the run by role ("mcp", "settings", "instructions"): their path in the pod.
        """
        ...

    def parser(self) -> StreamParser: ...

    def read_session(self, raw: Any) -> dict[str, str] | None:
        """Session parameters as they are stored, in any spelling, as ours; None where they name no session."""
        ...

    def write_session(self, params: Any) -> dict[str, str] | None: ...

    def session_label(self, params: Any) -> str | None:
        """What people see of a session."""
        ...

    def models(self, environment: Mapping[str, str]) -> list[Model]: ...

    def billing(self, model: str) -> Billing:
        """Who is paid for a model."""
        ...

    def exit_problem(self, parsed: Parsed, exit_code: int | None, ending: Any) -> str:
        """The sentence for a run that ended without a result."""
        ...
