"""Manifests of others are read as Go reads them, or refused with a place: never as something else."""

from __future__ import annotations

import pytest

from kubekit import yamlread
from kubekit.yamlread import YamlProblem
from tests.kubekit.test_yaml_for_go import BOOLEANS, NUMBERS, SYNTAX

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def foreign(text, **limits):
    (document,) = yamlread.read_all(text, "a.yaml", foreign=True, **limits)
    return document


def same(ours, theirs):
    """As JSON has it: 1 and 1.0 are one number, true is none; beyond 63 bits kubectl shows a float."""
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, int | float) and isinstance(theirs, int | float) and abs(ours) >= 2**63:
        return float(ours) == float(theirs)
    return ours == theirs


def words():
    """Plain words that a YAML reader may take for something else; what cannot stand plain is left out."""
    for word in dict.fromkeys([*BOOLEANS, *NUMBERS, *SYNTAX]):
        try:
            if foreign(f"{HEAD}data:\n  k: {word}\n").value["data"]["k"] is not None:
                yield word
        except (YamlProblem, ValueError, TypeError, KeyError):
            continue


def test_a_plain_word_is_for_us_what_it_is_for_go(read_by_go):
    plain = list(words())
    text = f"{HEAD}data:\n" + "".join(f"  k{index}: {word}\n" for index, word in enumerate(plain))
    ours, theirs = foreign(text).value["data"], read_by_go(text)["data"]
    assert len(plain) > 170
    assert [
        (word, ours[f"k{index}"], theirs[f"k{index}"])
        for index, word in enumerate(plain)
        if not same(ours[f"k{index}"], theirs[f"k{index}"])
    ] == []


@pytest.mark.parametrize("word", [".inf", "-.Inf", "+.INF", ".nan", ".NaN"])
def test_what_json_has_no_form_for_is_refused_by_both(word, kubectl):
    text = f"{HEAD}data:\n  k: {word}\n"
    assert kubectl(text, "annotate", "-o", "json", "read=back").returncode != 0
    with pytest.raises(YamlProblem, match=r"a\.yaml:5:6: a number that is not finite"):
        foreign(text)


def test_aliases_and_merge_keys_are_for_us_what_they_are_for_go(read_by_go):
    text = (
        f"{HEAD}data:\n"
        "  base: &base {a: 1, b: [x, w], c: {d: e}}\n"
        "  again: *base\n"
        "  one: {<<: *base, a: 2}\n"
        "  other: {a: 2, <<: *base}\n"
        "  many: {<<: [{a: 8}, *base], z: 1}\n"
        "  inline: {<<: {q: r}}\n"
        "  list: [*base, *word, &word2 w, *word2]\n".replace("*word,", "v,")
        + "  anchored: &map\n    &key k: &value v\n    l: [*key, *value]\n"
        "  last: &base {new: 1}\n"
        "  after: *base\n"
        "  quoted: {'<<': {kept: 1}}\n"
    )
    assert foreign(text).value == read_by_go(text)


@pytest.mark.parametrize("text", ["a: *a", "a: &a [*a]", "a: &a {b: {c: *a}}", "a: &a 1\n---\nb: *a"])
def test_what_stands_for_nothing_whole_is_refused(text):
    with pytest.raises(YamlProblem, match=r"stands for nothing that is whole here"):
        yamlread.read_all(text, "a.yaml", foreign=True)


@pytest.mark.parametrize("text", ["{<<: 1}", "{<<: [1]}", "{<<: {a: 1}, <<: {b: 1}}", "{<<: null}"])
def test_a_merge_of_what_is_no_map_is_refused(text):
    with pytest.raises(YamlProblem, match="brings what is no map"):
        foreign(text)


def test_what_aliases_bring_is_bounded_in_size_and_depth():
    wide = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    with pytest.raises(YamlProblem, match="more than 100,000 values"):
        foreign(wide)
    deep = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} {'[' * 20}*a{n - 1}{']' * 20}\n" for n in range(1, 9))
    with pytest.raises(YamlProblem, match="more than 64 levels deep"):
        foreign(deep)
    assert foreign(deep, max_depth=200).value
    merged = "a0: &a0 {x: 1, z: 2}\n" + "".join(f"a{n}: &a{n} {{<<: *a{n - 1}, k{n}: 1}}\n" for n in range(1, 600))
    with pytest.raises(YamlProblem, match="more than 100,000 values"):
        foreign(merged)


def test_what_stands_for_an_alias_is_found_at_the_alias():
    document = foreign("a: &a {b: [1]}\nc:\n  d: *a\n")
    assert document.positions["/c/d"].line == 3
    assert "/c/d/b" not in document.positions
    assert document.positions["/a/b"].line == 1


@pytest.mark.parametrize("text", ["a: &a 1\nb: *a", "a: {<<: {b: 1}}", "a: 0644"])
def test_our_own_config_stays_strict(text):
    with pytest.raises(YamlProblem):
        yamlread.read(text, "config.yaml")
    assert foreign(text).value


def test_yes_and_no_are_text_in_our_own_config():
    assert yamlread.read("a: yes", "config.yaml").value == {"a": "yes"}
    assert foreign("a: yes").value == {"a": True}
