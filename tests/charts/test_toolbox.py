"""`tools install`: the right version at its place, or an error and nothing at its place."""

from __future__ import annotations

import argparse
import hashlib
import io
import shutil
import stat
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from charts_py import toolbox
from charts_py.cli import tools as verb
from charts_py.errors import ClusterUnreachable, GitopsError, ToolMissing

SYSTEM = "linux-amd64"
WORKS = f'#!/bin/sh\n[ "$1" = -v ] && echo v{toolbox.VERSION}\n'


def archive(content: str = WORKS, name: str = "kubeconform", kind: bytes = tarfile.REGTYPE) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as opened:
        for member, text in (("LICENSE", "words"), (name, content)):
            entry = tarfile.TarInfo(member)
            entry.size = len(text.encode())
            if member == name and kind != tarfile.REGTYPE:
                entry.type, entry.linkname, entry.size = kind, "/bin/sh", 0
            opened.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def releases(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[BaseHTTPRequestHandler]]]:
    """A release server on the loopback that answers as GitHub does: with a redirect to the storage."""

    class Handler(BaseHTTPRequestHandler):
        content: ClassVar[bytes] = archive()
        asked: ClassVar[list[str]] = []

        def do_GET(self) -> None:
            self.asked.append(self.path)
            if self.path.startswith("/storage/"):
                self.send_response(200)
                self.send_header("Content-Length", str(len(self.content)))
                self.end_headers()
                self.wfile.write(self.content)
            else:
                self.send_response(302)
                self.send_header("Location", "/storage/blob")
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    pin(monkeypatch, Handler.content)
    yield f"http://127.0.0.1:{server.server_address[1]}/download", Handler
    server.shutdown()
    server.server_close()
    thread.join()


def pin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(toolbox, "CHECKSUMS", {SYSTEM: hashlib.sha256(content).hexdigest()})


def fetch(root: Path, address: str = toolbox.RELEASES, **options: Any) -> toolbox.Installed:
    return toolbox.install_kubeconform(root, **{"go": None, "system": SYSTEM, "releases": address, **options})


def left_behind(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.name != ".tools" or path.is_file())


def go(path: Path, body: str, version: str = "go1.26.8") -> Path:
    """A stand-in for Go: builds "kubeconform" by writing it into GOBIN, as `go install` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = version ]; then echo "go version {version} linux/amd64"; exit; fi\n{body}\n'
    )
    path.chmod(0o755)
    return path


BUILDS = f"""
echo "$GOFLAGS" "$@" > "$(dirname "$0")/called"
printf '#!/bin/sh\\necho v{toolbox.VERSION}\\n' > "$GOBIN/kubeconform" && chmod +x "$GOBIN/kubeconform"
"""


def test_a_release_with_the_right_checksum_is_installed(tmp_path: Path, releases: Any) -> None:
    address, handler = releases
    done = fetch(tmp_path, address)
    assert done == toolbox.Installed(tmp_path / ".tools/bin/kubeconform", toolbox.VERSION, "fetched")
    assert handler.asked[0] == f"/download/v{toolbox.VERSION}/kubeconform-linux-amd64.tar.gz"
    assert done.path.read_text() == WORKS
    assert stat.S_IMODE(done.path.stat().st_mode) == 0o755
    assert left_behind(tmp_path) == [".tools/bin", ".tools/bin/kubeconform"]


def test_what_is_there_at_the_right_version_is_left_alone(tmp_path: Path, releases: Any) -> None:
    address, handler = releases
    fetch(tmp_path, address)
    handler.asked.clear()
    assert fetch(tmp_path, address).how == "there already"
    assert handler.asked == []


def test_another_version_is_replaced(tmp_path: Path, releases: Any) -> None:
    old = tmp_path / ".tools" / "bin" / "kubeconform"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho v0.6.0\n")
    old.chmod(0o755)
    assert fetch(tmp_path, releases[0]).how == "fetched"
    assert old.read_text() == WORKS


def test_a_wrong_checksum_is_refused_with_both_sums_and_nothing_is_left(tmp_path: Path, releases: Any) -> None:
    address, handler = releases
    handler.content = archive("#!/bin/sh\necho evil\n")
    with pytest.raises(GitopsError) as caught:
        fetch(tmp_path, address)
    assert hashlib.sha256(handler.content).hexdigest() in caught.value.message
    assert toolbox.CHECKSUMS[SYSTEM] in caught.value.message
    assert left_behind(tmp_path) == [".tools/bin"]


def test_a_wrong_checksum_leaves_the_old_binary_in_its_place(tmp_path: Path, releases: Any) -> None:
    old = tmp_path / ".tools" / "bin" / "kubeconform"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho v0.6.0\n")
    old.chmod(0o755)
    releases[1].content = b"x"
    with pytest.raises(GitopsError):
        fetch(tmp_path, releases[0])
    assert "v0.6.0" in old.read_text()


@pytest.mark.parametrize(
    "content",
    [
        b"no archive",
        archive(name="other"),
        archive(kind=tarfile.SYMTYPE),
        archive(kind=tarfile.DIRTYPE),
        archive(""),
    ],
)
def test_an_archive_without_the_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    pin(monkeypatch, content)
    with pytest.raises(GitopsError):
        fetch(tmp_path, transport=httpx.MockTransport(lambda _: httpx.Response(200, content=content)))
    assert left_behind(tmp_path) == [".tools/bin"]


def test_a_program_that_is_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = archive("#!/bin/sh\necho v0.0.1\n")
    pin(monkeypatch, content)
    with pytest.raises(GitopsError, match=r'calls itself "v0\.0\.1"'):
        fetch(tmp_path, transport=httpx.MockTransport(lambda _: httpx.Response(200, content=content)))
    assert left_behind(tmp_path) == [".tools/bin"]


def test_a_platform_without_a_known_checksum_is_told_the_other_ways(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="windows-amd64") as caught:
        toolbox.install_kubeconform(tmp_path, go=None, system="windows-amd64")
    assert "Install Go 1.24 or newer, or put kubeconform on PATH" in caught.value.remedy


@pytest.mark.parametrize("status", [404, 500])
def test_a_release_that_cannot_be_fetched_is_unreachable(tmp_path: Path, status: int) -> None:
    with pytest.raises(ClusterUnreachable, match=str(status)):
        fetch(tmp_path, transport=httpx.MockTransport(lambda _: httpx.Response(status)))
    assert left_behind(tmp_path) == [".tools/bin"]


def test_an_answer_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolbox, "_LARGEST", 10)
    with pytest.raises(GitopsError, match="larger than"):
        fetch(tmp_path, transport=httpx.MockTransport(lambda _: httpx.Response(200, content=b"x" * 11)))


def test_every_pinned_checksum_is_one_and_each_platform_has_its_own() -> None:
    assert set(toolbox.CHECKSUMS) == {"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"}
    assert len(set(toolbox.CHECKSUMS.values())) == 4
    assert all(len(bytes.fromhex(digest)) == 32 for digest in toolbox.CHECKSUMS.values())


def test_go_builds_the_pinned_version_without_paths_of_this_machine(tmp_path: Path) -> None:
    tool = go(tmp_path / "go" / "go", BUILDS)
    done = fetch(tmp_path / "root", go=tool)
    assert done.how == "built with Go"
    called = (tmp_path / "go" / "called").read_text().split()
    assert called[:2] == ["-trimpath", "install"]
    assert called[-1] == f"github.com/yannh/kubeconform/cmd/kubeconform@v{toolbox.VERSION}"
    assert left_behind(tmp_path / "root") == [".tools/bin", ".tools/bin/kubeconform"]


@pytest.mark.parametrize("body", ["echo 'verifying module: checksum mismatch' >&2; exit 1", "exit 0"])
def test_a_build_that_fails_is_told_and_nothing_is_fetched_instead(tmp_path: Path, body: str) -> None:
    tool = go(tmp_path / "go" / "go", body)
    with pytest.raises(ToolMissing, match="go install"):
        fetch(tmp_path / "root", go=tool, transport=httpx.MockTransport(lambda _: pytest.fail("fetched")))
    assert left_behind(tmp_path / "root") == [".tools/bin"]


@pytest.mark.parametrize(
    ("version", "usable"),
    [
        ("go1.26.8", True),
        ("go1.24", True),
        ("go1.24rc1", True),
        ("go2.0", True),
        ("go1.23.9", False),
        ("devel", False),
    ],
)
def test_only_a_go_that_is_new_enough_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, *, usable: bool
) -> None:
    tool = go(tmp_path / "go", "exit 1", version)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert toolbox.usable_go() == (tool if usable else None)


def test_no_go_on_path_is_no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert toolbox.usable_go() is None


def test_the_platform_is_named_as_the_releases_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolbox.platform, "system", lambda: "Darwin")
    for machine, name in (
        ("arm64", "darwin-arm64"),
        ("x86_64", "darwin-amd64"),
        ("riscv64", "darwin-riscv64"),
    ):
        monkeypatch.setattr(toolbox.platform, "machine", lambda machine=machine: machine)
        assert toolbox.this_platform() == name


def test_the_verb_says_in_one_line_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(tmp_path / "path" / "go", BUILDS)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    parser = argparse.ArgumentParser()
    verb.register(parser.add_subparsers())
    notes: list[str] = []
    output = argparse.Namespace(note=notes.append, data=notes.append)
    for _ in range(2):
        arguments = parser.parse_args(["tools", "install", "--root", str(tmp_path)])
        assert arguments.run(arguments, output) == 0
    place = tmp_path / ".tools/bin/kubeconform"
    assert notes == [
        f"kubeconform {toolbox.VERSION}: built with Go, {place}",
        f"kubeconform {toolbox.VERSION}: there already, {place}",
    ]
    assert shutil.which("kubeconform", path=str(place.parent)) == str(place)
