"""A small image registry on loopback, for the faults that a good one does not have."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def manifest(note: str = "") -> bytes:
    blob = {"mediaType": "application/octet-stream", "digest": "sha256:" + "0" * 64, "size": 0}
    tree = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob,
        "layers": [],
        "annotations": {"n": note},
    }
    return json.dumps(tree).encode()


def digest_of(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


def oci_error(code: str, message: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()


@dataclass
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = MANIFEST
    cut: int = 0
    """Bytes at the end that are announced and never sent."""
    drip: float = 0.0
    """Seconds between the bytes."""


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


@dataclass
class Registry:
    """`manifests`: path behind /v2/ -> body. `faults`: asked before; gives the reply, or None to go on."""

    manifests: dict[str, bytes] = field(default_factory=dict)
    faults: Callable[[Seen], Reply | None] = lambda _: None
    seen: list[Seen] = field(default_factory=list)
    port: int = 0
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def push(self, repository: str, tag: str, body: bytes | None = None) -> str:
        body = manifest(tag) if body is None else body
        digest = digest_of(body)
        for name in (tag, digest):
            self.manifests[f"{repository}/manifests/{name}"] = body
        return digest

    def reply(self, seen: Seen) -> Reply:
        fault = self.faults(seen)
        if fault is not None:
            return fault
        body = self.manifests.get(seen.path.removeprefix("/v2/"))
        if body is None:
            return Reply(404, oci_error("MANIFEST_UNKNOWN", "manifest unknown"), kind="application/json")
        return Reply(body=body, headers={"Docker-Content-Digest": digest_of(body)})


@contextlib.contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen = Seen(self.command, url.path, parse_qs(url.query), headers, body)
            registry.seen.append(seen)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._send(registry.reply(seen))

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            sent = {"Content-Type": reply.kind, "Content-Length": str(len(reply.body)), **reply.headers}
            for name, value in sent.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            body = reply.body[: len(reply.body) - reply.cut]
            if reply.drip:
                for byte in body:
                    if registry.closing.wait(reply.drip):
                        break
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
            else:
                self.wfile.write(body)
            self.close_connection = bool(reply.cut or reply.drip)

        do_GET = do_HEAD = do_POST = _answer  # noqa: N815 - the names http.server looks for

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    try:
        yield registry
    finally:
        registry.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
