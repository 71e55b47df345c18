"""What the replaced adapter's functions gave for 212 inputs, and where ours gives something better on purpose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.launcher.vector_functions import FUNCTIONS

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "launcher-vectors.json").read_text())["vectors"]
BY_ID = {one["id"]: one for one in VECTORS}
TEXT = '{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"x"}]}}\n'
TOOL = '{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t","name":"Bash"}]}}\n'
BLOCK = TEXT.replace('"x"', '"text block"')
STATUS = '{"type":"system","subtype":"status","status":"compacting"}\n'

# What loses characters gets a hash of all it was; only what is legal comes back as it is.
LABELS = {
    "03": "task-xyz-123-8b2296af8fdd0a79",
    "04": "abc-123-58384e9216293c79",
    "05": "abc-b40cd93479c755d3",
    "06": "123-90f2dc0587cf4578",
    "07": "a" * 46 + "-c2a908d98f5df987",
    "08": "x-cb3f91d54eee30e5",
    "09": "",
    "10": "x-0aad7da77d2ed59c",
    "11": "Agent-Test-09c9e04d96e13576",
    "12": "user-example.com-b4c9a289323b21a0",
    "14": "x-f1f6bd62c1e06dac",
    "15": "a" * 46 + "-0a2ffb188d4f25e5",
    "16": "ea-adb2fa6e3ca873d8",
    "17": "a-b-1f7b84fffafe8cca",
    "18": "abc-1bdfa1289f3f29d0",
}
NAMES = {
    "01": "run-run-abc12345-7c2a56c5af25ce9d",
    "02": "run-7b1fdc1e-55a4-4c53-8a56-0c9b4a2b9d10-5558065630939b3b",
    "03": "run-run-abc-12345-d945d892b96a0efc",
    "04": "run-" + "r" * 42 + "-326b2b8408ecca8e",
    "05": "run-run-1-c7cddd414ee3ffea",
    "06": "run-run-1-3d37598cb8f0535a",
    "07": "run-run-1-fa6d7fdbc2d4e35d",
    "08": "run-run-1-f3462345519f981d",
    "09": "run-x-583277e769e0d23c",
    "10": "run-run-1-ea11878c16dfedb0",
}
OURS = {
    **{f"sanitize_label_value-{number}": value for number, value in LABELS.items()},
    **{f"job_name-{number}": value for number, value in NAMES.items()},
    # The launcher's own labels come from the Job template.
    "extra_labels-01": {"labels": {"env": "prod"}, "skipped": ["paperclip.io/run-id", "app.kubernetes.io/component"]},
    "extra_labels-02": {"labels": {"env": "prod", "team": "platform"}, "skipped": []},
    # No block of a message is lost.
    "parse_stream-05": {**BY_ID["parse_stream-05"]["expected"], "summary": "first\n\nsecond"},
    # Content takes back that there was none.
    "parse_stream-12": {**BY_ID["parse_stream-12"]["expected"], "llmApiEmptyResponse": False},
    "is_unknown_session-07": True,
    "is_k8s_404-12": True,
    # A session missing on one side is no obstacle any more.
    "is_reattachable_orphan_v1-04": True,
    "cli_format_line-04": "null",
    "cli_format_line-05": "123",
    **{f"dedup_key-{number}": None for number in ("01", "03", "05", "08", "09")},
    # All lines arrive: those that a reconnect shows again are told by their time, not by their text.
    "dedup_filter-01": {"outs": [TEXT, TEXT], "flush": ""},
    "dedup_filter-02": {"outs": [BLOCK, TOOL], "flush": ""},
    "dedup_filter-05": {"outs": ['{"foo":1}\n', '{"foo":1}\n', '{"foo": 1}\n'], "flush": ""},
    "dedup_filter-10": {"outs": [TEXT.replace("\n", "\r\n"), TEXT], "flush": ""},
    "dedup_filter-12": {"outs": [STATUS, STATUS], "flush": ""},
    # Of all shapes that a tool's output has.
    "rtk_filter_max10-07": {"tool_response": "a string l\n[...14 bytes truncated by paperclip-rtk]"},
    "rtk_filter_max10-08": {"tool_response": {"stdout": "a stdout l\n[...20 bytes truncated by paperclip-rtk]"}},
    "pod_log_path-01": None,
}


def test_every_function_of_the_vectors_is_mapped():
    assert set(FUNCTIONS) == {one["fn"] for one in VECTORS}
    assert len(FUNCTIONS) == 28


def test_only_vectors_that_say_so_differ():
    assert [name for name in OURS if not {"note", "ours"} & BY_ID[name].keys()] == []


@pytest.mark.parametrize("function", sorted(set(FUNCTIONS) - {"manifest_golden"}))
def test_ours_gives_what_the_vector_expects_or_what_the_table_says(function):
    vectors = [one for one in VECTORS if one["fn"] == function]
    expected = {one["id"]: OURS.get(one["id"], one["expected"]) for one in vectors}
    assert {one["id"]: FUNCTIONS[function](one["input"]) for one in vectors} == expected


def test_the_golden_manifest_agrees_where_it_is_not_made_safer():
    vector = BY_ID["manifest_golden-01"]
    ours, theirs = FUNCTIONS["manifest_golden"](vector["input"]), vector["expected"]
    for same in ("prompt", "claudeArgs", "skippedLabels", "promptMetrics"):
        assert ours[same] == theirs[same]
    job, reference = ours["job"], theirs["job"]
    kept = ("paperclip.io/agent-id", "paperclip.io/run-id", "paperclip.io/company-id", "paperclip.io/task-id")
    for label in (*kept, "paperclip.io/session-id"):
        assert job["metadata"]["labels"][label] == reference["metadata"]["labels"][label]
        assert job["spec"]["template"]["metadata"]["labels"][label] == reference["metadata"]["labels"][label]
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    text = json.dumps(job)
    assert "tok" not in [one.get("value") for one in job["spec"]["template"]["spec"]["containers"][0]["env"]]
    assert ours["prompt"] not in text
    assert "initContainers" not in text
