from __future__ import annotations

import json
from typing import Any

import pytest

from kubekit.jobtemplate import Contract, JobTemplate, PlaceholderError, TemplateError


def placeholder(kind: str = "string", **more: Any) -> dict[str, Any]:
    limits: dict[str, Any] = {
        "string": {"bytes": 20, "example": "x", "largest": "x"},
        "path": {"bytes": 40, "example": "a", "largest": "a"},
        "integer": {"minimum": 1, "maximum": 9, "example": 5, "largest": 9},
        "strings": {"items": 3, "item_bytes": 8, "bytes": 12, "example": ["a"], "largest": ["a"]},
        "environment": {
            "items": 3,
            "item_bytes": 8,
            "bytes": 20,
            "pattern": "[A-Z_]+",
            "example": [{"name": "A", "value": "b"}],
            "largest": [{"name": "A", "value": "b"}],
        },
        "map": {"items": 2, "pattern": "[a-z]*", "key_pattern": "[a-z]+", "example": {}, "largest": {}},
        "tolerations": {"items": 2, "example": [], "largest": []},
        "resources": {"items": 4, "pattern": "[0-9]+[a-zA-Z]*", "example": {}, "largest": {}},
    }
    return {"type": kind, "about": "A value.", **limits[kind], **more}


def template(job: Any, *, bounds: Any = None, **placeholders: dict[str, Any]) -> JobTemplate:
    return JobTemplate.of("test", job, Contract.of({"placeholders": placeholders}), bounds)


def problems(made: JobTemplate, values: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(PlaceholderError) as caught:
        made.fill(values)
    return caught.value.problems


# What a placeholder does in the tree


def test_a_value_takes_the_place_of_the_whole_scalar_everywhere() -> None:
    made = template({"a": "@{x}", "b": [1, "@{x}"]}, x=placeholder())
    assert made.fill({"x": "v"}) == {"a": "v", "b": [1, "v"]}


def test_a_list_in_a_list_puts_its_items_there_and_one_under_a_key_stays_a_list() -> None:
    made = template({"a": ["p", "@{x}", "q"], "b": "@{y}"}, x=placeholder("strings"), y=placeholder("strings"))
    assert made.fill({"x": ["1", "2"], "y": ["3"]}) == {"a": ["p", "1", "2", "q"], "b": ["3"]}
    assert made.fill({"x": (), "y": []}) == {"a": ["p", "q"], "b": []}


def test_without_a_value_the_key_goes_and_what_it_leaves_empty() -> None:
    made = template({"keep": {}, "a": {"b": [{"c": "@{x}"}]}, "d": {"e": "@{x}", "f": 1}}, x=placeholder())
    assert made.fill({}) == {"keep": {}, "d": {"f": 1}}
    assert made.fill({"x": None}) == made.fill({})


def test_without_values_several_places_in_one_list_go_and_the_others_keep_their_order() -> None:
    made = template(
        {"l": ["@{x}", "1", "@{y}", "2", "@{z}", "@{x}", "3"]},
        x=placeholder(),
        y=placeholder("strings"),
        z=placeholder(),
    )
    assert made.fill({}) == {"l": ["1", "2", "3"]}
    assert made.fill({"y": ["a", "b"]}) == {"l": ["1", "a", "b", "2", "3"]}
    assert made.fill({"x": "X", "z": "Z"}) == {"l": ["X", "1", "2", "Z", "X", "3"]}


def test_two_places_in_one_map_empty_it_only_together() -> None:
    made = template({"m": {"a": "@{x}", "b": "@{y}"}, "k": 1}, x=placeholder(), y=placeholder())
    assert made.fill({"x": "1"}) == {"m": {"a": "1"}, "k": 1}
    assert made.fill({"y": "1"}) == {"m": {"b": "1"}, "k": 1}
    assert made.fill({}) == {"k": 1}


def test_a_caret_takes_the_nearest_list_item_with_it() -> None:
    job = {"env": [{"name": "A", "value": "@{x^}"}, {"name": "B", "from": {"ref": {"n": "@{y^}", "k": 1}}}, 3]}
    made = template(job, x=placeholder(), y=placeholder())
    assert made.fill({}) == {"env": [3]}
    assert made.fill({"y": "s"}) == {"env": [{"name": "B", "from": {"ref": {"n": "s", "k": 1}}}, 3]}


def test_a_question_mark_is_true_with_a_value_and_goes_without() -> None:
    made = template({"suspend": "@{x?}", "label": "@{x}"}, x=placeholder())
    assert made.fill({"x": "q"}) == {"suspend": True, "label": "q"}
    assert made.fill({}) == {}


def test_a_default_counts_as_a_value_and_a_value_replaces_it() -> None:
    made = template(
        {"a": "@{x}", "p": "@{x?}", "t": "@{y}"},
        bounds={"x": {"default": "d"}, "y": {"default": {"k": "v"}}},
        x=placeholder(),
        y=placeholder("map"),
    )
    assert made.fill({}) == {"a": "d", "p": True, "t": {"k": "v"}}
    assert made.fill({"x": "e", "y": {}}) == {"a": "e", "p": True, "t": {}}


def test_a_manifest_shares_nothing_with_the_values_nor_with_the_next_manifest() -> None:
    made = template(
        {"a": "@{x}", "b": "@{y}"},
        bounds={"y": {"default": {"k": "v"}}},
        x=placeholder("map"),
        y=placeholder("map"),
    )
    given = {"x": {"a": "b"}}
    first = made.fill(given)
    first["a"]["a"] = first["b"]["k"] = "changed"
    assert given == {"x": {"a": "b"}}
    assert made.fill(given) == {"a": {"a": "b"}, "b": {"k": "v"}}


def test_text_that_looks_like_a_placeholder_stays_text() -> None:
    made = template({"a": "@{x}", "b": "@{y}"}, x=placeholder(), y=placeholder())
    assert made.fill({"x": "@{y}", "y": "{{ x }}"}) == {"a": "@{y}", "b": "{{ x }}"}


def test_every_dollar_sign_is_doubled_where_kubernetes_expands_and_nowhere_else() -> None:
    container = {"args": ["@{x}", "@{l}"], "env": [{"name": "A", "value": "@{x}"}, "@{e}"], "image": "@{x}"}
    made = template(
        {"metadata": {"name": "@{x}"}, "spec": {"containers": [container]}},
        x=placeholder(),
        l=placeholder("strings"),
        e=placeholder("environment"),
    )
    filled = made.fill({"x": "$(A) $$ $é", "l": ["$(A)"], "e": [{"name": "B", "value": "$"}]})
    assert filled["metadata"] == {"name": "$(A) $$ $é"}
    assert filled["spec"]["containers"] == [
        {
            "args": ["$$(A) $$$$ $$é", "$$(A)"],
            "env": [{"name": "A", "value": "$$(A) $$$$ $$é"}, {"name": "B", "value": "$$"}],
            "image": "$(A) $$ $é",
        }
    ]


# What is refused


def test_all_problems_come_at_once() -> None:
    made = template(
        {"a": "@{x}", "b": "@{y}", "c": "@{z}"},
        x=placeholder(required=True, smallest="x"),
        y=placeholder("integer"),
        z=placeholder(pattern="[a-z]+"),
    )
    assert problems(made, {"y": 10, "z": "A", "other": 1}) == (
        "x is missing: A value.",
        "y is 10; it may be 1 to 9",
        "z is 'A', which does not match [a-z]+",
        "'other' is not a placeholder",
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (5, "x is of the type int, not a text"),
        (b"a", "x is of the type bytes, not a text"),
        ("a" * 21, "x has 21 bytes; at most 20"),
        ("é" * 11, "x has 22 bytes; at most 20"),
        ("ab\0c", "x holds NUL at character 3, which no process can be given"),
        ("éa\ud800c", "x holds a lone surrogate (U+D800) at character 3"),
        ("a\n", "x is 'a\\n', which does not match [aé]+"),
    ],
)
def test_a_text_is_refused_with_its_place(value: Any, problem: str) -> None:
    assert problems(template({"a": "@{x}"}, x=placeholder(pattern="[aé]+")), {"x": value}) == (problem,)


@pytest.mark.parametrize("value", ["a", "a" * 20, "é" * 10])
def test_a_text_up_to_its_limit_is_taken(value: str) -> None:
    assert template({"a": "@{x}"}, x=placeholder(pattern="[aé]+")).fill({"x": value}) == {"a": value}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (True, "of the type bool, not an integer"),
        ("5", "of the type str, not an integer"),
        (5.0, "of the type float, not an integer"),
        (0, "0; it may be 1 to 9"),
    ],
)
def test_an_integer_is_one_and_in_its_bounds(value: Any, problem: str) -> None:
    assert problems(template({"a": "@{x}"}, x=placeholder("integer")), {"x": value}) == (f"x is {problem}",)


@pytest.mark.parametrize("value", ["/ws", "/ws/a", "/ws/a b/é..", "/ws/..."])
def test_a_path_may_lie_anywhere_inside(value: str) -> None:
    made = template({"a": "@{x}"}, bounds={"x": {"inside": "/ws"}}, x=placeholder("path"))
    assert made.fill({"x": value}) == {"a": value}


@pytest.mark.parametrize(
    "value",
    [
        "/",
        "",
        "/w",
        "/wsx",
        "/ws/",
        "ws/a",
        "/ws//a",
        "/ws/../etc",
        "/ws/.",
        "/ws/a/..",
        "/ws/a\nb",
        "/ws/\0",
        3,
    ],
)
def test_a_path_cannot_leave(value: Any) -> None:
    made = template({"a": "@{x}"}, bounds={"x": {"inside": "/ws"}}, x=placeholder("path"))
    assert len(problems(made, {"x": value})) == 1


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("abc", "x is of the type str, not a list of texts"),
        (["a"] * 4, "x has 4 items; it may have 0 to 3"),
        (["a", 1], "x[1] is of the type int, not a text"),
        (["a" * 9], "x[0] has 9 bytes; at most 8"),
        (["a" * 8, "é" * 3], "x has 14 bytes in all; at most 12"),
        (["ok", "b\0"], "x[1] holds NUL at character 2, which no process can be given"),
    ],
)
def test_arguments_are_refused_by_their_place(value: Any, problem: str) -> None:
    assert problems(template({"a": "@{x}"}, x=placeholder("strings")), {"x": value}) == (problem,)


def test_a_bound_can_ask_for_a_first_argument() -> None:
    made = template({"a": "@{x}"}, bounds={"x": {"minimum": 1}}, x=placeholder("strings", smallest=[]))
    assert problems(made, {"x": []}) == ("x has 0 items; it may have 1 to 3",)
    assert made.values("smallest") == {"x": ["a"]}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"A": "b"}, "x is of the type dict, not a list of {name, value}"),
        ([{"name": "A"}], "x[0] is not {name, value}"),
        ([{"name": "A", "value": "b", "more": 1}], "x[0] is not {name, value}"),
        ([{"name": "A", "value": 1}], "x[0] has a value that is of the type int, not a text"),
        ([{"name": None, "value": ""}], "x[0] has a name that is nothing, not a text"),
        ([{"name": "a-b", "value": ""}], "x[0] has the name 'a-b'; want [A-Z_]+"),
        ([{"name": "A", "value": "1"}, {"name": "A", "value": "1"}], "x[1] sets A a second time"),
        ([{"name": "HOME", "value": "1"}], "x[0] sets HOME, which is not the run's to set"),
        ([{"name": "KEY", "value": "1"}], "x[0] sets KEY, which is not the run's to set"),
        ([{"name": c, "value": "1234567"} for c in "ABC"], "x has 24 bytes in all; at most 20"),
    ],
)
def test_variables_are_refused_by_their_place(value: Any, problem: str) -> None:
    made = template({"env": [{"name": "HOME", "value": "/h"}, "@{x}"]}, x=placeholder("environment", reserved=["KEY"]))
    assert problems(made, {"x": value}) == (problem,)


def test_no_value_of_a_variable_or_an_argument_is_in_a_message() -> None:
    made = template({"a": "@{x}", "env": ["@{y}"]}, x=placeholder("strings"), y=placeholder("environment"))
    canary = "sk-canary-é"
    found = problems(made, {"x": [canary], "y": [{"name": "A", "value": canary}, {"name": "B", "value": f"s{chr(0)}"}]})
    assert len(found) == 3
    assert "canary" not in str(found)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "x is of the type list, not a map of texts"),
        ({"A": "b"}, "x has the key 'A'; it must match [a-z]+"),
        ({"a": "B"}, "x['a'] is 'B'; want a text like [a-z]*"),
        ({"a": 1}, "x['a'] is 1; want a text like [a-z]*"),
        ({"a": "", "b": "", "c": ""}, "x has 3 items; it may have 0 to 2"),
    ],
)
def test_a_map_is_refused_by_its_key(value: Any, problem: str) -> None:
    assert problems(template({"a": "@{x}"}, x=placeholder("map")), {"x": value}) == (problem,)


@pytest.mark.parametrize(
    "value",
    [
        {},
        [1],
        [{}],
        [{"key": "a", "operators": "Exists"}],
        [{"key": "a", "operator": "In"}],
        [{"key": "a", "effect": "Evict"}],
        [{"key": "a", "operator": "Exists", "value": "b"}],
        [{"key": "a", "value": 1}],
        [{"key": 1}],
        [{"key": "a", "tolerationSeconds": "5"}],
        [{"operator": "Exists"}] * 3,
    ],
)
def test_a_toleration_that_the_cluster_would_refuse_is_refused(value: Any) -> None:
    assert len(problems(template({"a": "@{x}"}, x=placeholder("tolerations")), {"x": value})) == 1


def test_tolerations_come_through_as_they_are() -> None:
    value = [
        {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
        {"operator": "Exists"},
    ]
    assert template({"a": "@{x}"}, x=placeholder("tolerations")).fill({"x": value}) == {"a": value}


AMOUNTS = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        {"requests": AMOUNTS},
        {"requests": AMOUNTS, "limits": AMOUNTS, "claims": []},
        {"requests": {"cpu": "1"}, "limits": AMOUNTS},
        {"requests": None, "limits": AMOUNTS},
        {"requests": {**AMOUNTS, "cpu": 1}, "limits": AMOUNTS},
        {"requests": {**AMOUNTS, "cpu": "-1"}, "limits": AMOUNTS},
        {"requests": AMOUNTS, "limits": {**AMOUNTS, 1: "1"}},
        {"requests": AMOUNTS, "limits": {**AMOUNTS, "a": "1", "b": "1"}},
    ],
)
def test_resources_are_complete_and_of_quantities(value: Any) -> None:
    assert len(problems(template({"a": "@{x}"}, x=placeholder("resources")), {"x": value})) == 1


def test_resources_may_leave_the_cpu_unlimited() -> None:
    value = {"requests": AMOUNTS, "limits": {"memory": "2Gi", "ephemeral-storage": "1Gi"}}
    assert template({"a": "@{x}"}, x=placeholder("resources")).fill({"x": value}) == {"a": value}


# Templates and contracts that are wrong


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        ({"a": "@{x}", "b": "@{other}"}, "/b: other is not in the contract"),
        ({"a": "v"}, "x is in the contract but not in the template"),
        ({"a": "@{x}", "b": "pre-@{x}"}, "/b: a placeholder must be the whole text, like @{name}"),
        ({"a": "@{x}", "b": "@{x}\n"}, "/b: a placeholder must be the whole text, like @{name}"),
        ({"a": "@{x}", "b": "@{X}"}, "/b: a placeholder must be the whole text, like @{name}"),
        ({"a": "@{x}", "@{x}": 1}, "/@{x}: a key cannot be a placeholder"),
        ({"a": "@{x^}"}, "/a: no list item is around @{x^}"),
        ({"a": [{"b": "@{x^}", "c": "@{x}"}]}, "/a/0/b: an item that goes may hold no second placeholder"),
    ],
)
def test_a_template_that_does_not_fit_its_contract_is_refused(job: Any, problem: str) -> None:
    with pytest.raises(TemplateError) as caught:
        template(job, x=placeholder())
    assert caught.value.problems == (problem,)


@pytest.mark.parametrize("mark", ["^", "?"])
def test_what_is_required_cannot_be_absent(mark: str) -> None:
    with pytest.raises(TemplateError, match="x is required, so it cannot carry"):
        template({"a": ["@{x" + mark + "}"]}, x=placeholder(required=True, smallest="x"))


def test_a_list_or_map_stands_once() -> None:
    with pytest.raises(TemplateError, match="x is no scalar and stands here again"):
        template({"a": "@{x}", "b": "@{x}"}, x=placeholder("map"))


def test_a_list_with_a_default_cannot_be_spliced() -> None:
    with pytest.raises(TemplateError, match="x has a default, so its items cannot be put into a list"):
        template({"a": ["@{x}"]}, bounds={"x": {"default": ["a"]}}, x=placeholder("strings"))


def test_a_default_outside_of_the_contract_is_refused() -> None:
    with pytest.raises(TemplateError, match="x has 21 bytes; at most 20"):
        template({"a": "@{x}"}, bounds={"x": {"default": "a" * 21}}, x=placeholder())


def test_a_bound_on_nothing_or_of_nothing_is_refused() -> None:
    with pytest.raises(TemplateError, match="bounds 'y', which is not in the contract"):
        template({"a": "@{x}"}, bounds={"y": {"default": "a"}}, x=placeholder())
    with pytest.raises(TemplateError, match=r"bounds x by \['most'\]"):
        template({"a": "@{x}"}, bounds={"x": {"most": 1}}, x=placeholder())


def test_a_contract_names_all_that_is_wrong_with_it() -> None:
    entries = {
        "A": placeholder(),
        "b": placeholder(pattern="[", more=1),
        "c": {**placeholder(), "type": "text"},
        "d": placeholder(required=True),
        "e": "string",
        "f": {"type": "string", "about": "x", "example": "x"},
    }
    with pytest.raises(TemplateError) as caught:
        Contract.of({"placeholders": entries})
    assert [text[:30] for text in caught.value.problems] == [
        "'A' is not a name of a-z, 0-9 ",
        "b has the unknown key 'more'",
        "b has a pattern that is no reg",
        "c has the type 'text'; take on",
        "d is required and has no 'smal",
        "e is not a map",
        "f has no 'largest'",
    ]


@pytest.mark.parametrize("tree", [None, [], {}, {"placeholders": []}, {"placeholders": {}, "more": 1}])
def test_what_is_no_contract_at_all_is_refused(tree: Any) -> None:
    with pytest.raises(TemplateError, match="placeholders"):
        Contract.of(tree)


# Text and back


def test_text_and_back_is_the_same_template() -> None:
    made = template(
        {"a": "@{x}", "é": "@{y}"}, bounds={"x": {"default": "d"}}, x=placeholder(), y=placeholder("integer")
    )
    back = JobTemplate.load(made.to_text(), made.contract.text)
    assert back == made
    assert back.to_text() == made.to_text()
    assert back.fill({"y": 3}) == made.fill({"y": 3}) == {"a": "d", "é": 3}


def test_the_text_does_not_depend_on_the_order_of_keys() -> None:
    first = template({"a": "@{x}", "b": {"c": 1, "d": 2}}, x=placeholder())
    second = template({"b": {"d": 2, "c": 1}, "a": "@{x}"}, x=placeholder())
    assert first.to_text() == second.to_text()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "a"}', json.dumps({"name": "a", "job": {}, "bounds": {}})])
def test_a_text_that_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(TemplateError, match="template"):
        JobTemplate.load(text, '{"placeholders": {}}')


def test_example_values_are_fresh_each_time() -> None:
    made = template({"a": "@{x}"}, x=placeholder("strings"))
    made.values("example")["x"].append("changed")
    assert made.values("example") == {"x": ["a"]}
