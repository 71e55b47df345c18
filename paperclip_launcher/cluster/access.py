"""Where the API server is, and who we are to it: from the files of a pod, or from a kubeconfig."""

from __future__ import annotations

import binascii
import os
import re
import ssl
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import urlsplit

from paperclip_launcher.cluster.errors import AccessInvalid
from paperclip_launcher.cluster.wire import Address

# Where the kubelet puts what a pod's account is, as Kubernetes documents it.
POD_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_READ_AGAIN_SECONDS = 60.0
_TOKEN = re.compile(r"[!-~]+")
_LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|::1")


class Tokens:
    """The bearer token, "" for none. One from a file is read again every minute, since the kubelet changes it."""

    def __init__(self, token: str = "", path: Path | None = None) -> None:
        """AccessInvalid where there is no token to begin with."""
        self._path = path
        self._token = _checked_token(token, "") if path is None else _token_of(path)
        self._read_at = float("-inf")

    def current(self, now: float) -> str:
        """`now` is the time of the loop, in seconds."""
        return self.read(now) if now - self._read_at >= _READ_AGAIN_SECONDS else self._token

    def read(self, now: float) -> str:
        """From its file, now. While the file cannot be read, the token is what it was."""
        self._read_at = now
        if self._path is not None:
            try:
                self._token = _token_of(self._path)
            except AccessInvalid:
                return self._token
        return self._token


@dataclass(frozen=True)
class Access:
    """`prefix` stands before each path, "" mostly. `namespace` is the one that the place speaks of, "" for none."""

    address: Address
    prefix: str
    tokens: Tokens = field(repr=False)
    namespace: str
    source: str
    """Where all this comes from, for people."""

    @property
    def host_header(self) -> str:
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        return f"{host}:{self.address.port}"

    @classmethod
    def find(cls, environment: Mapping[str, str], *, kubeconfig: str = "", context: str = "") -> Access:
        """As kubectl does: the file that is named, or KUBECONFIG, or the pod's own account, or ~/.kube/config."""
        named = kubeconfig or environment.get("KUBECONFIG", "")
        if named:
            if os.pathsep in named and not kubeconfig:
                raise AccessInvalid(f"KUBECONFIG names several files: {named}", "name one of them by --kubeconfig")
            return cls.of_kubeconfig(Path(named).expanduser(), context)
        if environment.get("KUBERNETES_SERVICE_HOST"):
            return cls.in_cluster(environment)
        home = Path(environment.get("HOME") or "~").expanduser() / ".kube" / "config"
        if home.exists():
            return cls.of_kubeconfig(home, context)
        raise AccessInvalid(
            "no way to a Kubernetes API server is known: this is no pod, and there is no kubeconfig",
            "name a kubeconfig by --kubeconfig or in KUBECONFIG",
        )

    @classmethod
    def in_cluster(cls, environment: Mapping[str, str], folder: Path = POD_FILES) -> Access:
        host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not port.isdecimal():
            raise AccessInvalid(
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT do not name a server",
                "run in a pod, where the kubelet sets them, or name a kubeconfig",
            )
        context = _context(_read(folder / "ca.crt", "the certificate authority of the cluster"), str(folder))
        namespace = folder / "namespace"
        return cls(
            Address(host, int(port), context, host),
            "",
            Tokens(path=folder / "token"),
            _read(namespace, "the pod's namespace").decode(errors="replace").strip() if namespace.exists() else "",
            f"the pod's account ({folder})",
        )

    @classmethod
    def of_kubeconfig(cls, path: Path, context: str = "", *, allow_insecure: bool = False) -> Access:
        """`context` "" for the current one. `allow_insecure` goes on where the file says not to check certificates."""
        file = _Kubeconfig.of(path)
        name = context or file.text(file.tree, "current-context")
        if not name:
            raise file.problem("no current-context is set", "set it, or name one by --context")
        chosen = file.entry("contexts", "context", name)
        cluster = file.entry("clusters", "cluster", file.text(chosen, "cluster"))
        user = file.entry("users", "user", file.text(chosen, "user")) if chosen.get("user") else {}
        _refuse(file, cluster, user)
        tokens = file.tokens(user)
        server = urlsplit(file.text(cluster, "server"))
        host = server.hostname or ""
        if server.scheme not in ("http", "https") or not host or server.username:
            raise file.problem("the server is no http or https address", "write it as https://HOST:PORT")
        tls = file.tls(cluster, user, allow_insecure=allow_insecure) if server.scheme == "https" else None
        if tls is None and tokens.current(0) and not _LOOPBACK.fullmatch(host):
            raise file.problem("a token would go to the server unencrypted", "use https in the server's address")
        port = server.port or (443 if tls else 80)
        address = Address(host, port, tls, file.text(cluster, "tls-server-name") or host)
        namespace = file.text(chosen, "namespace")
        return cls(address, server.path.rstrip("/"), tokens, namespace, f"context {name!r} of {path}")


@dataclass(frozen=True)
class _Kubeconfig:
    path: Path
    tree: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, path: Path) -> _Kubeconfig:
        # 50 ms that a launcher in a pod, which has no kubeconfig, need not spend.
        from kubekit.yamlread import YamlProblem, read_all  # noqa: PLC0415

        text = _read(path, "the kubeconfig")
        try:
            documents = read_all(text, str(path), foreign=True)
        except YamlProblem as error:
            raise AccessInvalid(f"the kubeconfig cannot be read: {error}", error.remedy) from None
        tree = documents[0].value if len(documents) == 1 else None
        if not isinstance(tree, dict):
            raise AccessInvalid(f"{path} is no kubeconfig: it is not one map", "name another file")
        return cls(path, tree)

    def problem(self, what: str, remedy: str) -> AccessInvalid:
        return AccessInvalid(f"{self.path}: {what}", remedy)

    def text(self, tree: Mapping[str, Any], key: str) -> str:
        value = tree.get(key)
        if value is not None and not isinstance(value, str):
            raise self.problem(f"{key} is not text", "put its value in double quotes")
        return value or ""

    def entry(self, many: str, one: str, name: str) -> Mapping[str, Any]:
        """The map under `one` of the entry of that name in the list `many`."""
        entries = self.tree.get(many)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(one), dict):
                found: dict[str, Any] = entry[one]
                return found
        raise self.problem(f"the {one} {name!r} is not in {many}", f"look at its name, or add it to {many}")

    def content(self, tree: Mapping[str, Any], key: str) -> bytes:
        """Of `key`-data, in base64, or of the file that `key` names, from this file's folder on; b"" for neither."""
        if data := self.text(tree, f"{key}-data"):
            try:
                return b64decode("".join(data.split()), validate=True)
            except binascii.Error:
                raise self.problem(f"{key}-data is not base64", "write it again with kubectl") from None
        named = self.text(tree, key)
        return _read(self.path.parent / Path(named).expanduser(), f"the {key} of {self.path}") if named else b""

    def tokens(self, user: Mapping[str, Any]) -> Tokens:
        named = self.text(user, "tokenFile")
        if named:
            return Tokens(path=self.path.parent / Path(named).expanduser())
        return Tokens(_checked_token(self.text(user, "token"), str(self.path)))

    def tls(self, cluster: Mapping[str, Any], user: Mapping[str, Any], *, allow_insecure: bool) -> ssl.SSLContext:
        context = _context(self.content(cluster, "certificate-authority"), str(self.path))
        if cluster.get("insecure-skip-tls-verify"):
            if not allow_insecure:
                raise self.problem(
                    "it says insecure-skip-tls-verify: anybody on the way could read every token and prompt",
                    "put the cluster's certificate-authority-data in its place",
                )
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        certificate, key = self.content(user, "client-certificate"), self.content(user, "client-key")
        if bool(certificate) != bool(key):
            raise self.problem("of client-certificate and client-key, one is missing", "give both or neither")
        if certificate:
            self._load(context, certificate, key)
        return context

    def _load(self, context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
        # The ssl module takes a key from a file only; this one is ours alone, and gone at once.
        with NamedTemporaryFile() as pair:
            pair.write(certificate + b"\n" + key)
            pair.flush()
            try:
                context.load_cert_chain(pair.name, password=lambda: b"")
            except (ssl.SSLError, ValueError, TypeError):
                message = "client-certificate and client-key are no pair, or the key has a passphrase"
                raise self.problem(message, "write them again, the key without one") from None


_NO_PLUGIN = "use the token of a ServiceAccount (kubectl create token) or a client certificate"


def _refuse(file: _Kubeconfig, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
    """What would be silently ignored otherwise, and mean another user or way."""
    refused = (
        (user, "exec", "the user's credentials come from a program (exec), and the launcher starts none", _NO_PLUGIN),
        (user, "auth-provider", "the user's credentials come from an auth-provider, which is not run", _NO_PLUGIN),
        (user, "username", "the user has a password, which no API server since 1.19 takes", _NO_PLUGIN),
        (user, "as", "the user acts as another one (as), which the launcher does not", "name that user's own token"),
        (cluster, "proxy-url", "the server is reached through a proxy-url, which is not used", "connect directly"),
    )
    for tree, key, what, remedy in refused:
        if tree.get(key):
            raise file.problem(what, remedy)


def _context(authority: bytes, where: str) -> ssl.SSLContext:
    """Trusts `authority` (PEM) alone, or what the machine trusts where it is b""."""
    try:
        return ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    except (ssl.SSLError, ValueError):
        raise AccessInvalid(
            f"the certificate authority of {where} is no PEM certificate", "write it again from the cluster's own"
        ) from None


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AccessInvalid(
            f"{what} cannot be read: {path}: {error.strerror}", "look at its path and its mode"
        ) from error


def _token_of(path: Path) -> str:
    token = _read(path, "the token").decode("ascii", errors="replace").strip()
    if not token:
        raise AccessInvalid(f"the token's file is empty: {path}", "write the token into it")
    return _checked_token(token, str(path))


def _checked_token(token: str, where: str) -> str:
    if token and not _TOKEN.fullmatch(token):
        raise AccessInvalid(f"the token of {where} has characters that no token has", "write it again, on one line")
    return token
