from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubekit.jobtemplate import Contract, JobTemplate, PlaceholderError, escaped
from kubekit.pointers import walk

TEXT = st.one_of(
    st.text(max_size=30),
    st.text(alphabet="$(){}@\\\"'\n\r\t:#&*!|>%-?, A", max_size=30),
    st.sampled_from(
        [
            "@{name}",
            "@{text}",
            "@{text?}",
            "@{arguments}",
            "{{7*7}}",
            "{%raw%}",
            "---",
            "...",
            "!!python/object:os.system",
            "*alias",
            "&anchor",
            "<<",
            "~",
            "null",
            "true",
            "1e3",
            "0o17",
            "y",
            "$(HOME)",
            "$$(HOME)",
            "$${HOME}",
            "`id`",
            '"}]}',
            "#",
            "-",
            "\\c",
            "\\u0000",
        ]
    ),
    st.sampled_from(["", " ", "\u2028", "\u0085", "\ufeff", "\x7f", "\U0001f642", "a: b", "- a", "# a", "\r\n"]),
)
ODD = st.text(st.characters(categories=["Cs", "Cc", "Lu"]), max_size=3)
LONG = {"bytes": 4096, "example": "x", "largest": "x"}
LISTS = {"items": 9, "item_bytes": 999, "bytes": 9999, "example": [], "largest": []}
ENTRIES = {
    "name": {"type": "string", "pattern": "[a-z0-9-]+", "required": True, "smallest": "a", **LONG},
    "text": {"type": "string", **LONG},
    "arguments": {"type": "strings", **LISTS},
    "environment": {"type": "environment", "pattern": "[A-Z]+", **LISTS},
}
CONTRACT = Contract.of({"placeholders": {name: {"about": "A value.", **e} for name, e in ENTRIES.items()}})
JOB = {
    "metadata": {"name": "@{name}", "annotations": {"text": "@{text}", "fixed": "1"}},
    "spec": {
        "containers": [
            {
                "args": ["-", "@{text}", "@{arguments}", "end"],
                "env": [
                    {"name": "TEXT", "value": "@{text^}"},
                    "@{environment}",
                    {"name": "END", "value": ""},
                ],
            }
        ]
    },
}
TEMPLATE = JobTemplate.of("test", JOB, CONTRACT)


def filled(values: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return TEMPLATE.fill(values)
    except PlaceholderError as error:
        str(error).encode()
        return None if error.problems else {}


@settings(deadline=None, max_examples=200)
@given(name=TEXT, text=TEXT, arguments=st.lists(TEXT, min_size=2, max_size=2), value=TEXT)
def test_no_text_changes_the_shape_of_the_tree(name: str, text: str, arguments: list[str], value: str) -> None:
    plain = {"name": "a", "text": "b", "arguments": ["c", "d"], "environment": [{"name": "E", "value": "f"}]}
    before = dict(walk(TEMPLATE.fill(plain)))
    given_values = {
        "name": name,
        "text": text,
        "arguments": arguments,
        "environment": [{"name": "E", "value": value}],
    }
    for candidate in (given_values, {**given_values, "name": "a"}):
        made = filled(candidate)
        if made is None:
            continue
        after = dict(walk(made))
        assert after.keys() == before.keys()
        expected = {
            "/metadata/name": candidate["name"],
            "/metadata/annotations/text": text,
            "/spec/containers/0/args/1": escaped(text),
            "/spec/containers/0/args/2": escaped(arguments[0]),
            "/spec/containers/0/args/3": escaped(arguments[1]),
            "/spec/containers/0/env/0/value": escaped(text),
            "/spec/containers/0/env/1/value": escaped(value),
        }
        assert {pointer: after[pointer] for pointer in expected} == expected
        assert {p: v for p, v in after.items() if p not in expected} == {
            p: v for p, v in before.items() if p not in expected
        }


@settings(deadline=None, max_examples=200)
@given(
    st.dictionaries(
        st.one_of(st.sampled_from(["name", "text", "arguments", "environment"]), st.text(max_size=3), ODD),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | TEXT | ODD | st.binary(max_size=3),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
            max_leaves=5,
        ),
        max_size=5,
    )
)
def test_whatever_comes_there_is_a_manifest_or_an_error_with_its_problems(values: dict[str, Any]) -> None:
    before = json.dumps(values, default=repr)
    made = json.dumps(filled(values), allow_nan=False)
    assert made.encode()
    assert json.dumps(values, default=repr) == before


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=20), st.sampled_from(["\x00", "\ud800", "\udfff"]), st.text(max_size=20))
def test_nul_and_lone_surrogates_are_refused_with_their_place(left: str, bad: str, right: str) -> None:
    clean = left.replace("\x00", "")
    with pytest.raises(PlaceholderError, match=rf"at character {len(clean) + 1}\b"):
        TEMPLATE.fill({"name": "a", "text": clean + bad + right.replace("\x00", "")})


def kubernetes_expands(text: str, variables: dict[str, str]) -> str:
    """What the API reference says of EnvVar.value: `$(NAME)` becomes its value if any, `$$` one sign."""
    out: list[str] = []
    at = 0
    while at < len(text):
        if text.startswith("$$", at):
            out.append("$")
            at += 2
        elif text.startswith("$(", at) and (end := text.find(")", at)) > 0:
            reference = text[at : end + 1]
            out.append(variables.get(reference[2:-1], reference))
            at = end + 1
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


@settings(deadline=None)
@given(st.one_of(st.text(alphabet="$()A", max_size=20), TEXT))
def test_what_kubernetes_makes_of_an_escaped_text_is_the_text(text: str) -> None:
    assert kubernetes_expands(escaped(text), {"A": "expanded", "": "expanded", "HOME": "expanded"}) == text
