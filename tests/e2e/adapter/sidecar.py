"""The launcher beside the server, as in the server's pod: a process of its own, with the server's user and rights."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

controlplane, paperclipserver = sys.modules["controlplane"], sys.modules["paperclipserver"]

_PROGRAM = Path(sys.executable).with_name("paperclip-launcher")
_START_SECONDS, _END_SECONDS = 60, 30
IDENTITY = "beside-the-server"


class Sidecar:
    """`paperclip-launcher serve`. It may be ended in any way and started again, always with the same state and socket.

    `templates` are the environment's, with the server's URL as these pods reach it; `skills` is the folder from which
    instructions may come, known when the server is.
    """

    def __init__(self, site: Any, folder: Path, url: str) -> None:
        self.folder = folder
        self.socket = folder / "run/launcher.sock"
        self.skills: Path | None = None
        self._namespace = site.agents
        self._http = ""
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("run", "state"):
            (folder / name).mkdir(mode=0o700)
        self.kubeconfig = folder / "kubeconfig"
        shutil.copyfile(site.kubeconfig, self.kubeconfig)
        self.kubeconfig.chmod(0o600)
        self.templates = self.changed_templates("templates", site.templates_folder, in_cluster_url(site), url)
        paperclipserver.give(folder)

    def changed_templates(self, name: str, source: Path, old: str, new: str) -> Path:
        """Those of `source` with one text in place of another, in a new folder."""
        made = self.folder / name
        made.mkdir()
        found = 0
        for path in source.iterdir():
            text = path.read_text()
            found += text.count(old)
            (made / path.name).write_text(text.replace(old, new))
        assert found, f"{old} stands in no template"
        return made

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        path = self.folder / "launcher.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def metrics(self) -> str:
        return httpx.get(f"{self._http}/metrics", trust_env=False).text

    def start(self, templates: Path | None = None) -> None:
        """Until it takes runs."""
        assert not self.running, "it runs already"
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        self._http = f"http://127.0.0.1:{port}"
        options = {
            "socket": self.socket,
            "http": f":{port}",
            "state": self.folder / "state",
            "identity": IDENTITY,
            "templates": templates or self.templates,
            "kubeconfig": self.kubeconfig,
            "namespace": self._namespace,
            "skills": self.skills,
        }
        named = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        with (self.folder / "launcher.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*paperclipserver.as_its_user("--pdeathsig=KILL"), str(_PROGRAM), "serve", *named],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,
            )
        controlplane.wait_until("the launcher to be ready", _START_SECONDS, self._ready, lambda: self.output[-4000:])

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code, -9 for a killed one."""
        assert self._process is not None, "it was never started"
        self._process.send_signal(number)
        return self._process.wait(_END_SECONDS)

    def _ready(self) -> bool:
        assert self.running, f"the launcher has ended\n{self.output[-4000:]}"
        try:
            return httpx.get(f"{self._http}/readyz", trust_env=False).is_success
        except httpx.TransportError:
            return False


def in_cluster_url(site: Any) -> str:
    """The server's URL as the environment says it: of a Service, which nobody resolves here."""
    from charts_py.constructs.addresses import api_url

    return api_url(site.config)


@contextmanager
def made(site: Any, url: str) -> Iterator[Sidecar]:
    """One that was not started yet."""
    # With the node's own files, which go also where tests are killed. The path of a socket has at most 107 bytes.
    folder = site.cluster.state / "sidecar"
    folder.mkdir()
    sidecar = Sidecar(site, folder, url)
    try:
        yield sidecar
    finally:
        if sidecar.running:
            sidecar.end(signal.SIGKILL)
