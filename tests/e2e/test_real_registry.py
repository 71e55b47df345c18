"""images.lock against the registry of github.com/distribution/distribution, with each of its logins."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from charts_py.images import ImageLock, relock
from charts_py.registry import RegistryClient, RegistryError, RegistryUnreachable
from charts_py.registry_login import Credential, read_credentials
from kubekit.imageref import parse

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
MODULE = "github.com/distribution/distribution/v3/cmd/registry@v3.0.0"
_SPEC = importlib.util.spec_from_file_location("registry_server", ROOT / "tests/charts/registry_server.py")
assert _SPEC
assert _SPEC.loader
server = importlib.util.module_from_spec(_SPEC)
sys.modules["registry_server"] = server  # dataclasses look their module up
_SPEC.loader.exec_module(server)

USER, PASSWORD = "ci", "CANARY-real-registry-password"
# bcrypt of PASSWORD; the only kind of hash the registry's htpasswd takes, and Python cannot make it.
HTPASSWD = f"{USER}:$2a$04$rJXKu9baZFbdz6yz7hUxX.bdqwQ/kpMRDZzZ8iNt7QnbQIvcs0oc.\n"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"


@pytest.fixture(scope="session")
def binary() -> Path:
    """The registry, built once into the folder for tools; Go's checksum database proves its source."""
    folder = ROOT / ".tools/bin"
    if not (folder / "registry").exists():
        go = shutil.which("go")
        assert go, "this test builds a registry: install Go, or put `registry` into .tools/bin"
        folder.mkdir(parents=True, exist_ok=True)
        build = {**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"}
        subprocess.run(["nice", "-n", "15", go, "install", "-p", "1", MODULE], env=build, check=True)
    return folder / "registry"


@dataclass
class Running:
    host: str
    process: subprocess.Popen[bytes]
    http: httpx.Client = field(repr=False)

    def push(self, repository: str, tag: str, body: bytes, kind: str) -> str:
        put = self.http.put(f"/v2/{repository}/manifests/{tag}", content=body, headers={"Content-Type": kind})
        assert put.status_code == 201, put.text
        assert put.headers["docker-content-digest"] == server.digest_of(body)
        return server.digest_of(body)

    def push_blob(self, repository: str, content: bytes) -> dict[str, Any]:
        digest = server.digest_of(content)
        start = self.http.post(f"/v2/{repository}/blobs/uploads/")
        assert start.status_code == 202, start.text
        location = httpx.URL(start.headers["location"]).copy_merge_params({"digest": digest})
        assert self.http.put(location, content=content).status_code == 201
        return {"mediaType": CONFIG_TYPE, "digest": digest, "size": len(content)}

    def push_image(self, repository: str, tag: str, note: str = "") -> str:
        config = self.push_blob(repository, b'{"architecture":"amd64","os":"linux","config":{}}')
        tree = {"schemaVersion": 2, "mediaType": server.MANIFEST, "config": config, "layers": []}
        body = json.dumps({**tree, "annotations": {"note": note}}).encode()
        return self.push(repository, tag, body, server.MANIFEST)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


@contextlib.contextmanager
def running(
    binary: Path, folder: Path, auth: dict[str, Any] | None = None, login: httpx.Auth | None = None
) -> Iterator[Running]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}, "delete": {"enabled": True}},
        "http": {"addr": host},
        **({"auth": auth} if auth else {}),
    }
    (folder / "config.yml").write_text(json.dumps(config))
    environment = {**os.environ, "OTEL_TRACES_EXPORTER": "none"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([binary, "serve", folder / "config.yml"], stdout=log, stderr=log, env=environment)
    with httpx.Client(base_url=f"http://{host}", auth=login, trust_env=False) as http:
        registry = Running(host, process, http)
        try:
            _wait(registry, folder / "log")
            yield registry
        finally:
            registry.stop()


def _wait(registry: Running, log: Path) -> None:
    for _ in range(200):
        assert registry.process.poll() is None, log.read_text()
        with contextlib.suppress(httpx.TransportError):
            registry.http.get("/v2/")
            return
        time.sleep(0.05)
    raise AssertionError(log.read_text())


@pytest.fixture
def registry(binary: Path, tmp_path: Path) -> Iterator[Running]:
    with running(binary, tmp_path) as started:
        yield started


@pytest.fixture
def client() -> Iterator[RegistryClient]:
    with RegistryClient(timeout=5) as opened:
        yield opened


def test_manifests_and_indexes_resolve_to_what_was_pushed(registry: Running, client: RegistryClient) -> None:
    image = registry.push_image("team/app", "1")
    entry = {
        "mediaType": server.MANIFEST,
        "digest": image,
        "size": 0,
        "platform": {"architecture": "amd64", "os": "linux"},
    }
    entry["size"] = int(
        registry.http.head(f"/v2/team/app/manifests/{image}", headers={"Accept": server.MANIFEST}).headers[
            "content-length"
        ]
    )
    wanted = {f":1@{image}": image, ":1": image, f"@{image}": image}
    for kind in (server.INDEX, "application/vnd.docker.distribution.manifest.list.v2+json"):
        tag = "index" if kind == server.INDEX else "list"
        body = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": [entry]}).encode()
        wanted[f":{tag}"] = registry.push("team/app", tag, body, kind)
    for rest, digest in wanted.items():
        assert client.resolve(parse(f"{registry.host}/team/app{rest}")) == digest


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("team/app:gone", "the registry answered 404 MANIFEST_UNKNOWN"),
        ("team/none:1", "the registry answered 404 MANIFEST_UNKNOWN"),
        ("team/app@sha256:" + "0" * 64, "the registry answered 404 MANIFEST_UNKNOWN"),
    ],
)
def test_what_is_not_there_is_said(registry: Running, client: RegistryClient, rest: str, reason: str) -> None:
    registry.push_image("team/app", "1")
    with pytest.raises(RegistryError) as caught:
        client.resolve(parse(f"{registry.host}/{rest}"))
    assert caught.value.reason == reason


def test_a_moved_tag_drifts_and_a_purged_one_keeps_its_digest(registry: Running, client: RegistryClient) -> None:
    moving, purged = (f"{registry.host}/team/{name}:1" for name in ("moving", "purged"))
    old = registry.push_image("team/moving", "1")
    kept = registry.push_image("team/purged", "1")
    lock = relock(ImageLock(), [moving, purged], client).lock
    assert (lock.digest_of(moving), lock.digest_of(purged)) == (old, kept)

    new = registry.push_image("team/moving", "1", note="moved")
    assert registry.http.delete(f"/v2/team/purged/manifests/{kept}").status_code == 202
    result = relock(lock, [moving, purged], client, again=[moving, purged])
    assert [(change.before, change.after) for change in result.changed] == [(old, new)]
    assert [image for image, _ in result.unresolved] == [purged]
    assert result.lock.digest_of(purged) == kept
    assert result.exit_code == 1


def test_a_registry_that_was_stopped_is_unreachable(registry: Running, client: RegistryClient) -> None:
    image = f"{registry.host}/team/app:1"
    registry.push_image("team/app", "1")
    lock = relock(ImageLock(), [image], client).lock
    registry.stop()
    result = relock(lock, [image], client, again=[image])
    assert (result.lock, result.exit_code) == (lock, 5)
    assert isinstance(result.unresolved[0][1], RegistryUnreachable)


def test_the_registry_takes_the_password_of_dockers_config(binary: Path, tmp_path: Path) -> None:
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    auth = {"htpasswd": {"realm": "lab", "path": str(tmp_path / "htpasswd")}}
    with running(binary, tmp_path, auth, httpx.BasicAuth(USER, PASSWORD)) as registry:
        digest = registry.push_image("team/app", "1")
        image = parse(f"{registry.host}/team/app:1")
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": basic}}}))
        with RegistryClient(credentials=read_credentials(tmp_path / "config.json")) as client:
            assert client.resolve(image) == digest
        for login in ({}, {registry.host: Credential(USER, "wrong")}):
            with RegistryClient(credentials=login) as client, pytest.raises(RegistryError) as caught:
                client.resolve(image)
            assert caught.value.reason == "the registry answered 401 UNAUTHORIZED"
            assert f"docker login {registry.host}" in caught.value.remedy


class Issuer:
    """A token server as the registry trusts it: tokens signed by openssl, their chain in the header."""

    def __init__(self, folder: Path) -> None:
        self._key, self.certificate = folder / "key.pem", folder / "root.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=issuer",
             "-keyout", self._key, "-out", self.certificate],
            check=True, capture_output=True,
        )  # fmt: skip

    def token(self, access: list[dict[str, Any]]) -> str:
        chain = "".join(self.certificate.read_text().splitlines()[1:-1])
        now = int(time.time())
        claims = {
            "iss": "issuer",
            "aud": "lab",
            "sub": USER,
            "exp": now + 60,
            "nbf": now - 5,
            "access": access,
        }
        parts = [{"typ": "JWT", "alg": "RS256", "x5c": [chain]}, claims]
        text = ".".join(_url64(json.dumps(part).encode()) for part in parts)
        sign = ["openssl", "dgst", "-sha256", "-sign", self._key]
        signature = subprocess.run(sign, input=text.encode(), check=True, capture_output=True).stdout
        return f"{text}.{_url64(signature)}"

    def reply(self, seen: Any) -> Any:
        wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if seen.headers.get("authorization") != wanted:
            return server.Reply(401, server.oci_error("UNAUTHORIZED", "who are you?"))
        kind, name, actions = seen.query["scope"][0].split(":")
        access = [{"type": kind, "name": name, "actions": actions.split(",")}]
        return server.Reply(body=json.dumps({"token": self.token(access)}).encode(), kind="application/json")


def _url64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def test_the_registry_takes_the_token_that_its_challenge_asks_for(binary: Path, tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    with server.serving(server.Registry(faults=issuer.reply)) as tokens:
        realm = f"http://{tokens.host}/token"
        auth = {
            "token": {
                "realm": realm,
                "service": "lab",
                "issuer": "issuer",
                "rootcertbundle": str(issuer.certificate),
            }
        }
        pusher = issuer.token([{"type": "repository", "name": "team/app", "actions": ["pull", "push"]}])
        with running(binary, tmp_path, auth) as registry:
            registry.http.headers["Authorization"] = f"Bearer {pusher}"
            digest = registry.push_image("team/app", "1")
            image = parse(f"{registry.host}/team/app:1")
            with RegistryClient(credentials={registry.host: Credential(USER, PASSWORD)}) as client:
                assert client.resolve(image) == digest
            assert [(seen.method, seen.query) for seen in tokens.seen] == [
                ("GET", {"service": ["lab"], "scope": ["repository:team/app:pull"]})
            ]
            with RegistryClient() as client, pytest.raises(RegistryError) as caught:
                client.resolve(image)
            assert caught.value.reason == "the token server answered 401 UNAUTHORIZED"


def test_the_digest_is_the_sha256_a_stranger_computes(registry: Running, client: RegistryClient) -> None:
    registry.push_image("team/app", "1")
    body = registry.http.get("/v2/team/app/manifests/1", headers={"Accept": server.MANIFEST}).content
    stranger = subprocess.run(["sha256sum"], input=body, check=True, capture_output=True).stdout.split()[0]
    assert client.resolve(parse(f"{registry.host}/team/app:1")) == "sha256:" + stranger.decode()
    assert hashlib.sha256(body).hexdigest() == stranger.decode()
