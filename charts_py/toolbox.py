"""Installs the tools that are not Python: kubeconform, at one version, into `.tools/bin` of the repository.

Go builds it where Go is there: Go's checksum database proves the source. Elsewhere the archive of the release
is fetched and must have the sha256 that is written here.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from charts_py.errors import ClusterUnreachable, GitopsError, ToolMissing

if TYPE_CHECKING:
    import httpx

NAME = "kubeconform"
VERSION = "0.7.0"
MODULE = f"github.com/yannh/kubeconform/cmd/kubeconform@v{VERSION}"
RELEASES = "https://github.com/yannh/kubeconform/releases/download"
OLDEST_GO = (1, 24)
_NAMED = f"-ldflags=-X=main.version=v{VERSION}"  # as the releases are built; else it calls itself "development"

# The sha256 of kubeconform-<platform>.tar.gz of v0.7.0. Source: CHECKSUMS of that release, as quoted in
# github.com/rulehub/rulehub-charts (hack/checksums/kubeconform-v0.7.0.CHECKSUMS, commit
# 8d1d53162ebab91d3c51042f82cd295034364b13); the build tool Pants pins the same four.
CHECKSUMS = {
    "linux-amd64": "c31518ddd122663b3f3aa874cfe8178cb0988de944f29c74a0b9260920d115d3",
    "linux-arm64": "cc907ccf9e3c34523f0f32b69745265e0a6908ca85b92f41931d4537860eb83c",
    "darwin-amd64": "c6771cc894d82e1b12f35ee797dcda1f7da6a3787aa30902a15c264056dd40d4",
    "darwin-arm64": "b5d32b2cb77f9c781c976b20a85e2d0bc8f9184d5d1cfe665a2f31a19f99eeb9",
}
_LARGEST = 64 << 20  # bytes; the archive has 7 MB, the binary 10 MB
_BUILD_SECONDS = 600
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_OTHER_WAY = "Install Go 1.24 or newer, or put kubeconform on PATH yourself."


@dataclass(frozen=True)
class Installed:
    """What stands at `path` now; `how` is "there already", "built with Go" or "fetched"."""

    path: Path
    version: str
    how: str


def this_platform() -> str:
    """As the releases name it: "linux-amd64"."""
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{_MACHINES.get(machine, machine)}"


def usable_go() -> Path | None:
    """The `go` on PATH when it is new enough, else None."""
    found = shutil.which("go")
    if found is None:
        return None
    match = re.search(r"\bgo(\d+)\.(\d+)", _output([found, "version"]))
    return Path(found) if match and (int(match[1]), int(match[2])) >= OLDEST_GO else None


def install_kubeconform(
    root: Path,
    *,
    go: Path | None,
    system: str,
    releases: str = RELEASES,
    transport: httpx.BaseTransport | None = None,
) -> Installed:
    """Puts the pinned version at `root`/.tools/bin/kubeconform. Nothing half-made is ever at that place.

    `go` None means: fetch the release for `system`. Raises GitopsError, ToolMissing or ClusterUnreachable.
    """
    path = root / ".tools" / "bin" / NAME
    if path.is_file() and _output([str(path), "-v"]).strip() == f"v{VERSION}":
        return Installed(path, VERSION, "there already")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-") as folder:
        fresh = Path(folder, NAME)
        if go is not None:
            _build(go, fresh)
        else:
            _fetch(fresh, system, releases, transport)
        said = _output([str(fresh), "-v"]).strip()
        if said != f"v{VERSION}":
            raise GitopsError(f'the new kubeconform calls itself "{said}", not v{VERSION}', _OTHER_WAY)
        fresh.replace(path)
    return Installed(path, VERSION, "built with Go" if go else "fetched")


def _build(go: Path, target: Path) -> None:
    environment = {**os.environ, "GOBIN": str(target.parent), "GOFLAGS": "-trimpath"}
    try:
        done = subprocess.run(
            [str(go), "install", _NAMED, MODULE],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolMissing(f"{go} could not build kubeconform: {error}", _OTHER_WAY) from error
    if done.returncode != 0 or not target.is_file():
        said = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        raise ToolMissing(f"go install {MODULE} failed: {said}", "Mend that, or put kubeconform on PATH yourself.")


def _fetch(target: Path, system: str, releases: str, transport: httpx.BaseTransport | None) -> None:
    expected = CHECKSUMS.get(system)
    if expected is None:
        raise ToolMissing(f"no checksum is known for kubeconform {VERSION} on {system}", _OTHER_WAY)
    address = f"{releases}/v{VERSION}/{NAME}-{system}.tar.gz"
    archive = _download(address, transport)
    actual = hashlib.sha256(archive).hexdigest()
    if actual != expected:
        raise GitopsError(
            f"{address} has the sha256 {actual}, pinned is {expected}",
            f"The archive is damaged or not the release; try again. {_OTHER_WAY}",
        )
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as opened:
            member = opened.extractfile(NAME)
            content = member.read(_LARGEST + 1) if member else b""
    except (tarfile.TarError, KeyError, OSError, EOFError) as error:
        raise GitopsError(f"{address} is not an archive with a file {NAME}: {error}", _OTHER_WAY) from error
    if not content or len(content) > _LARGEST:
        raise GitopsError(f"{address} holds no usable file {NAME}", _OTHER_WAY)
    target.write_bytes(content)
    target.chmod(0o755)


def _download(address: str, transport: httpx.BaseTransport | None) -> bytes:
    import httpx  # noqa: PLC0415 - 50 ms that a tool already installed need not cost

    chunks: list[bytes] = []
    size = 0
    try:
        with (
            httpx.Client(transport=transport, timeout=30.0, follow_redirects=True) as client,
            client.stream("GET", address) as response,
        ):
            response.raise_for_status()
            for chunk in response.iter_bytes():
                size += len(chunk)
                if size > _LARGEST:
                    raise GitopsError(f"{address} is larger than {_LARGEST >> 20} MiB", _OTHER_WAY)
                chunks.append(chunk)
    except httpx.HTTPError as error:
        raise ClusterUnreachable(f"{address} cannot be fetched: {error}", f"Try again. {_OTHER_WAY}") from error
    return b"".join(chunks)


def _output(command: list[str]) -> str:
    """What the command prints, "" where it does not run."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeError):
        return ""
    return done.stdout
