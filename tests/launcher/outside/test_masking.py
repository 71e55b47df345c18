"""No secret leaves the process, in whatever form it stands and wherever a stream is cut."""

from __future__ import annotations

import base64
import itertools
import json
import random
import re
import shlex
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paperclip_launcher.masking import Mask

TOKEN = "c4nary/7+d0g=<x>&'q\"\\é\u20ac-9f3a"
WRITERS = {
    "raw": str,
    "json": json.dumps,
    "json, other letters as they are": lambda text: json.dumps(text, ensure_ascii=False),
    "json in json": lambda text: json.dumps(json.dumps({"a": text})),
    "json of Go": lambda text: (
        json.dumps(text, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    ),
    "repr": repr,
    "repr of bytes": lambda text: repr(text.encode()),
    "url": lambda text: urllib.parse.quote(text, safe=""),
    "url path": urllib.parse.quote,
    "url form": urllib.parse.quote_plus,
    "url, small digits": lambda text: re.sub("%..", lambda m: m[0].lower(), urllib.parse.quote(text, safe="")),
    "shell": shlex.quote,
    "yaml": lambda text: text.replace("'", "''"),
}


def base64_of(text: str, before: str = "") -> str:
    return base64.b64encode((before + text).encode()).decode()


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_value_is_found_in_every_form_that_writers_give_it(write):
    masked = Mask([TOKEN]).text(f"before {write(TOKEN)} after")
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert "***" in masked
    for part in ("c4nary", "d0g", "9f3a", "xe9"):
        assert part not in masked


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "somebody:"])
@pytest.mark.parametrize("alphabet", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_is_found_whatever_stands_before_the_value(before, alphabet):
    value = "s3cret?>~~value-17"
    coded = alphabet(f"{before}{value}:after".encode()).decode()
    masked = Mask([value]).text(f"Basic {coded}")
    left = masked.removeprefix("Basic ").split("***")
    assert len(left) == 2
    assert sum(map(len, left)) <= len(coded) - len(value) * 8 // 6 + 2


def test_values_in_one_another_and_over_one_another_leave_nothing_behind():
    mask = Mask(["abcdefgh", "defghijkl", "xxabcdefghyy"])
    assert mask.text("-abcdefghijkl-") == "-***-"
    assert mask.text("-xxabcdefghyy-") == "-***-"


def test_each_long_line_of_a_value_is_a_secret_too():
    key = "line one of a key\nline two of a key\n}\n"
    mask = Mask([key])
    assert mask.text("> line two of a key <") == "> *** <"
    assert mask.text("}") == "}"


def test_short_values_are_left_alone_and_nothing_found_gives_the_same_object():
    mask = Mask(["", "1", "true", "12345"])
    text = "true 12345 1"
    data = b"x" * 100
    assert mask.text(text) is text
    assert mask.data(data) is data
    assert repr(Mask([TOKEN])).startswith("Mask(")
    assert "c4nary" not in repr(Mask([TOKEN]))


def test_a_value_that_was_cut_at_the_end_is_no_less_secret():
    mask = Mask(["0123456789abcdef"])
    assert mask.text("message cut at 256: 0123456789") == "message cut at 256: ***"
    assert mask.text("message 01234") == "message 01234"


def test_a_value_that_was_cut_in_the_middle_of_a_text_is_no_less_secret():
    mask = Mask(["0123456789abcdef"])
    assert mask.text("x 0123456789… [7 bytes cut] y") == "x ***… [7 bytes cut] y"
    assert mask.text("x 0123456789… [7 bytes] y") == "x 0123456789… [7 bytes] y"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer ***"),
        ("bearer%20abcdef0123456789", "bearer%20***"),
        ("a Bearer authentication-header is", "a Bearer authentication-header is"),
        ("key sk-ant-api03-abcDEF_123-xyz!", "key ***!"),
        (r'{"a":"one\nsk-ant-api03-abcDEF_123"}', r'{"a":"one\n***"}'),
        ("the task-sk-antelope", "the task-sk-antelope"),
        ("ghp_" + "a1B2" * 9, "***"),
        ("x github_pat_" + "a1B2_" * 9 + " y", "x *** y"),
        ("glpat-" + "a1B2-" * 4, "***"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0xx.c2lnbmF0dXJl", "***"),
        ("postgres://paperclip:hunter22@db:5432/x", "postgres://paperclip:***@db:5432/x"),
        ("https://example.com/a:b", "https://example.com/a:b"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\nAQEAxxx\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
    ],
)
def test_well_known_tokens_go_without_being_known(text, expected):
    assert Mask().text(text) == expected


BEGINNINGS = {
    rb"earer": rb"earer(?:\s|%20|\+)+((?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{12,})",
    **{
        one: rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(" + one + rb"[A-Za-z0-9_-]{12,})" for one in (b"sk-ant-", b"sk-proj-")
    },
    **{
        one: rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(" + one + rb"[A-Za-z0-9]{16,})" for one in (b"ghp_", b"gho_", b"ghs_")
    },
    rb"github_pat_": rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(github_pat_[A-Za-z0-9_]{16,})",
    rb"glpat-": rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(glpat-[A-Za-z0-9_-]{16,})",
    rb"://": rb"://[^\s/:@\"'<>\\]*:([^\s/@\"'<>\\]{3,})@",
}
PIECES = [
    *BEGINNINGS,
    b"gh",
    b"ghx_",
    b"sk-",
    b"github",
    b"Bearer ",
    b"user:pass@",
    b"a1B2c3D4e5F6",
    b"a1B2c3D4e5F6g7H8",
]
PIECES += [
    b" ",
    b"\n",
    b"\\n",
    b"x",
    b"7",
    b"_",
    b"-",
    b"%20",
    b"=",
    b"\xa6",
    b"zeroes",
    b"zero",
    b"s",
    b"zk-_Jy/k",
    b"k-_",
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join))
def test_what_is_found_is_what_a_search_for_each_thing_alone_finds(data):
    values = [b"zeroes", b"zk-_Jy/k-", b"xzeroes7"]  # one that has no rare byte, too
    secret = bytearray(len(data))
    for value in values:
        for at in range(len(data)):
            if data.startswith(value, at):
                secret[at : at + len(value)] = b"\1" * len(value)
    for begin, pattern in BEGINNINGS.items():
        at = data.find(begin)
        while at >= 0:
            found = re.compile(pattern).match(data, at)
            if found:
                secret[found.start(1) : found.end(1)] = b"\1" * len(found[1])
            at = data.find(begin, found.end(1) if found else at + 1)
    left = bytes(one for one, hidden in zip(data, secret, strict=True) if not hidden)
    assert Mask(values).data(data).replace(b"***", b"") == left


def test_a_stream_is_masked_wherever_it_is_cut():
    jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0xx.c2lnbmF0dXJl"
    text = f'log {TOKEN} and {base64_of(TOKEN)} then {{"k": {json.dumps(TOKEN)}}} Bearer {jwt}\nplain é end {TOKEN}'
    data = text.encode()
    mask = Mask([TOKEN, "log secrets of another run", "c4nary/7+d0g=<x>&'q\"\\é\u20ac-9f3a-and-longer"])
    whole = mask.data(data)
    assert b"d0g" not in whole
    assert b"c2ln" not in whole
    rng = random.Random(4)
    for _ in range(300):
        cuts = sorted({0, len(data), *(rng.randrange(len(data)) for _ in range(rng.randrange(6)))})
        stream = mask.stream()
        out = b"".join(stream.feed(data[a:b]) for a, b in itertools.pairwise(cuts)) + stream.end()
        assert out == whole


def test_a_stream_holds_back_nothing_that_cannot_become_a_secret():
    stream = Mask(["s3cret-value"]).stream()
    assert stream.feed(b"a line\n") == b"a line\n"
    assert stream.feed(b"and s3cr") == b"and "
    assert stream.feed(b"uple\n") == b"s3cruple\n"
    assert len(stream.feed(b"x" * 100_000)) == 100_000 - (16 << 10)
    assert stream.end() == b"x" * (16 << 10)


def test_runs_that_share_a_mask_add_and_forget_their_values():
    mask = Mask()
    mask.add("shared-value", "first-value")
    mask.add("shared-value")
    mask.forget("shared-value", "first-value")
    assert mask.text("shared-value first-value") == "*** first-value"
    mask.forget("shared-value")
    assert mask.text("shared-value") == "shared-value"


def test_a_mask_of_many_values_finds_them_as_well():
    values = [f"value-{number:06}-of-a-run" for number in range(3000)]
    mask = Mask(values)
    assert mask.text(f"a {values[17]} b {base64_of(values[2999])[:20]}") == "a *** b ***"


def test_trees_are_masked_with_their_keys():
    mask = Mask(["s3cret-value"])
    tree = {"a": ["s3cret-value", 1, None, True], "s3cret-value": {"b": "x s3cret-value"}}
    assert mask.tree(tree) == {"a": ["***", 1, None, True], "***": {"b": "x ***"}}


def test_bytes_that_are_no_text_pass_and_are_masked():
    mask = Mask([b"\xff\xfe\x00binary\xff"])
    assert mask.data(b"a\xff\xfe\x00binary\xffb\xff") == b"a***b\xff"
    assert mask.text("lone \ud800 surrogate") == "lone \ud800 surrogate"
