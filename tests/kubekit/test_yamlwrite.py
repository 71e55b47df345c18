"""The writer's own promises; what other readers make of its text stands in the tests beside this one."""

from __future__ import annotations

import random
from collections import OrderedDict
from datetime import date
from enum import IntEnum, StrEnum
from types import MappingProxyType

import pytest

from kubekit.yamlwrite import MAX_LEVELS, dump, dump_all

DEPLOYMENT = {
    "spec": {
        "replicas": 1,
        "template": {
            "spec": {
                "volumes": [{"emptyDir": {}, "name": "tmp"}],
                "containers": [
                    {
                        "image": "ghcr.io/owner/app:1.2@sha256:" + "a" * 64,
                        "args": [],
                        "env": [{"value": "yes", "name": "A"}, {"value": "two words", "name": "B"}],
                        "name": "app",
                        "command": ["sh", "-c", "set -e\nexec app\n"],
                        "resources": {"limits": {"memory": "2Gi"}},
                    },
                ],
            },
        },
    },
    "metadata": {"labels": {"b/c": "7e10", "a": "x"}, "namespace": "n", "name": "app"},
    "kind": "Deployment",
    "apiVersion": "apps/v1",
}
TEXT = f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: app
  namespace: "n"
  labels:
    a: x
    b/c: "7e10"
spec:
  replicas: 1
  template:
    spec:
      containers:
      - name: app
        args: []
        command:
        - sh
        - "-c"
        - |
          set -e
          exec app
        env:
        - name: A
          value: "yes"
        - name: B
          value: two words
        image: ghcr.io/owner/app:1.2@sha256:{"a" * 64}
        resources:
          limits:
            memory: "2Gi"
      volumes:
      - name: tmp
        emptyDir: {{}}
"""


def shuffled(tree, source):
    if isinstance(tree, dict):
        keys = source.sample(sorted(tree), len(tree))
        return {key: shuffled(tree[key], source) for key in keys}
    return [shuffled(item, source) for item in tree] if isinstance(tree, list) else tree


def test_an_object_is_written_like_this():
    assert dump(DEPLOYMENT) == TEXT


def test_the_order_in_which_maps_were_filled_does_not_matter():
    source = random.Random(1)
    assert {dump(shuffled(DEPLOYMENT, source)) for _ in range(50)} == {TEXT}


def test_lists_keep_their_order():
    assert dump(["b", "a", "c"]) == "- b\n- a\n- c\n"


def test_only_the_top_puts_kind_before_name():
    assert dump({"o": {"kind": "K", "name": "n1", "metadata": 1}, "kind": "K"}) == (
        "kind: K\no:\n  name: n1\n  kind: K\n  metadata: 1\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"), ([], "[]"), (None, "null"), (True, "true"), ("", '""'), ("a", "a"), ([[]], "- []"),
        ([{}], "- {}"),
        ([["a"], [["b"]]], "- - a\n- - - b"), (1, "1"), (1.0, "1.0"), (1e22, "1.0e+22"), (-0.0, "-0.0"),
        (1e-7, "1.0e-07"),
        ("a: b", '"a: b"'), ("é", '"é"'), ("\U0001fffe", '"\\U0001fffe"'), ("a\u202eb", '"a\\u202eb"'),
        ("\t", '"\\t"'),
    ],
)  # fmt: skip
def test_a_document_of_one_value(value, text):
    assert dump(value) == text + "\n"


def test_documents_are_parted_by_three_dashes():
    assert dump_all([{"a": 1}, {}, "a\n\n"]) == "a: 1\n---\n{}\n---\n|+\n  a\n\n"
    assert dump_all([]) == ""


def test_kinds_of_text_maps_and_lists_are_written_as_what_they_hold():
    class Word(StrEnum):
        YES = "yes"

    class Number(IntEnum):
        TWO = 2

    tree = OrderedDict({Word.YES: (Word.YES, Number.TWO), "m": MappingProxyType({"a": 1}), "f": Float(0.5)})
    assert dump(tree) == dump({"yes": ["yes", 2], "m": {"a": 1}, "f": 0.5})


class Float(float):
    def __repr__(self) -> str:
        return "half"


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ({"a": {"b/c": [1, {2}]}}, TypeError, "/a/b~1c/1: YAML has no plain type for set"),
        ({"a": b"x"}, TypeError, "/a: YAML has no plain type for bytes"),
        ([date(2026, 1, 1)], TypeError, "/0: YAML has no plain type for date"),
        (object, TypeError, "the document: YAML has no plain type for type"),
        ({"a": {1: 2}}, TypeError, "/a/1: the keys of a map must be text, this one is int"),
        ({"a": {1: 2, "b": 3}}, TypeError, "/a: the keys of a map must all be text"),
        ({"a": {None: 2}}, TypeError, "/a/None: the keys"),
        ({"a": float("nan")}, ValueError, "/a: a float that is not finite"),
        (float("-inf"), ValueError, "the document: a float that is not finite"),
        ({"a": 2**63}, ValueError, "/a: an integer beyond 64 bits"),
        ({"a": "secret\ud800"}, ValueError, r"/a: character 7 \(U\+D800\) is half of a surrogate pair"),
        ({"\udfff": 1}, ValueError, r"/\\udfff: character 1 \(U\+DFFF\)"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_place(value, error, message):
    with pytest.raises(error, match=f"^{message}") as caught:
        dump(value)
    assert "secret" not in str(caught.value)


def test_a_refusal_can_be_printed():
    with pytest.raises(ValueError) as caught:
        dump({"\ud800": "x"})
    assert str(caught.value).encode()


@pytest.mark.parametrize("wrap", [lambda tree: {"a": tree}, lambda tree: [tree]])
def test_a_tree_deeper_than_the_limit_is_refused(wrap):
    tree: object = "x"
    for _ in range(MAX_LEVELS):
        tree = wrap(tree)
    assert dump(tree)
    for _ in range(5000):
        tree = wrap(tree)
    with pytest.raises(ValueError, match="more than 100 levels deep"):
        dump(tree)


def test_a_tree_that_holds_itself_is_refused_with_a_short_message():
    tree: dict[str, object] = {}
    tree["a"] = [tree]
    with pytest.raises(ValueError, match="does the tree hold itself") as caught:
        dump(tree)
    assert len(str(caught.value)) < 200
