"""The registry client against a real HTTP server that has the faults registries have."""

from __future__ import annotations

import base64
import importlib.util
import json
import socket
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charts_py.errors import ClusterUnreachable, ConfigError
from charts_py.registry import (
    MAX_BODY,
    RegistryClient,
    RegistryError,
    RegistryUnreachable,
    manifest_problem,
)
from charts_py.registry_login import Credential, parse_challenges, read_credentials
from kubekit.imageref import ImageRef, parse

_SPEC = importlib.util.spec_from_file_location("registry_server", Path(__file__).with_name("registry_server.py"))
assert _SPEC
assert _SPEC.loader
server = importlib.util.module_from_spec(_SPEC)
sys.modules["registry_server"] = server  # dataclasses look their module up
_SPEC.loader.exec_module(server)

Reply = server.Reply
PASSWORD = "CANARY-password-7f3a"
IDENTITY = "CANARY-identity-91bc"
TOKEN = "CANARY-token-55de"


@pytest.fixture
def registry() -> Iterator[Any]:
    with server.serving(server.Registry()) as running:
        yield running


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def client(slept: list[float]) -> Iterator[RegistryClient]:
    with RegistryClient(sleep=slept.append, timeout=5) as opened:
        yield opened


def app(registry: Any, rest: str = ":1") -> ImageRef:
    return parse(f"{registry.host}/team/app{rest}")


def asked(registry: Any) -> list[str]:
    return [f"{seen.method} {seen.path}" for seen in registry.seen]


def fail_first(times: int, reply: Any) -> Any:
    """Faults that end after `times` requests."""
    left = [times]

    def faults(_: Any) -> Any:
        left[0] -= 1
        return reply if left[0] >= 0 else None

    return faults


class Canned(httpx.BaseTransport):
    """Stands for registries that only https reaches; the bodies are streams, as from a socket."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response]) -> None:
        self.handle_request = answer  # type: ignore[method-assign]


def answer_of(status: int, body: bytes = b"", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, stream=httpx.ByteStream(body))


# What a good registry gives


def test_a_tag_resolves_to_the_sha256_of_the_manifest(registry: Any, client: RegistryClient) -> None:
    digest = registry.push("team/app", "1")
    assert client.resolve(app(registry)) == digest
    head, get = registry.seen
    assert head.path == "/v2/team/app/manifests/1"
    assert get.path == f"/v2/team/app/manifests/{digest}"
    assert "application/vnd.oci.image.index.v1+json" in get.headers["accept"]
    assert get.headers["accept-encoding"] == "identity"


def test_a_registry_without_head_is_asked_by_get(registry: Any, client: RegistryClient) -> None:
    digest = registry.push("team/app", "1")
    registry.faults = lambda seen: Reply(405) if seen.method == "HEAD" else None
    assert client.resolve(app(registry)) == digest
    assert asked(registry)[-1] == "GET /v2/team/app/manifests/1"


def test_a_registry_that_names_no_digest_gets_it_computed(registry: Any, client: RegistryClient) -> None:
    body = server.manifest()
    registry.faults = lambda _: Reply(body=body)
    assert client.resolve(app(registry)) == server.digest_of(body)


def test_a_digest_resolves_to_itself_when_the_registry_has_it(registry: Any, client: RegistryClient) -> None:
    digest = registry.push("team/app", "1")
    assert client.resolve(app(registry, f":gone@{digest}")) == digest
    assert asked(registry) == [f"GET /v2/team/app/manifests/{digest}"]


def test_an_index_resolves_to_the_digest_of_the_index(registry: Any, client: RegistryClient) -> None:
    body = json.dumps({"schemaVersion": 2, "manifests": []}).encode()
    registry.faults = lambda _: Reply(body=body, kind=server.INDEX + "; charset=utf-8")
    assert client.resolve(app(registry)) == server.digest_of(body)


def test_docker_io_is_asked_at_its_api_host_with_the_login_docker_files_for_it(tmp_path: Path) -> None:
    urls: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        urls.append(str(request.url))
        assert request.headers.get("authorization") in {None, "Basic " + _basic("me", PASSWORD)}
        if "authorization" not in request.headers:
            return answer_of(401, www_authenticate='Basic realm="hub"')
        return answer_of(200, server.manifest(), content_type=server.MANIFEST)

    config = tmp_path / "config.json"
    config.write_text(json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": _basic("me", PASSWORD)}}}))
    with RegistryClient(credentials=read_credentials(config), transport=Canned(answer)) as client:
        assert client.resolve(parse("nginx:1.27")) == server.digest_of(server.manifest())
    assert set(urls) == {"https://registry-1.docker.io/v2/library/nginx/manifests/1.27"}


# What must never become a pin


def test_a_manifest_with_another_digest_than_named_is_refused(registry: Any, client: RegistryClient) -> None:
    wrong = "sha256:" + "ab" * 32
    body = server.manifest()
    registry.faults = lambda _: Reply(body=body, headers={"Docker-Content-Digest": wrong})
    with pytest.raises(RegistryError, match=f"named {wrong}, got {server.digest_of(body)}"):
        client.resolve(app(registry))


def test_a_digest_reference_whose_bytes_differ_is_refused(registry: Any, client: RegistryClient) -> None:
    registry.faults = lambda _: Reply(body=server.manifest())
    with pytest.raises(RegistryError, match="another digest than named"):
        client.resolve(app(registry, "@sha256:" + "cd" * 32))


def test_a_named_digest_of_another_kind_is_refused(registry: Any, client: RegistryClient) -> None:
    registry.faults = lambda _: Reply(body=server.manifest(), headers={"Docker-Content-Digest": "md5:1"})
    with pytest.raises(RegistryError, match="named md5:1"):
        client.resolve(app(registry))


SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1+prettyjws"


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        (SCHEMA_1, b'{"schemaVersion": 1}', "schema 1"),
        (server.MANIFEST, b'{"schemaVersion": 1}', "schema other than 2"),
        ("text/html", b"<html>log in to the network</html>", "not an image manifest"),
        ("", server.manifest(), "not an image manifest"),
        (server.MANIFEST, b"[]", "not a JSON object"),
        (server.MANIFEST, b"[" * 100_000, "not a JSON object"),
        (server.MANIFEST, b"\xff", "not a JSON object"),
        (server.INDEX, server.manifest(), "another type"),
        (server.MANIFEST, b'{"schemaVersion": 2, "layers": []}', "no config"),
        (server.INDEX, b'{"schemaVersion": 2}', "no manifests"),
    ],
)
def test_what_is_no_manifest_is_refused(
    registry: Any, client: RegistryClient, kind: str, body: bytes, problem: str
) -> None:
    registry.faults = lambda _: Reply(body=body, kind=kind)
    with pytest.raises(RegistryError, match=problem) as caught:
        client.resolve(app(registry))
    assert caught.value.exit_code == 1
    assert caught.value.remedy


def test_a_huge_answer_is_dropped_at_the_limit(registry: Any, client: RegistryClient) -> None:
    registry.faults = lambda _: Reply(body=b" " * (MAX_BODY + 1))
    with pytest.raises(RegistryError, match="larger than 4 MiB"):
        client.resolve(app(registry))


def test_a_manifest_of_exactly_the_limit_is_taken(registry: Any, client: RegistryClient) -> None:
    body = server.manifest()
    digest = registry.push("team/app", "1", body + b" " * (MAX_BODY - len(body)))
    assert client.resolve(app(registry)) == digest


def test_a_body_that_ends_early_is_asked_again_and_never_pinned(
    registry: Any, client: RegistryClient, slept: list[float]
) -> None:
    registry.faults = lambda _: Reply(body=server.manifest(), cut=1)
    with pytest.raises(RegistryUnreachable, match="closed"):
        client.resolve(app(registry))
    assert asked(registry).count("GET /v2/team/app/manifests/1") == 4
    assert slept == [1.0, 2.0, 4.0]


def test_a_body_that_never_ends_stops_at_the_timeout(registry: Any) -> None:
    registry.faults = lambda _: Reply(body=server.manifest(), drip=0.01)
    with (
        RegistryClient(sleep=lambda _: None, timeout=0.05) as client,
        pytest.raises(RegistryUnreachable) as caught,
    ):
        client.resolve(app(registry))
    assert "longer than 0.05 s" in caught.value.message


# Faults that pass


def test_too_many_requests_waits_as_told(registry: Any, client: RegistryClient, slept: list[float]) -> None:
    digest = registry.push("team/app", "1")
    registry.faults = fail_first(2, Reply(429, headers={"Retry-After": "7"}))
    assert client.resolve(app(registry)) == digest
    assert slept == [7.0, 7.0]


def test_a_retry_after_of_hours_is_cut(registry: Any, client: RegistryClient, slept: list[float]) -> None:
    registry.push("team/app", "1")
    later = format_datetime(datetime.now(UTC) + timedelta(hours=6), usegmt=True)
    registry.faults = fail_first(1, Reply(429, headers={"Retry-After": later}))
    client.resolve(app(registry))
    assert slept == [30.0]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_an_ill_registry_is_asked_again(registry: Any, client: RegistryClient, slept: list[float], status: int) -> None:
    digest = registry.push("team/app", "1")
    registry.faults = fail_first(3, Reply(status, headers={"Retry-After": "soon"}))
    assert client.resolve(app(registry)) == digest
    assert slept == [1.0, 2.0, 4.0]


def test_a_registry_that_stays_ill_is_given_up(registry: Any, client: RegistryClient) -> None:
    registry.faults = lambda _: Reply(503)
    with pytest.raises(RegistryError, match="the registry answered 503") as caught:
        client.resolve(app(registry))
    assert not isinstance(caught.value, ClusterUnreachable)
    assert len(registry.seen) == 4


# Registries that do not answer


def test_a_closed_port_is_unreachable(client: RegistryClient, slept: list[float]) -> None:
    with socket.socket() as reserved:  # bound and not listening: nobody else can take the port
        reserved.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{reserved.getsockname()[1]}"
        with pytest.raises(RegistryUnreachable, match="refused") as caught:
            client.resolve(parse(f"{host}/app:1"))
    assert caught.value.exit_code == ClusterUnreachable.exit_code
    assert caught.value.reason == f"no answer from the registry {host}"
    assert slept == []


def test_a_registry_that_takes_no_connection_is_asked_only_once() -> None:
    urls: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        urls.append(request.url.host)
        raise httpx.ConnectTimeout("timed out", request=request)

    with RegistryClient(transport=Canned(answer)) as client:
        for image in ("ghcr.io/owner/app:1", "ghcr.io/owner/app:2", "quay.io/owner/app:1"):
            with pytest.raises(RegistryUnreachable, match=image):
                client.resolve(parse(image))
    assert urls == ["ghcr.io", "quay.io"]


# What a registry says no with


def test_a_tag_that_is_not_there_says_so(registry: Any, client: RegistryClient) -> None:
    with pytest.raises(RegistryError) as caught:
        client.resolve(app(registry, ":v9"))
    assert f"{registry.host}/team/app:v9: the registry answered 404 MANIFEST_UNKNOWN" in caught.value.message
    assert "tag was removed" in caught.value.remedy
    assert caught.value.reason == "the registry answered 404 MANIFEST_UNKNOWN"


def test_what_a_registry_says_is_cut_and_cannot_colour_the_terminal(registry: Any, client: RegistryClient) -> None:
    registry.faults = lambda _: Reply(403, server.oci_error("DENIED", "\x1b[31m\n" + "x" * 5000))
    with pytest.raises(RegistryError) as caught:
        client.resolve(app(registry))
    said = caught.value.message.partition("DENIED: ")[2]
    assert len(said) == 256
    assert said.isprintable()


@pytest.mark.parametrize("body", [b"", b"nope", b'{"errors": {}}', b'{"errors": [1]}', b'{"errors": [{"code": 7}]}'])
def test_an_error_body_that_is_none_changes_nothing(registry: Any, client: RegistryClient, body: bytes) -> None:
    registry.faults = lambda _: Reply(404, body)
    with pytest.raises(RegistryError) as caught:
        client.resolve(app(registry))
    assert caught.value.reason == "the registry answered 404"


def test_a_reference_without_tag_is_not_guessed(registry: Any, client: RegistryClient) -> None:
    with pytest.raises(RegistryError, match="neither a tag nor a digest"):
        client.resolve(app(registry, ""))
    assert registry.seen == []


# Redirects


def test_a_redirect_is_followed(registry: Any, client: RegistryClient) -> None:
    digest = registry.push("team/app", "1")

    def faults(seen: Any) -> Any:
        if seen.path.startswith("/v2/"):
            return Reply(307, headers={"Location": "/moved" + seen.path})
        seen.path = seen.path.removeprefix("/moved")
        return None

    registry.faults = faults
    assert client.resolve(app(registry)) == digest


def test_a_ring_of_redirects_ends(registry: Any, client: RegistryClient) -> None:
    registry.faults = lambda seen: Reply(302, headers={"Location": seen.path})
    with pytest.raises(RegistryError, match="redirects more than 5 times"):
        client.resolve(app(registry))
    assert len(registry.seen) == 6


def test_a_redirect_to_another_host_does_not_get_the_login(registry: Any) -> None:
    with server.serving(server.Registry()) as other:
        other.push("team/app", "1")

        def faults(seen: Any) -> Any:
            if "authorization" not in seen.headers:
                return Reply(401, headers={"WWW-Authenticate": "Basic realm=x"})
            return Reply(302, headers={"Location": f"http://{other.host}/v2/team/app/manifests/1"})

        registry.faults = faults
        with RegistryClient(credentials={registry.host: Credential("me", PASSWORD)}) as client:
            client.resolve(app(registry))
        assert [seen.headers.get("authorization") for seen in other.seen] == [None, None]


@pytest.mark.parametrize(
    "location",
    ["", "http://cdn.example/x", "ftp://cdn.example/x", "http://[::1", "//", "https://", "http://a:99999/"],
)
def test_a_redirect_to_what_is_not_https_is_refused(location: str) -> None:
    urls: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        urls.append(request.url)
        return answer_of(302, location=location)

    with (
        RegistryClient(transport=Canned(answer), sleep=lambda _: None) as client,
        pytest.raises(RegistryError) as caught,
    ):
        client.resolve(parse("ghcr.io/owner/app:1"))
    assert caught.value.remedy
    assert {(url.scheme, url.host) for url in urls} == {("https", "ghcr.io")}


# Logins


def _basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def protect(registry: Any, **parameters: str) -> None:
    """From now on `registry` wants TOKEN, to be had at /token."""
    given = {
        "realm": f"http://{registry.host}/token",
        "service": "reg",
        "scope": "repository:team/app:pull,x",
    }
    challenge = "Bearer " + ",".join(f'{name}="{value}"' for name, value in {**given, **parameters}.items())

    def faults(seen: Any) -> Any:
        if seen.path == "/token":
            return Reply(body=json.dumps({"token": TOKEN}).encode(), kind="application/json")
        if seen.headers.get("authorization") != f"Bearer {TOKEN}":
            return Reply(401, server.oci_error("UNAUTHORIZED", "who?"), {"WWW-Authenticate": challenge})
        return None

    registry.faults = faults


def test_an_anonymous_token_is_fetched_once_for_a_repository(registry: Any, client: RegistryClient) -> None:
    first, second = registry.push("team/app", "1"), registry.push("team/app", "2")
    protect(registry)
    assert client.resolve(app(registry, ":1")) == first
    assert client.resolve(app(registry, ":2")) == second
    tokens = [seen for seen in registry.seen if seen.path == "/token"]
    assert [(seen.method, seen.query) for seen in tokens] == [
        ("GET", {"service": ["reg"], "scope": ["repository:team/app:pull,x"]})
    ]
    assert "authorization" not in tokens[0].headers


def test_a_password_goes_to_the_token_server_only(registry: Any) -> None:
    digest = registry.push("team/app", "1")
    protect(registry)
    with RegistryClient(credentials={registry.host: Credential("me", PASSWORD)}) as client:
        assert client.resolve(app(registry)) == digest
    sent = {seen.path: seen.headers.get("authorization") for seen in registry.seen}
    assert sent.pop("/token") == "Basic " + _basic("me", PASSWORD)
    assert set(sent.values()) == {f"Bearer {TOKEN}"}


def test_an_identity_token_is_changed_into_a_token_by_post(registry: Any) -> None:
    digest = registry.push("team/app", "1")
    protect(registry)
    with RegistryClient(credentials={registry.host: Credential("", "", IDENTITY)}) as client:
        assert client.resolve(app(registry)) == digest
    asked_for_token = next(seen for seen in registry.seen if seen.path == "/token")
    assert asked_for_token.method == "POST"
    assert f"refresh_token={IDENTITY}" in asked_for_token.body.decode()
    assert "grant_type=refresh_token" in asked_for_token.body.decode()


def test_an_identity_token_is_not_sent_on_by_a_redirect(registry: Any) -> None:
    protect(registry)
    inner = registry.faults
    registry.faults = lambda seen: (
        Reply(307, headers={"Location": "/elsewhere"}) if seen.path == "/token" else inner(seen)
    )
    with (
        RegistryClient(credentials={registry.host: Credential("", "", IDENTITY)}) as client,
        pytest.raises(RegistryError, match="token server answered 307"),
    ):
        client.resolve(app(registry))
    assert not [seen for seen in registry.seen if seen.path == "/elsewhere"]


def test_an_expired_token_is_renewed(registry: Any, client: RegistryClient) -> None:
    digest = registry.push("team/app", "1")
    protect(registry)
    client.resolve(app(registry))
    inner, refused = registry.faults, []

    def once(seen: Any) -> Any:
        if not refused:
            refused.append(seen)
            seen.headers["authorization"] = "Bearer old"
        return inner(seen)

    registry.faults = once
    assert client.resolve(app(registry)) == digest


def test_a_login_that_is_refused_says_how_to_log_in(registry: Any, client: RegistryClient) -> None:
    registry.faults = lambda _: Reply(401, server.oci_error("UNAUTHORIZED", "no"), {"WWW-Authenticate": "Basic"})
    with pytest.raises(RegistryError, match="401 UNAUTHORIZED") as caught:
        client.resolve(app(registry))
    assert f"docker login {registry.host}" in caught.value.remedy


def test_a_token_server_that_says_no_is_named(registry: Any, client: RegistryClient) -> None:
    protect(registry)
    inner = registry.faults
    registry.faults = lambda seen: Reply(401) if seen.path == "/token" else inner(seen)
    with pytest.raises(RegistryError, match="the token server answered 401"):
        client.resolve(app(registry))


@pytest.mark.parametrize("body", [b"", b"{}", b'{"token": 1}', b'{"token": ""}', b'{"token": "a\\r\\nX: 1"}', b"[]"])
def test_a_token_that_is_none_is_refused(registry: Any, client: RegistryClient, body: bytes) -> None:
    protect(registry)
    inner = registry.faults
    registry.faults = lambda seen: Reply(body=body) if seen.path == "/token" else inner(seen)
    with pytest.raises(RegistryError, match="without a token"):
        client.resolve(app(registry))


@pytest.mark.parametrize("realm", ["", "http://auth.example/token", "file:///etc/passwd", "http://127.0.0.1/x"])
def test_a_password_never_goes_to_a_realm_without_https(realm: str) -> None:
    urls: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        urls.append(request.url.host)
        return answer_of(401, www_authenticate=f'Bearer realm="{realm}"')

    credentials = {"ghcr.io": Credential("me", PASSWORD)}
    with (
        RegistryClient(credentials=credentials, transport=Canned(answer)) as client,
        pytest.raises(RegistryError, match="token realm is not an https address"),
    ):
        client.resolve(parse("ghcr.io/owner/app:1"))
    assert set(urls) == {"ghcr.io"}


def test_a_declared_registry_is_asked_over_plain_http_but_not_its_undeclared_realm() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url).startswith("http://reg.lan:5000/")
        return answer_of(401, www_authenticate='Bearer realm="http://auth.lan/token"')

    transport = Canned(answer)
    with (
        RegistryClient(insecure=["Reg.lan:5000"], transport=transport) as client,
        pytest.raises(RegistryError, match=r"http://auth\.lan") as caught,
    ):
        client.resolve(parse("reg.lan:5000/app:1"))
    assert "--insecure-registry" in caught.value.remedy


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1:1", "127.1.2.3:1", "[::1]:1"])
def test_a_registry_on_loopback_is_plain_http(host: str) -> None:
    transport = Canned(lambda request: answer_of(404, request.url.scheme.encode()))
    with RegistryClient(transport=transport) as client:
        assert client._ask(parse(f"{host}/app:1"), "GET", "1").body == b"http"


def test_what_only_begins_like_loopback_is_https() -> None:
    transport = Canned(lambda request: answer_of(404, request.url.scheme.encode()))
    with RegistryClient(transport=transport) as client:
        for host in ("127.0.0.1.example", "localhost.example", "10.0.0.1:5000"):
            assert client._ask(parse(f"{host}/app:1"), "GET", "1").body == b"https"


def test_no_secret_is_shown_even_when_the_registry_echoes_it(registry: Any) -> None:
    def faults(seen: Any) -> Any:
        said = f"{seen.headers.get('authorization')} {PASSWORD} {IDENTITY} {TOKEN}"
        if seen.path == "/token":
            return Reply(body=json.dumps({"access_token": TOKEN}).encode())
        challenge = {"WWW-Authenticate": f'Bearer realm="http://{registry.host}/token"'}
        return Reply(403 if "authorization" in seen.headers else 401, server.oci_error("DENIED", said), challenge)

    registry.faults = faults
    login = Credential("me", PASSWORD, IDENTITY)
    with RegistryClient(credentials={registry.host: login}) as client, pytest.raises(RegistryError) as caught:
        client.resolve(app(registry))
    shown = f"{caught.value!r} {caught.value} {caught.value.remedy} {login!r} {client!r} {client._http!r}"
    assert "***" in shown
    for canary in ("CANARY", _basic("me", PASSWORD)):
        assert canary not in shown


# docker's config.json


def test_logins_are_read_by_host(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    tree = {
        "auths": {
            "https://index.docker.io/v1/": {"auth": _basic("a", "b:c")},
            "GHCR.io": {"auth": _basic("d", "e")},
            "azure.example": {"auth": _basic("0", ""), "identitytoken": IDENTITY},
            "helper.example": {},
        },
        "credsStore": "desktop",
    }
    config.write_text(json.dumps(tree))
    found = read_credentials(config)
    assert found.keys() == {"docker.io", "ghcr.io", "azure.example"}
    assert (found["docker.io"].user, found["docker.io"].password) == ("a", "b:c")
    assert found["azure.example"].identity_token == IDENTITY


def test_no_config_is_no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert read_credentials() == {}


def test_a_user_without_a_home_has_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # what the system does for an unknown uid
    assert read_credentials() == {}


@pytest.mark.parametrize(
    "text",
    [
        f"CANARY {PASSWORD}",
        "[]",
        '{"auths": []}',
        '{"auths": {"h": {"auth": "CANARY"}}}',
        '{"auths": {"h": {"auth": "Q0FOQVJZ"}}}',
        '{"auths": {"h": {"auth": 1}}}',
        '{"auths": {"h": "CANARY"}}',
        "[" * 100_000,
    ],
)
def test_a_config_that_is_broken_is_named_and_not_quoted(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config.json"
    config.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_credentials(config)
    assert str(config) in caught.value.message
    assert caught.value.remedy
    chain = f"{caught.value!r}{caught.value.__cause__!r}"
    assert "CANARY" not in chain


def test_a_config_that_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_credentials(tmp_path)


# Parsing


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", {}),
        ('Bearer realm="https://a/t",service="s",scope="repository:x:pull,push"',
         {"bearer": {"realm": "https://a/t", "service": "s", "scope": "repository:x:pull,push"}}),
        ('Basic realm="r", Bearer realm=https://a , scope = "a \\"b\\""',
         {"basic": {"realm": "r"}, "bearer": {"realm": "https://a", "scope": 'a "b"'}}),
        ("BASIC", {"basic": {}}),
        ("Negotiate, Basic realm=x", {"negotiate": {}, "basic": {"realm": "x"}}),
    ],
)  # fmt: skip
def test_challenges_are_told_apart(header: str, wanted: dict[str, dict[str, str]]) -> None:
    assert parse_challenges(header) == wanted


def test_a_challenge_is_read_up_to_a_limit() -> None:
    assert "realm" not in parse_challenges(f'Bearer junk={"x" * 5000},realm="https://a"')["bearer"]


@settings(deadline=None, max_examples=200)
@given(st.text())
def test_no_challenge_breaks_the_parser(header: str) -> None:
    assert isinstance(parse_challenges(header), dict)


@settings(deadline=None, max_examples=200)
@given(st.text(), st.binary())
def test_no_body_passes_for_a_manifest_by_chance(kind: str, body: bytes) -> None:
    assert manifest_problem(kind, body)


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=60))
def test_no_location_leaves_https_or_breaks_the_client(location: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.scheme == "https"
        return answer_of(302, location=location)

    with (
        RegistryClient(transport=Canned(answer), sleep=lambda _: None) as client,
        pytest.raises(RegistryError),
    ):
        client.resolve(parse("ghcr.io/owner/app:1"))
