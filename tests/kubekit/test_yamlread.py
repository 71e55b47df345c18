"""The strict reader: what it gives, where things stand, and what it refuses with which remedy."""

from __future__ import annotations

import re
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubekit.yamlread import Document, Position, YamlProblem, read, read_all

FILE = "environments/production.yaml"


def problem(text, **limits) -> YamlProblem:
    with pytest.raises(YamlProblem) as caught:
        read(text, FILE, **limits)
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", "a"), ("null", None), ("~", None), ("a:", {"a": None}), ("Null", None), ("nULL", "nULL"),
        ("true", True),
        ("FALSE", False), ("tRue", "tRue"), ("yes", "yes"), ("off", "off"), ("n", "n"), ("0", 0),
        ("-17", -17), ("+5", 5),
        ("0o17", 15), ("0x1F", 31), ("0b1", "0b1"), ("1_000", "1_000"), ("1.5", 1.5), (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0), ("-1.5E-3", -0.0015), ("1e", "1e"), (".", "."), ("-", [None]), (".inf", inf),
        ("-.INF", -inf),
        ("12:30:45", "12:30:45"), ("2001-01-01", "2001-01-01"), ("=", "="), ("'1'", "1"), ('"true"', "true"),
        ("''", ""),
        ("!!str 5", "5"), ("!!str", ""), ("!!int '5'", 5), ("!!float 1", 1.0), ("!!null ''", None),
        ("!!bool 'true'", True),
        ("!!map {}", {}), ("!!seq []", []), ("'<<': 1", {"<<": 1}), ("? a\n: b", {"a": "b"}),
        ("{a, b: c}", {"a": None, "b": "c"}),
        ("[a: b]", [{"a": "b"}]), ("|\n  a\n  b\n", "a\nb\n"), (">\n  a\n  b\n", "a b\n"),
        ('"\\u00e9\\U0001F600"', "é😀"),
        ("a: b\r\nc: |\r\n  d\r\n  e\r\n", {"a": "b", "c": "d\ne\n"}), ("\ufeffa: 1", {"a": 1}),
        ("--- a\n...\n", "a"),
        ("# only a comment\n", None), ("", None), ("---\n", None),
        ("99999999999999999999", 99999999999999999999),
    ],
)  # fmt: skip
def test_plain_yaml_has_the_values_of_the_core_schema(text, value):
    result = read(text, FILE).value
    assert result == value
    assert type(result) is type(value)
    assert read(text.encode(), FILE).value == value


def test_each_value_has_its_place():
    text = "# top\nserver:\n  image: x # y\n  env:\n  - {é~/: 1, b: [2]}\n  - |\n    text\n"
    assert read(text, FILE) == Document(
        {"server": {"image": "x", "env": [{"é~/": 1, "b": [2]}, "text\n"]}},
        {
            "": Position(2, 1),
            "/server": Position(2, 1),
            "/server/image": Position(3, 3),
            "/server/env": Position(4, 3),
            "/server/env/0": Position(5, 5),
            "/server/env/0/é~0~1": Position(5, 6),
            "/server/env/0/b": Position(5, 14),
            "/server/env/0/b/0": Position(5, 18),
            "/server/env/1": Position(6, 5),
        },
    )


def test_all_documents_of_a_stream_but_the_empty_ones():
    documents = read_all("---\n---\na: 1\n---\n# nothing\n---\n- b\n...\n", FILE)
    assert [document.value for document in documents] == [{"a": 1}, ["b"]]
    assert documents[1].positions == {"": Position(7, 1), "/0": Position(7, 3)}


def test_a_second_document_is_refused_where_it_begins():
    error = problem("a: 1\n---\nb: 2\n")
    assert str(error) == f"{FILE}:3:1: a second document begins here"
    assert '"---"' in error.remedy


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: 1\nb: 2\na: 3", (3, 1), 'the key "a" stands here and at 1:1'),
        ("x:\n  - {a: 1, 'a': 2}", (2, 12), 'the key "a" stands here and at 2:6'),
        ("a: &x 1", (1, 4), '"&x" is an anchor'),
        ("a: *x", (1, 4), '"*x" is an alias'),
        ("? &x a\n: 1", (1, 3), '"&x" is an anchor'),
        ("a:\n  <<: {b: 1}", (2, 3), '"<<" is a merge key'),
        ("1: x", (1, 1), 'the key "1" is not text but a number'),
        ("{true: x}", (1, 2), 'the key "true" is not text but true or false'),
        ("~: x", (1, 1), 'the key "~" is not text but null'),
        (": x", (1, 1), "a key is missing here"),
        ("[a]: x", (1, 1), "a map or list is the key of a map"),
        ("a: !!binary aGk=", (1, 4), 'the tag "!!binary"'),
        ("a: !!timestamp 2001-01-01", (1, 4), 'the tag "!!timestamp"'),
        ("a: !!python/object/apply:os.system [x]", (1, 4), 'the tag "!!python/object/apply:os.system"'),
        ("a: !mine x", (1, 4), 'the tag "!mine"'),
        ("a: !!set {b}", (1, 4), 'the tag "!!set"'),
        ("a: !!int x", (1, 4), "the value does not have the type that !!int says"),
        ("%YAML 1.1\n---\na: yes", (1, 1), "a % directive stands before the document"),
        ("%TAG !e! tag:x,2000:\n---\na", (1, 1), "a % directive stands before the document"),
        ("mode: 0755", (1, 7), "a number with a leading zero is octal for some readers"),
        ("sha: 08", (1, 6), "a number with a leading zero"),
        ("a: " + "9" * 101, (1, 4), "a number of 101 characters"),
        ("a: b\nc: \x00", (2, 4), "the character U+0000"),
        ("a: \u2028", (1, 4), "the character U+2028"),
        ("a\n\ufeffb", (2, 1), "the character U+FEFF"),
        ("é: \ud800", (1, 4), "the character U+D800"),
        (b"a: 1\nb\xc3\xa9: \xff", (2, 5), "byte 0xff is not UTF-8"),
        (b"\xff\xfea\x00", (1, 1), "the file is UTF-16, not UTF-8"),
        ('a: "\\ud83d\\ude00"', (1, 4), "an escape gives half of a surrogate pair"),
        ('a: "\\U00110000"', (1, 1), "an escape behind this place names no character"),
        ("a: b: c", (1, 5), 'a ":" stands where no key can be'),
        ("a:\n\tb: 1", (2, 1), "a tab stands where the indentation is"),
        ("a: @x", (1, 4), "found character '@' that cannot start any token"),
        ("a: 1\nb: 'x\nc: 2\n", (2, 4), "a quoted text has no end"),
        ("a: [1, 2\n", (2, 1), "a list in [ ] is not closed"),
        ("a: {b: 1\n", (2, 1), "a map in { } is not closed"),
        ('a: "\\q"', (1, 6), "found unknown escape character 'q'"),
        ("a:\n  b: 1\n c: 2", (3, 2), "this does not belong to the lines above"),
        ("a: 1\n- b", (2, 1), "this does not belong to the lines above"),
        ("a: ]", (1, 4), "a value is missing here"),
        ("a: |x\n y", (1, 5), "text stands beside | or >"),
        ("a: !e!x y", (1, 4), "found undefined tag handle '!e!'"),
        ("a: *", (1, 5), "expected alphabetic or numeric character"),
    ],
)  # fmt: skip
def test_what_is_refused_says_what_where_and_how_to_mend_it(text, place, message):
    error = problem(text)
    assert (error.position, error.source) == (place, FILE)
    assert error.message.startswith(message)
    assert error.remedy
    assert str(error) == f"{FILE}:{place[0]}:{place[1]}: {error.message}"


def test_a_bomb_of_aliases_is_refused_before_it_unfolds():
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert problem("a0: &a0 x\n" + "\n".join(levels)).position == (1, 5)
    assert "alias" in problem("b: [*a, *a]").message


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("[" * 5000, 65),
        ("[" * 5000 + "]" * 5000, 65),
        ("- " * 5000, 129),
        ("{a: " * 5000, 257),
        ("[a: " * 5000, 129),
    ],
)
def test_5000_levels_are_refused_where_the_limit_is_passed(text, column):
    error = problem(text)
    assert error.position == (1, column)
    assert error.message == "maps and lists are more than 64 levels deep here"


def test_the_limit_of_depth_is_the_last_depth_that_is_read():
    assert read("[" * 64 + "]" * 64, FILE)
    assert read("[[a]]", FILE, max_depth=2).value == [["a"]]
    assert "more than 2 levels" in problem("[[a, {}]]", max_depth=2).message
    with pytest.raises(ValueError, match="max_depth is 201; it must be 1 to 200"):
        read("a", FILE, max_depth=201)


def test_size_counts_in_bytes_of_utf8():
    assert read("é" * 50, FILE, max_bytes=100).value == "é" * 50
    error = problem("é" * 51, max_bytes=100)
    assert error.message == "the file has 102 bytes; at most 100 are read"
    assert problem(b"a" * (2**20 + 1)).position == (1, 1)


def test_a_value_is_never_in_a_message():
    texts = [
        "a: &x hunter2", "a: !x hunter2", "a: hunter2: b", "a: 'hunter2", "a: !!int hunter2", "a: [hunter2",
        "a: 0" + "7" * 20,
        'a: "hunter2\\q"', "a: hunter2\n b: c", "a: |hunter2\n b", "a: hunter2\x00", '"hunter2" b',
    ]  # fmt: skip
    for text in texts:
        error = problem(text)
        assert not re.search("hunter2|7777", str(error) + error.remedy)


def test_a_long_key_is_cut_in_a_message():
    assert len(str(problem(f"? {'k' * 9000}\n? {'k' * 9000}"))) < 300


PIECES = [
    "a", "b: ", "- ", "\n", "\n  ", "\n ", "[", "]", "{", "}", ",", ":", "? ", "! ", "!!str ", "!!int ",
    "&x ", "*x", "'", '"',
    "\\", "\\u", "\\x4", "|", "|-", "|+2", ">", "#", " # c", "%YAML 1.2\n", "%TAG ! x:\n", "---\n", "--- ",
    "...\n", "\t",
    "\r", "\r\n", "<<: ", "1", "007", "0x1f", "1e3", ".inf", "~", "@", "`", "%", "é", "\ufeff", "\u2028",
    "\\U0011", "!<x>", "\x00",
]  # fmt: skip


def refusal(text) -> YamlProblem | None:
    try:
        read_all(text, FILE)
    except YamlProblem as error:
        return error
    return None


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_text_is_read_or_refused_with_a_place_in_it(text):
    error = refusal(text)
    if error:
        assert 1 <= error.position.line <= len(text.splitlines()) + 1
        assert error.position.column >= 1
        assert error.message
        assert error.remedy


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    error = refusal(data)
    assert error is None or error.remedy
