"""The transport of a simulation: what goes wrong goes wrong as it does on a network, and the same for the same seed."""

from __future__ import annotations

import asyncio
import random

import pytest

from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.transport import Broken, NotSent, Request, Stalled, TimedOut, TransportError
from tests.fakeapi.cluster import NAMESPACE, FakeCluster
from tests.fakeapi.faults import Faults
from tests.fakeapi.inprocess import InProcessTransport
from tests.fakeapi.loop import Process, VirtualLoop
from tests.fakeapi.model import Program
from tests.fakeapi.requests import create, job_tree, lease_tree, path_of, send, until

LINES = tuple((0.1, b"line %d" % number) for number in range(50))


async def try_lease(transport, name):
    try:
        return (await send(transport, "POST", path_of("leases"), lease_tree(name))).status
    except TransportError as error:
        return type(error)


def outcomes(play, faults, calls=60):
    """What each call said, and how many of them had an effect, at its end and a little later."""

    async def history(cluster, transport):
        said = {await try_lease(transport, f"lease-{number}") for number in range(calls)}
        await asyncio.sleep(100)
        return said, len(cluster.objects("leases"))

    return play(history, faults=faults)


def test_what_was_not_sent_has_no_effect(play):
    assert outcomes(play, Faults(not_sent=1.0)) == ({NotSent}, 0)


@pytest.mark.parametrize(("faults", "error"), [(Faults(broken=1.0), Broken), (Faults(timed_out=1.0), TimedOut)])
def test_what_was_broken_or_too_late_had_an_effect_now_and_then(play, faults, error):
    said, made = outcomes(play, faults)
    assert said == {error}
    assert 10 < made < 50


def test_an_effect_may_come_after_the_sender_has_given_up(play):
    async def history(cluster, transport):
        for number in range(60):
            await try_lease(transport, f"lease-{number}")
        at_once = len(cluster.objects("leases"))
        await asyncio.sleep(10)
        return len(cluster.objects("leases")) - at_once

    assert play(history, faults=Faults(broken=1.0, latency=(0.0, 0.001))) > 0


def test_refusals_say_how_long_to_wait_in_head_or_body(play):
    async def history(cluster, transport):
        found = set()
        for _ in range(40):
            answer = await send(transport, "GET", path_of("leases"))
            assert answer.status == 429
            found.add(("retry-after" in answer.headers, b"retryAfterSeconds" in answer.body))
        return found

    assert play(history, faults=Faults(refused={429: 1.0})) == {(False, False), (True, False), (False, True)}


def test_faults_end_in_time(play):
    async def history(cluster, transport):
        first = await try_lease(transport, "one")
        await asyncio.sleep(10)
        return first, await try_lease(transport, "two")

    assert play(history, faults=Faults(not_sent=1.0, until=10)) == (NotSent, 201)


async def log_of(cluster, transport, idle=45.0):
    """Opens the log of the run a, as soon as it runs."""
    await create(transport, "jobs", job_tree("a"))
    await until(lambda: [pod for pod in cluster.objects("pods") if pod["status"]["phase"] != "Pending"], 0.01)
    path = path_of("pods", cluster.objects("pods")[0]["metadata"]["name"]) + "/log"
    return await transport.open(Request("GET", path, (("timestamps", "true"), ("follow", "true"))), idle=idle)


async def read_to_end(stream):
    pieces = []
    try:
        while piece := await stream.read():
            pieces.append(piece)
    except TransportError as error:
        return pieces, type(error)
    return pieces, None


def test_a_stream_is_cut_anywhere_and_is_right_up_to_there(play):
    async def history(cluster, transport):
        stream = await log_of(cluster, transport)
        pieces, error = await read_to_end(stream)
        await asyncio.sleep(20)
        data, whole = b"".join(pieces), bytes(cluster.kubelet.logs_of("a")[0].data)
        assert whole.startswith(data)
        return len(data) < len(whole), data.endswith(b"\n"), error

    faults = Faults(cut=1.0, cut_bytes=600, fragments=True)
    of_all = lambda job: Program(LINES)  # noqa: E731
    ends = [play(history, seed=seed, faults=faults, program_for=of_all) for seed in range(12)]
    assert {end[2] for end in ends} == {None, Broken}
    assert {end[1] for end in ends if end[0]} >= {False}


def test_a_stalled_stream_is_found_out_by_its_idle_time(play):
    async def history(cluster, transport):
        _, error = await read_to_end(await log_of(cluster, transport))
        return error, cluster.loop.time(), transport.streams

    error, now, streams = play(
        history, faults=Faults(stall=1.0, cut_bytes=200), program_for=lambda job: Program(LINES, end="hang")
    )
    assert error is Stalled
    assert 45 <= now < 55
    assert streams == {}


def test_the_head_of_a_silent_log_comes_with_its_first_line(play):
    async def history(cluster, transport):
        stream = await log_of(cluster, transport)
        opened = cluster.loop.time()
        return opened, (await stream.read()).endswith(b" late\n")

    opened, late = play(history, program_for=lambda job: Program(((20, b"late"),)))
    assert late
    assert 20 < opened < 21


def test_watches_lag_behind_each_other(play):
    async def history(cluster, transport):
        query = (("watch", "true"), ("timeoutSeconds", "60"))
        heard = {}

        async def listen(resource):
            stream = await transport.open(Request("GET", path_of(resource), query), idle=100)
            while await stream.read():
                heard.setdefault(resource, cluster.loop.time())

        tasks = [asyncio.create_task(listen(resource)) for resource in ("jobs", "pods")]
        await asyncio.sleep(1)
        await create(transport, "jobs", job_tree("a"))
        await asyncio.gather(*tasks)
        return heard["jobs"] > heard["pods"]

    lagging = Faults(lag=(0.0, 2.0))
    assert {play(history, seed=seed, faults=lagging) for seed in range(12)} == {True, False}


def test_no_network_for_a_while(play):
    async def history(cluster, transport):
        stream = await log_of(cluster, transport)
        transport.cut_off(30)
        said = [await try_lease(transport, "one"), (await read_to_end(stream))[1]]
        transport.cut_off(30, silently=True)
        said.append(await try_lease(transport, "one"))
        await asyncio.sleep(30)
        return [*said, await try_lease(transport, "one")]

    assert play(history, program_for=lambda job: Program(LINES)) == [NotSent, Broken, TimedOut, 201]


def test_a_restart_of_the_api_server_breaks_streams_and_refuses_calls(play):
    async def history(cluster, transport):
        stream = await log_of(cluster, transport)
        cluster.restart(5, compact=True)
        said = [(await read_to_end(stream))[1], await try_lease(transport, "one")]
        await asyncio.sleep(5)
        return [*said, await try_lease(transport, "one")]

    assert play(history, program_for=lambda job: Program(LINES)) == [Broken, NotSent, 201]


@pytest.mark.parametrize(("phase", "made"), [("before", 0), ("after", 1)])
def test_a_launcher_can_be_killed_right_before_a_call_and_right_after_its_effect(phase, made):
    process = Process("launcher")
    seen = []

    def hook(now, request):
        if now == phase and request.method == "POST":
            process.kill()

    async def launcher(transport):
        seen.append("started")
        await create(transport, "leases", lease_tree("one"))
        seen.append("never")

    async def main():
        loop.spawn(launcher(InProcessTransport(cluster, hook=hook)), process)
        await asyncio.sleep(10)
        return len(cluster.objects("leases"))

    loop = VirtualLoop()
    cluster = FakeCluster(loop)
    assert loop.run(main()) == made
    assert seen == ["started"]
    assert loop.problems == []


def test_a_dead_transport_serves_nobody(play):
    async def history(cluster, transport):
        stream = await log_of(cluster, transport)
        other = InProcessTransport(cluster)
        transport.kill()
        return await try_lease(transport, "one"), (await read_to_end(stream))[1], await try_lease(other, "one")

    assert play(history, program_for=lambda job: Program(LINES)) == (Broken, Broken, 201)


def test_what_the_fake_does_not_know_is_an_error_of_the_test(play):
    async def history(cluster, transport):
        with pytest.raises(AssertionError, match="does not know the query"):
            await send(transport, "GET", path_of("jobs"), previous="true")

    play(history)


BAD = Faults(
    not_sent=0.1,
    broken=0.1,
    timed_out=0.05,
    refused={429: 0.05, 500: 0.05, 503: 0.05},
    slow=0.1,
    cut=0.5,
    cut_bytes=3000,
    fragments=True,
    lag=(0, 0.5),
)


def storm(seed):
    """Everything that happened to some launchers' calls in bad weather."""
    loop = VirtualLoop(seed, shuffle=True)
    cluster = FakeCluster(loop, seed, keep_trail=True, program_for=lambda job: Program(LINES))
    clusters = [
        Cluster(InProcessTransport(cluster, BAD, seed=seed + n), NAMESPACE, rng=random.Random(n)) for n in range(3)
    ]

    async def main():
        async def one(number):
            cluster_of = clusters[number % 3]
            job = job_tree(f"run-{number}")
            try:
                await cluster_of.create("jobs", job)
            except Exception as error:  # noqa: BLE001 a conflict with ourselves, which is no matter here
                return type(error).__name__
            await asyncio.sleep(30)
            return "made"

        return await asyncio.gather(*(one(number) for number in range(12)))

    said = loop.run(main(), limit=10_000)
    changes = [(one.time, one.kind, one.item.key, one.actor) for one in cluster.store.changes]
    return said, cluster.trail, changes, loop.done, len(cluster.objects("jobs"))


def test_a_seed_is_a_history():
    first, again, other = storm(1), storm(1), storm(2)
    assert first == again
    assert first[1] != other[1]
    assert first[4] == other[4] == 12
