"""A whole Kubernetes with one real node: kubelet, containerd and runc, in namespaces and cgroups of its own.

It is started by the same scripts as the control plane alone (controlplane.py), which see to it that nothing of the
machine is changed but a veth pair and cgroups, and both go with it. It needs root. containerd, runc and the CNI
plugins are Debian's, unpacked into the user's cache and never installed; images come from files, for there is no
registry. The node sees no network but its own.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

controlplane, standin = sys.modules["controlplane"], sys.modules["standin"]
ControlPlane, ControlPlaneError, Say = controlplane.ControlPlane, controlplane.ControlPlaneError, controlplane.Say
Image = standin.Image

_HERE = Path(__file__).parent
_COMPONENTS = (*controlplane.COMPONENTS, "kubelet")
_PARTS = ("usr/bin/containerd", "usr/sbin/runc", "usr/lib/cni/bridge", "usr/lib/cni/host-local", "bin/busybox")
_PROGRAMS = ("ip", "nsenter", "unshare", "setpriv", "openssl", "curl")
_START_SECONDS, _STOP_SECONDS, _PARTS_SECONDS, _FAULT_SECONDS = 180, 60, 600, 60
LOG_LIMIT = "2Gi"
"""Of one container's log before the kubelet rotates it. What is rotated away no API shows, so the tests that count
every line run without; those about rotation set their own limit by `log_limit`."""


@dataclass(frozen=True)
class Node(ControlPlane):  # type: ignore[misc,valid-type]
    """A running one. `name` is that of its cgroups and, with -node, of its one node; `images` are there by digest."""

    tools: Path
    name: str
    images: tuple[Image, ...]

    @property
    def node(self) -> str:
        return f"{self.name}-node"

    @property
    def workspace(self) -> Path:
        """A folder that the node and this machine both see."""
        return self.state / "workspace"

    @property
    def audit_log(self) -> Path:
        """One JSON object a line for each request but those of Kubernetes' own components."""
        return self.state / "log/audit.jsonl"

    def rotated_logs(self) -> list[Path]:
        """Logs of containers that the kubelet has put aside, and that no API shows any more."""
        return list(self.state.glob("var-log/pods/*/*/*.log.*"))

    def fault(self, action: str, component: str) -> None:
        """`action` is stop, kill, start, restart, pause or resume; `component` such as kubelet or kube-apiserver."""
        # Not captured: what is started keeps the pipe open.
        done = subprocess.run(
            ["bash", str(self.tools / "component.sh"), action, component],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=controlplane.clean_environment({"STATE": str(self.state)}),
            timeout=_FAULT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{action} {component}: exit code {done.returncode}"

    def inside(self, *command: str) -> str:
        """What a command says that runs as root beside the kubelet."""
        holder = (self.state / "holder.pid").read_text().strip()
        done = subprocess.run(
            ["nsenter", "-t", holder, "-m", "-n", "-p", "-u", "-C", "-i", "--", *command],
            capture_output=True,
            text=True,
            timeout=_FAULT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    @contextmanager
    def log_limit(self, size: str) -> Iterator[None]:
        """Containers' logs are rotated at `size`, such as 10Mi, for as long as it lasts."""
        self._set_log_limit(LOG_LIMIT, size)
        try:
            yield
        finally:
            self._set_log_limit(size, LOG_LIMIT)

    def _set_log_limit(self, old: str, new: str) -> None:
        path = self.state / "kubelet.yaml"
        key = "containerLogMaxSize"
        path.write_text(path.read_text().replace(f"{key}: {old}\n", f"{key}: {new}\n"))
        self.fault("restart", "kubelet")


@contextmanager
def running(state: Path, images: Sequence[Image], say: Say) -> Iterator[Node]:
    """Fetches and builds what is missing, starts all in the folder `state`, and stops it whatever happens.

    `images` are those that pods may name, by tag or digest. Raises ControlPlaneError.
    """
    parts = fetch_and_build(say)
    tools, binaries = controlplane.tools_folder(), controlplane.binaries_folder()
    name = f"pc{random.randrange(16**6):06x}"
    guard = _guard(tools, state, name)
    try:
        found = Node(state, binaries / "kubectl", "", tools, name, tuple(images))
        yield _start(found, parts, say)
    finally:
        assert guard.stdin is not None, "it was opened with one"
        guard.stdin.close()
        guard.wait(_STOP_SECONDS)


def fetch_and_build(say: Say) -> Path:
    """What a node needs of this machine; the folder of Debian's parts. Raises ControlPlaneError."""
    if os.geteuid() != 0:
        raise ControlPlaneError("a real node makes namespaces and cgroups: run these tests as root")
    if lacking := [name for name in _PROGRAMS if shutil.which(name) is None]:
        raise ControlPlaneError(
            f"not on this machine: {', '.join(lacking)}; install iproute2, util-linux, openssl, curl"
        )
    controlplane.build_missing(controlplane.tools_folder(), controlplane.binaries_folder(), _COMPONENTS, say)
    return parts_folder(say)


def parts_folder(say: Say) -> Path:
    """Where Debian's containerd, runc, CNI plugins and busybox lie, fetched if need be. Raises ControlPlaneError."""
    tools = controlplane.tools_folder()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paperclip-cluster"
    cache.mkdir(parents=True, exist_ok=True)
    root = cache / "root"
    with (cache / "parts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _lacking(root):
            say("fetching containerd, runc and the CNI plugins from Debian")
            done = subprocess.run(
                ["bash", str(tools / "get-debian-parts.sh")],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env={**os.environ, "LAB": str(cache)},
                timeout=_PARTS_SECONDS,
                check=False,
            )
            if done.returncode != 0 or _lacking(root):
                raise ControlPlaneError(
                    f"Debian's packages are not to be had:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
                )
    return root


def _lacking(root: Path) -> list[str]:
    wanted = [root / part for part in _PARTS] + [root.parent / "img/pause.tar"]
    return [str(path) for path in wanted if not path.is_file()]


def _guard(tools: Path, state: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(_HERE / "guard.sh"), str(tools / "cluster-down.sh")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env=controlplane.clean_environment({"STATE": str(state), "NODE": "kubelet", "NAME": name}),
        start_new_session=True,
    )


def _start(node: Node, parts: Path, say: Say) -> Node:
    begun = time.monotonic()
    archives = [parts.parent / "img/pause.tar", *(image.archive for image in node.images)]
    settings = {
        "STATE": str(node.state),
        "NODE": "kubelet",
        "NAME": node.name,
        "SUBNET": _free_subnet(),
        "KBIN": str(node.kubectl_path.parent),
        "ROOT": str(parts),
        "IMAGES": " ".join(str(archive) for archive in archives),
        "LOG_MAX_SIZE": LOG_LIMIT,
    }
    # It ends with us: the guard must not tidy up before something that still starts more.
    done = subprocess.run(
        ["setpriv", "--pdeathsig", "KILL", "bash", str(node.tools / "cluster-up.sh")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=controlplane.clean_environment(settings),
        timeout=_START_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ControlPlaneError(f"the cluster does not start; logs in {node.state / 'log'}\n{done.stderr[-4000:]}")
    # The machine's name server cannot be reached from there, and each image that is not there would wait for it.
    node.inside("mount", "--bind", str(node.state / "resolv.conf"), "/etc/resolv.conf")
    for image in node.images:
        # What a pull by digest leaves behind; an import knows the tag alone.
        node.inside(str(parts / "usr/bin/ctr"), "-n", "k8s.io", "images", "tag", image.name, image.by_digest)
    node.workspace.mkdir(mode=0o777)
    node.workspace.chmod(0o777)
    version = node.must("version", "-o", "json").json["serverVersion"]["gitVersion"]
    say(f"Kubernetes {version} with a real node up in {time.monotonic() - begun:.1f} s")
    return replace(node, server=version)


def _free_subnet() -> str:
    """The first three numbers of a /24 in 10.0.0.0/8 to which this machine knows no way."""
    known = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    while True:
        subnet = f"10.{random.randrange(128, 240)}.{random.randrange(1, 255)}"
        if f"{subnet}." not in known:
            return subnet
