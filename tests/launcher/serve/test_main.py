"""The whole of `serve`, in real time: its doors, its health, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from paperclip_launcher.serve.listen import Doors, SocketTaken
from paperclip_launcher.serve.main import IDENTITY_LOST, serve_on
from paperclip_launcher.serve.options import http_address
from tests.fakeapi.model import Program
from tests.launcher.core.stage import spoken
from tests.launcher.serve.program import cluster, options, transport
from tests.launcher.serve.test_runs import context

ROOT = Path(__file__).parents[3]
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}


def execute(number=2, run="run-1"):
    return {"jsonrpc": "2.0", "id": number, "method": "run.execute", "params": {"context": context(run)}}


class Connection:
    """Over the real socket."""

    def __init__(self, path):
        self.path = path

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_unix_connection(self.path)
        await self.ask(HELLO)
        return self

    async def __aexit__(self, *_):
        self.writer.close()

    def send(self, tree):
        self.writer.write(json.dumps(tree).encode() + b"\n")

    async def ask(self, tree):
        """The answer; what comes before it is acknowledged."""
        self.send(tree)
        return await self.answer(tree["id"])

    async def answer(self, number):
        while line := await self.reader.readline():
            found = json.loads(line)
            if found.get("id") == number:
                return found
            if found.get("method") == "run.log":
                params = found["params"]
                self.send(
                    {"jsonrpc": "2.0", "method": "run.ack", "params": {key: params[key] for key in ("runId", "offset")}}
                )
        return None


async def until(condition):
    while True:
        if condition():
            return
        await asyncio.sleep(0.005)


def answers(path):
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(str(path)) == 0


@asynccontextmanager
async def served(folder, fake=None, **more):
    """A launcher that serves, and its task; it is told to end in the end."""
    fake = fake or cluster()
    more = {"socket": folder / "s", **more}
    task = asyncio.create_task(serve_on(options(folder, **more), transport(fake)))
    await until(lambda: task.done() or answers(folder / "s"))
    try:
        yield task
    finally:
        if not task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.gather(task, return_exceptions=True)


def play(scene):
    async def bounded():
        async with asyncio.timeout(20):
            return await scene()

    return asyncio.run(bounded())


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


async def get(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body


def test_many_clients_have_runs_at_once_over_a_socket_of_the_owners_alone(tmp_path):
    async def scene():
        async with served(tmp_path) as task:
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
            async with Connection(tmp_path / "s") as one, Connection(tmp_path / "s") as two:
                ask = execute(2, "run-2") | {"params": {"context": context("run-2", "agent-2")}}
                answers = await asyncio.gather(one.ask(execute()), two.ask(ask))
            assert [one["result"]["result"]["summary"] for one in answers] == ["done", "done"]
            os.kill(os.getpid(), signal.SIGTERM)
            assert await task == 0
            assert not (tmp_path / "s").exists()

    play(scene)


def test_sigterm_ends_it_soon_and_leaves_the_runs_alone(tmp_path):
    async def scene():
        fake = cluster(Program(spoken("a", "b", gap=30.0)))
        async with served(tmp_path, fake) as task, Connection(tmp_path / "s") as client:
            client.send(execute())
            await until(lambda: list(fake.live_jobs()))
            os.kill(os.getpid(), signal.SIGTERM)
            answer = await client.answer(2)
            assert answer["error"]["data"]["code"] == "detached"
            assert await client.reader.read() == b""
            assert await task == 0
            assert len(list(fake.live_jobs())) == 1
            assert fake.get("leases", "paperclip-launcher-one") is None

    play(scene)


def test_another_process_with_its_identity_ends_it_with_a_code_of_its_own(tmp_path):
    async def scene():
        fake = cluster()
        async with served(tmp_path, fake) as task, Connection(tmp_path / "s"):
            lease = fake.get("leases", "paperclip-launcher-one")
            fake.remove("leases", "paperclip-launcher-one")
            assert lease is not None
            # The next renewal finds it; nobody waits for that here.
            launcher = next(one for one in asyncio.all_tasks() if "LeaseKeeper.run" in repr(one))
            launcher.get_coro().cr_frame.f_locals["self"]._lost()
            assert await task == IDENTITY_LOST

    play(scene)


def test_a_socket_that_a_killed_launcher_left_is_taken_over_and_a_living_one_is_not(tmp_path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))

    async def scene():
        fake = cluster()
        async with served(tmp_path, fake):
            async with Connection(tmp_path / "s") as client:
                assert (await client.ask({**HELLO, "id": 7, "method": "ping"}))["result"] == {}
            with pytest.raises(SocketTaken, match="another launcher listens"):
                await Doors(None, asyncio.Event()).open(stdio=False, socket=tmp_path / "s")
            async with Connection(tmp_path / "s") as client:
                assert (await client.ask({**HELLO, "id": 7, "method": "ping"}))["result"] == {}

    play(scene)


@pytest.mark.parametrize(
    ("path", "said"), [("file", "is no socket"), ("x" * 120, "longer than 107"), ("none/s", "No such file")]
)
def test_a_place_that_cannot_hold_a_socket_is_said(tmp_path, path, said):
    (tmp_path / "file").write_text("mine")

    async def scene():
        with pytest.raises(SocketTaken, match=said):
            await serve_on(options(tmp_path, socket=tmp_path / path), transport(cluster()))

    play(scene)
    assert (tmp_path / "file").read_text() == "mine"


def test_health_says_whether_runs_may_be_sent_here(tmp_path):
    port = free_port()

    async def scene():
        fake = cluster()
        fake.serving = False
        task = asyncio.create_task(
            serve_on(options(tmp_path, http=("127.0.0.1", port), socket=tmp_path / "s"), transport(fake))
        )
        await asyncio.sleep(0.05)
        assert (await get(port, b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 200
        assert (await get(port, b"GET /readyz HTTP/1.1\r\n\r\n"))[0] == 503
        fake.serving = True
        await until(lambda: answers(tmp_path / "s"))
        assert await get(port, b"GET /readyz?verbose HTTP/1.1\r\n\r\n") == (200, b"ok\n")
        status, body = await get(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status == 200
        assert b'paperclip_launcher_watch_age_seconds{resource="jobs"}' in body
        assert (await get(port, b"HEAD /metrics HTTP/1.0\r\n\r\n")) == (200, b"")
        assert (await get(port, b"POST /metrics HTTP/1.1\r\n\r\n"))[0] == 405
        assert (await get(port, b"GET /etc/passwd HTTP/1.1\r\n\r\n"))[0] == 404
        assert (await get(port, b"nonsense\r\n\r\n"))[0] == 400
        assert (await get(port, b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n"))[0] in {0, 400}
        os.kill(os.getpid(), signal.SIGTERM)
        assert await task == 0

    play(scene)


def test_it_can_be_ended_before_the_api_server_has_answered(tmp_path):
    async def scene():
        fake = cluster()
        fake.serving = False
        task = asyncio.create_task(serve_on(options(tmp_path, socket=tmp_path / "s"), transport(fake)))
        await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await task == 0

    play(scene)


def test_a_child_speaks_over_its_pipes_and_ends_with_its_parent(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.launcher.serve.program", str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    child.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in (HELLO, execute())))
    child.stdin.flush()
    seen = []
    while not seen or seen[-1].get("id") != 2:
        seen.append(json.loads(child.stdout.readline()))
    assert seen[-1]["result"]["result"]["summary"] == "done"
    assert "run.log" in {one.get("method") for one in seen}
    rest, said = child.communicate(timeout=10)
    assert (child.returncode, rest) == (0, b""), said


def test_a_file_is_no_client(tmp_path):
    program = [sys.executable, "-m", "tests.launcher.serve.program", str(tmp_path)]
    with (tmp_path / "in").open("w+") as stream:
        found = subprocess.run(program, cwd=ROOT, stdin=stream, capture_output=True, check=False)
    assert found.returncode == 1
    assert b"must be pipes" in found.stderr


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        (":9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_an_address_is_read(text, address):
    assert http_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "1:2:3", "127.0.0.1:99999", "127.0.0.1:-1", "a:²"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="is no address"):
        http_address(text)
