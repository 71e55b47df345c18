"""Asks an image registry which digest a tag has, and proves it: it is the sha256 of the manifest's bytes.

Sources: OCI distribution spec 1.1 (manifests, error codes); the distribution project on token and oauth2.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Self

import httpx

from charts_py.errors import ClusterUnreachable, GitopsError
from charts_py.registry_login import DOCKER_HUB, DOCKER_HUB_API, Credential, parse_challenges
from kubekit.imageref import ImageRef

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
MAX_BODY = 4 << 20
"""Bytes; the size the OCI spec asks every registry to take for a manifest, and no more."""

_ACCEPT = ", ".join(INDEX_TYPES + MANIFEST_TYPES)
_ATTEMPTS = 4
_LONGEST_WAIT = 30.0  # seconds; a registry may ask for hours
_MAX_REDIRECTS = 5
_MAX_QUOTE = 256  # characters of a foreign text that enter a message
_RETRIED = frozenset({429, 500, 502, 503, 504})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SHA256 = re.compile(r"sha256:[0-9a-f]{64}")
_NEVER_BY_PROXY = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_REMEDIES = {
    401: "check the spelling, then log in with `docker login {host}` (credential helpers are not asked)",
    403: "check the spelling, then ask the repository's owner for the right to pull",
    404: "check the spelling; if the tag was removed, choose one that still exists and lock again",
    429: "the registry limits how often one may ask: wait, or log in",
}


class RegistryError(GitopsError):
    """An image whose digest stays unknown.

    `reason` is short, in our own words and the same each time, fit for a file; `message` adds the image and
    what the registry said.
    """

    def __init__(self, image: str, reason: str, remedy: str = "", detail: str = "") -> None:
        super().__init__(f"{image}: {reason}" + (f": {detail}" if detail else ""), remedy)
        self.image = image
        self.reason = reason


class RegistryUnreachable(RegistryError, ClusterUnreachable):
    exit_code = 5


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: httpx.Headers
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class _Request:
    image: str
    registry: str
    method: str
    url: httpx.URL
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: Mapping[str, str] | None = field(default=None, repr=False)


class RegistryClient:
    """One HTTP client for all registries of a run; close it, or use it in a `with`.

    `insecure` holds the hosts (host[:port]) that are asked over plain HTTP; those on loopback always are.
    `timeout`: seconds for each wait, and for the whole of a body. A host that takes no connection is asked
    only once.
    """

    def __init__(
        self,
        *,
        credentials: Mapping[str, Credential] | None = None,
        insecure: Collection[str] = (),
        timeout: float = 10.0,
        sleep: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._credentials = dict(credentials or {})
        self._insecure = frozenset(host.lower() for host in insecure)
        self._timeout = timeout
        self._sleep = sleep
        self._granted: dict[tuple[str, str], str] = {}
        self._lost: dict[str, str] = {}
        self._secrets = {text for known in self._credentials.values() for text in known.secrets}
        self._http = httpx.Client(
            timeout=timeout,
            follow_redirects=False,
            transport=transport,
            # As it is stored: the digest is over these bytes, and a packed body could grow without bound.
            headers={"Accept-Encoding": "identity", "User-Agent": "paperclip-gitops"},
            mounts=None if transport else dict.fromkeys(_NEVER_BY_PROXY),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def resolve(self, ref: ImageRef) -> str:
        """The digest ("sha256:…") of the manifest or index that `ref` names, computed from its bytes.

        Raises RegistryUnreachable where no answer came, RegistryError where the answer does not do.
        """
        image, target = str(ref), ref.digest or ref.tag
        if not target:
            raise RegistryError(image, "has neither a tag nor a digest", "write the tag")
        if ref.registry in self._lost:
            raise _unreachable(image, ref.registry, self._lost[ref.registry])
        expected = ref.digest or self._announced(ref, target)
        answer = self._ask(ref, "GET", expected or target)
        if answer.status != httpx.codes.OK:
            raise self._refusal(image, ref.registry, answer)
        problem = manifest_problem(answer.headers.get("content-type", ""), answer.body)
        if problem:
            remedy = "check that the reference names an image and that no proxy answers for the registry"
            detail = self._quote(answer.headers.get("content-type", ""))
            raise RegistryError(image, f"the registry's answer {problem}", remedy, detail)
        actual = "sha256:" + hashlib.sha256(answer.body).hexdigest()
        for claimed in (expected, answer.headers.get("docker-content-digest")):
            if claimed and claimed != actual:
                detail = f"named {self._quote(claimed)}, got {actual}"
                remedy = "do not use it: the registry, or a proxy before it, changes what it serves"
                raise RegistryError(image, "the manifest has another digest than named", remedy, detail)
        return actual

    def _announced(self, ref: ImageRef, target: str) -> str | None:
        """What HEAD says, so that GET asks for bytes that cannot move; None where HEAD is no help."""
        answer = self._ask(ref, "HEAD", target)
        if answer.status in _RETRIED:
            raise self._refusal(str(ref), ref.registry, answer)
        named = answer.headers.get("docker-content-digest", "")
        return named if answer.status == httpx.codes.OK and _SHA256.fullmatch(named) else None

    def _ask(self, ref: ImageRef, method: str, target: str) -> _Answer:
        host = DOCKER_HUB_API if ref.registry == DOCKER_HUB else ref.registry
        scheme = "http" if self._plain(host) else "https"
        url = httpx.URL(f"{scheme}://{host}/v2/{ref.repository}/manifests/{target}")
        place = (ref.registry, ref.repository)
        headers = {"Accept": _ACCEPT}
        if place in self._granted:
            headers["Authorization"] = self._granted[place]
        request = _Request(str(ref), ref.registry, method, url, headers)
        answer = self._exchange(request)
        granted = self._authorize(request, ref.repository, answer) if answer.status == 401 else ""
        if not granted:
            return answer
        self._granted[place] = granted
        return self._exchange(replace(request, headers={**headers, "Authorization": granted}))

    def _authorize(self, request: _Request, repository: str, refused: _Answer) -> str:
        """The Authorization header that the challenge asks for; "" where there is none to give."""
        challenges = parse_challenges(refused.headers.get("www-authenticate", ""))
        credential = self._credentials.get(request.registry, Credential())
        if "bearer" in challenges:
            token = self._token(request, challenges["bearer"], repository, credential)
            self._secrets.add(token)
            return f"Bearer {token}"
        return f"Basic {credential.basic}" if "basic" in challenges and credential.password else ""

    def _token(
        self,
        request: _Request,
        challenge: Mapping[str, str],
        repository: str,
        login: Credential,
    ) -> str:
        url = self._url(request, challenge.get("realm", ""), "token realm")
        asked = {"scope": challenge.get("scope") or f"repository:{repository}:pull"}
        if "service" in challenge:
            asked["service"] = challenge["service"]
        if login.identity_token:
            form = {
                **asked,
                "grant_type": "refresh_token",
                "client_id": "paperclip-gitops",
                "refresh_token": login.identity_token,
            }
            question = _Request(request.image, request.registry, "POST", url, form=form)
        else:
            headers = {"Authorization": f"Basic {login.basic}"} if login.password else {}
            question = _Request(request.image, request.registry, "GET", url.copy_merge_params(asked), headers)
        answer = self._exchange(question)
        if answer.status != httpx.codes.OK:
            raise self._refusal(request.image, request.registry, answer, "the token server")
        tree = _json(answer.body)
        token = (tree.get("token") or tree.get("access_token")) if isinstance(tree, dict) else None
        if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):
            remedy = _REMEDIES[401].format(host=request.registry)
            raise RegistryError(request.image, "the token server answered without a token", remedy)
        return token

    def _exchange(self, request: _Request) -> _Answer:
        """The answer after redirects and retries; the last one where none was good."""
        for attempt in range(1, _ATTEMPTS + 1):
            pause = 0.5 * 2**attempt
            try:
                answer = self._follow(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if error.request.url.netloc == request.url.netloc:  # not some host it redirects to
                    self._lost[request.registry] = self._quote(str(error))
                raise self._unreachable(request, error) from None
            except httpx.InvalidURL:  # httpx reads every Location, also when told not to follow
                remedy = "check the address of the registry"
                raise RegistryError(request.image, "the redirect is not an address", remedy) from None
            except httpx.TransportError as error:
                if attempt == _ATTEMPTS:
                    raise self._unreachable(request, error) from None
            else:
                if answer.status not in _RETRIED or attempt == _ATTEMPTS:
                    return answer
                pause = _retry_after(answer.headers.get("retry-after", "")) or pause
            self._sleep(min(pause, _LONGEST_WAIT))
        raise AssertionError  # the last attempt returns or raises

    def _follow(self, request: _Request) -> _Answer:
        url, headers = request.url, dict(request.headers)
        for _ in range(_MAX_REDIRECTS + 1):
            answer = self._once(request, url, headers)
            # A form holds a refresh token: it goes to the realm only, never on.
            if answer.status not in _REDIRECTS or request.form is not None:
                return answer
            target = self._url(request, answer.headers.get("location", ""), "redirect", base=url)
            if (target.scheme, target.netloc) != (url.scheme, url.netloc):
                headers.pop("Authorization", None)
            url = target
        remedy = "check the address of the registry; it may redirect in a ring"
        raise RegistryError(request.image, f"the registry redirects more than {_MAX_REDIRECTS} times", remedy)

    def _once(self, request: _Request, url: httpx.URL, headers: Mapping[str, str]) -> _Answer:
        until = time.monotonic() + self._timeout
        body = bytearray()
        with self._http.stream(request.method, url, headers=headers, data=request.form) as response:
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > MAX_BODY:
                    remedy = "no manifest is as large; check the address of the registry"
                    reason = f"the registry's answer is larger than {MAX_BODY >> 20} MiB"
                    raise RegistryError(request.image, reason, remedy)
                if time.monotonic() > until:
                    raise httpx.ReadTimeout(f"the answer took longer than {self._timeout:g} s")
            return _Answer(response.status_code, response.headers, bytes(body))

    def _url(self, request: _Request, text: str, what: str, base: httpx.URL | None = None) -> httpx.URL:
        """`text` as an address it is safe to send a login to; `base` where it may be relative."""
        try:
            url = base.join(text) if base and text else httpx.URL(text)
        except httpx.InvalidURL:
            url = httpx.URL()
        plain = url.scheme == "http" and all(self._plain(each.netloc.decode()) for each in (request.url, url))
        if not url.host or not (url.scheme == "https" or plain):
            remedy = "where plain HTTP is meant, name each of its hosts with --insecure-registry HOST[:PORT]"
            # No more than this: the rest may hold a signature.
            detail = self._quote(f"{url.scheme}://{url.host}") if url.host else "no address"
            raise RegistryError(request.image, f"the {what} is not an https address", remedy, detail)
        return url

    def _plain(self, host: str) -> bool:
        if host.lower() in self._insecure:
            return True
        name = re.sub(r":\d+$", "", host).strip("[]")
        try:
            return name == "localhost" or ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _refusal(self, image: str, registry: str, answer: _Answer, who: str = "the registry") -> RegistryError:
        tree = _json(answer.body)
        errors = tree.get("errors") if isinstance(tree, dict) else None
        first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
        code = str(first.get("code", ""))
        code = f" {code}" if re.fullmatch(r"[A-Z_]{1,40}", code) else ""
        detail = self._quote(str(first.get("message", "")))
        ill = "the registry is ill: try again later" if answer.status in _RETRIED else ""
        remedy = _REMEDIES.get(answer.status, ill).format(host=registry)
        return RegistryError(image, f"{who} answered {answer.status}{code}", remedy, detail)

    def _unreachable(self, request: _Request, error: httpx.TransportError) -> RegistryUnreachable:
        detail = self._quote(str(error) or type(error).__name__)
        return _unreachable(request.image, request.registry, detail)

    def _quote(self, text: str) -> str:
        """Foreign text as it may be shown: without secrets it may echo, without control characters, cut."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        text = "".join(letter if letter.isprintable() else " " for letter in text)
        return text if len(text) <= _MAX_QUOTE else text[: _MAX_QUOTE - 1] + "…"


def _unreachable(image: str, registry: str, detail: str) -> RegistryUnreachable:
    remedy = "check the network, HTTPS_PROXY and the certificate; --insecure-registry is for plain HTTP"
    return RegistryUnreachable(image, f"no answer from the registry {registry}", remedy, detail)


def manifest_problem(content_type: str, body: bytes) -> str:
    """Why `body` is no image manifest or index, as the end of a sentence; "" where it is one."""
    kind = content_type.partition(";")[0].strip().lower()
    if "docker.distribution.manifest.v1+" in kind:
        return "is a schema 1 manifest, which carries no digest that can be pinned"
    if kind not in INDEX_TYPES + MANIFEST_TYPES:
        return "is not an image manifest"
    tree = _json(body)
    if not isinstance(tree, dict):
        return "is not a JSON object"
    if tree.get("schemaVersion") != 2:
        return "is a manifest of a schema other than 2"
    if tree.get("mediaType", kind) != kind:
        return "is of another type than its Content-Type says"
    wanted = ("manifests",) if kind in INDEX_TYPES else ("config", "layers")
    missing = [name for name in wanted if not isinstance(tree.get(name), list | dict)]
    return f"has no {missing[0]}" if missing else ""


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _retry_after(value: str) -> float:
    """Seconds; 0 where `value` says nothing. Both forms of RFC 9110: seconds and a date."""
    if re.fullmatch(r"\d{1,9}", value):
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
