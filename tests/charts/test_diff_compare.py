from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charts_py.diff.compare import FieldChange, canonical, field_changes
from kubekit import pointers

trees = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", "1", "true"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["name", "a/b", "c~d", "e"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def brief(old: Any, new: Any) -> list[tuple[str, str, Any, Any]]:
    return [(item.pointer, item.change, item.old, item.new) for item in field_changes(old, new)]


def test_a_changed_an_added_and_a_removed_field() -> None:
    assert brief({"a": 1, "b": 2}, {"a": 3, "c/d": 4}) == [
        ("/a", "changed", 1, 3),
        ("/c~1d", "added", None, 4),
        ("/b", "removed", 2, None),
    ]


@pytest.mark.parametrize(
    ("old", "new"), [(1, "1"), (1, True), (0, False), (1, 1.0), (None, ""), ({}, []), ("a", ["a"])]
)
def test_values_of_another_type_differ(old: object, new: object) -> None:
    assert brief({"a": old}, {"a": new}) == [("/a", "changed", old, new)]


def test_null_and_missing_differ() -> None:
    assert brief({"a": None}, {}) == [("/a", "removed", None, None)]


def test_items_with_names_are_compared_by_name() -> None:
    old = {"containers": [{"name": "server", "image": "a"}, {"name": "shell"}]}
    new = {"containers": [{"name": "init"}, {"name": "server", "image": "b"}]}

    assert field_changes(old, new) == [
        FieldChange("/containers/0", "added", None, {"name": "init"}, ("init",)),
        FieldChange("/containers/1/image", "changed", "a", "b", ("server",)),
        FieldChange("/containers/1", "removed", {"name": "shell"}, None, ("shell",)),
    ]


def test_another_order_of_named_items_is_said_as_such() -> None:
    old = [{"name": "a"}, {"name": "b", "x": 1}, {"name": "c"}]
    new = [{"name": "b", "x": 2}, {"name": "a"}, {"name": "d"}]

    assert brief(old, new) == [
        ("/0/x", "changed", 1, 2),
        ("/2", "added", None, {"name": "d"}),
        ("/2", "removed", {"name": "c"}, None),
        ("", "reordered", ["a", "b"], ["b", "a"]),
    ]


def test_another_order_of_anything_is_said_as_such() -> None:
    assert brief({"l": [1, 2]}, {"l": [2, 1]}) == [("/l", "reordered", [1, 2], [2, 1])]
    assert brief({"l": [{"a": 1}, {"b": 2}]}, {"l": [{"b": 2}, {"a": 1}]})[0][1] == "reordered"


def test_lists_of_scalars_are_shown_whole() -> None:
    assert brief({"args": ["a", "b"]}, {"args": ["a", "c"]}) == [("/args", "changed", ["a", "b"], ["a", "c"])]


def test_one_rule_put_in_front_is_one_change() -> None:
    rules = [{"to": ["dns"]}, {"to": ["api"]}]

    assert brief(rules, [{"to": ["new"]}, *rules]) == [("/0", "added", None, {"to": ["new"]})]
    assert brief([{"to": ["new"]}, *rules], rules) == [("/0", "removed", {"to": ["new"]}, None)]


def test_as_many_items_gone_as_come_are_compared_with_each_other() -> None:
    old = [{"port": 1, "to": "a"}, {"port": 2, "to": "b"}]
    new = [{"port": 1, "to": "a"}, {"port": 3, "to": "b"}]

    assert brief(old, new) == [("/1/port", "changed", 2, 3)]


def test_items_that_share_a_name_are_not_taken_for_each_other() -> None:
    old = [{"name": "a", "x": 1}, {"name": "a", "x": 2}]

    assert brief(old, [{"name": "a", "x": 1}, {"name": "a", "x": 3}]) == [("/1/x", "changed", 2, 3)]


@settings(deadline=None, max_examples=150)
@given(trees, trees)
def test_there_are_changes_exactly_if_the_trees_differ(old: Any, new: Any) -> None:
    assert bool(field_changes(old, new)) is (canonical(old) != canonical(new))


@settings(deadline=None, max_examples=150)
@given(trees, trees)
def test_every_pointer_leads_to_what_is_shown(old: Any, new: Any) -> None:
    for item in field_changes(copy.deepcopy(old), new):
        if item.change in {"added", "changed"}:
            assert canonical(pointers.get(new, item.pointer)) == canonical(item.new)
        if item.change == "removed":
            assert canonical(pointers.get(old, item.pointer)) == canonical(item.old)
