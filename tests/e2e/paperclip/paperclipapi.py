"""The API of a Paperclip server as its board's user sees it: what the tests ask for, with types.

Each record keeps the whole tree that the server sent in `tree`, for what only one test looks at.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

_SECONDS = 90  # the server gives an adapter 60 to acknowledge a cancellation
_PAGE = 1 << 20  # bytes of a log at once; the server gives no more
_POLL_SECONDS = 0.1
_REMARK = "[paperclip] "
_UNDERWAY = ("queued", "running", "scheduled_retry")

Tree = Mapping[str, Any]


class Refused(Exception):
    """The server answered `status` with a body that says why."""

    def __init__(self, call: str, status: int, message: str) -> None:
        super().__init__(f"{call}: {status} {message}")
        self.status, self.message = status, message


@dataclass(frozen=True)
class Agent:
    id: str
    company: str
    name: str
    adapter_type: str
    status: str
    tree: Tree = field(repr=False)

    @classmethod
    def of(cls, tree: Tree) -> Self:
        return cls(tree["id"], tree["companyId"], tree["name"], tree["adapterType"], tree["status"], tree)


@dataclass(frozen=True)
class Issue:
    id: str
    identifier: str
    status: str
    tree: Tree = field(repr=False)

    @classmethod
    def of(cls, tree: Tree) -> Self:
        return cls(tree["id"], tree["identifier"], tree["status"], tree)


@dataclass(frozen=True)
class Run:
    """`status` is queued, running, scheduled_retry, succeeded, failed, cancelled, timed_out or interrupted."""

    id: str
    agent: str
    status: str
    exit_code: int | None
    error_code: str
    error: str
    usage: Tree
    result: Tree
    tree: Tree = field(repr=False)

    @classmethod
    def of(cls, tree: Tree) -> Self:
        return cls(
            tree["id"],
            tree["agentId"],
            tree["status"],
            tree.get("exitCode"),
            tree.get("errorCode") or "",
            tree.get("error") or "",
            tree.get("usageJson") or {},
            tree.get("resultJson") or {},
            tree,
        )

    @property
    def over(self) -> bool:
        return self.status not in _UNDERWAY


@dataclass(frozen=True)
class LogEntry:
    """One call of an adapter's onLog; `time` is in ISO 8601, `stream` stdout, stderr or system."""

    number: int
    time: str
    stream: str
    text: str


@dataclass(frozen=True)
class Event:
    """What a run's timeline shows, such as `lifecycle` or `adapter.invoke`."""

    number: int
    type: str
    message: str
    payload: Tree


class Paperclip:
    """All calls raise Refused, and httpx.TransportError where no server answers."""

    def __init__(self, url: str) -> None:
        # Proxies of the machine are not for a server on 127.0.0.1.
        self._client = httpx.Client(base_url=f"{url}/api", timeout=_SECONDS, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def call(self, method: str, path: str, body: Any = None, **query: str | int) -> Any:
        """For what has no method here; `path` comes after /api, a query value of "" is left out."""
        kept = {name: value for name, value in query.items() if value != ""}
        answer = self._client.request(method, path, params=kept, json=body)
        if answer.is_error:
            raise Refused(f"{method} {path}", answer.status_code, answer.text[:2000])
        return answer.json() if answer.content else None

    def health(self) -> Tree:
        found: Tree = self.call("GET", "/health")
        return found

    def create_company(self, name: str) -> str:
        """Its id."""
        return str(self.call("POST", "/companies", {"name": name})["id"])

    def companies(self) -> dict[str, str]:
        """Names by id."""
        return {one["id"]: one["name"] for one in self.call("GET", "/companies")}

    def create_agent(
        self, company: str, name: str, adapter_type: str, config: Tree | None = None, heartbeat: Tree | None = None
    ) -> Agent:
        body = {
            "name": name,
            "role": "engineer",
            "adapterType": adapter_type,
            "adapterConfig": config or {},
            "runtimeConfig": {"heartbeat": heartbeat or {}},
        }
        return Agent.of(self.call("POST", f"/companies/{company}/agents", body))

    def agents(self, company: str) -> list[Agent]:
        return [Agent.of(one) for one in self.call("GET", f"/companies/{company}/agents")]

    def agent(self, agent: str) -> Agent:
        return Agent.of(self.call("GET", f"/agents/{agent}"))

    def pause(self, agent: str) -> None:
        """Its run is cancelled, and no wake is taken until it is resumed."""
        self.call("POST", f"/agents/{agent}/pause", {})

    def create_issue(self, company: str, title: str, assignee: str = "", description: str = "") -> Issue:
        """With an assignee its agent is woken at once."""
        body = {"title": title, "description": description, "status": "todo" if assignee else "backlog"}
        return Issue.of(
            self.call("POST", f"/companies/{company}/issues", {**body, "assigneeAgentId": assignee or None})
        )

    def issues(self, company: str) -> list[Issue]:
        return [Issue.of(one) for one in self.call("GET", f"/companies/{company}/issues")]

    def issue(self, issue: str) -> Issue:
        return Issue.of(self.call("GET", f"/issues/{issue}"))

    def change_issue(self, issue: str, **fields: Any) -> Issue:
        return Issue.of(self.call("PATCH", f"/issues/{issue}", fields))

    def restore_issue(self, issue: str, action: str, run: str, evidence: str) -> None:
        """A person's word that work on an issue may go on, which the server holds since it does not know what came of
        `run`; `action` is the hold's. The server then makes a run by itself, at its scheduler's next look.
        """
        known = {"runId": run, "providerStopped": True, "actionOutcome": "not_performed", "outcomeEvidence": evidence}
        body = {
            "actionId": action,
            "outcome": "restored",
            "sourceIssueStatus": "todo",
            "executionReconciliation": known,
        }
        self.call("POST", f"/issues/{issue}/recovery-actions/resolve", body)

    def comments(self, issue: str) -> list[str]:
        """Their texts, the oldest first."""
        found = sorted(self.call("GET", f"/issues/{issue}/comments"), key=lambda one: one["createdAt"])
        return [one["body"] for one in found]

    def comment(self, issue: str, body: str) -> None:
        """Wakes the issue's agent, too."""
        self.call("POST", f"/issues/{issue}/comments", {"body": body})

    def wake(self, agent: str, issue: str = "", reason: str = "test", *, fresh_session: bool = False) -> Run:
        """The run that comes of it. AssertionError where the server skips the wake."""
        body = {"source": "on_demand", "reason": reason, "forceFreshSession": fresh_session}
        if issue:
            body["payload"] = {"issueId": issue}
        told = self.call("POST", f"/agents/{agent}/wakeup", body)
        assert "id" in told, f"no run: {told}"
        return Run.of(told)

    def run(self, run: str) -> Run:
        return Run.of(self.call("GET", f"/heartbeat-runs/{run}"))

    def runs(self, company: str, agent: str = "") -> list[Run]:
        """The oldest first; of their results the server gives only a part here."""
        found = self.call("GET", f"/companies/{company}/heartbeat-runs", agentId=agent, limit=1000)
        return [Run.of(one) for one in sorted(found, key=lambda one: one["createdAt"])]

    def ended(self, run: str, seconds: float = 60) -> Run:
        """The run once it is over; AssertionError after `seconds`.

        The server books cost, session and comment after that, so whoever asks for those has to wait.
        """
        end = time.monotonic() + seconds
        while not (found := self.run(run)).over:
            assert time.monotonic() < end, f"waited {seconds:.0f} s for the end of {found}"
            time.sleep(_POLL_SECONDS)
        return found

    def wait_for_log(self, run: str, text: str, seconds: float = 60) -> None:
        """Until the log has `text`; AssertionError after `seconds`."""
        end = time.monotonic() + seconds
        while text not in (said := self.log_text(run)):
            assert time.monotonic() < end, f"waited {seconds:.0f} s for {text!r} in {self.run(run)}, which says {said}"
            time.sleep(_POLL_SECONDS)

    def cancel(self, run: str) -> Run:
        """Waits for the adapter's acknowledgement, up to a minute; Refused with 409 where it gives none."""
        return Run.of(self.call("POST", f"/heartbeat-runs/{run}/cancel", {}))

    def log(self, run: str) -> list[LogEntry]:
        """Empty too where the run ended before its adapter began, and the server knows no log."""
        text, offset = "", 0
        while True:
            try:
                page = self.call("GET", f"/heartbeat-runs/{run}/log", offset=offset, limitBytes=_PAGE)
            except Refused as refused:
                if refused.status == httpx.codes.NOT_FOUND:
                    return []
                raise
            content: str = page["content"]
            if not page.get("nextOffset"):
                text += content
                break
            # A page may end inside a character; the half line is asked for again.
            whole = content[: content.rindex("\n") + 1]
            text += whole
            offset += len(whole.encode())
        # One that is being written may end in half a line.
        entries = [json.loads(line) for line in text.split("\n")[:-1]]
        return [LogEntry(one["seq"], one["ts"], one["stream"], one["chunk"]) for one in entries]

    def log_text(self, run: str, stream: str = "") -> str:
        """What the adapter logged, without the server's own remarks: of all streams or of one."""
        kept = [entry for entry in self.log(run) if stream in ("", entry.stream)]
        return "".join(entry.text for entry in kept if not entry.text.startswith(_REMARK))

    def events(self, run: str) -> list[Event]:
        found = self.call("GET", f"/heartbeat-runs/{run}/events", limit=1000)
        return [Event(one["seq"], one["eventType"], one["message"] or "", one["payload"] or {}) for one in found]

    def task_sessions(self, agent: str) -> list[Tree]:
        """What the server keeps of each task for the adapter's next run."""
        return list(self.call("GET", f"/agents/{agent}/task-sessions"))

    def reset_session(self, agent: str, task_key: str = "") -> None:
        """Of one task, or of all."""
        self.call("POST", f"/agents/{agent}/runtime-state/reset-session", {"taskKey": task_key or None})

    def install_adapter(self, folder: Path) -> str:
        """Its type. The server keeps the modules of a folder it has loaded once: after a change use reload_adapter."""
        return str(self.call("POST", "/adapters/install", {"packageName": str(folder), "isLocalPath": True})["type"])

    def reload_adapter(self, adapter_type: str) -> Tree:
        found: Tree = self.call("POST", f"/adapters/{adapter_type}/reload", {})
        return found

    def delete_adapter(self, adapter_type: str) -> None:
        self.call("DELETE", f"/adapters/{adapter_type}")

    def adapters(self) -> dict[str, Tree]:
        """By type, the built-in ones as well."""
        return {one["type"]: one for one in self.call("GET", "/adapters")}

    def config_schema(self, adapter_type: str) -> Tree:
        """What the form of the web UI is made of; the server keeps it for 30 s."""
        found: Tree = self.call("GET", f"/adapters/{adapter_type}/config-schema")
        return found

    def models(self, company: str, adapter_type: str, *, refresh: bool = False) -> dict[str, str]:
        """Labels by id."""
        query = {"refresh": "true"} if refresh else {}
        found = self.call("GET", f"/companies/{company}/adapters/{adapter_type}/models", **query)
        return {one["id"]: one["label"] for one in found}

    def test_environment(self, company: str, adapter_type: str, config: Tree | None = None) -> Tree:
        """The report with `status` and `checks`."""
        path = f"/companies/{company}/adapters/{adapter_type}/test-environment"
        found: Tree = self.call("POST", path, {"adapterConfig": config or {}})
        return found
