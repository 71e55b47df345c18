"""From a wake to the first line of its agent in the server's log: ours against the built-in adapter `process`.

usage: python -m bench.wake [--wakes N]        needs root, as the tests on a real node do

Both adapters live in one real Paperclip server and are woken in turns. All times are of this machine's one clock: the
server's log and events and the launcher's socket to the millisecond, the API server's audit log, the scheduler's Event
and the container runtime's log finer still. Pods and the kubelet's Events name whole seconds, so none is taken from
there. The agents have next to nothing to start: a shell script each, which says a line and stays for a second.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.launcher_cluster import e2e_modules, say
from bench.launcher_figures import Figure, percentile
from bench.wake_tap import Tap, tapped

_AT_ONCE = 30
_LOOK = 0.25  # seconds between two looks at a run, which cost the server something as well
_PATIENCE = 180.0
_REMARK = "[paperclip] "
_SHELL = {"command": "/bin/sh", "args": ["-c", "echo here I am; sleep 1"]}
_OURS = {"promptTemplate": "@agent sleep 1\n"}

_CALLED = "the server calls the adapter"
_STORED = "the server stores the first line"
_PARTS = (
    _CALLED,
    "the launcher has the request",
    "the Job is there",
    "the pod has its node",
    "its Secrets are there",
    "the container says its first line",
    "the launcher asks for the log",
    "the launcher sends the first line",
    _STORED,
)


class Failed(Exception):
    """A run did not end as it should, so that its times say nothing."""


@dataclass(frozen=True)
class Wake:
    """`at` says for each of _PARTS that is known when it was, in seconds after the wake was sent."""

    run: Any
    sent: float
    at: dict[str, float]

    @property
    def first_line(self) -> float:
        return self.at[_STORED]


class Bench:
    """`stage` is that of the e2e tests, with the launcher running and our adapter installed."""

    def __init__(self, stage: Any, tap: Tap) -> None:
        self.stage = stage
        self.tap = tap
        company = stage.api.create_company("Bench")
        self.shells = [stage.api.create_agent(company, f"Shell {one}", "process", _SHELL) for one in range(_AT_ONCE)]
        self.ours = [stage.agent(company, f"Ada {one}") for one in range(_AT_ONCE)]
        for agent in self.ours:
            # The server takes no prompt of a new agent, but keeps one that an agent has got since.
            stage.api.call("PATCH", f"/agents/{agent.id}", {"adapterConfig": _OURS})

    def in_turns(self, count: int) -> tuple[list[Wake], list[Wake]]:
        """(of `process`, ours). An agent sleeps long between its own wakes: the last one's Job is cleared away then."""
        shells, ours = [], []
        for number in range(count):
            shells.append(self._woken(self.shells[number % _AT_ONCE]))
            ours.append(self._woken(self.ours[number % _AT_ONCE]))
        self._place(ours)
        return shells, ours

    def at_once(self, agents: Sequence[Any]) -> list[Wake]:
        """As if each was sent with the first of them; the order is that of their first lines."""
        with ThreadPoolExecutor(len(agents)) as pool:
            begun = time.time()
            runs = list(pool.map(lambda agent: self.stage.api.wake(agent.id), agents))
        found = [self._seen(self._ended(run), begun) for run in runs]
        self._place(found)
        return sorted(found, key=lambda wake: wake.first_line)

    def _woken(self, agent: Any) -> Wake:
        sent = time.time()
        wake = self._seen(self._ended(self.stage.api.wake(agent.id)), sent)
        # Now, before its Job is cleared away, which of many at once would be done for some.
        written = self._written(wake.run)
        if written is not None:
            wake.at["the container says its first line"] = written - sent
        return wake

    def _seen(self, run: Any, sent: float) -> Wake:
        """What the server and the launcher's socket know of it."""
        events = self.stage.api.call("GET", f"/heartbeat-runs/{run.id}/events", limit=1000)
        called = [_seconds(one["createdAt"]) for one in events if one["eventType"] == "adapter.invoke"]
        found = {
            _CALLED: called[0] if called else None,
            "the launcher has the request": self.tap.asked.get(run.id),
            "the launcher sends the first line": self.tap.told.get(run.id),
            _STORED: self._first_line(run),
        }
        return Wake(run, sent, {part: when - sent for part, when in found.items() if when is not None})

    def _ended(self, run: Any) -> Any:
        end = time.monotonic() + _PATIENCE
        while not (found := self.stage.api.run(run.id)).over:
            if time.monotonic() > end:
                raise Failed(f"run {run.id} has not ended in {_PATIENCE:.0f} s\n{self.stage.story(run)}")
            time.sleep(_LOOK)
        if found.status != "succeeded":
            raise Failed(f"{found}\n{self.stage.story(run)}")
        return found

    def _first_line(self, run: Any) -> float:
        for entry in self.stage.api.log(run.id):
            if entry.stream == "stdout" and not entry.text.startswith(_REMARK):
                return _seconds(entry.time)
        raise Failed(f"the agent of {run} said nothing\n{self.stage.story(run)}")

    def _written(self, run: Any) -> float | None:
        """When the runtime took the first line of the run's container; None where there is no such log."""
        folder = self.stage.site.cluster.state / "var-log/pods"
        for path in folder.glob(f"*_{self.stage.job_of(run)}-*/agent/0.log"):
            return _seconds(path.read_text().partition(" ")[0])
        return None

    def _place(self, wakes: Sequence[Wake]) -> None:
        """Adds what the cluster knows of them."""
        by_job = {self.stage.job_of(wake.run): wake for wake in wakes}
        for part, job, when in (*self._scheduled(), *self._audited()):
            if job in by_job:
                wake = by_job[job]
                passed = when - wake.sent
                # A run has several Secrets, of which the last counts, but one log that is followed.
                known = wake.at.get(part, passed)
                wake.at[part] = max(known, passed) if part == "its Secrets are there" else min(known, passed)

    def _scheduled(self) -> Iterator[tuple[str, str, float]]:
        for event in self.stage.site.objects("events"):
            if event["reason"] == "Scheduled" and event.get("eventTime"):
                job = event["involvedObject"]["name"].rpartition("-")[0]
                yield "the pod has its node", job, _seconds(event["eventTime"])

    def _audited(self) -> Iterator[tuple[str, str, float]]:
        """(part, Job, time). A log counts from when it is asked for, what is made from when it is there."""
        # While it is written, its last line may be half of one.
        for line in self.stage.site.cluster.audit_log.read_text().split("\n")[:-1]:
            entry = json.loads(line)
            about = entry.get("objectRef") or {}
            code = (entry.get("responseStatus") or {}).get("code")
            # Some of its Jobs are tries that the API server only judges.
            if (
                "launcher" not in entry.get("userAgent", "")
                or code not in {200, 201}
                or "dryRun" in entry["requestURI"]
            ):
                continue
            match entry["verb"], about.get("resource"), about.get("subresource", ""):
                case "create", "jobs", "":
                    yield "the Job is there", about["name"], _seconds(entry["stageTimestamp"])
                case "create", "secrets", "":
                    for owner in entry["requestObject"]["metadata"].get("ownerReferences", ()):
                        yield "its Secrets are there", owner["name"], _seconds(entry["stageTimestamp"])
                case "get", "pods", "log":
                    job = about["name"].rpartition("-")[0]
                    yield "the launcher asks for the log", job, _seconds(entry["requestReceivedTimestamp"])


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _spread(name: str, values: Sequence[float], note: str = "") -> Iterator[Figure]:
    for part in (0.5, 0.95):
        yield Figure(f"{name}, p{part * 100:.0f}", percentile([one * 1000 for one in values], part), "ms", note=note)


def one_by_one(bench: Bench, count: int) -> Iterator[Figure]:
    shells, ours = bench.in_turns(count)
    shell, our = ([one.first_line for one in found] for found in (shells, ours))
    yield from _spread("wake to first line: process", shell, f"{count} wakes each, in turns")
    yield from _spread("wake to first line: claude_k8s", our)
    yield Figure("wake to first line: ours to process, p50", percentile(our, 0.5) / percentile(shell, 0.5), "x")
    called = [one.at[_CALLED] for one in shells if _CALLED in one.at]
    yield Figure(f"  process: {_CALLED}", percentile(called, 0.5) * 1000, "ms", note="after the wake, p50")
    yield from _in_parts("ours", ours)


def _in_parts(whose: str, wakes: Sequence[Wake]) -> Iterator[Figure]:
    """Each part by its median; what it took is told against the one before it in the table."""
    before = ""
    for part in _PARTS:
        at = [one.at[part] * 1000 for one in wakes if part in one.at]
        if not at:
            continue
        more = [(one.at[part] - one.at[before]) * 1000 for one in wakes if before and {part, before} <= one.at.keys()]
        note = (
            f"{percentile(more, 0.5):+.0f} ms, {percentile(more, 0.95):+.0f} at p95" if more else "after the wake, p50"
        )
        yield Figure(f"  {whose}: {part}", percentile(at, 0.5), "ms", note=note)
        before = part


def all_at_once(bench: Bench) -> Iterator[Figure]:
    stage = bench.stage
    sys.modules["controlplane"].wait_until("all Jobs to be gone", 120, lambda: not stage.site.objects("jobs"))
    shells = bench.at_once(bench.shells)
    (quota,) = stage.site.objects("resourcequotas")
    with stage.changed("resourcequota", quota["metadata"]["name"], _more_room):
        ours = bench.at_once(bench.ours)
    for kind, found in (("process", shells), ("claude_k8s", ours)):
        half = percentile([one.first_line for one in found], 0.5)
        yield Figure(f"{_AT_ONCE} wakes at once: half have their first line: {kind}", half, "s")
        yield Figure(f"{_AT_ONCE} wakes at once: all have their first line: {kind}", found[-1].first_line, "s")
    yield Figure(f"{_AT_ONCE} wakes at once: ours to process", ours[-1].first_line / shells[-1].first_line, "x")
    yield from _in_parts(f"{_AT_ONCE} of ours", ours)
    # The kubelet tries such a mount again after half a second, and then after ever longer.
    late = {one["involvedObject"]["name"] for one in stage.site.objects("events") if one["reason"] == "FailedMount"}
    yield Figure("pods whose Secrets came too late for their first mount", len(late), "", note="of all in this table")


def _more_room(quota: Mapping[str, Any]) -> None:
    quota["spec"]["hard"].update({"pods": "40", "requests.cpu": "4"})


@contextmanager
def _staged() -> Iterator[Bench]:
    """All of it, made from nothing and gone afterwards."""
    e2e_modules()
    controlplane, kubelet, standin, ground = (
        sys.modules[name] for name in ("controlplane", "kubelet", "standin", "ground")
    )
    staging = sys.modules["stage"]
    folder = Path(tempfile.mkdtemp(prefix="paperclip-bench-"))
    try:
        state = folder / "cluster"
        image = standin.build(kubelet.parts_folder(say) / "bin/busybox", controlplane.tools_folder(), state / "images")
        with (
            kubelet.running(state, [image], say) as cluster,
            staging.running(ground.bring_up(cluster, folder), say) as stage,
            tapped(stage.launcher) as tap,
        ):
            stage.launcher.start()
            stage.api.install_adapter(staging.ADAPTERS / "claude")
            yield Bench(stage, tap)
            stage.launcher.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.wake")
    parser.add_argument("--wakes", type=int, default=10, metavar="N", help="of each adapter, one after the other (10)")
    count = parser.parse_args().wakes
    if os.geteuid() != 0:
        sys.stderr.write("not root: from a wake to the first line is not measured\n")
        return 0
    parts: tuple[Callable[[Bench], Iterator[Figure]], ...] = (lambda bench: one_by_one(bench, count), all_at_once)
    try:
        with _staged() as bench:
            for part in parts:
                for figure in part(bench):
                    sys.stdout.write(f"{figure}\n")
                    sys.stdout.flush()
    except Failed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
