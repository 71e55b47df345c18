"""What each field means: the text below it in its class.

pydantic can read these itself, but does so whenever a class is made, which costs every synth 40 ms; only the JSON
Schema and the starter show them.
"""

from __future__ import annotations

import ast
import inspect
from functools import cache

from pydantic import BaseModel


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Field name → what stands below it, for the class and those it inherits from."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if issubclass(one, BaseModel) and one is not BaseModel:
            found |= _in_module(inspect.getsource(inspect.getmodule(one) or one)).get(one.__name__, {})
    return {name: text for name, text in found.items() if name in model.model_fields}


@cache
def _in_module(source: str) -> dict[str, dict[str, str]]:
    return {node.name: _in_class(node) for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def _in_class(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            found[field.target.id] = inspect.cleandoc(below.value.value)
    return found
