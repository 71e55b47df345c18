from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubekit.pointers import PointerError, escape, get, join, split, walk

# RFC 6901, section 5.
RFC = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}
TREES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~01", max_size=3), inner, max_size=3),
)


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", RFC), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4), ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8),
    ],
)  # fmt: skip
def test_the_examples_of_the_standard(pointer, value):
    assert get(RFC, pointer) == value
    assert join("", *split(pointer)) == pointer


@pytest.mark.parametrize(
    "pointer",
    ["/foo/2", "/foo/-1", "/foo/-", "/foo/00", "/foo/01", "/foo/x", "/foo/\u0660", "/x", "/foo/0/0"],
)
def test_a_pointer_to_nothing_is_an_error_that_names_it(pointer):
    with pytest.raises(PointerError, match="nothing stands at"):
        get(RFC, pointer)
    with pytest.raises(PointerError):
        get(RFC, "/foo/" + "9" * 5000)


@pytest.mark.parametrize(
    ("pointer", "message"), [("foo", 'does not begin with "/"'), ("/a~b", 'a bare "~"'), ("/~", "~0")]
)
def test_text_that_is_no_pointer_is_refused(pointer, message):
    with pytest.raises(PointerError, match=message):
        split(pointer)


@settings(deadline=None)
@given(st.lists(st.text("ab/~01", max_size=4)))
def test_any_tokens_survive(tokens):
    pointer = join("", *tokens)
    assert list(split(pointer)) == tokens
    assert pointer == "".join("/" + escape(token) for token in tokens)


@settings(deadline=None)
@given(TREES)
def test_walk_finds_each_leaf_where_get_finds_it(tree):
    leaves = list(walk(tree))
    assert all(get(tree, pointer) == leaf for pointer, leaf in leaves)
    assert len({pointer for pointer, _ in leaves}) == len(leaves)


def test_walk_keeps_the_order_and_gives_empty_maps_and_lists():
    tree = {"b": [1, {"c": []}], "a": {}, "x/y": "z"}
    assert list(walk(tree)) == [("/b/0", 1), ("/b/1/c", []), ("/a", {}), ("/x~1y", "z")]


def test_walk_goes_as_deep_as_the_tree():
    tree: object = 1
    for _ in range(20_000):
        tree = [tree]
    assert [leaf for _, leaf in walk(tree)] == [1]
