"""Images, however they are written: what the policies find, and that CEL finds the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubekit import imageref
from policies.facts import Facts
from policies.images.origins import bitnami_problem
from policies.images.uses import prefixes, problem, under
from policies.registry import by_id
from policies.run import run
from policies.world import World
from tests.support import celeval

DIGEST = "sha256:" + "5b" * 32
POLICIES = (
    "image-digest",
    "image-no-floating-tag",
    "image-registry-allowed",
    "bitnami-mirror",
    "pull-policy-fits-pin",
)
REGISTRIES = ("ghcr.io/paperclipai", "docker.io/library", "docker.io/owner/app", "localhost:5000", "quay.io/a.b/c/*")
NASTY = (
    "app",
    "app:5000",
    "app:",
    "localhost/app",
    "localhost:5000/app",
    "localhost:5000/app:latest",
    "localhost:500000/app:1",
    "LOCALHOST/app:1",
    "[::1]:5000/app:1",
    "[::1]/app:1",
    "a_b.c/app:1",
    "a-b/app:1",
    "a__b/c_d:1",
    "a___b/c:1",
    "ghcr.io",
    "ghcr.io/paperclipai",
    "ghcr.io/paperclipai/app:1",
    "ghcr.io/paperclipai:1",
    "ghcr.io//paperclipai/app:1",
    "ghcr.io/PaperclipAI/app:1",
    "GHCR.io/paperclipai/app:1",
    "ghcr.io/paperclipaievil/app:1",
    "ghcr.io.evil.example/paperclipai/app:1",
    "ghcr-io/paperclipai/app:1",
    "docker.io/app:1",
    "docker.io/library/app:1",
    "library/app:1",
    "index.docker.io/app:1",
    "DOCKER.IO/owner/app:1",
    "owner/app:1",
    "owner/app/more:1",
    "owner/apps:1",
    "bitnami:1",
    "bitnami/redis:7",
    "bitnamilegacy/redis:7",
    "bitnamisecure/redis:7",
    "registry-1.docker.io/bitnami/redis:7",
    "mirror.gcr.io/bitnami/redis:7",
    "mirror.gcr.io/bitnamilegacy/redis:7.2.4-debian-11-r5",
    "quay.io/a.b/c/d:1",
    "quay.io/aXb/c/d:1",
    "quay.io/a.b/cd:1",
    "5b" * 32,
    "5b" * 32 + ":1",
    "app:latest",
    "app:Latest",
    "app:" + "t" * 128,
    "app:" + "t" * 129,
    "app:-t",
    " app:1",
    "äpp:1",
    "app:1@sha256:5b5b",
    "app:1@sha512:" + "5b" * 64,
    "user:word@ghcr.io/paperclipai/app:1",
)


def pod(image, policy=None):
    container = {"name": "app", "image": image} | ({"imagePullPolicy": policy} if policy else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"containers": [container]}}


def compared(manifest, registries=REGISTRIES):
    """(policy, whether Python finds it, what CEL says) of each policy."""
    facts = Facts(registries=registries)
    for name in POLICIES:
        one = by_id()[name]
        cel = one.cel(facts) if callable(one.cel) else one.cel
        yield name, bool(run(World([(manifest, None)], facts), [one])), celeval.verdict(cel, manifest, kinds=one.kinds)


@pytest.mark.parametrize("digest", ["", f"@{DIGEST}"])
@pytest.mark.parametrize("image", NASTY)
def test_cel_and_python_read_an_image_alike(image, digest):
    for name, found, verdict in compared(pod(image + digest, "Always")):
        assert (verdict == "fail") == found, f"{name}: {verdict}, Python finds {found}"
        assert not verdict.startswith("error")


pieces = st.sampled_from(
    [
        "a",
        "B",
        "9",
        ".",
        "-",
        "_",
        "__",
        "/",
        ":",
        "@",
        "localhost",
        "docker.io",
        "library",
        "bitnami",
        "latest",
        "[",
        "]",
    ]
)


@settings(deadline=None)
@given(parts=st.lists(pieces, min_size=1, max_size=9), pinned=st.booleans())
def test_cel_and_python_read_any_text_alike(parts, pinned):
    text = "".join(parts) + (f"@{DIGEST}" if pinned else "")
    for name, found, verdict in compared(pod(text), (*REGISTRIES, "docker.io")):
        assert (verdict == "fail") == found, f"{name} on {text!r}: {verdict}, Python finds {found}"


@pytest.mark.parametrize(
    ("allowed", "image", "expected"),
    [
        ("ghcr.io", "ghcr.io/a/b:1", True),
        ("ghcr.io/", "ghcr.io/a/b:1", True),
        ("ghcr.io/a", "ghcr.io/a/b:1", True),
        ("ghcr.io/a/*", "ghcr.io/a/b:1", True),
        ("ghcr.io/a", "ghcr.io/ab/b:1", False),
        ("GHCR.io/a", "ghcr.io/a/b:1", True),
        ("ghcr.io", "ghcr.io.example.org/a:1", False),
        ("docker.io", "busybox:1", True),
        ("docker.io", "ghcr.io/a:1", False),
        ("docker.io/library", "busybox:1", True),
        ("docker.io/library", "somebody/busybox:1", False),
        ("index.docker.io/library", "docker.io/busybox:1", True),
        ("busybox", "docker.io/library/busybox:1", True),
        ("somebody", "somebody/busybox:1", True),
        ("somebody/busybox", "somebody/busybox:1", True),
        ("somebody/busy", "somebody/busybox:1", False),
        ("localhost:5000", "localhost:5000/a:1", True),
        ("localhost:5000", "localhost:5001/a:1", False),
    ],
)
def test_what_is_allowed_are_whole_parts_of_a_name(allowed, image, expected):
    assert under(imageref.parse(image), allowed) is expected


def test_one_word_is_an_owner_or_an_image_of_docker_hub():
    assert prefixes("app") == ("docker.io/app", "docker.io/library/app")


@pytest.mark.parametrize("text", ["robot:hunter2@ghcr.io/a/b:1", f"robot:hunter2@ghcr.io/a@{DIGEST}"])
def test_a_password_in_an_image_is_not_repeated(text):
    assert "hunter2" not in problem(text)
    assert problem(text)


def test_images_of_a_chart_can_be_judged_by_themselves():
    assert bitnami_problem(imageref.parse("bitnami/postgresql:16"))
    assert not bitnami_problem(imageref.parse("mirror.gcr.io/bitnamilegacy/postgresql:16.2.0-debian-11-r16"))


def findings(policy, *manifests, **facts):
    return [one.pointer for one in run(World([(one, None) for one in manifests], Facts(**facts)), [by_id()[policy]])]


def account(*secrets):
    metadata = {"name": "puller", "namespace": "x"}
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata,
        "imagePullSecrets": [{"name": one} for one in secrets],
    }


def private(**spec):
    one = pod(f"ghcr.io/a/b@{DIGEST}")
    one["metadata"]["namespace"] = "x"
    one["spec"] |= spec
    return one


def secret(kind):
    return {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": "pull", "namespace": "x"}}


def test_pull_secrets_that_nobody_can_know_are_not_judged():
    told = {"private_registries": ("ghcr.io",)}
    named = {"imagePullSecrets": [{"name": "pull"}]}
    assert findings("pull-secret-resolves", private(), **told) == ["/spec"]
    assert findings("pull-secret-resolves", private()) == []
    assert findings("pull-secret-resolves", private(serviceAccountName="elsewhere"), **told) == []
    assert findings("pull-secret-resolves", private(serviceAccountName="puller"), account(), **told) == ["/spec"]
    assert findings("pull-secret-resolves", private(serviceAccountName="puller"), account("pull"), **told) == []
    assert findings("pull-secret-resolves", private(**named), **told) == []
    assert findings("pull-secret-resolves", private(**named), secret("Opaque"), **told) == ["/spec/imagePullSecrets"]
    assert findings("pull-secret-resolves", private(**named), secret("kubernetes.io/dockerconfigjson"), **told) == []
    assert findings("pull-secret-resolves", private(serviceAccountName=["junk"]), **told) == []


def test_the_lock_is_read_whatever_the_spelling():
    one = pod(f"docker.io/library/app:1@{DIGEST}")
    assert findings("image-lock-parity", one, pinned_images={"app:1": DIGEST}) == []
    assert findings("image-lock-parity", one, pinned_images={f"app:1@{DIGEST}": DIGEST}) == []
    assert findings("image-lock-parity", one, pinned_images={"app:1": "sha256:" + "0" * 64}) != []
    assert findings("image-lock-parity", one, pinned_images={"app:2": DIGEST}) != []
    assert findings("image-lock-parity", one) == []
