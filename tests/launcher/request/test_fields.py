"""One table of config fields: the form, the checks and the documentation say the same."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from paperclip_launcher.fields import FIELDS, config_schema, documentation
from paperclip_launcher.options import RunOptions

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "agent-config.md"
VECTORS = json.loads((ROOT / "tests/data/launcher-vectors.json").read_text())["vectors"]
BY_PAPERCLIP = {"model", "effort", "instructionsFilePath", "timeoutSec", "graceSec", "dangerouslySkipPermissions"}


def test_the_form_of_the_adapter_that_is_replaced_is_kept():
    (wanted,) = [one["expected"] for one in VECTORS if one["fn"] == "config_schema"]
    assert config_schema(replaced_only=True) == wanted
    assert config_schema()["fields"][:16] == wanted["fields"]


def test_the_form_is_flat_and_has_what_paperclip_can_draw():
    shown = config_schema()["fields"]
    keys = [one["key"] for one in shown]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & (BY_PAPERCLIP | {"command", "args", "env", "mode"})
    for one in shown:
        assert {"type", "key", "label", "hint"} <= one.keys() <= {"type", "key", "label", "hint", "default", "options"}
        assert one["type"] in {"text", "number", "toggle", "select", "textarea", "combobox"}
        assert all(option.keys() == {"value", "label"} for option in one.get("options", ()))
        assert ("options" in one) is (one["type"] == "select")


@pytest.mark.parametrize("field", FIELDS, ids=lambda one: one.key)
def test_every_field_ends_somewhere_and_its_default_is_legal(field):
    attributes = {one.name for one in fields(RunOptions)} | {"reattach", ""}
    assert field.attribute in attributes
    if field.default not in (None, "", ()):
        assert field.read(field.default) == field.default
    if field.suggested is not None:
        assert field.read(field.suggested) == field.suggested


def test_every_field_is_documented():
    """What `make docs` writes is compared whole by a test of the command line."""
    text = DOCUMENT.read_text()
    assert all(f"{line}\n" in text for line in documentation())
