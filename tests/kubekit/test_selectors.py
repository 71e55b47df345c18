from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubekit.selectors import SelectorError, matches


def expressions(*items):
    return {"matchExpressions": [dict(zip(("key", "operator", "values"), item, strict=False)) for item in items]}


@pytest.mark.parametrize(
    ("selector", "labels", "wanted"),
    [
        (None, {"a": "1"}, False),
        ({}, {}, True),
        ({}, {"a": "1"}, True),
        ({"matchLabels": None, "matchExpressions": None}, {}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchLabels": {"a": ""}}, {}, False),
        ({"matchLabels": {"a": "1", "b": "2"}}, {"a": "1"}, False),
        (expressions(("a", "In", ["1", "2"])), {"a": "2"}, True),
        (expressions(("a", "In", ["1", "2"])), {"a": "3"}, False),
        (expressions(("a", "In", ["1", "2"])), {}, False),
        (expressions(("a", "NotIn", ["1"])), {"a": "2"}, True),
        (expressions(("a", "NotIn", ["1"])), {"a": "1"}, False),
        (expressions(("a", "NotIn", ["1"])), {}, True),
        (expressions(("a", "Exists")), {"a": ""}, True),
        (expressions(("a", "Exists")), {"b": "1"}, False),
        (expressions(("a", "DoesNotExist", [])), {"b": "1"}, True),
        (expressions(("a", "DoesNotExist")), {"a": "1"}, False),
        (expressions(("a", "Exists"), ("a", "NotIn", ["1"])), {"a": "2"}, True),
        (expressions(("a", "Exists"), ("a", "NotIn", ["1"])), {"a": "1"}, False),
        ({"matchLabels": {"b": "1"}, **expressions(("a", "Exists"))}, {"a": "1"}, False),
    ],
)
def test_a_selector_picks_what_the_api_server_picks(selector, labels, wanted):
    assert matches(selector, labels) is wanted


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"matchlabels": {"a": "1"}}, 'the field "matchlabels"'),
        ({"app": "x"}, 'the field "app"'),
        ({"matchLabels": ["a"]}, "matchLabels is no map"),
        (expressions(("a", "in", ["1"])), 'the operator "in"; write In, NotIn, Exists or DoesNotExist'),
        (expressions(("a",)), 'the operator "None"'),
        (expressions(("a", "In", [])), 'In for the label "a" needs a list of values'),
        (expressions(("a", "NotIn")), 'NotIn for the label "a" needs a list'),
        (expressions(("a", "In", "abc")), "needs a list of values"),
        (expressions(("a", "Exists", ["1"])), 'Exists for the label "a" takes no values'),
        ({"matchExpressions": ["a"]}, "has no key"),
        ({"matchExpressions": [{"operator": "Exists"}]}, "has no key"),
        ({"matchLabels": {"never": "met"}, **expressions(("a", "Is"))}, 'the operator "Is"'),
    ],
)
def test_a_selector_that_the_api_server_refuses_is_an_error(selector, message):
    with pytest.raises(SelectorError, match=message):
        matches(selector, {"x": "y"})


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("123"))


@settings(deadline=None)
@given(LABELS, st.sampled_from("abc"), st.lists(st.sampled_from("123"), min_size=1))
def test_not_in_is_the_opposite_of_in_and_absent_of_present(labels, key, values):
    assert matches(expressions((key, "In", values)), labels) is not matches(expressions((key, "NotIn", values)), labels)
    assert matches(expressions((key, "Exists")), labels) is not matches(expressions((key, "DoesNotExist")), labels)
    assert matches({"matchLabels": labels}, labels)
