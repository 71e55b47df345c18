from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubekit.imageref import ImageRef, ImageRefError, parse

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("nginx", ("docker.io", "library/nginx", "", "")),
        ("nginx:1.27", ("docker.io", "library/nginx", "1.27", "")),
        ("docker.io/nginx", ("docker.io", "library/nginx", "", "")),
        ("index.docker.io/library/nginx", ("docker.io", "library/nginx", "", "")),
        ("owner/app", ("docker.io", "owner/app", "", "")),
        ("a/b/c:1", ("docker.io", "a/b/c", "1", "")),
        ("localhost:5000/app", ("localhost:5000", "app", "", "")),
        ("localhost/app:1", ("localhost", "app", "1", "")),
        ("localhost:5000", ("docker.io", "library/localhost", "5000", "")),
        ("ghcr.io/owner/app:1.2", ("ghcr.io", "owner/app", "1.2", "")),
        ("GHCR.io/owner/app", ("ghcr.io", "owner/app", "", "")),
        ("registry:5000/a/b:v1@" + DIGEST, ("registry:5000", "a/b", "v1", DIGEST)),
        ("nginx@" + DIGEST, ("docker.io", "library/nginx", "", DIGEST)),
        ("127.0.0.1:5000/a", ("127.0.0.1:5000", "a", "", "")),
        ("[::1]:5000/a:t", ("[::1]:5000", "a", "t", "")),
        ("a.b/c__d.e-f--g/h_i:" + "T" * 128, ("a.b", "c__d.e-f--g/h_i", "T" * 128, "")),
        ("foo_bar/app", ("docker.io", "foo_bar/app", "", "")),
        ("x:_1.-", ("docker.io", "library/x", "_1.-", "")),
    ],
)
def test_a_reference_has_these_parts(text, parts):
    image = parse(text)
    assert (image.registry, image.repository, image.tag, image.digest) == parts
    assert image.text == text
    assert parse(str(image)) == image
    assert image.name == f"{parts[0]}/{parts[1]}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("nginx:", 'ends in ":"'),
        ("nginx:a b", r"holds U\+0020 at 8"),
        ("ngínx", r"holds U\+00ED at 3"),
        ("nginx\n", r"holds U\+000A at 6"),
        ("nginx:-1", "has the tag '-1'"),
        ("nginx:" + "t" * 129, "a tag of 129 characters; at most 128"),
        ("Nginx", "has capitals in 'Nginx'; registries want lower case"),
        ("ghcr.io/Owner/app", "has capitals in 'Owner'"),
        ("Owner/App", "has capitals in 'Owner'"),
        ("ghcr.io//app", "has an empty part in its name"),
        ("ghcr.io/", "has an empty part"),
        ("/app", "has an empty part"),
        ("a/b/", "has an empty part"),
        ("a-/b", "has 'a-' in its name"),
        ("a___b", "has 'a___b' in its name"),
        ("a..b", "has 'a..b' in its name"),
        ("-a.b/c", "has '-a.b' for a registry"),
        ("host:port/app", "has 'host:port' for a registry"),
        ("https://ghcr.io/a", "for a registry"),
        ("nginx@sha256:" + "0" * 63, 'it must be "sha256:" and 64 hex digits'),
        ("nginx@sha256:" + "A" * 64, "64 hex digits in lower case"),
        ("nginx@sha512:" + "0" * 128, 'it must be "sha256:"'),
        ("nginx@", "has the digest ''"),
        ("nginx@" + DIGEST + "@" + DIGEST, "has the digest"),
        ("a" * 64, "is the bare id of an image"),
        ("ghcr.io/" + "a" * 250, "more than 255 characters"),
    ],
)
def test_text_that_is_no_reference_is_refused(text, message):
    with pytest.raises(ImageRefError, match=message):
        parse(text)


def test_the_same_image_written_in_two_ways_is_equal():
    assert parse("nginx:1") == parse("docker.io/library/nginx:1")
    assert len({parse("nginx:1"), parse("index.docker.io/nginx:1"), parse("nginx")}) == 2


def test_a_digest_is_put_behind_what_was_written():
    pinned = parse("nginx:1").with_digest(DIGEST)
    assert pinned == ImageRef("docker.io", "library/nginx", "1", DIGEST)
    assert pinned.text == f"nginx:1@{DIGEST}"
    other = "sha256:" + "f" * 64
    assert pinned.with_digest(other).text == f"nginx:1@{other}"
    with pytest.raises(ImageRefError, match="has the digest 'latest'"):
        pinned.with_digest("latest")


def test_a_reference_made_of_parts_is_written_in_full():
    assert ImageRef("ghcr.io", "a/b", "1").text == "ghcr.io/a/b:1"


@settings(deadline=None)
@given(st.text("ab.:/@-_A09[] é\n", max_size=20) | st.text(max_size=8))
def test_any_text_is_an_image_or_an_error(text):
    try:
        image = parse(text)
    except ImageRefError:
        return
    assert parse(str(image)) == image
    assert str(parse(str(image))) == str(image)
