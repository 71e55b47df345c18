"""An API server that says no: watches that are too old, too many calls, tokens, rights and room. Virtual seconds."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.fakeapi.model import Program, Refusal
from tests.fakeapi.sockets import Rule
from tests.faults.outages import ended_well, talkative, well
from tests.faults.place import INIT, Place, Reader, quick, request, soon, until
from tests.faults.table import Figure, at_most, exactly


async def _stale_watches(count: int, resource: str) -> tuple[int, list[float], bool]:
    """The watch is told 410 so many times in a row."""
    lists: list[float] = []
    async with Place(Program(((0.01, INIT), (2.0, b"x")), end="hang")) as place:
        before = place.server.rule_for
        async with place.launcher() as launcher:
            run = await launcher.begin(request(), Reader())
            await until(lambda: run.phase.value == "running")
            loop = asyncio.get_running_loop()

            def heard(verb: str, what: str) -> Rule | None:
                if (verb, what) == ("list", resource):
                    lists.append(loop.time())
                return before(verb, what)

            place.server.rule_for = heard  # type: ignore[method-assign]
            rule = Rule("gone", "watch", resource, times=count)
            place.server.rules.append(rule)
            place.server.drop_all()
            await until(lambda: rule.times == 0, 20_000.0, step=1.0)
            await asyncio.sleep(60.0)
            reflector = getattr(launcher.view, resource)
            same = {name: one["metadata"]["resourceVersion"] for name, one in reflector.store.items()} == {
                one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in place.cluster.objects(resource)
            }
    return count - rule.times, lists, same


def stale_watches(count: int = 100, resource: str = "jobs", speed: float = 300.0) -> tuple[int, int, float, bool]:
    """How often it was told, the lists, the shortest time between two of the last half, whether the store is right."""
    told, lists, same = quick(_stale_watches(count, resource), speed)
    late = lists[len(lists) // 2 :]
    return told, len(lists), min(b - a for a, b in pairwise(late)), same


async def _retry_after(seconds: int, place_of: str, count: int) -> list[float]:
    """How long calls take whose first try is answered by a 429 that names a time, as a part of that time."""
    body = (
        '{"kind":"Status","status":"Failure","code":429,"reason":"TooManyRequests","details":{"retryAfterSeconds":%d}}'
    )
    headers = {"retry-after": str(seconds)} if place_of == "header" else {}
    text = body % seconds if place_of == "body" else ""
    async with Place() as place:
        talker = place.talker()
        await talker.list("jobs")
        place.server.rules.append(Rule("status", status=429, headers=headers, body=text, times=count))
        loop = asyncio.get_running_loop()

        async def call() -> float:
            begun = loop.time()
            await talker.list("jobs")
            return (loop.time() - begun) / seconds

        return await asyncio.gather(*(call() for _ in range(count)))


def retry_after(seconds: int = 20, count: int = 40, speed: float = 4.0) -> list[float]:
    return [part for where in ("header", "body") for part in quick(_retry_after(seconds, where, count), speed)]


async def _rotated_token(folder: Path, turns: int) -> tuple[Any, int]:
    """The token is replaced while a run goes on; the old one is refused from then on."""
    file = folder / "token"
    file.write_text("old-token-0")
    async with Place(talkative(turns * 32.0 + 10.0, 2.0)) as place:
        place.server.tokens = {"old-token-0"}
        async with place.launcher(token_file=file) as launcher:
            reader = Reader()
            ending = asyncio.create_task(ended_well(place, launcher, reader, request()))
            await until(lambda: reader.data)
            for number in range(turns):
                file.write_text(f"new-token-{number}")
                place.server.tokens = {f"new-token-{number}"}
                place.server.drop_all()
                await asyncio.sleep(30.0)
            return await ending, turns


def rotated_token(turns: int = 5, speed: float = 40.0) -> tuple[Any, int]:
    with tempfile.TemporaryDirectory() as folder:
        return quick(_rotated_token(Path(folder), turns), speed)


async def _forbidden(verb: str, resource: str) -> tuple[str, str, float, int]:
    async with Place(knobs=soon(denied=frozenset({(verb, resource)}))) as place, place.launcher() as launcher:
        begun = asyncio.get_running_loop().time()
        run = await launcher.begin(request(), Reader())
        result = await run.result
        seconds = asyncio.get_running_loop().time() - begun
        return result.code, result.error_message or "", seconds, place.server.requests[verb, resource]


def forbidden(verb: str = "create", resource: str = "jobs") -> tuple[str, str, float, int]:
    return quick(_forbidden(verb, resource), 1.0)


async def _no_room(seconds: float) -> tuple[Any, list[str]]:
    """The quota of the namespace is used up for so long."""
    async with Place() as place:
        loop = asyncio.get_running_loop()
        text = "exceeded quota: agents, requested: count/jobs.batch=1, used: 1, limited: 1"

        def admit(resource: str, _: Any) -> Refusal | None:
            full = resource == "jobs" and loop.time() < seconds
            return Refusal(403, "Forbidden", f'jobs.batch "x" is forbidden: {text}') if full else None

        place.cluster.knobs.admit = admit
        async with place.launcher() as launcher:
            reader = Reader()
            return await ended_well(place, launcher, reader, request()), reader.told("progress")


def no_room(seconds: float = 200.0, speed: float = 50.0) -> tuple[Any, list[str]]:
    return quick(_no_room(seconds), speed)


def figures(seed: int, *, full: bool = True) -> Iterator[Figure]:
    name = "refusals"
    told, lists, pause, same = stale_watches()
    yield exactly(name, "410 in a row, and the state is right", (told, same), (100, True))
    yield at_most(name, "lists in it", lists, 101)
    yield Figure(name, "shortest time between two lists, later", f"{pause:.1f} s", ">= 20 s", pause >= 20)
    parts = retry_after()
    shown = f"{min(parts):.2f} .. {max(parts):.2f}"
    yield Figure(
        name,
        "Retry-After of a 429, header and body: pause",
        shown,
        "1.00 .. 1.20, and 0.05 for the machine",
        1.0 <= min(parts) <= max(parts) <= 1.25,
    )
    ended, turns = rotated_token()
    yield well(name, f"the token is replaced {turns} times", ended)
    code, message, seconds, tries = forbidden()
    named = "create" in message and "jobs" in message
    yield exactly(
        name, "403 of a missing right: code, right is named, tries", (code, named, tries), ("k8s_forbidden", True, 1)
    )
    yield at_most(name, "403 of a missing right: told after", seconds, 1.0, "s")
    ended, _ = no_room()
    yield well(name, "403 of a full quota for 200 s", ended)
