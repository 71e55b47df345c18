"""Two launchers that want the same at the same moment: one Job, one container, whoever wins.

In one set of races a seed decides which callback comes next and how long each call takes: every race has a cluster and
launchers of its own, on virtual time. In the other two launchers race on real sockets, where the machine decides.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paperclip_launcher import marks
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.errors import LauncherError
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.outcome import RunResult
from paperclip_launcher.request import RunRequest
from paperclip_launcher.settings import Settings
from tests.fakeapi.cluster import NAMESPACE, FakeCluster
from tests.fakeapi.faults import Faults
from tests.fakeapi.inprocess import InProcessTransport
from tests.fakeapi.loop import LoopClock, Process, VirtualLoop
from tests.fakeapi.model import Program
from tests.faults.place import KEYS, Place, Reader, agent, quick, request, until
from tests.faults.table import Figure, at_least, exactly
from tests.launcher.sim import world

RUN, AGENT, TURNS = "one run", "two runs of an agent", "two runs that wait"
KINDS = (RUN, AGENT, TURNS)
LOST = {RUN: "k8s_run_owned_elsewhere", AGENT: "k8s_concurrent_run_blocked", TURNS: "k8s_concurrent_run_blocked"}
"""How the loser is told. Of two that wait, one that has created its Job in vain is told so, and may try again."""
_POLICIES = {RUN: ("reattach", "fail", "wait", "allow"), AGENT: ("reattach", "fail"), TURNS: ("wait",)}
_APART = (0.0, 0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
"""Seconds between the two at most: from one instant to after the winner's container has started."""
_SHAKY = Faults(latency=(0.0005, 0.02), broken=0.05, slow=0.05, slow_seconds=1.0, until=30.0)
"""Answers are lost after their effect, and effects come late: the sender tries again."""
_SPEED = 5.0
_RENEW = 1.0
"""Seconds: launchers must know each other for alive while the program of a race still runs."""


@dataclass
class Race:
    """One seed of one kind. `problems` is empty where all went well."""

    seed: int
    kind: str
    problems: list[str] = field(default_factory=list)
    started: Counter[str] = field(default_factory=Counter)
    """Containers by run."""
    codes: list[str] = field(default_factory=list)
    tidy: bool = True
    """Whether no request is lost: one that arrives late may leave something that only its own time ends."""

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed} {self.kind}")
        self.policy = self.random.choice(_POLICIES[self.kind])
        self._pods: list[str] = []

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.kind}, {self.policy}"

    def requests(self) -> tuple[RunRequest, RunRequest]:
        """Of an agent of the race's own."""
        of, config = f"agent-{self.seed}", {"concurrency": self.policy, "waitSec": 600}
        if self.kind == RUN:
            return request(f"run-{self.seed}", of, **config), request(f"run-{self.seed}", of, **config)
        tasks = ("T-1", self.random.choice(("T-1", "T-2")))
        first, second = (request(f"run-{self.seed}-{n}", of, task=task, **config) for n, task in enumerate(tasks))
        return first, second

    def container_starts(self, pod: Mapping[str, Any], cluster: FakeCluster) -> None:
        for other in self._pods:
            container = cluster.kubelet.container(other)
            if container is not None and container.state == "running":
                self.problems.append(f"two containers at once, at {cluster.loop.time():.3f} s")
        self._pods.append(marks.uid(dict(pod)))
        self.started[marks.annotation(dict(pod), marks.RUN_ID)] += 1

    async def both(self, launchers: Iterable[Launcher]) -> None:
        """The race itself."""
        apart = self.random.choice(_APART)
        async with asyncio.TaskGroup() as group:
            for launcher, asked in zip(launchers, self.requests(), strict=True):
                group.create_task(self._one_side(launcher, asked, apart * self.random.random()))

    async def _one_side(self, launcher: Launcher, asked: RunRequest, later: float) -> None:
        await asyncio.sleep(later)
        run = await launcher.begin(asked, Reader())
        try:
            result: RunResult = await run.result
        except LauncherError as error:
            self.problems.append(f"{type(error).__name__}: {error}")
            return
        self.codes.append(result.code)
        if self.kind != RUN and result.code and not result.to_json().get("executionRecovery"):
            self.problems.append(f"{result.code} may not be tried again")
        run.acknowledge()
        await until(lambda: run.own_key not in launcher.runs)

    def judge(self, jobs: Iterable[str], left: Mapping[str, list[str]]) -> None:
        """`jobs` are all that were ever made for the race, `left` is what is still there."""
        wins, lost = self.codes.count(""), self.codes.count(LOST[self.kind])
        if wins + lost != 2 or not (wins == 1 or (wins == 2 and self.kind == TURNS)):
            self.problems.append(f"results: {self.codes}")
        if self.started.total() != wins or set(self.started.values()) != {1}:
            self.problems.append(f"{dict(self.started)} containers")
        made = Counter(jobs)
        # One that waits for its turn may have given up a Job before it could start.
        if len(made) > (1 if self.kind == RUN else 2) or made.total() > len(made) + (self.kind == TURNS):
            self.problems.append(f"Jobs: {dict(made)}")
        if self.tidy and left:
            self.problems.append(f"left over: {left}")


# On virtual time.


def virtual(seed: int, kind: str) -> Race:
    """One race, the same each time."""
    race = Race(seed, kind)
    faults = race.random.choice((_SHAKY, Faults(latency=(0.0, 0.0)), Faults(latency=(0.0005, 0.005))))
    race.tidy = faults is not _SHAKY
    loop = VirtualLoop(seed, shuffle=True)
    program = agent(b"{}", b"{}", every=15.0)
    cluster = FakeCluster(loop, seed)
    cluster.knobs.present_secrets = frozenset({KEYS})
    cluster.program_for = lambda _: replace(program, on_start=lambda pod: race.container_starts(pod, cluster))

    async def scene() -> None:
        async with _launcher(race, cluster, "one", faults) as one, _launcher(race, cluster, "two", faults) as two:
            await race.both((one, two))
        await asyncio.sleep(120.0)
        race.judge(() if not race.tidy else _made(cluster), _left(cluster))

    try:
        loop.run(scene(), limit=7200.0)
    except* (AssertionError, LauncherError, TimeoutError) as errors:
        race.problems += [f"{type(error).__name__}: {error}" for error in errors.exceptions]
    race.problems += [str(one) for one in loop.problems]
    return race


def _launcher(race: Race, cluster: FakeCluster, identity: str, faults: Faults) -> Launcher:
    process = Process(f"{identity}/1")
    transport = InProcessTransport(cluster, faults, seed=race.seed + len(identity), user=process.name)
    rng = random.Random(f"{race.seed} {identity}")
    talker, clock = Cluster(transport, NAMESPACE, rng=rng), LoopClock(cluster.loop)
    found = Launcher(talker, Settings(NAMESPACE, identity), world.templates(), clock=clock, rng=rng)
    found.judge = None  # policies say the same of all these Jobs
    return found


def _made(cluster: FakeCluster) -> list[str]:
    changes = cluster.store.changes
    return [one.item.key[2] for one in changes if one.kind == "ADDED" and one.item.key[0] == "jobs"]


def _left(cluster: FakeCluster) -> dict[str, list[str]]:
    kinds = ("jobs", "pods", "secrets", "leases")
    found = {kind: [marks.name(one) for one in cluster.objects(kind)] for kind in kinds}
    return {kind: names for kind, names in found.items() if names}


# On sockets.


async def _on_sockets(seeds: Sequence[int], kind: str, at_once: int) -> list[Race]:
    """All of one cluster, and of two launchers that live as long as it does."""
    races = {f"agent-{seed}": Race(seed, kind) for seed in seeds}

    def program_for(job: Mapping[str, Any]) -> Program:
        race = races[marks.annotation(dict(job), marks.AGENT_ID)]
        return replace(program, on_start=lambda pod: race.container_starts(pod, place.cluster))

    program, slots = agent(b"{}", b"{}", every=1.0), asyncio.Semaphore(at_once)
    async with Place(program_for, seed=seeds[0]) as place:
        async with (
            place.launcher("one", renew_seconds=_RENEW) as one,
            place.launcher("two", renew_seconds=_RENEW) as two,
        ):

            async def play(race: Race) -> None:
                async with slots:
                    await race.both((one, two) if race.seed % 2 else (two, one))

            async with asyncio.TaskGroup() as group:
                for race in races.values():
                    group.create_task(play(race))
        left = await place.cleared()
    made: dict[str, list[str]] = {of: [] for of in races}
    for change in place.cluster.store.changes:
        if change.kind == "ADDED" and change.item.key[0] == "jobs":
            made[marks.annotation(change.item.obj, marks.AGENT_ID)].append(change.item.key[2])
    for of, race in races.items():
        race.judge(made[of], left)
    return list(races.values())


def on_sockets(seeds: Sequence[int], kind: str, *, at_once: int = 16) -> list[Race]:
    """`at_once` of them side by side."""
    found: list[Race] = quick(_on_sockets(seeds, kind, at_once), _SPEED)
    return found


# All of them.


def bad_races(found: Iterable[Race]) -> list[str]:
    """Those that went wrong, told on stderr."""
    bad = [race for race in found if race.problems]
    for race in bad[:20]:
        sys.stderr.write(f"{race}: {race.problems}\n")
    return [str(race) for race in bad]


def again(_: int, only: int) -> list[str]:
    """The races of one seed, of each kind and in both ways."""
    return bad_races(race for kind in KINDS for race in (virtual(only, kind), *on_sockets([only], kind)))


def _figures(how: str, kind: str, races: Sequence[Race], many: int) -> list[Figure]:
    started, wins = sum(race.started.total() for race in races), sum(race.codes.count("") for race in races)
    name, about = "races", f"{kind}, {how}"
    found = [at_least(name, f"{about}: races", len(races), many)]
    if kind == TURNS:
        found.append(exactly(name, f"{about}: containers, one a run that was not turned away", started, wins))
    else:
        found.append(exactly(name, f"{about}: containers", started, many))
    found.append(exactly(name, f"{about}: races that went wrong", bad_races(races), []))
    return found


def figures(seed: int, *, full: bool = True) -> list[Figure]:
    """1,000 races of each kind on virtual time and 1,000 on sockets; a twentieth where it is not `full`."""
    found: list[Figure] = []
    many = 1000 if full else 50
    seeds = range(seed, seed + many)
    for kind in KINDS:
        found += _figures("virtual time", kind, [virtual(one, kind) for one in seeds], many)
        found += _figures("sockets", kind, on_sockets(seeds, kind), many)
    return found
