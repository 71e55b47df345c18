"""How the API server is reached, from a pod's files or a kubeconfig; what cannot be used is refused in words."""

from __future__ import annotations

import base64
import json
import ssl

import pytest

from paperclip_launcher.cluster.access import Access, Tokens
from paperclip_launcher.cluster.errors import AccessInvalid

TOKEN = "canary-token-31"


def kubeconfig(folder, cluster=None, user=None, **changed):
    """A file for the context "main"; what is given goes over what is usual."""
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [
            {"name": "other", "context": {"cluster": "c", "user": "nobody"}},
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "agents"}},
        ],
        "clusters": [{"name": "c", "cluster": cluster or {"server": "http://127.0.0.1:8001/k8s/"}}],
        "users": [{"name": "u", "user": {} if user is None else user}],
    } | changed
    path = folder / "config"
    path.write_text(json.dumps(tree))
    return path


def pod_files(folder, certificates):
    (folder / "ca.crt").write_bytes((certificates / "server.crt").read_bytes())
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "namespace").write_text("agents")
    return folder


def data(path):
    return base64.b64encode(path.read_bytes()).decode()


def test_a_pod_uses_its_account(tmp_path, certificates):
    where = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = Access.in_cluster(where, pod_files(tmp_path, certificates))
    assert (access.host_header, access.namespace, access.tokens.current(0)) == ("[fd00::1]:6443", "agents", TOKEN)
    assert access.address.context.verify_mode == ssl.CERT_REQUIRED
    assert access.address.context.check_hostname
    assert len(access.address.context.get_ca_certs()) == 1
    assert TOKEN not in repr(access)


@pytest.mark.parametrize("missing", ["ca.crt", "token"])
def test_a_pod_without_its_files_is_told_which(tmp_path, certificates, missing):
    (pod_files(tmp_path, certificates) / missing).unlink()
    with pytest.raises(AccessInvalid, match=missing) as caught:
        Access.in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)
    assert caught.value.remedy


def test_no_pod_is_no_pod():
    with pytest.raises(AccessInvalid, match="KUBERNETES_SERVICE_HOST"):
        Access.in_cluster({})


def test_a_kubeconfig_names_server_user_and_namespace(tmp_path):
    access = Access.of_kubeconfig(kubeconfig(tmp_path, user={"token": TOKEN}))
    assert (access.host_header, access.prefix, access.namespace) == ("127.0.0.1:8001", "/k8s", "agents")
    assert access.address.context is None
    assert access.tokens.current(0) == TOKEN
    assert "main" in access.source
    assert TOKEN not in repr(access)


def test_certificates_may_be_data_or_files_beside_the_kubeconfig(tmp_path, certificates):
    by_data = {
        "client-certificate-data": data(certificates / "client.crt"),
        "client-key-data": data(certificates / "client.key"),
    }
    for one in ("client.crt", "client.key", "server.crt"):
        (tmp_path / one).write_bytes((certificates / one).read_bytes())
    by_file = {"client-certificate": "client.crt", "client-key": str(tmp_path / "client.key")}
    server = {"server": "https://10.0.0.1", "tls-server-name": "kubernetes"}
    for authority, user in (
        ({"certificate-authority-data": data(certificates / "server.crt")}, by_data),
        ({"certificate-authority": "server.crt"}, by_file),
    ):
        address = Access.of_kubeconfig(kubeconfig(tmp_path, server | authority, user)).address
        assert (address.host, address.port, address.name) == ("10.0.0.1", 443, "kubernetes")
        assert address.context.get_ca_certs()[0]["subject"] == ((("commonName", "server"),),)


BAD = "bm8gY2VydGlmaWNhdGU="


@pytest.mark.parametrize(
    ("cluster", "user", "said"),
    [
        ({}, {"exec": {"command": "aws"}}, "exec"),
        ({}, {"auth-provider": {"name": "gcp"}}, "auth-provider"),
        ({}, {"username": "root", "password": TOKEN}, "password"),
        ({}, {"as": "root"}, "acts as another"),
        ({}, {"token": 5}, "token is not text"),
        ({}, {"token": f"{TOKEN}\nX: y"}, "characters that no token has"),
        ({}, {"tokenFile": "nowhere"}, "nowhere"),
        ({"server": "http://10.0.0.1"}, {"token": TOKEN}, "unencrypted"),
        ({"server": "10.0.0.1:6443"}, {}, "no http or https"),
        ({"server": "https://root:x@10.0.0.1"}, {}, "no http or https"),
        ({"server": "https://10.0.0.1", "proxy-url": "http://proxy"}, {}, "proxy-url"),
        ({"server": "https://10.0.0.1", "insecure-skip-tls-verify": True}, {}, "insecure-skip-tls-verify"),
        ({"server": "https://10.0.0.1", "certificate-authority-data": "!"}, {}, "not base64"),
        ({"server": "https://10.0.0.1", "certificate-authority-data": BAD}, {}, "no PEM"),
        ({"server": "https://10.0.0.1", "certificate-authority": "ca.crt"}, {}, "ca.crt"),
        ({"server": "https://10.0.0.1"}, {"client-certificate-data": BAD}, "one is missing"),
        ({"server": "https://10.0.0.1"}, {"client-certificate-data": BAD, "client-key-data": BAD}, "no pair"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(tmp_path, cluster, user, said):
    with pytest.raises(AccessInvalid, match=said) as caught:
        Access.of_kubeconfig(kubeconfig(tmp_path, {"server": "http://127.0.0.1"} | cluster, user))
    assert "config" in str(caught.value) or said == "nowhere"
    assert caught.value.remedy
    assert TOKEN not in str(caught.value) + caught.value.remedy


def test_certificates_go_unchecked_only_when_that_is_asked_for(tmp_path):
    path = kubeconfig(tmp_path, {"server": "https://10.0.0.1", "insecure-skip-tls-verify": True})
    context = Access.of_kubeconfig(path, allow_insecure=True).address.context
    assert context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    ("changed", "context", "said"),
    [
        ({"current-context": ""}, "", "current-context"),
        ({}, "third", "'third'"),
        ({}, "other", "'nobody'"),
        ({"clusters": None}, "", "'c'"),
        ({"contexts": [5, {"name": "main"}]}, "", "'main'"),
    ],
)
def test_what_a_kubeconfig_lacks_is_named(tmp_path, changed, context, said):
    with pytest.raises(AccessInvalid, match=said):
        Access.of_kubeconfig(kubeconfig(tmp_path, **changed), context)


@pytest.mark.parametrize("text", ["", "[]", "a: [", "a: b\n---\nc: d", "\0"])
def test_what_is_no_kubeconfig_is_refused(tmp_path, text):
    (tmp_path / "config").write_text(text)
    with pytest.raises(AccessInvalid, match="config"):
        Access.of_kubeconfig(tmp_path / "config")


def test_the_way_is_found_as_kubectl_finds_it(tmp_path, certificates):
    named = str(kubeconfig(tmp_path))
    (tmp_path / ".kube").mkdir()
    home = {"HOME": str(tmp_path)}
    with pytest.raises(AccessInvalid, match="no way"):
        Access.find(home)
    kubeconfig(tmp_path / ".kube")
    assert str(tmp_path / ".kube" / "config") in Access.find(home).source
    pod = home | {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    with pytest.raises(AccessInvalid, match="serviceaccount"):
        Access.find(pod)
    assert named in Access.find(pod | {"KUBECONFIG": named}).source
    assert named in Access.find(pod, kubeconfig=named).source
    with pytest.raises(AccessInvalid, match="several"):
        Access.find({"KUBECONFIG": f"{named}:{named}"})


def test_a_token_is_read_again_every_minute_and_kept_while_its_file_cannot_be_read(tmp_path):
    path = tmp_path / "token"
    path.write_text("one")
    tokens = Tokens(path=path)
    assert tokens.current(100) == "one"
    path.write_text("two")
    assert [tokens.current(159), tokens.current(160)] == ["one", "two"]
    path.write_text("")
    assert tokens.current(300) == "two"
    path.unlink()
    assert tokens.read(301) == "two"
