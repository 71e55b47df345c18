"""The starter config: it works as it is, and each of its comments works when it is taken in."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
import yaml

from charts_py import pipeline
from charts_py.config.environment import Environment
from charts_py.config.load import parse
from charts_py.starter import EXAMPLES, Answers, starter

ROOT = Path(__file__).resolve().parents[2]
TODAY = datetime.date(2026, 11, 21)
FULL = {
    "host": "paperclip.example.com",
    "lb_ip": "192.168.1.200",
    "storage_class": "longhorn",
    "rwx_class": "longhorn",
    "secret_store": "vault",
}
CASES = {
    "nothing": {},
    "everything": FULL,
    "two classes": {"storage_class": "local-path", "rwx_class": "nfs"},
    "only the shared class": {"rwx_class": "nfs"},
    "only an address": {"lb_ip": "192.168.1.200"},
    "only a store": {"secret_store": "vault"},
    "a URL": {"host": "https://paperclip.example.com/app"},
    "IPv6": {"host": "http://[fd00::1]:3100", "lb_ip": "fd00::1"},
}


def load(text):
    return parse(text.encode(), "starter.yaml", Environment)[0]


def uncommented(text):
    """Every `#field: value`; `# Text` stays a comment."""
    return "\n".join(re.sub(r"^( *)#(?=[^ #]|  )", r"\1", line) for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("answers", CASES.values(), ids=CASES)
def test_it_loads_and_renders_without_an_open_error(answers, tmp_path, monkeypatch):
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "home.yaml").write_text(starter(Answers("home", **answers)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PAPERCLIP_CRD_SCHEMAS", raising=False)
    request = pipeline.Request(
        configs=tmp_path / "environments",
        dist=tmp_path / "dist",
        images=tmp_path / "images.lock",
        waivers=ROOT / "waivers.yaml",
        environments=("home",),
        today=TODAY,
    )
    result = pipeline.run(request)
    assert not any(one.stops for one in result.findings)
    assert len(result.renderings[0].objects) >= 18


@pytest.mark.parametrize("answers", CASES.values(), ids=CASES)
def test_every_commented_field_has_the_default_it_shows(answers):
    text = starter(Answers("home", **answers))
    assert uncommented(text).count("\n#") < text.count("\n#")
    assert load(uncommented(text)) == load(text)


def test_every_field_of_the_sections_stands_in_it():
    present = yaml.safe_load(uncommented(starter(Answers("home"))))

    def lacking(model, values, path=""):
        for field in model.model_fields.values():
            if field.alias not in values:
                yield f"{path}{field.alias}"

    assert list(lacking(Environment, present)) == []
    for section in ("cluster", "server", "network", "agents", "launcher", "checks"):
        model = type(getattr(load(starter(Answers("home"))), section))
        assert list(lacking(model, present[section], f"{section}.")) == []


@pytest.mark.parametrize("path", EXAMPLES)
def test_every_example_is_legal(path):
    document = yaml.safe_load(starter(Answers("home")))
    document.setdefault("cluster", {}).setdefault("cilium", {})
    here = document
    for key in path.split(".")[:-1]:
        here = here.setdefault(key, {})
    here[path.split(".")[-1]] = yaml.safe_load(EXAMPLES[path])
    load(yaml.safe_dump(document))
    assert f"# For example {EXAMPLES[path]}" in starter(Answers("home"))


def test_what_was_answered_is_set():
    config = load(starter(Answers("home", **FULL)))
    assert config.name == "home"
    assert config.server.public_url == "https://paperclip.example.com"
    assert config.server.load_balancer.ip == "192.168.1.200"
    assert config.server.storage.storage_class == "longhorn"
    assert config.agents.workspace.storage_class == "longhorn"
    assert config.cluster.storage_classes[0].access_modes == ("ReadWriteOnce", "ReadWriteMany")
    assert config.secret_store.name == "vault"


def test_without_a_host_people_open_the_address():
    assert load(starter(Answers("home", lb_ip="192.168.1.200"))).server.public_url == "http://192.168.1.200:3100"
    assert load(starter(Answers("home"))).server.public_url == "http://localhost:3100"


def test_no_line_is_too_long_to_read():
    assert [line for line in starter(Answers("home", **FULL)).splitlines() if len(line) > 120] == []


def test_it_leads_editors_to_the_schema():
    first = starter(Answers("home")).splitlines()[0]
    assert first == "# yaml-language-server: $schema=../schemas/environment.schema.json"


@pytest.mark.parametrize("value", ['x", y: "z', "a\nb: c", "{{ x }}", "é", "null", "1e3", "#x"])
def test_no_answer_leaves_its_field(value):
    """Text that would mean something in YAML stays text, legal there or not."""
    document = yaml.safe_load(starter(Answers(value, image=value, host=value, secret_store=value)))
    assert document["name"] == value
    assert document["server"]["image"] == value
    assert document["secretStore"] == {"name": value}
    assert list(document) == ["apiVersion", "kind", "name", "secretStore", "server", "database", "agents", "checks"]
