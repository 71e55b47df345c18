"""Readers of config values: every form that people and forms write, and a sentence for what is none."""

from __future__ import annotations

import pytest

from paperclip_launcher import readers
from paperclip_launcher.readers import Unreadable

NUMBER = readers.number(0, 1000)
READ = [
    (NUMBER, 5, 5),
    (NUMBER, 5.0, 5),
    (NUMBER, 4.2, 5),
    (NUMBER, " 600 ", 600),
    (NUMBER, "0", 0),
    (readers.flag, True, True),
    (readers.flag, "False", False),
    (readers.text, " a\n", " a\n"),
    (readers.prose, "a\0", "a\0"),
    (readers.word, " opus \n", "opus"),
    (readers.choice("a", "b"), " b", "b"),
    (readers.texts, ["a", ""], ("a", "")),
    (readers.texts, '["a", "b c"]', ("a", "b c")),
    (readers.texts, "a\r\n\n b", ("a", " b")),
    (readers.tree, '{"a": 1}', {"a": 1}),
    (readers.labels, "a=b\nexample.com/c=d", {"a": "b", "example.com/c": "d"}),
    (readers.tolerations, '[{"operator": "Exists"}]', ({"operator": "Exists"},)),
    (readers.tolerations, [{"key": "a"}], ({"key": "a"},)),
    (readers.tolerations, {"key": "a"}, ({"key": "a"},)),
    (readers.tolerations, "[]", ()),
    (readers.amount, "500m", "500m"),
    (readers.amount, 2, "2"),
    (readers.amount, 0.5, "500m"),
    (readers.absolute_path, "/a", "/a"),
    (readers.object_name, "a.b", "a.b"),
]
REFUSED = [
    (NUMBER, True, "is True, not a number"),
    (NUMBER, "ten", "not a number"),
    (NUMBER, -1, "may be 0 to 1000"),
    (NUMBER, 1001, "may be 0 to 1000"),
    (NUMBER, float("nan"), "not a finite number"),
    (NUMBER, float("inf"), "not a finite number"),
    (NUMBER, [], "not a number"),
    (readers.flag, 1, "not true or false"),
    (readers.flag, "perhaps", "not true or false"),
    (readers.text, "a\0b", "holds NUL at character 2"),
    (readers.text, 5, "is a number, not a text"),
    (readers.word, "a\nb", "more than one line"),
    (readers.choice("a", "b"), "c", "it may be a, b"),
    (readers.texts, {"a": 1}, "is a map, not a list of texts"),
    (readers.texts, ["a", 1], r"\[1\] is a number"),
    (readers.texts, "[1, ", "is no JSON at character"),
    (readers.tree, "[1]", "is a list, not a map"),
    (readers.tree, '{"a": NaN}', "is no JSON"),
    (readers.tree, "[" * 100_000, "is no JSON"),
    (readers.labels, "a b=c", "has the key 'a b', which holds"),
    (readers.labels, "a=b c", r"\['a'\] holds"),
    (readers.labels, "a", "has in line 1 what is not key=value"),
    (readers.labels, {"a": 1}, r"\['a'\] is a number, not a text"),
    (readers.labels, 3, "is a number, not a map"),
    (readers.labels, '{"a": ', "is no JSON"),
    (readers.tolerations, "key=a", "is no JSON"),
    (readers.tolerations, ["a"], "is a list, not a list of maps"),
    (readers.amount, "1 GB", "is no quantity"),
    (readers.amount, "-1", "cannot be negative"),
    (readers.amount, True, "is no quantity"),
    (readers.absolute_path, "a", "not an absolute path"),
    (readers.object_name, "A", "holds"),
]


@pytest.mark.parametrize(("read", "value", "wanted"), READ)
def test_every_form_of_a_value_is_read(read, value, wanted):
    found = read(value)
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize(("read", "value", "sentence"), REFUSED)
def test_what_is_no_such_value_is_told(read, value, sentence):
    with pytest.raises(Unreadable, match=sentence):
        read(value)


def test_lines_of_pairs_say_what_was_left_out():
    pairs, problems = readers.read_pairs("\n# a comment\n=novalue\nnoeq\na=\nb = c = d # not a comment\n")
    assert pairs == {"a": "", "b": "c = d # not a comment"}
    assert problems == ["has in line 3 what is not key=value", "has in line 4 what is not key=value"]


def test_a_message_never_grows_with_the_value():
    assert len(readers.shown("x" * 10_000)) < 70
