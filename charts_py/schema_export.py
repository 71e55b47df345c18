"""The JSON Schemas of the config files, for editors: what a field means and what may stand there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from charts_py.config.argocd import Fleet
from charts_py.config.descriptions import descriptions
from charts_py.config.environment import Environment

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS: Mapping[str, type[BaseModel]] = {"Environment": Environment, "Fleet": Fleet}


class _Generator(GenerateJsonSchema):
    """A title that only repeats the field's name in other letters is left out."""

    schema_dialect = DIALECT

    def model_schema(self, schema: Any) -> dict[str, Any]:
        made = super().model_schema(schema)
        model = schema["cls"]
        for name, text in descriptions(model).items():
            alias = model.model_fields[name].alias or name
            made["properties"][alias]["description"] = text
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  the generator's own signature
        return False


def schema(kind: str) -> dict[str, Any]:
    """The schema of the files of `kind`, a key of KINDS."""
    made = KINDS[kind].model_json_schema(by_alias=True, schema_generator=_Generator, mode="validation")
    # A name, not an address: the schema is read from the folder beside the config, never fetched.
    head = {
        "$schema": DIALECT,
        "$id": f"urn:paperclip-gitops:v1:{kind.lower()}",
        "title": f"paperclip-gitops {kind}",
    }
    return {**head, **{key: value for key, value in made.items() if key not in head}}


def text(kind: str) -> str:
    """The bytes of the file: the same for the same models."""
    return json.dumps(schema(kind), indent=2, ensure_ascii=False) + "\n"


def file_name(kind: str) -> str:
    return f"{kind.lower()}.schema.json"


def write(folder: Path) -> list[Path]:
    """Every schema into `folder`; returns the files whose content changed."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for kind in KINDS:
        path = folder / file_name(kind)
        content = text(kind)
        if not path.is_file() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            changed.append(path)
    return changed
