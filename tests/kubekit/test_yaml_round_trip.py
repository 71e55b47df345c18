"""What we write, the readers of Python read back: libyaml (YAML 1.1), PyYAML, ruamel's own loader, ours."""

from __future__ import annotations

import json

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from kubekit.pointers import join
from kubekit.yamlread import read, read_all
from kubekit.yamlwrite import dump, dump_all

FRAGMENTS = [
    "a", "b c", "yes", "n", "on", "null", "~", "1", "1e3", "0o17", "08", ".5", "12:30:45", "2001-01-01", ": ",
    " #", "- ",
    "\n", "\n\n", "\n  ", " ", "\t", "\r", "\r\n", "#", "'", '"', "\\", "{", "[", "]", "}", ",", "&a", "*a",
    "!", "|", ">",
    "%", "@", "`", "---", "...", "<<", "=", "\x00", "\x85", "\u2028", "\ufeff", "\U0001ffff", "é", "😀",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=20
)
LEAVES = (
    TEXTS
    | st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=15)
PROPERTY = settings(deadline=None, max_examples=150)


def exact(tree):
    """A form in which 1, 1.0 and True differ."""
    return json.dumps(tree, sort_keys=True)


@PROPERTY
@given(TREES)
def test_libyaml_and_our_reader_read_what_was_written(tree):
    text = dump(tree)
    assert exact(yaml.load(text, yaml.CSafeLoader)) == exact(tree)
    assert exact(read(text, "x").value) == exact(tree)


@settings(deadline=None, max_examples=40)
@given(TREES)
def test_pure_pyyaml_and_ruamel_read_what_was_written(tree):
    text = dump(tree)
    assert exact(yaml.safe_load(text)) == exact(tree)
    assert exact(YAML(typ="safe", pure=True).load(text)) == exact(tree)


@PROPERTY
@given(TREES)
def test_writing_what_was_read_changes_nothing(tree):
    text = dump(tree)
    assert dump(read(text, "x").value) == text
    assert text.endswith("\n")
    assert text.encode()


@PROPERTY
@given(st.lists(TREES.filter(lambda tree: tree is not None), max_size=4))
def test_a_stream_keeps_its_documents(trees):
    assert exact([document.value for document in read_all(dump_all(trees), "x")]) == exact(trees)


@PROPERTY
@given(TREES)
def test_every_value_has_the_place_that_libyaml_gives_it(tree):
    text = dump(tree)
    assert read(text, "x").positions == dict(places(yaml.compose(text, yaml.CSafeLoader)))


def places(node, pointer="", key=None):
    """(pointer, line and column from 1) of each node, of the key for an entry of a map."""
    mark = (key or node).start_mark
    yield pointer, (mark.line + 1, mark.column + 1)
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield from places(value, join(pointer, name.value), name)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from places(item, join(pointer, index))
