"""`kill -9` of a real `paperclip-launcher run` at every step; it is started again with the same request.

The server that it talks to kills it: as a request comes (no effect), after its effect (no answer), or just after the
answer; or as the agent writes a certain line; or as a file of the launcher appears.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kubekit import yamlread
from tests.fakeapi.model import Program
from tests.fakeapi.sockets import Rule, SocketServer, kubeconfig
from tests.faults.place import DONE, INIT, ROOT, Place, request_tree, soon
from tests.faults.table import Figure, at_least, exactly

_LINES = 30
_SEEDS = 50
_MOST_LIVES = 6
_LIFE_SECONDS = 60.0
MOMENTS = ("before", "after", "answered")


@dataclass(frozen=True)
class Point:
    """Where a launcher dies: at its `number`th request of a kind, at a line of the log (0 for any one of them), after
    some bytes of the log, or as a file appears.
    """

    verb: str
    resource: str
    number: int = 1

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" ({self.number})" if self.number != 1 else "")


POINTS = (
    Point("create", "leases"),  # its own
    Point("list", "jobs"),
    Point("watch", "jobs"),
    Point("list", "pods"),
    Point("watch", "pods"),
    Point("list", "events"),
    Point("list", "leases"),
    Point("create", "jobs"),
    Point("create", "leases", 2),  # the agent's
    Point("create", "secrets"),
    Point("create", "secrets", 2),
    Point("get", "pods/log"),
    Point("get", "pods/log", 2),  # the rest, once more
    Point("delete", "jobs"),
    Point("delete", "leases"),  # its own, at the end
    Point("bytes", "log"),  # anywhere in a chunk, a line, a character
    Point("line", "log", 0),
    Point("line", "log", 1),
    Point("line", "log", _LINES + 2),
    Point("file", "journal"),
    Point("file", "log"),
    Point("file", "result"),
)


SOME = (POINTS[2], POINTS[7], POINTS[10], POINTS[13], POINTS[15], POINTS[-1])
"""For the quick tests."""


class KillingServer(SocketServer):
    """`strike` is told of each request before it is served, and may answer by a rule."""

    strike: Callable[[str, str], Rule | None] = staticmethod(lambda verb, resource: None)

    def rule_for(self, verb: str, resource: str) -> Rule | None:
        return self.strike(verb, resource) or super().rule_for(verb, resource)


class _Place(Place):
    server_class = KillingServer


class _Spoken(Sequence[tuple[float, bytes]]):
    """What the agent writes; `heard` is told of each line as it is written."""

    def __init__(self, heard: Callable[[int], None]) -> None:
        middle = (b'{"type":"user","n":%d,"t":"%b"}' % (number, "ü🧵".encode() * number) for number in range(_LINES))
        self._lines = (INIT, *middle, DONE)
        self._heard = heard

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            for number in range(*at.indices(len(self))):
                self._heard(number + 1)
            return [(0.004, line) for line in self._lines[at]]
        return 0.004, self._lines[at]


@dataclass
class Case:
    """One run, killed at `point` (and perhaps once more), and gone on with until it has ended."""

    seed: int
    point: Point
    moment: str
    folder: Path
    deaths: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(f"{self.seed} {self.point} {self.moment}")
        self._armed: tuple[Point, str] | None = (self._exact(self.point), self.moment)
        again = (self._exact(self._rng.choice(POINTS)), self._rng.choice(MOMENTS))
        self._second = again if self._rng.random() < 0.4 else None
        self._requests: Counter[tuple[str, str]] = Counter()
        self._process: asyncio.subprocess.Process | None = None
        self._result = ""

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.point}, {self.moment}"

    def _exact(self, point: Point) -> Point:
        return point if point.number else Point(point.verb, point.resource, self._rng.randrange(2, _LINES + 2))

    # Killing.

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            # Not by the process object: that would ask for the state of one which has just died, and asyncio's watcher
            # would then look for it in vain.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    def _die(self) -> str:
        assert self._armed is not None
        point, moment = self._armed
        self._armed, self._second = self._second, None
        self.deaths.append(f"{point}, {moment}")
        if moment == "answered":
            asyncio.get_running_loop().call_later(self._rng.random() * 0.01, self._kill)
        else:
            self._kill()
        return moment

    def _asked(self, verb: str, resource: str) -> Rule | None:
        self._requests[verb, resource] += 1
        if self._armed is not None and self._armed[0].verb == "bytes" and resource == "pods/log":
            self._armed, self._second = self._second, None
            after = self._rng.randrange(150, 4000)
            self.deaths.append(f"{after} bytes of the answer with the log")
            asyncio.get_running_loop().call_later(0.3, self._kill)
            return Rule("cut", after=after, how="hang")
        if self._armed is None or self._armed[0] != Point(verb, resource, self._requests[verb, resource]):
            return None
        return {"before": Rule("reset"), "after": Rule("effect-reset"), "answered": None}[self._die()]

    def _heard(self, number: int) -> None:
        if self._armed is not None and self._armed[0] == Point("line", "log", number):
            self._die()

    async def _look_at_files(self) -> None:
        state = self.folder / "state" / "paperclip-launcher" / "journal"
        files = {"log": self.folder / "o.log", "result": self.folder / "r.json"}
        while True:
            point = self._armed[0] if self._armed else None
            if point is not None and point.verb == "file":
                path = files.get(point.resource)
                if any(state.glob("*.run")) if path is None else path.exists() and path.stat().st_size:
                    self._die()
            await asyncio.sleep(0.001)

    # The run.

    async def play(self) -> None:
        knobs = soon(start=(0.005, 0.06), follow_end=(0.0, 0.02))
        program = Program(_Spoken(self._heard))
        async with _Place(program, seed=self.seed, knobs=knobs) as place:
            server = place.server
            assert isinstance(server, KillingServer)
            server.strike = self._asked
            (self.folder / "kubeconfig").write_text(kubeconfig(server.url, "a-token"))
            (self.folder / "request.json").write_text(json.dumps(request_tree("run-1", "agent-1")))
            looking = asyncio.create_task(self._look_at_files())
            try:
                await self._lives(place)
            finally:
                looking.cancel()
                self._kill()
            self._judge(place, await place.cleared(5.0))

    async def _lives(self, place: Place) -> None:
        for _ in range(_MOST_LIVES):
            self._requests.clear()
            code, said = await self._life()
            self._check_result()
            if code >= 0:
                if code:
                    self.problems.append(f"ends with {code}: {said[-400:]}")
                return
        self.problems.append("it never ended")

    async def _life(self) -> tuple[int, str]:
        words = ("-m", "paperclip_launcher.cli.main", "run", "request.json", "--output", "o.log", "--result", "r.json")
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *words,
            cwd=self.folder,
            env=_environment(self.folder),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_LIFE_SECONDS):
                _, said = await self._process.communicate()
        except TimeoutError:
            self.problems.append("it hangs")
            self._process.kill()
            await self._process.wait()
            return 99, ""
        return self._process.returncode or 0, said.decode(errors="replace")

    # What must hold.

    def _check_result(self) -> None:
        """A result that was stored never changes."""
        path = self.folder / "r.json"
        text = path.read_text() if path.exists() else ""
        if self._result and text != self._result:
            self.problems.append("the result changed")
        self._result = text

    def _judge(self, place: Place, left: dict[str, list[str]]) -> None:
        jobs, pods = place.made("jobs"), place.made("pods")
        if len(jobs) != 1 or len(pods) != 1:
            self.problems.append(f"{len(jobs)} Jobs, {len(pods)} pods")
        if left:
            self.problems.append(f"left over: {left}")
        result = json.loads(self._result) if self._result else {}
        if result.get("exitCode") != 0 or result.get("errorCode"):
            self.problems.append(f"the result: {result.get('errorCode')} {result.get('errorMessage')}")
        log = self.folder / "o.log"
        got = log.read_bytes() if log.exists() else b""
        wanted = place.printed(jobs[0]) if jobs else b""
        if got != wanted:
            self.problems.append(
                f"the log holds {len(got)} of {len(wanted)} bytes, as printed: {wanted.startswith(got)}"
            )
        if not self.deaths:
            self.problems.append("it was never killed")


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "PAPERCLIP", "XDG"))}
    return kept | {
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "KUBECONFIG": str(folder / "kubeconfig"),
        "PAPERCLIP_JOB_TEMPLATES": str(quick_templates()),
        "PYTHONPATH": str(ROOT),
    }


@cache
def quick_templates() -> Path:
    """Those of the shipped environment as JSON, which a program reads faster; with a digest, which policies ask for."""
    folder = Path(tempfile.mkdtemp(prefix="paperclip-templates-"))
    for path in sorted((ROOT / "dist/minimal/job-templates").glob("*.yaml")):
        text = json.dumps(yamlread.read(path.read_bytes(), path.name).value)
        text = text.replace("paperclip:sha-d554c47", "paperclip:sha-d554c47@sha256:" + "0" * 64)
        (folder / f"{path.stem}.json").write_text(text)
    return folder


async def _play_all(cases: Iterable[tuple[int, Point, str]], root: Path, at_once: int) -> list[Case]:
    slots, found = asyncio.Semaphore(at_once), []

    async def one(number: int, seed: int, point: Point, moment: str) -> None:
        async with slots:
            folder = root / f"{number}"
            folder.mkdir()
            case = Case(seed, point, moment, folder)
            found.append(case)
            await case.play()
            if not case.problems:
                shutil.rmtree(folder)

    async with asyncio.TaskGroup() as group:
        for number, case in enumerate(cases):
            group.create_task(one(number, *case))
    return found


def play(cases: Iterable[tuple[int, Point, str]], root: Path, *, at_once: int = 2) -> list[Case]:
    return asyncio.run(_play_all(cases, root, at_once))


def drawn(seed: int, points: Iterable[Point], seeds: int) -> Iterator[tuple[int, Point, str]]:
    """Cases, each with a seed of its own by which it can be played again."""
    for number, point in enumerate(points):
        for one in range(seed + number * seeds, seed + (number + 1) * seeds):
            yield one, point, random.Random(one).choice(MOMENTS)


def bad_cases(found: Iterable[Case]) -> list[str]:
    """Those that went wrong, told on stderr."""
    bad = [case for case in found if case.problems]
    for case in bad[:20]:
        sys.stderr.write(f"{case}: killed at {case.deaths}: {case.problems}: {case.folder}\n")
    return [str(case) for case in bad]


def _bad_of(cases: Iterable[tuple[int, Point, str]]) -> tuple[list[Case], list[str]]:
    """All, and those that went wrong, whose folders stay."""
    root = Path(tempfile.mkdtemp(prefix="paperclip-kills-"))
    found = play(cases, root, at_once=3)
    bad = bad_cases(found)
    if not bad:
        shutil.rmtree(root)
    return found, bad


def again(seed: int, only: int) -> list[str]:
    """One case of all those of a seed. ValueError where it has none of that number."""
    cases = [case for case in drawn(seed, POINTS, _SEEDS) if case[0] == only]
    if not cases:
        raise ValueError(f"the cases of seed {seed} are {seed} to {seed + len(POINTS) * _SEEDS - 1}")
    return _bad_of(cases)[1]


def figures(seed: int, *, full: bool = True) -> list[Figure]:
    """Each point 50 times; once where it is not `full`."""
    name, seeds = "kill -9", _SEEDS if full else 1
    found, bad = _bad_of(drawn(seed, POINTS, seeds))
    return [
        at_least(name, "named points", len(POINTS), 12),
        at_least(name, "launchers killed", sum(len(case.deaths) for case in found), len(POINTS) * seeds),
        exactly(name, "runs without one Job, one result, the whole log, nothing left", bad, []),
    ]
