"""Plays one script: servers with whole launchers on virtual time, their readers, and what befalls them."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from kubekit import yamlread
from paperclip_launcher import launcher, marks, podstate, runlog, sweep
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.transport import Request
from paperclip_launcher.errors import Detached, LauncherError, NotFoundRun, OwnedElsewhere
from paperclip_launcher.journal import MemoryJournal, Record
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.masking import Mask
from paperclip_launcher.outcome import RunResult
from paperclip_launcher.request import RunRequest
from paperclip_launcher.run import Run
from paperclip_launcher.settings import Settings
from paperclip_launcher.templates import Templates
from tests.fakeapi.cluster import NAMESPACE, FakeCluster
from tests.fakeapi.inprocess import FINE, InProcessTransport
from tests.fakeapi.loop import Process, VirtualLoop
from tests.fakeapi.model import Program, Refusal
from tests.fakeapi.store import Change
from tests.launcher.sim.invariants import Watcher
from tests.launcher.sim.script import Death, Freeze, Order, Script, Server, Trouble

_ROOT = Path(__file__).parents[3]
_LEASE = 30
_OPEN_CODES = frozenset({"k8s_run_owned_elsewhere", "k8s_job_state_mismatch"})
"""Results that say that the run goes on: the reader asks again."""
_MOST_ASKED = 40
_PATIENCE = 300_000.0
_SWEEPS = 300.0
_FOREVER = Death(back=None)
_REMEMBERED = 10_000
"""Masked texts."""


@cache
def templates() -> Templates:
    """Those of the shipped environment, with a short text in place of entry.sh: it would be most of the bytes."""
    folder = _ROOT / "dist/minimal/job-templates"
    trees: dict[str, Any] = {path.stem: yamlread.read(path.read_bytes(), path.name).value for path in folder.iterdir()}
    [container] = trees["claude"]["job"]["spec"]["template"]["spec"]["containers"]
    container["command"] = ["/bin/sh", "-c", "exec"]
    return Templates.of(trees)


class Remembering(Mask):
    """Masks a text once for all histories: the same few come again and again, and so do the secrets."""

    def __init__(self, values: Iterable[str | bytes] = ()) -> None:
        self._values: Counter[str | bytes] = Counter()
        super().__init__()
        self.add(*values)

    def add(self, *values: str | bytes) -> None:
        super().add(*values)
        self._values.update(values)
        self._texts = _masked(frozenset(+self._values))

    def forget(self, *values: str | bytes) -> None:
        super().forget(*values)
        self._values.subtract(values)
        self._texts = _masked(frozenset(+self._values))

    def text(self, text: str) -> str:
        known = self._texts.get(text)
        if known is None:
            if len(self._texts) > _REMEMBERED:
                self._texts.clear()
            known = self._texts[text] = super().text(text)
        return known


@cache
def _masked(_secrets: frozenset[str | bytes]) -> dict[str, str]:
    """What is known of texts while these are the secrets."""
    return {}


class Disk(MemoryJournal):
    """A journal of which a power loss takes what was not synced."""

    def __init__(self) -> None:
        super().__init__()
        self._safe: dict[str, str] = {}

    def write(self, record: Record, *, sync: bool = False) -> None:
        super().write(record, sync=sync)
        if sync:
            self._safe[record.key] = self._texts[record.key]

    def lose_power(self, rng: random.Random) -> None:
        for key in list(self._texts):
            if rng.random() < 0.5:
                continue
            if key in self._safe:
                self._texts[key] = self._safe[key]
            else:
                del self._texts[key]


class Wish:
    """One run as Paperclip has it: what lasts, whatever becomes of the launchers. A copy of its log a server."""

    def __init__(self, order: Order) -> None:
        self.order = order
        config = {"concurrency": order.policy, "waitSec": 60}
        if order.timeout:
            config |= {"timeoutSec": order.timeout, "graceSec": 1}
        if order.retain:
            config |= {"retainJobs": True, "ttlSecondsAfterFinished": 60}
        self.request = RunRequest.of(
            {
                "runId": order.run,
                "agent": {"id": order.agent, "companyId": "c", "name": "A", "adapterType": "claude_k8s"},
                "runtime": {},
                "config": config,
                "context": {"issueId": order.task} if order.task else {},
                "authToken": "token-of-the-run-0123456789",
            }
        )
        self.logs: dict[str, bytearray] = {}
        self.result: Mapping[str, Any] | None = None
        self.read = False
        """Whether its result was acknowledged."""
        self.settled = False
        self.cancelled = False
        """Asked for in time, so that it must win."""
        self.asked = 0
        self.holder = ""
        """The server that it was sent to after the first one had been given up."""
        self.busy: dict[str, Process] = {}
        self.taken: set[str] = set()
        """The servers that were told that another one has it."""
        self.job = ""
        self.complete = True

    def is_busy(self, server: str) -> bool:
        """Whether another server is at it now."""
        return any(one.alive for name, one in self.busy.items() if name != server)


class Reader:
    """A Sink that holds one server's copy of a log."""

    def __init__(self, world: World, wish: Wish, server: str, slow: float) -> None:
        self._world = world
        self._wish = wish
        self._log = wish.logs.setdefault(server, bytearray())
        self._slow = slow
        self._blind = wish.order.blind
        self.offset: int | None = None if wish.order.blind else len(self._log)

    async def log(self, data: bytes, offset: int) -> None:
        if self._slow:
            await asyncio.sleep(self._slow * self._world.random.random())
        begin, have = offset - len(data), len(self._log)
        if begin > have or (begin < have and not self._blind):
            self._world.watcher.wrong(f"{self._wish.order.run}: bytes {begin} to {offset} come after {have}")
        again = self._log[begin:offset]
        if not data.startswith(again):
            self._world.watcher.wrong(f"{self._wish.order.run}: bytes {begin} to {offset} come again, and differ")
        self._log += data[len(again) :]
        if self._slow:
            await asyncio.sleep(self._slow * self._world.random.random())

    async def note(self, kind: str, text: str) -> None:
        if self._world.trace is not None:
            self._world.say(f"{self._wish.order.run} {kind}: {text}")


class Host:
    """One server over all its lives."""

    def __init__(self, script: Server, twin: Host | None = None) -> None:
        self.script = script
        self.name = script.identity + ("'" if twin is not None else "")
        self.journal = twin.journal if twin is not None and script.shared else Disk()
        self.twin: Host | None = twin
        """The other process of the same identity."""
        self.freezes = [] if twin is not None else [*script.freezes]
        self.wishes: list[Wish] = []
        self.bell = asyncio.Event()
        self.launcher: Launcher | None = None
        self.process: Process | None = None
        self.transport: InProcessTransport | None = None
        self.leaving = False
        self.quits: Process | None = None
        """A life that is told to end in order."""
        self.died = asyncio.Event()
        self.gone = False
        self.gone_for_good = True
        self.given_up = False
        """Though it may be back."""


class World:
    """One history. `trace` is called with each line for people."""

    def __init__(self, script: Script, trace: Callable[[str], None] | None = None) -> None:
        self.script = script
        self.trace = trace
        self.random = random.Random(f"world {script.seed}")
        self.loop = VirtualLoop(script.seed, shuffle=script.shuffle, steps=150_000)
        self.cluster = FakeCluster(self.loop, script.seed, program_for=self._program, keep_trail=trace is not None)
        keys = {"metadata": {"name": "paperclip-agent-keys"}, "data": {"ANTHROPIC_API_KEY": "eA=="}}
        self.cluster.put("secrets", keys)
        self.cluster.knobs.present_secrets = frozenset({"paperclip-agent-keys"})
        self.wishes = {order.run: Wish(order) for order in script.orders}
        longest = max((one.seconds for server in script.servers for one in server.freezes), default=0.0)
        self.watcher = Watcher(self.cluster, self._policy, self._stoppable, _LEASE, longest)
        if any(order.program.end == "node-lost" for order in script.orders):
            self.cluster.knobs.node_eviction = self.random.choice((45.0, 300.0))
            self.cluster.knobs.deleted_node_pods_vanish = self.random.uniform(1.0, 400.0)
        if trace is not None:
            self.cluster.store.listeners.append(self._changed)
        self.hosts: list[Host] = []
        self._lives = 0
        self._full: dict[str, float] = {}
        self._change = asyncio.Event()

    def say(self, text: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.loop.time():10.3f}  {text}")

    def play(self) -> list[str]:
        """What was wrong; nothing, if all is well."""
        try:
            self.loop.run(self._main(), limit=_PATIENCE)
        except AssertionError as error:
            self.watcher.wrong(f"{type(error).__name__}: {error}")
        for problem in self.loop.problems:
            self.watcher.wrong(f"{problem.get('message')}: {problem.get('exception')!r}")
        return self.watcher.problems

    def _policy(self, run: str) -> str:
        wish = self.wishes.get(run)
        return wish.order.policy if wish is not None else "reattach"

    def _stoppable(self, run: str) -> bool:
        """Whether its launcher may want to end it early."""
        order = self.wishes[run].order if run in self.wishes else None
        return order is None or order.cancel is not None or order.timeout > 0

    def _program(self, job: Mapping[str, Any]) -> Program:
        wish = self.wishes.get(marks.annotation(dict(job), marks.RUN_ID))
        program = wish.order.program if wish is not None else Program()
        return replace(program, on_start=self.watcher.container_starts)

    def _changed(self, change: Change) -> None:
        resource, _, name = change.item.key
        if resource in ("jobs", "pods", "secrets"):
            tree = change.item.obj
            seen = (
                podstate.progress(None, tree)
                if resource == "pods"
                else podstate.terminal(tree)
                if resource == "jobs"
                else ""
            )
            self.say(f"    {change.actor}: {change.kind} {resource} {name} {seen}")

    # The whole.

    async def _main(self) -> None:
        self.hosts = [Host(server) for server in self.script.servers]
        for host in self.hosts:
            for freeze in host.freezes:
                if not freeze.call:
                    self.cluster.later("test", freeze.at, self._freeze, host, freeze.seconds)
        cancels: list[asyncio.Task[None]] = []
        for wish in list(self.wishes.values()):
            self.hosts[wish.order.server].wishes.append(wish)
            if wish.order.rival is not None:
                self.hosts[wish.order.rival].wishes.append(wish)
            if wish.order.cancel is not None:
                cancels.append(asyncio.create_task(self._cancel(wish)))
        for trouble in self.script.troubles:
            self.cluster.later("test", trouble.at, self._strike, trouble)
        lives = [asyncio.create_task(self._supervise(host)) for host in self.hosts]
        lives += [asyncio.create_task(self._overlap(host)) for host in self.hosts if host.script.twin_at is not None]
        while not all(wish.settled for wish in self.wishes.values()):
            self._change.clear()
            change = asyncio.create_task(self._change.wait())
            done, _ = await asyncio.wait({*lives, change}, return_when=asyncio.FIRST_COMPLETED)
            change.cancel()
            for life in done - {change}:
                life.result()
                lives.remove(life)
        self.say("all runs are settled")
        for host in self.hosts:
            host.leaving = True
            host.bell.set()
        await asyncio.gather(*lives)
        await self._clear_up()
        self._judge()

    def settle(self, wish: Wish) -> None:
        wish.settled = True
        self._change.set()

    async def _supervise(self, host: Host) -> None:
        """Life after life of one server."""
        deaths = [*host.script.deaths]
        while not host.leaving:
            death = deaths.pop(0) if deaths else None
            host.died.clear()
            host.quits = None
            task = self._begin_life(host, death)
            ended = asyncio.create_task(host.died.wait())
            await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            launcher, host.launcher = host.launcher, None
            if task.done() and not host.died.is_set():
                self._look_at(task)
                if launcher is not None and launcher.lost.is_set() and host.twin is not None:
                    self.say(f"server {host.name} has lost its identity")
                    host.leaving = True
                    for wish in host.wishes:
                        wish.busy.pop(host.name, None)
                    return
                quits = host.quits is not None and host.quits is host.process
                if death is not None and not quits:
                    deaths.insert(0, death)  # it never began
                await asyncio.sleep((quits and death is not None and death.back) or 1.0)
                continue
            if death is None:
                raise AssertionError("who dies has a death")
            self.say(f"server {host.script.identity} is dead: {death}")
            if death.wiped:
                self.watcher.untold |= {one.job_name for one in host.journal.records() if one.acknowledged}
                host.journal = Disk()
                self._forget_begun(host)
            elif death.power:
                host.journal.lose_power(self.random)
            if death.back is None:
                host.gone = True
                await self._take_over(host)
                return
            await asyncio.sleep(death.back)

    async def _overlap(self, host: Host) -> None:
        """The second process of a server: Paperclip speaks with it from now on, while the first one still runs."""
        await asyncio.sleep(host.script.twin_at or 0.0)
        if host.leaving:
            return
        twin = host.twin = Host(host.script, host)
        self.hosts.append(twin)
        for wish in host.wishes:
            if wish.settled:
                continue
            if not host.script.shared and (wish.order.cancel is not None or wish.order.timeout):
                self.watcher.forgotten.add(wish.order.run)  # the first one may be deleting it, and nobody knows
            # Who does not know what it has takes it from both.
            known = wish.logs.setdefault(host.name, bytearray())
            wish.logs[twin.name] = known if wish.order.blind else bytearray(known)
            wish.holder = twin.name
            twin.wishes.append(wish)
        await self._supervise(twin)

    def _forget_begun(self, host: Host) -> None:
        """Nobody can know of a run whose Job went unread and whose record is lost: it must not be asked for again."""
        self.watcher.forgotten |= {wish.order.run for wish in host.wishes if not wish.settled}
        for wish in host.wishes:
            job = self.cluster.get("jobs", self._job_of(wish))
            begun = self.watcher.started.get(wish.order.run) or wish.result is not None
            if begun and (job is None or marks.deleting(job)):
                self.settle(wish)

    def _look_at(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, LauncherError):
            raise AssertionError(f"a server ends by {type(error).__name__}: {error}") from error
        self.say(f"a life ends: {error or 'in order'}")

    def _begin_life(self, host: Host, death: Death | None) -> asyncio.Task[None]:
        self._lives += 1
        process = Process(f"{host.script.identity}/{self._lives}")
        host.process = process
        hooks = []
        if death is not None and death.call:
            hooks.append(self._killer(host, process, death))
        hooks += [self._freezer(host, freeze) for freeze in host.freezes if freeze.call]
        hook = (lambda *what: [one(*what) for one in hooks]) if hooks else None
        host.transport = InProcessTransport(
            self.cluster,
            self.script.faults,
            seed=self.script.seed + self._lives,
            user=process.name,
            process=process,
            hook=hook,
        )
        self.say(f"server {process.name} starts")
        if death is not None and not death.call:
            self.loop.call_later(death.at, self._leave if death.orderly else self._kill, host, process)
        return self.loop.spawn(self._life(host, process), process)

    def _killer(self, host: Host, process: Process, death: Death) -> Callable[[str, Request], None]:
        count = 0

        def hook(moment: str, request: Request) -> None:
            nonlocal count
            count += moment == "before"
            if count == death.call and moment == death.moment:
                self.say(f"{process.name} is killed {moment} {request.method} {request.path}")
                self._kill(host, process)

        return hook

    def _freezer(self, host: Host, freeze: Freeze) -> Callable[[str, Request], None]:
        count = 0

        def hook(moment: str, request: Request) -> None:
            nonlocal count
            if request.method == freeze.method and "/leases/paperclip-" not in request.path and freeze in host.freezes:
                count += moment == "before"
                if count == freeze.call and moment == freeze.moment:
                    host.freezes.remove(freeze)
                    self.say(f"{host.name} stands still {moment} {request.method} {request.path}")
                    self._freeze(host, freeze.seconds)

        return hook

    def _freeze(self, host: Host, seconds: float) -> None:
        process = host.process
        if process is None or not process.alive or process.frozen:
            return
        self.say(f"{host.name} stands still for {seconds:.1f} s")
        process.freeze()

        def thaw() -> None:
            self.say(f"{host.name} goes on")
            self.loop.thaw(process)

        self.cluster.later("test", seconds, thaw)
        if self.script.takeover and host is self.hosts[0]:
            self.cluster.later("test", 0.0, lambda: asyncio.ensure_future(self._second_server(), loop=self.loop))

    def _kill(self, host: Host, process: Process) -> None:
        if process.alive and host.process is process and host.transport is not None:
            host.transport.kill()
            host.died.set()

    def _leave(self, host: Host, process: Process) -> None:
        if host.process is process:
            host.quits = process
            host.bell.set()

    async def _take_over(self, dead: Host) -> None:
        """What becomes of the runs of a server that does not come back."""
        others = [host for host in self.hosts if not host.gone]
        self._forget_begun(dead)
        left = [wish for wish in dead.wishes if not wish.settled]
        for wish in left:
            if not dead.gone_for_good and self.cluster.get("jobs", self._job_of(wish)) is None:
                continue  # its server may still make the Job, however late
            wanted = wish
            if not others or not self.script.takeover or wish.result is not None:
                self.settle(wish)
                continue
            await asyncio.sleep(self.random.choice((0.5, 20.0, 60.0)) * self.random.random())
            others = [host for host in others if not host.gone]
            if not others:
                self.settle(wish)
                continue
            other = self.random.choice(others)
            if self.script.takeover == "same":
                self.say(f"{wish.order.run} is sent to {other.script.identity}")
                wish.logs[other.name] = bytearray(wish.logs.get(dead.name, b""))
            else:
                self.settle(wish)
                wanted = self._next_wake(wish)
            wanted.holder = other.name
            other.wishes.append(wanted)
            other.bell.set()

    def _next_wake(self, wish: Wish) -> Wish:
        run = f"{wish.order.run}-wake"
        self.say(f"{run} is wanted")
        order = replace(wish.order, run=run, policy="reattach", cancel=None, at=0.0, retain=False, rival=None)
        self.wishes[run] = Wish(order)
        return self.wishes[run]

    # One life of one server.

    async def _life(self, host: Host, process: Process) -> None:
        rng = random.Random(f"{self.script.seed} {process.name}")
        settings = Settings(NAMESPACE, host.script.identity, lease_seconds=_LEASE)
        skew = host.script.skew
        transport = host.transport
        assert transport is not None
        cluster = Cluster(transport, NAMESPACE, rng=rng)
        launcher = Launcher(cluster, settings, templates(), journal=host.journal, clock=_Clock(self, skew), rng=rng)
        launcher.judge = None
        begun: set[str] = set()
        tasks: list[asyncio.Task[None]] = []
        async with launcher:
            host.launcher = launcher
            tasks.append(asyncio.create_task(self._clear_now_and_then(launcher)))
            while not (host.leaving or host.quits is process or launcher.lost.is_set()):
                for wish in host.wishes:
                    if wish.order.run not in begun and not wish.settled:
                        begun.add(wish.order.run)
                        tasks.append(asyncio.create_task(self._want(host, launcher, wish, process)))
                        tasks[-1].add_done_callback(self._watch_reader)
                host.bell.clear()
                await host.bell.wait()
            if all(wish.settled for wish in host.wishes):
                await self._let_end(launcher)
        for task in tasks:
            task.cancel()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(error, Exception):
                self.watcher.wrong(f"a reader ends by {type(error).__name__}: {error}")

    @staticmethod
    async def _clear_now_and_then(launcher: Launcher) -> None:
        """As `serve` does it."""
        await sweep.sweep(launcher, begun=False)
        while True:
            await asyncio.sleep(_SWEEPS)
            await sweep.sweep(launcher)

    async def _let_end(self, launcher: Launcher) -> None:
        for _ in range(800):
            await asyncio.sleep(1.0)
            if not launcher.runs:
                return
        self.watcher.wrong(f"these do not end: {dict(launcher.describe_runs())}")

    def _watch_reader(self, task: asyncio.Task[None]) -> None:
        """A reader that fails would leave its run unsettled for ever."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.watcher.wrong(f"a reader ends by {type(error).__name__}: {error}")
            for wish in self.wishes.values():
                self.settle(wish)

    async def _want(self, host: Host, launcher: Launcher, wish: Wish, process: Process) -> None:
        """One reader: asks for the run until it has its result."""
        order, name = wish.order, host.name
        rival = order.rival is not None and host is self.hosts[order.rival]
        await asyncio.sleep(max(0.0, (order.rival_at if rival else order.at) - self.loop.time()))
        while not wish.settled:
            wish.busy[name] = process
            try:
                run = await self._ask(launcher, wish, Reader(self, wish, name, host.script.reader))
                if run is None:
                    del wish.busy[name]
                    await self._ask_again(wish, "k8s_run_owned_elsewhere", "as it is attached to")
                    continue
                result = await run.result
            except Detached:
                host.bell.set()
                return
            except LauncherError as error:
                self.watcher.wrong(f"{order.run}: {error}")
                self.settle(wish)
                return
            self.say(f"{order.run}: {result.code or 'success'} {result.error_message or ''}")
            if result.code in _OPEN_CODES:
                del wish.busy[name]
                run.acknowledge()
                if result.code == "k8s_run_owned_elsewhere":
                    wish.taken.add(name)
                await self._ask_again(wish, result.code, result.error_message or "")
                continue
            while wish.holder not in ("", name) and wish.is_busy(name):  # noqa: ASYNC110  virtual time
                await asyncio.sleep(1.0)  # Paperclip takes no word from a server while another one has the run
            if not wish.settled:
                self._accept(wish, run, result, name)
            await asyncio.sleep(self.random.choice((0.0, 0.0, 0.3)))
            self.watcher.told.add(run.record.job_name)
            run.acknowledge()
            wish.busy.pop(name, None)
            wish.read = True
            self.settle(wish)

    async def _ask(self, launcher: Launcher, wish: Wish, reader: Reader) -> Run | None:
        """None where another launcher, which is alive, has the run."""
        order = wish.order
        if order.attach and self.watcher.started.get(order.run):
            try:
                return await launcher.attach(order.run, reader)
            except NotFoundRun:
                pass
            except OwnedElsewhere:
                return None
        return await launcher.begin(wish.request, reader)

    async def _ask_again(self, wish: Wish, code: str, message: str) -> None:
        wish.asked += 1
        adopted = [job for job in self.cluster.objects("jobs") if marks.annotation(job, marks.ADOPTED_BY)]
        mine = {marks.annotation(job, marks.RUN_ID) for job in adopted}
        if code == "k8s_run_owned_elsewhere" and (wish.order.rival is not None or wish.order.run in mine):
            if wish.order.run in mine:
                self.settle(wish)
            await asyncio.sleep(3600.0 if wish.order.run not in mine else 0.0)
        elif wish.asked > _MOST_ASKED:
            self.watcher.wrong(f"{wish.order.run}: still {code} after {wish.asked} times: {message}")
            self.settle(wish)
        else:
            await asyncio.sleep(self.random.uniform(2.0, 20.0))

    def _accept(self, wish: Wish, run: Run, result: RunResult, server: str) -> None:
        tree = result.to_json()
        if wish.result is not None:
            self.watcher.check_again(wish.order.run, wish.result, tree, taken=server in wish.taken)
            return
        wish.result = tree
        wish.job = run.record.job_name
        wish.complete = run.log.complete
        self._check_log(wish, bytes(wish.logs.get(server, b"")))
        if wish.cancelled and result.code != "cancelled":
            self.watcher.wrong(f"{wish.order.run} was cancelled, and ends as {result.code or 'success'}")

    # What befalls them.

    async def _cancel(self, wish: Wish) -> None:
        order = wish.order
        assert order.cancel is not None
        await asyncio.sleep(max(0.0, order.at + order.cancel.at - self.loop.time()))
        first = self.hosts[order.cancel.by]
        own = first is self.hosts[order.server]
        while not wish.settled and not first.gone:
            host = first.twin if first.twin is not None and not first.twin.leaving else first
            launcher = host.launcher
            if launcher is not None and host.process is not None and not host.process.frozen:
                found = [run for run in launcher.runs.values() if run.run_id == order.run]
                if found or not own:
                    open_still = bool(found) and found[0].record.result is None and found[0].plan is not None
                    try:
                        told = await launcher.cancel(order.run)
                    except LauncherError as error:
                        self.say(f"no cancel: {error}")
                    else:
                        self.say(f"{order.run} is cancelled by {host.script.identity}: {told}")
                        wiped = any(death.wiped for death in self.hosts[order.server].script.deaths)
                        # Of two processes without a common disk either may be the one that goes on.
                        alone = host.script.twin_at is None or host.script.shared
                        sure = not wiped and not self.script.takeover and alone
                        wish.cancelled = told and open_still and sure
                        if told:
                            return
            await asyncio.sleep(0.7)

    def _strike(self, trouble: Trouble) -> None:
        self.say(f"trouble: {trouble}")
        cluster, kind = self.cluster, trouble.kind
        if kind in ("api-restart", "compact"):
            cluster.restart(trouble.seconds, compact=kind == "compact")
        elif kind.startswith("cut-off"):
            for host in self.hosts:
                if host.script.identity == trouble.target and host.transport is not None:
                    host.transport.cut_off(trouble.seconds, silently=kind == "cut-off-silently")
            if self.script.takeover and not any(server.deaths for server in self.script.servers[:1]):
                self.loop.call_later(0.0, lambda: asyncio.ensure_future(self._second_server(), loop=self.loop))
        elif kind in ("delete-job", "delete-pod"):
            resource = f"{kind.removeprefix('delete-')}s"
            for one in cluster.objects(resource)[:1]:
                cluster.remove(resource, marks.name(one))
        else:
            resource = "secrets" if kind == "refuse-secrets" else trouble.target
            self._full[resource] = self.loop.time() + trouble.seconds
            cluster.knobs.admit = self._admit

    def _admit(self, resource: str, tree: Mapping[str, Any]) -> Refusal | None:
        if self.loop.time() >= self._full.get(resource, 0.0):
            return None
        text = (
            f'{resource} "x" is forbidden: exceeded quota: agents, requested: count/{resource}=1, used: 1, limited: 1'
        )
        return Refusal(403, "Forbidden", text)

    async def _second_server(self) -> None:
        """Paperclip gives the cut-off server up and sends its runs to the next one."""
        first = self.hosts[0]
        if first.given_up:
            return
        first.given_up = True
        await asyncio.sleep(self.random.choice((1.0, 40.0)) * self.random.random())
        first.gone, first.gone_for_good = True, False
        await self._take_over(first)
        first.gone = False

    # The end.

    async def _clear_up(self) -> None:
        """Time for the garbage collector; then a sweep, if something is there that only a sweep clears away."""
        await asyncio.sleep(30.0)
        if not self.cluster.objects("jobs") and len(self.cluster.objects("leases")) == 0:
            return
        await asyncio.sleep(90_000.0 if self._dead_leases() else 1000.0)
        for host in self.hosts:
            name = host.script.identity
            transport = InProcessTransport(self.cluster, FINE, seed=1, user=f"{name}/0")
            rng = random.Random(1)
            cluster, clock = Cluster(transport, NAMESPACE, rng=rng), _Clock(self, 0)
            settings = Settings(NAMESPACE, name, lease_seconds=_LEASE)
            async with Launcher(cluster, settings, None, journal=host.journal, clock=clock, rng=rng) as launcher:
                self.say(f"swept by {name}: {await sweep.sweep(launcher)}")
        await asyncio.sleep(30.0)

    def _dead_leases(self) -> bool:
        return any(marks.name(one).startswith("paperclip-launcher-") for one in self.cluster.objects("leases"))

    def _judge(self) -> None:
        unread = {self._job_of(wish) for wish in self.wishes.values() if not wish.read}
        self.watcher.check_end(unread)
        for wish in self.wishes.values():
            if wish.result is not None:
                self._check_result(wish, wish.result)

    def _job_of(self, wish: Wish) -> str:
        from kubekit.names import job_name

        return job_name(wish.order.agent, wish.order.run)

    def _check_result(self, wish: Wish, result: Mapping[str, Any]) -> None:
        run, code = wish.order.run, str(result.get("errorCode") or "")
        origin = next((other for other in self.wishes.values() if self._job_of(other) == wish.job), wish)
        ran = self.watcher.started.get(origin.order.run, [])
        known = origin is wish and origin.order.run not in self.watcher.forgotten
        if result.get("executionRecovery") and ran and known:
            self.watcher.wrong(f"{run}: {code} says that nothing was started, and its container was")
        if not code and not ran:
            self.watcher.wrong(f"{run}: success without a container")
        unread = not wish.complete and self.script.faults is not FINE  # the time for its rest may run out
        server = self.script.servers[origin.order.server]
        meant = _meant(origin.order)
        if wish.holder and not (server.twin_at is not None and server.shared):
            meant.add("k8s_job_deleted_externally")  # it does not know why the first server was stopping the run
        if code not in meant and not unread and self._undisturbed(origin) and origin is wish:
            self.watcher.wrong(
                f"{run}: {code or 'success'} in place of {origin.order.code or 'success'}: {result.get('errorMessage')}"
            )

    def _undisturbed(self, wish: Wish) -> bool:
        order = wish.order
        alone = [other for other in self.wishes.values() if other.order.agent == order.agent] == [wish]
        struck = {one.kind for one in self.script.troubles}
        return (
            alone
            and order.cancel is None
            and not order.timeout
            and order.run not in self.watcher.disturbed
            and not struck & {"refuse-secrets"}
        )

    def _check_log(self, wish: Wish, got: bytes) -> None:
        printed = b"".join(line + b"\n" for line in self.cluster.printed(wish.job))
        run = wish.order.run
        if run in self.watcher.forgotten:
            return
        if not printed.startswith(got):
            at = next((n for n, (a, b) in enumerate(zip(got, printed, strict=False)) if a != b), len(printed))
            self.watcher.wrong(
                f"{run}: the log differs from byte {at} on: {got[at : at + 60]!r} for {printed[at : at + 60]!r}"
            )
        elif wish.complete and got != printed:
            self.watcher.wrong(f"{run}: {len(printed) - len(got)} bytes of the log are missing, and nobody says so")
        elif not wish.complete and self.script.calm and self._ends_by_itself(wish.order):
            self.watcher.wrong(f"{run}: the log is said to be incomplete, and nothing stood in the way")

    @staticmethod
    def _ends_by_itself(order: Order) -> bool:
        return order.program.end in ("exit", "oom") and order.cancel is None and not order.timeout


def _meant(order: Order) -> set[str]:
    """What else the same end may be called, by how much the agent had said or the cluster has told."""
    code = order.code
    if order.program.end == "node-lost":
        return {code, "k8s_node_lost", "k8s_pod_evicted"}
    return {code, "claude_init_failed", "claude_truncated"} if code == "agent_exit_nonzero" else {code}


class _Clock:
    def __init__(self, world: World, skew: float) -> None:
        self._world = world
        self._skew = skew

    def now(self) -> float:
        return self._world.cluster.store.epoch + self._world.loop.time() + self._skew


class _Complaints(logging.Handler):
    """Errors that the launcher logs are problems of the history; with a trace, all that it says is in it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.DEBUG if world.trace is not None else logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.name.removeprefix('paperclip_launcher.')}: {record.getMessage()}"
        self._world.say(text)
        if record.levelno >= logging.ERROR:
            error = record.exc_info[1] if record.exc_info else None
            self._world.watcher.wrong(f"logged as an error: {text} {error!r}")


def play(script: Script, trace: Callable[[str], None] | None = None) -> list[str]:
    """Plays it: what was wrong."""
    world = World(script, trace)
    log = logging.getLogger("paperclip_launcher")
    handler = _Complaints(world)
    level, spread, handlers = log.level, log.propagate, log.handlers
    # What a dead launcher was waiting for only holds itself: Python must not clear it away before the history is over.
    collecting = gc.isenabled()
    gc.disable()
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.DEBUG if trace is not None else logging.ERROR)
    launcher.Mask = runlog.Mask = Remembering
    try:
        return world.play()
    finally:
        launcher.Mask = runlog.Mask = Mask
        log.setLevel(level)
        log.handlers, log.propagate = handlers, spread
        if collecting:
            gc.enable()
