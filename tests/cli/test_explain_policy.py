"""explain POLICY: why, examples that were tried, the CEL, and a waiver to paste; explain policies: all of them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from charts_py import policybook
from charts_py.cli.main import main
from policies.registry import all_policies, by_id

ROOT = Path(__file__).resolve().parents[2]


def explained(capsys, *arguments, code=0):
    assert main(["explain", *arguments]) == code
    return capsys.readouterr()


def test_it_tells_why_how_and_where_to_read(capsys):
    said = explained(capsys, "image-digest").out
    policy = by_id()["image-digest"]
    assert said.startswith("image-digest: ")
    for part in (policy.rationale, policy.remedy, *policy.links, "to waive it, in waivers.yaml", "passes", "fails"):
        assert part in said
    assert "# finds:" not in said


def test_the_waiver_can_be_pasted(capsys):
    said = explained(capsys, "image-digest").out
    (entry,) = yaml.safe_load(said.rpartition("waivers.yaml\n")[2])["waivers"]
    assert entry["policy"] == "image-digest"
    assert re.fullmatch(r"[A-Za-z]+/\S+", entry["object"])


@pytest.mark.parametrize("policy", [one.id for one in all_policies()])
def test_every_policy_can_be_explained(policy, capsys):
    document = json.loads(explained(capsys, policy, "--format", "json").out)
    assert document["kind"] == "Policy"
    assert document["id"] == policy
    assert bool(document["waiver"]) is document["waivable"]
    if by_id()[policy].check is not None:
        assert document["examples"]["pass"]
        assert document["examples"]["fail"]
    assert document["admission"]["cel"] in {"yes", "partly", "by facts", "no"}
    assert bool(document["admission"]["expression"]) is (document["admission"]["cel"] in {"yes", "partly"})


def test_all_of_them_are_listed_by_family(capsys):
    said = explained(capsys, "policies").out
    assert explained(capsys, "--all").out == said
    shown = re.findall(r"^  (\S+) +(?:error|warning|info)  ", said, re.MULTILINE)
    assert sorted(shown) == [one.id for one in all_policies()]
    document = json.loads(explained(capsys, "policies", "--format", "json").out)
    assert (document["kind"], len(document["items"])) == ("PolicyList", len(shown))


def test_a_name_that_is_nearly_right_is_guessed(capsys):
    said = explained(capsys, "image-digst", code=2).err
    assert "did you mean image-digest?" in said
    assert "`paperclip-gitops explain policies` lists all" in said


@pytest.mark.parametrize("arguments", [[], ["image-digest", "--format", "markdown"]])
def test_what_cannot_be_explained_is_wrong_use(arguments, capsys):
    explained(capsys, *arguments, code=2)


def test_the_examples_come_with_the_wheel(tmp_path, monkeypatch):
    """Where hatch puts them, beside the modules: found there, and there first."""
    package = tmp_path / "policies" / "_fixtures" / "image-digest"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "tests/policies/fixtures/image-digest/pass.example.yaml", package)
    (tmp_path / "charts_py").mkdir()
    monkeypatch.setattr(policybook, "__file__", str(tmp_path / "charts_py" / "policybook.py"))
    shown = policybook.examples("image-digest")
    assert shown.passes
    assert shown.fails == ""
    configured = (ROOT / "pyproject.toml").read_text()
    assert '"tests/policies/fixtures" = "policies/_fixtures"' in configured
