"""The Job templates as they are delivered: in a ConfigMap for the launcher, in a folder for people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paperclip_launcher.errors import ConfigInvalid, TemplateInvalid
from paperclip_launcher.templates import Templates

DIST = Path(__file__).parents[3] / "dist"


@pytest.fixture
def folder(delivered, tmp_path):
    for name, text in delivered.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def problems(folder):
    with pytest.raises(TemplateInvalid) as caught:
        Templates.load(folder)
    assert caught.value.code == "k8s_template_invalid"
    assert isinstance(caught.value, ConfigInvalid)
    assert caught.value.remedy
    return " ".join(caught.value.problems)


def test_a_mounted_config_map_is_read(folder):
    # As the kubelet mounts it: links to a folder that is exchanged whole.
    (folder / "..data").symlink_to(".")
    (folder / "..2026_11_21").mkdir()
    (folder / "README.md").write_text("no template")
    templates = Templates.load(folder)
    assert sorted(templates.by_name) == ["claude", "generic"]
    assert templates.namespace == "paperclip-agents"
    found = templates.get("claude")
    assert (found.service_account, found.image_pull_policy) == ("paperclip-agent-runner", "IfNotPresent")
    assert (found.prompt_mount, found.bundle_mount) == ("/run/paperclip/prompt", "/run/paperclip/bundle")
    assert found.workspace_mount == "/workspace"
    assert {"HOME", "PAPERCLIP_RUN_ID", "ANTHROPIC_API_KEY", "PAPERCLIP_API_KEY"} <= found.reserved
    assert templates.facts.registries == ("ghcr.io/example",)
    assert templates.facts.kubernetes_version == "1.35"


@pytest.mark.parametrize("environment", sorted(path.parent.name for path in DIST.glob("*/job-templates")))
def test_what_is_rendered_for_people_is_what_the_launcher_is_given(environment):
    from kubekit import yamlread

    people = Templates.load(DIST / environment / "job-templates")
    (path,) = (DIST / environment).rglob("configmap-paperclip-job-templates.yaml")
    data = yamlread.read(path.read_bytes(), path.name).value["data"]
    given = Templates.of({name.removesuffix(".json"): json.loads(text) for name, text in data.items()})
    assert given.by_name == people.by_name
    assert given.facts == people.facts


def test_a_template_that_is_not_there_is_named(templates):
    with pytest.raises(TemplateInvalid, match="no Job template 'x'; there are claude, generic"):
        templates.get("x")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("claude.json", "{", "claude.json: Expecting"),
        ("claude.json", "[]", 'must be a map of "name"'),
        ("claude.json", '{"name": "other", "job": {}}', "named like its file"),
        ("claude.json", '{"name": "claude", "job": []}', "must be maps"),
        ("claude.json", '{"name": "claude", "job": {"a": "@{b}"}}', "b is not in the contract"),
        ("contract.json", "{}", "must be a map with the one key"),
        ("facts.json", '{"registry": 1}', "facts: there is no fact 'registry'"),
        ("facts.json", "[1]", "facts:"),
        ("claude.json", " " * (5 << 20), "at most 4194304 are read"),
    ],
)
def test_what_is_wrong_is_told(folder, name, text, sentence):
    (folder / name).write_text(text)
    assert sentence in problems(folder)


def test_a_template_of_another_shape_is_told(folder, delivered):
    tree = json.loads(delivered["claude.json"])
    tree["job"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][1]["name"] = "other"
    (folder / "claude.json").write_text(json.dumps(tree))
    assert "claude: is no template of a run" in problems(folder)


def test_templates_of_two_namespaces_are_told(folder, delivered):
    (folder / "generic.json").write_text(delivered["generic.json"].replace('"paperclip-agents"', '"elsewhere"'))
    assert "for several namespaces: elsewhere, paperclip-agents" in problems(folder)


def test_a_folder_without_any_is_told(tmp_path):
    assert "holds no contract" in problems(tmp_path)
    assert "No such file" in problems(tmp_path / "missing")
