"""The socket server: real bytes, cut where they are told to be cut."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from paperclip_launcher.cluster.network import NetworkTransport
from paperclip_launcher.cluster.transport import Broken, Request, Stalled, TransportError
from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.faults import FINE, Faults
from tests.fakeapi.model import Knobs, Program
from tests.fakeapi.requests import create, get, job_tree, lease_tree, path_of, send, until
from tests.fakeapi.sockets import Rule, SocketServer

QUICK = Knobs(control=(0, 0), schedule=(0, 0), start=(0, 0), kubelet=(0, 0), follow_end=(0, 0.01), collect=(0, 0))
ROOT = Path(__file__).parents[3]


def serve(history, program=None, faults=FINE, seed=1):
    """Runs `history(server, transport)` against a real socket."""

    async def main():
        loop = asyncio.get_running_loop()
        of_all = program or Program(((0.01, b"one"), (0.01, "zwölf".encode())))
        cluster = FakeCluster(loop, seed, program_for=lambda job: of_all, knobs=QUICK)
        server = SocketServer(cluster, faults, seed=seed)
        await server.start()
        transport = NetworkTransport(server.access())
        try:
            async with asyncio.timeout(20):
                return await history(server, transport)
        finally:
            await transport.close()
            await server.stop()

    return asyncio.run(main())


async def raw(server, text, *, enough=None):
    """All bytes of an answer, and how it ended: whole, reset, closed, or open with `enough` bytes and silence."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(text.encode())
    data = b""
    try:
        while not data.endswith(b"\r\n0\r\n\r\n"):
            async with asyncio.timeout(0.05 if enough is not None and len(data) >= enough else 10):
                piece = await reader.read(65536)
            data += piece
            if not piece:
                return data, "closed"
    except ConnectionResetError:
        return data, "reset"
    except TimeoutError:
        return data, "open"
    finally:
        writer.close()
    return data, "whole"


async def pod_of_run(server, transport, name="a"):
    """The name of its pod, once it runs."""
    await create(transport, "jobs", job_tree(name))
    while True:
        for pod in server.cluster.objects("pods"):
            if pod["metadata"]["name"].startswith(f"{name}-") and pod["status"]["phase"] != "Pending":
                return pod["metadata"]["name"]
        await asyncio.sleep(0.002)


def log_request(pod, **query):
    pairs = {"container": "agent", "timestamps": "true", "follow": "true", **query}
    return Request("GET", path_of("pods", pod) + "/log", tuple(pairs.items()))


async def everything(stream):
    data = b""
    try:
        while piece := await stream.read():
            data += piece
    except TransportError as error:
        return data, type(error)
    finally:
        await stream.close()
    return data, None


def test_calls_and_streams_work_and_are_counted():
    async def history(server, transport):
        pod = await pod_of_run(server, transport)
        log, error = await everything(await transport.open(log_request(pod), idle=5))
        assert error is None
        missing = await send(transport, "GET", path_of("jobs", "b"))
        return log, missing.status, dict(server.requests), server.open_streams

    log, missing, requests, streams = serve(history)
    assert [line.partition(b" ")[2].decode() for line in log.splitlines()] == ["one", "zwölf"]
    assert missing == 404
    assert requests == {("create", "jobs"): 1, ("get", "pods/log"): 1, ("get", "jobs"): 1}
    assert streams == 0


def test_the_bytes_are_chunked_http():
    async def history(server, transport):
        pod = await pod_of_run(server, transport)
        target = path_of("pods", pod) + "/log?timestamps=true&follow=true"
        data, _ = await raw(server, f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")
        return data

    head, _, body = serve(history).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"transfer-encoding: chunked" in head
    size, _, rest = body.partition(b"\r\n")
    assert rest[int(size, 16) :].startswith(b"\r\n")
    assert body.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("how", ["reset", "close", "hang"])
def test_an_answer_may_be_cut_at_any_byte_of_the_wire(how):
    async def history(server, transport):
        pod = await pod_of_run(server, transport)
        target = path_of("pods", pod) + "/log?timestamps=true"
        asked = f"GET {target}&follow=true HTTP/1.1\r\nHost: x\r\n\r\n"
        await raw(server, asked)
        whole, _ = await raw(server, asked)
        assert "zwölf".encode() in whole
        found = []
        for after in (0, 1, 17, whole.index(b"\r\n\r\n") + 5, whole.index("ö".encode()) + 1):
            server.rules.append(Rule("cut", resource="pods/log", after=after, how=how))
            data, end = await raw(server, asked, enough=after if how == "hang" else None)
            found.append((len(data) - after, end))
            assert data == whole[:after]
        return found

    assert set(serve(history)) == {(0, {"reset": "reset", "close": "closed", "hang": "open"}[how])}


def test_a_clean_cut_looks_like_an_end():
    async def history(server, transport):
        pod = await pod_of_run(server, transport)
        server.rules.append(Rule("clean", resource="pods/log", after=35))
        return await everything(await transport.open(log_request(pod), idle=5))

    data, error = serve(history)
    assert (len(data), error) == (35, None)


def test_random_cuts_leave_each_line_to_be_had():
    lines = tuple((0.0, b"line %d" % number) for number in range(200))

    async def history(server, transport):
        pod = await pod_of_run(server, transport)
        await until(lambda: server.cluster.printed("a"), 0.002)
        server.faults = Faults(cut=1.0, cut_bytes=3000, fragments=True)
        whole = bytes(server.cluster.kubelet.logs_of("a")[0].data)
        errors = set()
        for _ in range(40):
            try:
                data, error = await everything(await transport.open(log_request(pod), idle=5))
            except Broken as broken:
                data, error = b"", type(broken)
            assert whole.startswith(data)
            errors.add(error)
        return errors, server.cuts

    errors, cuts = serve(history, Program(((0.02, b"first"), *lines)))
    assert errors == {None, Broken}
    assert cuts > 15


def test_scripted_answers():
    async def history(server, transport):
        server.rules += [
            Rule("status", "create", "leases", status=429, headers={"retry-after": "3"}),
            Rule("effect-reset", "create", "leases"),
            Rule("reset", "get", "leases"),
        ]
        first = await send(transport, "POST", path_of("leases"), lease_tree("one"))
        with pytest.raises(Broken):
            await send(transport, "POST", path_of("leases"), lease_tree("one"))
        with pytest.raises(Broken):
            await get(transport, "leases", "one")
        second = await send(transport, "POST", path_of("leases"), lease_tree("one"))
        return first.status, first.headers["retry-after"], second.status

    assert serve(history) == (429, "3", 409)


def test_a_watch_may_stall_or_be_told_that_it_is_too_old():
    async def history(server, transport):
        server.rules += [Rule("hang", "watch"), Rule("gone", "watch"), Rule("cut", "watch", after=500, how="hang")]
        request = Request("GET", path_of("leases"), (("watch", "true"),), timeout=0.2)
        with pytest.raises(TransportError):
            await transport.open(request, idle=1)
        gone, _ = await everything(await transport.open(request, idle=1))
        for number in range(3):
            await create(transport, "leases", lease_tree(f"lease-{number}"))
        _, stalled = await everything(await transport.open(request, idle=0.2))
        return json.loads(gone)["object"]["code"], stalled

    assert serve(history) == (410, Stalled)


def test_an_old_token_is_refused_until_the_new_one_comes(tmp_path):
    token = tmp_path / "token"
    token.write_text("old")

    async def main():
        cluster = FakeCluster(asyncio.get_running_loop(), knobs=QUICK)
        server = SocketServer(cluster)
        server.tokens = {"old"}
        await server.start()
        transport = NetworkTransport(server.access(token_file=token))
        try:
            first = (await send(transport, "GET", path_of("leases"))).status
            server.tokens = {"new"}
            token.write_text("new")
            second = (await send(transport, "GET", path_of("leases"))).status
            token.write_text("other")
            server.tokens = {"third"}
            third = (await send(transport, "GET", path_of("leases"))).status
        finally:
            await transport.close()
            await server.stop()
        return first, second, third

    assert asyncio.run(main()) == (200, 200, 401)


def test_a_restart_breaks_streams_and_an_absent_server_refuses():
    async def history(server, transport):
        pod = await pod_of_run(server, transport)
        stream = await transport.open(log_request(pod), idle=5)
        watch = await transport.open(Request("GET", path_of("jobs"), (("watch", "true"),)), idle=5)
        server.cluster.restart(0.05, compact=True)
        with pytest.raises(TransportError):
            await send(transport, "GET", path_of("jobs"))
        ends = (await everything(stream))[1], (await everything(watch))[1]
        await asyncio.sleep(0.1)
        again = (await send(transport, "GET", path_of("jobs"))).status
        server.refuse(0.1)
        with pytest.raises(TransportError):
            await send(transport, "GET", path_of("jobs"))
        await asyncio.sleep(0.2)
        return ends, again, (await send(transport, "GET", path_of("jobs"))).status

    assert serve(history, Program(((0.01, b"x"),), end="hang")) == ((Broken, Broken), 200, 200)


def test_it_runs_as_a_program_and_can_be_asked():
    shape = json.dumps({"lines": 3, "every": 0.001, "size": 20})
    command = [sys.executable, "-m", "tests.fakeapi.sockets", "--program", shape]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().split()[-1]

            def ask(path, tree=None):
                body = None if tree is None else json.dumps(tree).encode()
                with urllib.request.urlopen(url + path, body, timeout=5) as answer:
                    return json.loads(answer.read())

            ask(path_of("jobs"), job_tree("a"))
            printed = []
            while len(printed) < 3:
                printed = ask("/fake/printed?job=a")
            stats = ask("/fake/stats")
        finally:
            process.terminate()
        assert process.wait(5) == 0
    assert stats["requests"]["create jobs"] == 1
    assert len(printed) == 3
