"""A real Paperclip server of our own, with its own Postgres: on loopback, in a folder that goes with it.

It trusts loopback (`local_trusted`), so nobody has to log in, and it asks the network for nothing: its environment
holds no proxy and none of our settings, telemetry and updates are off, and where we are root it finds no name server.
Postgres refuses root: then all of it runs as `nobody` with one right of root's, to read every file, since checkout,
Python and kubeconfigs may lie in root's home. Both ports come from below those that the kernel gives to clients, so
that they are still free after a restart.
"""

from __future__ import annotations

import json
import os
import pwd
import random
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

paperclipapp = sys.modules["paperclipapp"]
paperclipapi = sys.modules["paperclipapi"]
App, PaperclipError, Say = paperclipapp.App, paperclipapp.PaperclipError, paperclipapp.Say

_GUARD = Path(__file__).with_name("guard.py")
_USER = "nobody"
_RIGHT, _RIGHT_SETS = "-all,+dac_read_search", ("inh-caps", "ambient-caps", "bounding-set")
_READY_SECONDS, _END_SECONDS, _STOP_SECONDS = 180, 60, 60
_PORTS = range(20000, 30000)
_PORT_TAKEN = "Requested port is busy"
_HIDE = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'


class Server:
    """One that can be stopped, killed and started again, always with the same data, settings and ports.

    `folder` holds all that is its own; `api` talks to it as the board's user.
    """

    def __init__(self, folder: Path, port: int, guard: subprocess.Popen[bytes]) -> None:
        self.folder, self.port = folder, port
        self.url = f"http://127.0.0.1:{port}"
        self.api = paperclipapi.Paperclip(self.url)
        self.pid = 0
        self._guard = guard
        self._heard = b""

    @property
    def instance(self) -> Path:
        """The server's own state: config.json, db, logs, workspaces."""
        return self.folder / "home/instances/default"

    @property
    def output(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    @property
    def postmaster(self) -> int:
        """The pid of Postgres, 0 where it does not run."""
        path = self.instance / "db/postmaster.pid"
        return int(path.read_text().split()[0]) if path.exists() else 0

    def room(self, name: str) -> Path:
        """A new folder that the server can read and write; an adapter's, for one."""
        path = self.folder / name
        path.mkdir(parents=True)
        give(path)
        return path

    def start(self) -> float:
        """Starts it and waits until it takes requests; the seconds that took. Raises PaperclipError."""
        assert not self.pid, "it runs already"
        begun = time.monotonic()
        self._order("start")
        self.pid = int(self._told("started", _END_SECONDS))
        while not self._ready():
            if self._listen(0.2):
                code = self._told("ended", 0)
                self.pid = 0
                raise PaperclipError(f"the server ended while it started ({code})\n{self.output[-4000:]}")
            if time.monotonic() - begun > _READY_SECONDS:
                raise PaperclipError(f"the server is not ready after {_READY_SECONDS} s\n{self.output[-4000:]}")
        return time.monotonic() - begun

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Sends a signal and waits until the server is gone; the seconds that took. Killed it leaves Postgres."""
        assert self.pid, "it does not run"
        begun = time.monotonic()
        self._order(str(int(number)))
        self._told("ended", _END_SECONDS)
        self.pid = 0
        return time.monotonic() - begun

    def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.stop(number)
        self.start()

    def _ready(self) -> bool:
        try:
            return bool(self.api.health()["status"] == "ok")
        except (httpx.TransportError, paperclipapi.Refused):
            return False

    def _order(self, text: str) -> None:
        assert self._guard.stdin is not None, "it was opened with one"
        self._guard.stdin.write(f"{text}\n".encode())
        self._guard.stdin.flush()

    def _told(self, word: str, seconds: float) -> str:
        """What the guard says of `word`."""
        end = time.monotonic() + seconds
        while not self._listen(end - time.monotonic()):
            if time.monotonic() > end:
                raise PaperclipError(f"waited {seconds:.0f} s for the server's guard to tell `{word}`")
        line, _, self._heard = self._heard.partition(b"\n")
        said, _, rest = line.decode().partition(" ")
        if said != word:
            raise PaperclipError(f"the server {line.decode()} where `{word}` was expected\n{self.output[-4000:]}")
        return rest

    def _listen(self, seconds: float) -> bool:
        """Whether the guard has told something."""
        assert self._guard.stdout is not None, "it was opened with one"
        if b"\n" not in self._heard and select.select([self._guard.stdout], [], [], max(0, seconds))[0]:
            heard = os.read(self._guard.stdout.fileno(), 4096)
            if not heard:
                raise PaperclipError(f"the server's guard is gone\n{self.output[-4000:]}")
            self._heard += heard
        return b"\n" in self._heard


@contextmanager
def running(say: Say, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Installs what is missing, starts a server and takes it away whatever happens, with all that it started.

    `environment` goes to the server besides what it needs. Raises PaperclipError.
    """
    app = paperclipapp.installed(say)
    # Another program may take the port between our look and the start: then the server would go on with another.
    for _ in range(3):
        with _one(app, environment or {}) as server:
            took = server.start()
            if _PORT_TAKEN in server.output:
                continue
            say(f"Paperclip {app.version} up in {took:.1f} s, {server.url}")
            yield server
            return
    raise PaperclipError("no free port for a Paperclip server")


@contextmanager
def _one(app: App, environment: Mapping[str, str]) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="paperclip-server-"))
    try:
        folder.chmod(0o711)
        port, database = _free_ports()
        for path in (folder / "home/instances/default", folder / "user"):
            path.mkdir(parents=True)
        _configure(folder, port, database)
        give(folder / "home")
        give(folder / "user")
        server = Server(folder, port, _guard(app, folder, port, environment))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        yield server
    finally:
        server.api.close()
        server._guard.communicate(timeout=_STOP_SECONDS)


def _free_ports() -> tuple[int, int]:
    found: list[int] = []
    while len(found) < 2:
        port = random.choice(_PORTS)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found[0], found[1]


def _configure(folder: Path, port: int, database: int) -> None:
    """What `paperclipai onboard` writes, without telemetry, updates and backups."""
    instance = folder / "home/instances/default"
    config = {
        "$meta": {
            "version": 1,
            "updatedAt": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
            "source": "onboard",
        },
        "database": {
            "mode": "embedded-postgres",
            "embeddedPostgresDataDir": f"{instance}/db",
            "embeddedPostgresPort": database,
            "backup": {"enabled": False},
        },
        "logging": {"mode": "file", "logDir": f"{instance}/logs"},
        "server": {
            "deploymentMode": "local_trusted",
            "exposure": "private",
            "bind": "loopback",
            "host": "127.0.0.1",
            "port": port,
            "serveUi": True,
        },
        "telemetry": {"enabled": False},
        "updates": {"checkEnabled": False},
        "storage": {"provider": "local_disk", "localDisk": {"baseDir": f"{instance}/data/storage"}},
        "secrets": {"provider": "local_encrypted", "localEncrypted": {"keyFilePath": f"{instance}/secrets/master.key"}},
    }
    (instance / "config.json").write_text(json.dumps(config))
    names = ("PAPERCLIP_AGENT_JWT_SECRET", "PAPERCLIP_TOOL_ACTION_SIGNING_SECRET")
    (instance / ".env").write_text("".join(f"{name}={secrets.token_hex(32)}\n" for name in names))
    (instance / ".env").chmod(0o600)
    (folder / "resolv.conf").write_text("# no name server\n")
    (folder / "server.log").touch()


def _guard(app: App, folder: Path, port: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Ends all of it as soon as its standard input is closed: by us, or by our death, kill -9 included."""
    settings = {
        "HOME": str(folder / "user"),
        "TMPDIR": str(folder / "user"),  # the scratch folders of runs that a killed server had
        "USER": _USER if _as_another() else pwd.getpwuid(os.geteuid()).pw_name,
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PATH": f"{app.node.parent}:/usr/local/bin:/usr/bin:/bin",
        "PAPERCLIP_HOME": str(folder / "home"),
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "PAPERCLIP_TELEMETRY_DISABLED": "1",
        "DO_NOT_TRACK": "1",
        "PAPERCLIP_ANNOUNCEMENTS_ENABLED": "false",
        "PAPERCLIP_MIGRATION_AUTO_APPLY": "true",
        **environment,
    }
    command = [*_wrapper(folder), str(app.node), str(app.server / "dist/index.js")]
    return subprocess.Popen(
        [sys.executable, "-I", str(_GUARD), str(folder), str(folder / "server.log"), *command],
        cwd=folder / "user",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=settings,
        start_new_session=True,
    )


def _as_another() -> bool:
    return os.geteuid() == 0


def _wrapper(folder: Path) -> list[str]:
    """Each of these becomes the next, so that the server keeps the pid of the first."""
    if not _as_another():
        return []
    return ["unshare", "--mount", "sh", "-c", _HIDE, "sh", str(folder / "resolv.conf"), *as_its_user()]


def as_its_user(*options: str) -> list[str]:
    """Before a command this makes it run as the server does, with these options of setpriv beside."""
    user = pwd.getpwnam(_USER) if _as_another() else None
    if user is None:
        return ["setpriv", *options, "--"]
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    rights = [
        "--securebits=+no_setuid_fixup",
        f"--inh-caps={_RIGHT}",
        f"--ambient-caps={_RIGHT}",
        f"--bounding-set={_RIGHT}",
    ]
    return ["setpriv", *ids, *rights, *options, "--"]


def give(folder: Path) -> None:
    """To the user that the server runs as, with all in it."""
    if _as_another():
        user = pwd.getpwnam(_USER)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user.pw_uid, user.pw_gid)
