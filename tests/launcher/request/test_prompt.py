"""The prompt: its sections, its templates, and its bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paperclip_launcher.dialects.command import Command
from paperclip_launcher.handover import Extras
from paperclip_launcher.prompt import SECRET_BYTES, fill_text, parts, wake_text

DATA = {
    "a": {
        "b": "text",
        "n": None,
        "t": True,
        "i": 3,
        "f": 2.0,
        "g": 0.5,
        "l": [{"c": 1}],
        "o": {"é": '"'},
        "d-e_f": "x",
    },
    "nested": "{{a.b}}",
}


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("{{a.b}}|{{ a.b }}|{{\ta.b\n}}", "text|text|text"),
        ("{{a.n}}{{a.x}}{{x.y.z}}{{a.b.c}}{{a.l.0.c}}", ""),
        ("{{a.t}} {{a.i}} {{a.f}} {{a.g}}", "true 3 2 0.5"),
        ("{{a.l}} {{a.o}}", '[{"c":1}] {"é":"\\""}'),
        ("{{a.d-e_f}}", "x"),
        ("{{ a b }} {{}} {a.b} {{a.b} {{7*7}} $(id)", "{{ a b }} {{}} {a.b} {{a.b} {{7*7}} $(id)"),
        ("{{nested}}", "{{a.b}}"),
        ("{{{a.b}}}", "{text}"),
        ("{{.}}{{..}}", ""),
    ],
)
def test_a_template_is_filled_once(template, wanted):
    assert fill_text(template, DATA) == wanted


def test_the_agents_config_cannot_be_printed(planned):
    text = planned(
        config={"promptTemplate": "{{agent}} {{agent.adapterConfig}} {{agent.role}} {{run.source}} {{company.id}}"}
    )
    assert "canary" not in text.prompt.text
    assert text.prompt.text.endswith(" engineer on_demand 7c9e6679-7425-40de-944b-e07fc1f90ae7")


def test_a_new_session_is_told_everything_and_a_resumed_one_what_is_new(planned, tree):
    config = {"bootstrapPromptTemplate": " First {{agent.name}}. ", "promptTemplate": "Go on."}
    context = {"paperclipSessionHandoffMarkdown": " Handoff. ", "paperclipTaskMarkdown": "The task."}
    wake = "Wake reason: issue_assigned\n\nIssue: PAP-1 Mend it\n\nComment: please\n\nComment: soon"
    new = planned(config=config, context=context)
    assert new.prompt.text == f"First Ada the reviewer.\n\n{wake}\n\nHandoff.\n\nThe task.\n\nGo on."
    tree["runtime"]["sessionId"] = "s-1"
    resumed = planned(tree, config=config, context=context)
    assert resumed.prompt.text == f"{wake}\n\nHandoff."
    assert resumed.prompt.metrics == {
        "promptChars": len(resumed.prompt.text),
        "bootstrapPromptChars": 0,
        "wakePromptChars": len(wake),
        "sessionHandoffChars": 8,
        "heartbeatPromptChars": 0,
    }


def test_without_a_wake_a_resumed_session_gets_its_prompt(planned, tree):
    tree["runtime"]["sessionId"] = "s-1"
    tree["context"] = {}
    assert (
        planned(tree).prompt.text
        == "You are agent 0d8b4472-c42c-4052-aab1-e32897909afa (Ada the reviewer). Continue your Paperclip work."
    )


@pytest.mark.parametrize(
    ("context", "wanted"),
    [
        ({}, ""),
        ({"wakeReason": "timer"}, ""),
        ({"paperclipWake": {"reason": "x"}}, "Wake reason: x"),
        ({"paperclipWake": {"comments": [{"body": "a"}, {}, 5]}, "wakeReason": "y"}, "Wake reason: y\n\nComment: a"),
        ({"paperclipWake": {"reason": "x"}, "instruction": "Look."}, "Wake reason: x\n\nLook."),
        ({"paperclipWake": "?"}, ""),
    ],
)
def test_what_woke_the_agent(context, wanted):
    assert wake_text(context) == wanted


def test_comments_that_are_missing_are_said_to_be(planned):
    assert "read the issue itself" in wake_text({"paperclipWake": {"fallbackFetchNeeded": True}})


def test_characters_are_counted_as_paperclip_does(planned):
    assert planned(config={"promptTemplate": "🙂"}, context={"paperclipWake": {}}).prompt.metrics["promptChars"] == 2


def test_a_plain_program_is_told_its_instructions(planned):
    made = planned(dialect=Command(), config={"program": "agent"}, extras=Extras(instructions="Be kind."))
    assert made.prompt.text.startswith("Be kind.\n\nWake reason")
    assert "instructions.md" not in made._prompt_data[0]


# Bytes

HOSTILE = "NUL \0, 🙂, \u202e, \r\n\\c $(HOME) $$ {{7*7}}\n---\n!!python/x `id`\n\n"


@pytest.mark.parametrize(
    "text",
    [HOSTILE, "x", "é" * (SECRET_BYTES // 2), "x" * SECRET_BYTES, "x" * (SECRET_BYTES + 1), "é" * (5 << 19)],
    ids=["hostile", "one byte", "all of a Secret", "just all", "one more", "5 MiB"],
)
def test_the_bytes_of_a_prompt_are_those_of_its_parts(planned, text):
    made = planned(config={"promptTemplate": text}, context={"paperclipWake": {}})
    joined: dict[str, bytes] = {}
    for data in made._prompt_data:
        assert sum(map(len, data.values())) <= SECRET_BYTES
        assert not joined.keys() & data.keys()
        joined |= data
    assert b"".join(joined[name] for name in sorted(joined)) == text.encode()
    assert len(made._prompt_data) == -(-len(text.encode()) // SECRET_BYTES)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 3 * SECRET_BYTES), st.lists(st.integers(0, SECRET_BYTES), max_size=4))
def test_files_and_parts_share_the_secrets(length, sizes):
    files = {f"file-{number}": bytes(size) for number, size in enumerate(sizes)}
    made = list(parts(b"p" * length, files))
    assert all(sum(map(len, data.values())) <= SECRET_BYTES and data for data in made)
    names = [name for data in made for name in data]
    assert len(set(names)) == len(names)
    found = {name: content for data in made for name, content in data.items()}
    assert {name: found.pop(name) for name in files} == files
    assert sorted(found) == list(found)
    assert b"".join(found.values()) == b"p" * length
    assert "part-0000" in found
