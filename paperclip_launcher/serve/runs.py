"""The methods run.*: clients come and go, runs go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paperclip_launcher import podstate
from paperclip_launcher.clock import rfc3339
from paperclip_launcher.errors import LauncherError, NotFoundRun
from paperclip_launcher.launcher import Launcher, dialect_of
from paperclip_launcher.lifecycle import Phase
from paperclip_launcher.neighbours import Alive
from paperclip_launcher.options import RunOptions
from paperclip_launcher.outcome import RunResult
from paperclip_launcher.provision import Provision, Stock, is_wanted, provide
from paperclip_launcher.request import RunRequest
from paperclip_launcher.run import Run
from paperclip_launcher.serve import failures
from paperclip_launcher.serve.messages import LAUNCHER_ERROR, RpcError
from paperclip_launcher.serve.params import Params
from paperclip_launcher.serve.peer import Peer
from paperclip_launcher.serve.reader import LEFT, REPLACED, TOO_SLOW, Nobody, Reader

_LOG = logging.getLogger(__name__)
_RETURN_SECONDS = 30.0
"""For so long a client that was lost may come back before its run counts as left over."""
_CANCEL_SECONDS = 55.0
"""Paperclip waits 60 s for a cancellation to be acknowledged."""
_LOOK_AGAIN = 0.25
_WHY = {
    REPLACED: "another client reads this run now",
    TOO_SLOW: "the client did not acknowledge the log in time",
    LEFT: "the client has left this run",
}


_NOT_KNOWN = 6
"""RunResult.exit of a run of which it is not known how it stands."""
_UNKNOWN: dict[str, Any] = {"state": "unknown", "acknowledgedAt": None, "forced": False}
HALF_MADE = frozenset({Phase.ADMITTED, Phase.CREATED, Phase.LOCKED})
"""A run that is left here has a Job that cannot start, or may have one; only its request can go on with it."""


@dataclass(frozen=True)
class _Seat:
    """Who reads a run."""

    reader: Reader
    peer: Peer


@dataclass
class _Preparing:
    """`requests` are those that want the run to begin now."""

    requests: int = 0
    cancelled: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Runs:
    """What clients do with runs. Of several clients of one run the last one reads it."""

    def __init__(self, launcher: Launcher, stock: Stock) -> None:
        self._launcher = launcher
        self._stock = stock
        self._seats: dict[str, _Seat] = {}
        """By run id: of the last client, which may be gone since."""
        self._preparing: dict[str, _Preparing] = {}
        """Runs that have not begun yet, by run id."""

    # The methods.

    async def execute(self, peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
        params = Params(tree)
        context, offset = params.tree("context"), params.whole("offset", 0)
        params.check()
        secrets = _secrets(context)
        self._launcher.mask.add(*secrets)
        try:
            return await self._execute(peer, context, offset)
        except LauncherError as error:
            found = failures.error_of(error, self._launcher.mask)
            result = failures.as_result(found)
            raise RpcError(
                found.code, found.message, {**found.data, **({"result": result} if result else {})}
            ) from None
        finally:
            self._launcher.mask.forget(*secrets)

    async def attach(self, peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
        params = Params(tree)
        run_id, offset = params.text("runId"), params.whole("offset", 0)
        params.check()
        reader = self._read(peer, run_id, offset)
        try:
            run = await self._launcher.attach(run_id, reader)
        except BaseException:
            self._forget(reader)
            raise
        return await self._result(run, reader)

    def ack(self, _peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
        params = Params(tree)
        run_id, offset = params.text("runId"), params.whole("offset")
        params.check()
        seat = self._seats.get(run_id)
        if seat is not None:
            seat.reader.take_acknowledgement(offset)
        return {}

    def leave(self, peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
        """The client will not come back: the run goes on, and the next one of its task takes it over at once."""
        params = Params(tree)
        run_id = params.text("runId")
        params.check()
        seat = self._seats.get(run_id)
        if seat is not None and seat.peer is peer:
            seat.reader.detach(LEFT)
        return {}

    def acknowledge(self, _peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
        """The client has stored the result. What this says is on disk already."""
        params = Params(tree)
        run_id = params.text("runId")
        params.check()
        run = self._driven(run_id)
        if run is None:
            return {"acknowledged": self._acknowledge_record(run_id)}
        if not run.result.done():
            data = {"code": "no_result", "problems": [], "remedy": "wait for the answer of run.execute or run.attach"}
            raise RpcError(LAUNCHER_ERROR, f"run {run_id} has no result yet", data)
        run.acknowledge()
        self._leave(run_id)
        return {"acknowledged": True}

    async def cancel(self, _peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Answers when the agent is proven gone, or when that takes too long."""
        params = Params(tree)
        run_id = params.text("runId")
        params.check()
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                if run_id in self._preparing:
                    self._preparing[run_id].cancelled = True
                elif not await self._ask_for_end(run_id):
                    raise NotFoundRun(f"no run {run_id} is alive in {self._launcher.settings.namespace}")
                forced = await self._ended(run_id)
        except TimeoutError:
            return _UNKNOWN
        if forced is None:
            return _UNKNOWN
        return {"state": "acknowledged", "acknowledgedAt": rfc3339(self._launcher.clock.now()), "forced": forced}

    async def forget_the_left(self, seconds: float) -> None:
        """Runs that have waited so long for a client to come back are no longer driven; whoever comes finds them."""
        now = asyncio.get_running_loop().time()
        for run_id, seat in list(self._seats.items()):
            run = self._driven(run_id)
            if run is None:
                if seat.reader.gone.done():
                    self._leave(run_id)
            elif run.phase is Phase.STORED and seat.reader.gone.done() and now - seat.reader.detached_at >= seconds:
                await self._launcher.let_go(run)

    # How.

    async def _execute(self, peer: Peer, context: Mapping[str, Any], offset: int) -> dict[str, Any]:
        request = RunRequest.of(context)
        reader = self._read(peer, request.run_id, offset)
        preparing = self._preparing.setdefault(request.run_id, _Preparing())
        preparing.requests += 1
        try:
            await self._make_way(peer, request)
            provision = await self._provide(request)
            for text in provision.notes:
                await reader.note("warning", self._launcher.mask.text(text))
            run = await self._launcher.begin(request, reader, bundle=provision.bundle, extras=provision.extras)
            if preparing.cancelled:
                run.cancel()
        except BaseException:
            self._forget(reader)
            raise
        finally:
            preparing.requests -= 1
            if not preparing.requests:
                del self._preparing[request.run_id]
                preparing.done.set()
        return await self._result(run, reader)

    def _read(self, peer: Peer, run_id: str, offset: int) -> Reader:
        """The client reads the run from now on, and nobody else."""
        before = self._seats.get(run_id)
        if before is not None:
            before.reader.detach(REPLACED)
            self._leave(run_id)
        reader = Reader(run_id, offset, peer.notify, peer.room)
        self._seats[run_id] = _Seat(reader, peer)
        peer.closing.add(reader.lose)
        return reader

    def _leave(self, run_id: str) -> None:
        seat = self._seats.pop(run_id, None)
        if seat is not None:
            seat.peer.closing.discard(seat.reader.lose)

    def _forget(self, reader: Reader) -> None:
        """The run has not begun, or is not to be had."""
        reader.detach("failed")
        seat = self._seats.get(reader.run_id)
        if seat is not None and seat.reader is reader:
            self._leave(reader.run_id)

    async def _result(self, run: Run, reader: Reader) -> dict[str, Any]:
        """Waits for it, or for the end of the client's part in it."""
        result = run.result
        waits: set[asyncio.Future[Any]] = {result, reader.gone}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if reader.gone.done():
            reason = reader.gone.result()
            raise failures.gone(reason, _WHY.get(reason, "the client does not read this run any more"))
        reader.flush()
        found: RunResult = result.result()
        return {
            "runId": reader.run_id,
            "jobName": run.record.job_name,
            "offset": reader.offset,
            "exit": found.exit,
            "result": found.to_json(),
        }

    async def _make_way(self, peer: Peer, request: RunRequest) -> None:
        """Another run of the agent whose client has not come back is let go of: to this one it is a left-over.

        So is this very run where somebody attached to it, and it lacks the Secrets that only the request can make.
        """
        own = self._driven(request.run_id)
        if own is not None and own.plan is None and not own.ever_started():
            await self._launcher.let_go(own)
        for run in list(self._launcher.runs.values()):
            if run.agent_id == request.agent_id and run.run_id != request.run_id:
                await self._let_go_of_left(run, peer)

    async def _let_go_of_left(self, run: Run, peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        while self._launcher.runs.get(run.own_key) is run:
            seat = self._seats.get(run.run_id)
            if seat is None or not seat.reader.gone.done():
                return
            gone_for_good = seat.reader.gone.result() == LEFT or _is_next_life(peer, seat.peer)
            left = 0.0 if gone_for_good else seat.reader.detached_at + _RETURN_SECONDS - loop.time()
            if left <= 0 and run.phase not in HALF_MADE:
                _LOG.info("run %s has no client any more: it is left over", run.run_id)
                await self._launcher.let_go(run)
            else:
                await asyncio.sleep(max(0.1, min(left, 1.0)))

    async def _provide(self, request: RunRequest) -> Provision:
        launcher = self._launcher
        if launcher.templates is None:
            return Provision()
        dialect = dialect_of(request.adapter_type)
        options = RunOptions.of(request.config, dialect)
        if not is_wanted(options):
            return Provision()
        now = launcher.clock.now()
        return await asyncio.to_thread(provide, request, options, dialect, launcher.templates, self._stock, now=now)

    def _driven(self, run_id: str) -> Run | None:
        runs = self._launcher.runs.values()
        return next((run for run in runs if run_id in {run.run_id, run.record.run_id, run.record.job_name}), None)

    def _acknowledge_record(self, run_id: str) -> bool:
        """Of a run that an earlier life of this launcher drove: its Job goes with the next sweep."""
        for record in self._launcher.journal.records():
            if run_id in {record.run_id, record.job_name} and record.result is not None:
                record.acknowledged = True
                self._launcher.journal.write(record, sync=True)
                return True
        return False

    async def _ask_for_end(self, run_id: str) -> bool:
        """Whether there is such a run. One that nobody looks after is taken over, to be ended."""
        launcher = self._launcher
        job = launcher.view.job_of_run(run_id)
        if job is not None and self._driven(run_id) is None:
            while (alive := launcher.view.alive(job)) is Alive.UNSURE:
                await self._moment()
            if alive is Alive.NO:
                await launcher.attach(run_id, Nobody())
        return await launcher.cancel(run_id)

    async def _ended(self, run_id: str) -> bool | None:
        """Whether it had to be killed; None where it is not known to have ended."""
        if run_id in self._preparing:
            await self._preparing[run_id].done.wait()
        run = self._driven(run_id)
        if run is not None:
            await asyncio.wait({run.result})
            found = run.result.result()
            return None if found.exit == _NOT_KNOWN else found.code == "cancelled" and found.signal == "SIGKILL"
        view = self._launcher.view
        while (job := view.job_of_run(run_id)) is not None and not podstate.terminal(job):
            await self._moment()
        return False

    async def _moment(self) -> None:
        """For what only the watches can tell."""
        await asyncio.sleep(_LOOK_AGAIN)


def _is_next_life(peer: Peer, before: Peer) -> bool:
    """Whether the client is one that was started anew: its former life does not come back."""
    (name, instance), (former_name, former_instance) = peer.client, before.client
    return bool(name and instance and former_instance) and name == former_name and instance != former_instance


def _secrets(context: Mapping[str, Any]) -> list[str]:
    """What must not show in a complaint about a request that never becomes a run."""
    config = context.get("config")
    variables = config.get("env") if isinstance(config, Mapping) else None
    tools = context.get("runtimeTools")
    token = tools.get("bearerToken") if isinstance(tools, Mapping) else None
    values = [context.get("authToken"), token, *(variables.values() if isinstance(variables, Mapping) else ())]
    return [one for one in values if isinstance(one, str)]
