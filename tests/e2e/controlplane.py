"""A Kubernetes control plane of our own: built when it is missing, started on free ports, and always stopped again.

What starts it are the scripts of $PAPERCLIP_CLUSTER_TOOLS (by default shared/tools/cluster beside the repository). Only
etcd, the API server, the controller manager and the scheduler run, and all of them on 127.0.0.1. Nothing plays a node,
so pods are admitted, made and then stay Pending: enough for all that the API server and the controllers decide.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KUBERNETES = "v1.35.4"
"""What is built where nothing is there; a release that Go's checksum database can prove."""
COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_PORTS = ("API_PORT", "ETCD_PORT", "ETCD_PEER_PORT", "KCM_PORT", "SCHED_PORT")
_START_SECONDS, _STOP_SECONDS, _BUILD_SECONDS = 180, 90, 3600
_KUBECTL_SECONDS = 120

Say = Callable[[str], None]


class ControlPlaneError(Exception):
    """No control plane can be had. The message says why and what to do."""


@dataclass(frozen=True)
class Answer:
    """What kubectl said."""

    code: int
    out: str
    err: str

    @property
    def fine(self) -> bool:
        return self.code == 0

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __str__(self) -> str:
        return f"exit code {self.code}\n{self.out}{self.err}"


@dataclass(frozen=True)
class ControlPlane:
    """A running one. `state` holds its files, `server` is the version of its API server, such as v1.35.4."""

    state: Path
    kubectl_path: Path
    server: str

    @property
    def kubeconfig(self) -> Path:
        return self.state / "admin.kubeconfig"

    def environment(self) -> dict[str, str]:
        """For programs that ask kubectl: it comes first on the PATH and knows this cluster only."""
        return {
            **os.environ,
            "PATH": f"{self.kubectl_path.parent}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.state / "kubectl-cache"),
        }

    def kubectl(self, *arguments: str, objects: Sequence[Mapping[str, Any]] | None = None) -> Answer:
        """One call; `objects` go to its standard input, several as one List."""
        text = None
        if objects is not None:
            listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
            text = json.dumps(objects[0] if len(objects) == 1 else listed)
        done = subprocess.run(
            [str(self.kubectl_path), *arguments],
            input=text,
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=_KUBECTL_SECONDS,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def must(self, *arguments: str, objects: Sequence[Mapping[str, Any]] | None = None) -> Answer:
        """As `kubectl`, where only success makes sense."""
        answer = self.kubectl(*arguments, objects=objects)
        assert answer.fine, f"kubectl {' '.join(arguments)}: {answer}"
        return answer

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        """The objects of a kind."""
        found: list[dict[str, Any]] = self.must("get", kind, *arguments, "-o", "json").json["items"]
        return found


def wait_until(what: str, seconds: float, check: Callable[[], Any], detail: Callable[[], str] = str) -> Any:
    """What `check` answers as soon as it is true; AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        if answer := check():
            return answer
        assert time.monotonic() < end, f"waited {seconds:.0f} s for {what}\n{detail()}"
        time.sleep(0.2)


@contextmanager
def running(state: Path, say: Say) -> Iterator[ControlPlane]:
    """Builds what is missing, starts a control plane in the folder `state`, and stops it whatever happens.

    Raises ControlPlaneError.
    """
    tools = tools_folder()
    binaries = binaries_folder()
    build_missing(tools, binaries, COMPONENTS, say)
    guard = _guard(tools, state)
    try:
        yield _start(tools, binaries, state, say)
    finally:
        assert guard.stdin is not None, "it was opened with one"
        guard.stdin.close()
        guard.wait(_STOP_SECONDS)


def tools_folder() -> Path:
    folder = Path(os.environ.get("PAPERCLIP_CLUSTER_TOOLS") or ROOT.parent / "shared/tools/cluster")
    if not (folder / "cluster-up.sh").is_file():
        raise ControlPlaneError(
            f"{folder} holds no cluster-up.sh: set PAPERCLIP_CLUSTER_TOOLS to the folder that starts a control plane",
        )
    return folder


def binaries_folder() -> Path:
    """Where the tools keep what they build; KBIN names another folder, as it does for them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("KBIN") or cache / "paperclip-cluster/bin")


def build_missing(tools: Path, binaries: Path, components: Sequence[str], say: Say) -> None:
    """Builds etcd and those of `components` that are not there, one process at a time. Raises ControlPlaneError."""
    if not _missing(binaries, components):
        return
    binaries.mkdir(parents=True, exist_ok=True)
    with (binaries.parent / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("somebody else builds Kubernetes; waiting for that")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if missing := _missing(binaries, components):
            _build(tools, binaries, missing, lock.fileno(), say)


def _missing(binaries: Path, components: Sequence[str]) -> list[str]:
    return [name for name in (*components, "etcd") if not os.access(binaries / name, os.X_OK)]


def _build(tools: Path, binaries: Path, missing: Sequence[str], lock: int, say: Say) -> None:
    if shutil.which("go") is None:
        raise ControlPlaneError(
            f"{', '.join(missing)} missing in {binaries}, and Go to build them is not there: "
            "install Go 1.26 or newer, or point KBIN at a folder with these programs",
        )
    log = binaries.parent / "build.log"
    targets = ["etcd"] if "etcd" in missing else []
    wanted = [name for name in missing if name != "etcd"]
    targets += ["k8s"] if wanted else []
    settings = {"K8S": KUBERNETES, "K8S_WHAT": " ".join(wanted), "OUT": str(binaries)}
    say(f"building {', '.join(missing)} ({KUBERNETES}) with Go; about ten minutes; log: {log}")
    begun = time.monotonic()
    with log.open("w") as stream:
        building = subprocess.Popen(
            ["bash", str(tools / "build-go.sh"), *targets],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, **settings},
            start_new_session=True,
            pass_fds=[lock],  # a build whose tests were killed goes on, and the next tests wait for it
        )
        try:
            _follow(building, log, begun, say)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(building.pid, signal.SIGKILL)
            building.wait()
    if building.returncode != 0:
        raise ControlPlaneError(f"the build failed ({building.returncode}); the end of {log}:\n{_tail(log)}")
    say(f"built in {time.monotonic() - begun:.0f} s")


def _follow(building: subprocess.Popen[bytes], log: Path, begun: float, say: Say) -> None:
    while True:
        try:
            building.wait(30)
        except subprocess.TimeoutExpired:
            passed = time.monotonic() - begun
            say(f"still building after {passed:.0f} s: {_tail(log, 1) or 'fetching modules'}")
            if passed > _BUILD_SECONDS:
                return
        else:
            return


def _guard(tools: Path, state: Path) -> subprocess.Popen[str]:
    """Stops the control plane as soon as its standard input is closed: by us, or by our death, kill -9 included."""
    return subprocess.Popen(
        ["bash", "-c", 'read -r _; exec bash "$1"', "guard", str(tools / "cluster-down.sh")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env=clean_environment({"STATE": str(state), "NODE": "none"}),
        start_new_session=True,
    )


def _start(tools: Path, binaries: Path, state: Path, say: Say) -> ControlPlane:
    """Another program may take a port between our look and the start: so it is tried twice more."""
    said = ""
    for _ in range(3):
        begun = time.monotonic()
        settings = {"STATE": str(state), "NODE": "none", "KBIN": str(binaries), **_free_ports()}
        done = subprocess.run(
            ["bash", str(tools / "cluster-up.sh")],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=clean_environment(settings),
            timeout=_START_SECONDS,
            check=False,
        )
        if done.returncode == 0:
            found = ControlPlane(state, binaries / "kubectl", "")
            version = found.must("version", "-o", "json").json["serverVersion"]["gitVersion"]
            say(f"Kubernetes {version} up in {time.monotonic() - begun:.1f} s, API port {settings['API_PORT']}")
            return ControlPlane(state, binaries / "kubectl", version)
        said = done.stderr
    raise ControlPlaneError(f"the control plane does not start; logs in {state / 'log'}\n{said[-4000:]}")


def _free_ports() -> dict[str, str]:
    sockets = [socket.socket() for _ in _PORTS]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return {name: str(one.getsockname()[1]) for name, one in zip(_PORTS, sockets, strict=True)}
    finally:
        for one in sockets:
            one.close()


def clean_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The scripts read short names such as V or NAME from the environment, which may be there by accident."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CACHE_HOME") if name in os.environ}
    return {**kept, **settings}


def _tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
