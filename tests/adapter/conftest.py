"""A real launcher, as a process, before a cluster on a loopback socket; and the adapter, as another process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.adapter.node_program import FOLDER, node
from tests.launcher.cli.conftest import ROOT, World, kubeconfig


class Adapter:
    """One life of a server with the adapter in it. What it was told of a run stands in `told`."""

    def __init__(self, environment):
        self.told = []
        self._process = subprocess.Popen(
            [node(), str(FOLDER / "drive.mjs")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
            cwd=ROOT,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self.told.append(json.loads(line))

    def execute(self, run, agent="agent-1", task="T-1", **config):
        context = {
            "runId": run,
            "agent": {"id": agent, "companyId": "company-1", "name": "Ada", "adapterType": "claude_k8s"},
            "runtime": {"taskKey": task},
            "config": config,
            "context": {"issueId": task},
            "authToken": "token-of-the-run-0123456789",
        }
        self.order({"execute": context})

    def order(self, tree):
        self._process.stdin.write(json.dumps(tree) + "\n")
        self._process.stdin.flush()

    def of(self, run, kind):
        return [one for one in tuple(self.told) if one["runId"] == run and one["kind"] == kind]

    def log(self, run):
        return "".join(one["text"] for one in self.of(run, "log") if one["stream"] == "stdout")

    def result(self, run):
        wait_for(lambda: self.of(run, "result"))
        return self.of(run, "result")[0]["result"]

    def kill(self):
        self._process.kill()
        self._process.communicate()


def wait_for(true, seconds=30.0):
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)
    return found


class Site:
    """The cluster, the launcher as a sidecar, and servers."""

    def __init__(self, folder):
        self.folder = folder
        self.world = World(folder)
        kubeconfig(folder, self.world.server.url)
        self.socket = folder / "s"
        self.launcher = None
        self.adapters = []

    def command(self, *doors):
        where = ["--templates", str(ROOT / "dist" / "minimal" / "job-templates"), "--state", str(self.folder / "state")]
        where += ["--kubeconfig", str(self.folder / "kubeconfig")]
        return [sys.executable, "-m", "paperclip_launcher.cli.main", "serve", *doors, *where]

    def start_launcher(self):
        with (self.folder / "launcher.log").open("ab") as log:
            self.launcher = subprocess.Popen(self.command("--socket", str(self.socket)), stderr=log, cwd=ROOT)

    def kill_launcher(self):
        self.launcher.send_signal(signal.SIGKILL)
        self.launcher.wait()

    def server(self, **environment):
        environment = environment or {"PAPERCLIP_LAUNCHER_SOCKET": str(self.socket)}
        self.adapters.append(Adapter(environment))
        return self.adapters[-1]

    def stop(self):
        for adapter in self.adapters:
            adapter.kill()
        if self.launcher is not None and self.launcher.poll() is None:
            self.kill_launcher()
        self.world.stop()


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path)
    yield found
    found.stop()
