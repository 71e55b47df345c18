"""A cluster on a loopback socket, in a thread of its own, and the command line pointed at it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from kubekit import yamlread
from paperclip_launcher.cli.main import main
from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.model import Knobs, Program
from tests.fakeapi.sockets import SocketServer

ROOT = Path(__file__).resolve().parents[3]
RESULT = (
    b'{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s-1","total_cost_usd":0.5}'
)
INIT = b'{"type":"system","subtype":"init","session_id":"s-1","model":"m"}'
SOON = (0.0005, 0.002)


def agent(*lines, exit_code=0, every=0.002, **more):
    """What a run of Claude prints."""
    texts = [INIT, *lines, RESULT]
    return Program(tuple((every, text) for text in texts), exit_code, **more)


def endless(**more):
    return Program(tuple((0.005, b"line %d" % number) for number in range(100_000)), **more)


class World:
    """The cluster and the program on it. `program` is what the containers do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = agent()
        self.started = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.started.wait(5)

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        knobs = Knobs(
            control=SOON,
            schedule=SOON,
            start=SOON,
            kubelet=SOON,
            follow_end=SOON,
            collect=SOON,
            present_secrets=frozenset({"paperclip-agent-keys"}),
        )
        self.cluster = FakeCluster(
            self.loop, 1, knobs=knobs, epoch=time.time() - self.loop.time(), program_for=lambda job: self.program
        )
        self.server = SocketServer(self.cluster)
        await self.server.start()
        self.over = asyncio.Event()
        self.started.set()
        await self.over.wait()
        await self.server.stop()

    def ask(self, act):
        """`act(cluster)`, in the thread of the cluster."""

        async def done():
            return act(self.cluster)

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result(5)

    def names(self, resource):
        return sorted(one["metadata"]["name"] for one in self.ask(lambda cluster: cluster.objects(resource)))

    def when(self, true, act):
        """Calls `act` from a thread once `true()` holds. The program is told to end where that fails, and shows it."""

        def wait():
            end = time.monotonic() + 60
            try:
                while not true():
                    assert time.monotonic() < end, f"waited 60 s for {true}"
                    time.sleep(0.002)
                act()
            except BaseException:
                os.kill(os.getpid(), signal.SIGTERM)
                raise

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        return thread

    def printed(self):
        """Lines that all containers have printed by now."""
        return self.ask(lambda cluster: [line for job in cluster.objects("jobs") for line in _lines(cluster, job)])

    def left(self):
        """What of runs is still there, once the garbage collector has had its time."""
        kinds = ("jobs", "pods", "secrets", "leases")
        for _ in range(200):
            found = {kind: names for kind in kinds if (names := self.names(kind))}
            if not found:
                return {}
            time.sleep(0.005)
        return found

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.over.set)
        self._thread.join(5)


def _lines(cluster, job):
    return cluster.printed(job["metadata"]["name"])


@pytest.fixture(scope="session")
def templates(tmp_path_factory):
    """Of the environment minimal, as JSON, which reads faster; with the digest that its image has not got yet."""
    folder = tmp_path_factory.mktemp("templates")
    for path in sorted((ROOT / "dist/minimal/job-templates").glob("*.yaml")):
        tree = yamlread.read(path.read_bytes(), path.name).value
        text = json.dumps(tree).replace("paperclip:sha-d554c47", "paperclip:sha-d554c47@sha256:" + "0" * 64)
        (folder / f"{path.stem}.json").write_text(text)
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch, templates):
    """Where the program is started: nothing of this machine is read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PAPERCLIP_JOB_TEMPLATES", str(templates))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    kubeconfig(tmp_path, "http://127.0.0.1:1")
    return tmp_path


def kubeconfig(folder, url):
    tree = {
        "current-context": "t",
        "clusters": [{"name": "t", "cluster": {"server": url}}],
        "users": [{"name": "t", "user": {"token": "a-bearer-token-of-ours"}}],
        "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(tree))


@pytest.fixture
def world(place):
    one = World(place)
    kubeconfig(place, one.server.url)
    yield one
    one.stop()


@pytest.fixture
def launcher(place, capfd):
    """Runs the program in this process: its exit code, stdout and stderr."""
    root, ours, hook = logging.getLogger(), logging.getLogger("paperclip_launcher"), sys.excepthook
    before = (root.level, list(root.handlers), ours.level)

    def call(*words):
        code = main([str(word) for word in words])
        out = capfd.readouterr()
        return code, out.out, out.err

    yield call
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    ours.setLevel(before[2])
    sys.excepthook = hook
    logging.captureWarnings(capture=False)


@pytest.fixture
def request_file(place):
    """A request as Paperclip sends it."""

    def write(run_id="r-1", agent_id="a-1", **more):
        tree = {
            "runId": run_id,
            "agent": {"id": agent_id, "name": "Ann", "companyId": "c-1", "adapterType": "claude_k8s"},
            "runtime": {},
            "config": {},
            "context": {"taskId": "t-1"},
            **more,
        }
        path = place / f"{run_id}.json"
        path.write_text(json.dumps(tree))
        return path

    return write
