"""The house rules that a linter does not know: small modules, small functions, layers, no vague names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("kubekit", "policies", "charts_py", "paperclip_launcher")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
VAGUE = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}


def functions(tree: ast.AST) -> list[tuple[str, int]]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(node.name, node.end_lineno - node.lineno + 1) for node in ast.walk(tree) if isinstance(node, kinds)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_a_room_of_at_most_400_lines_with_functions_of_at_most_50(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert [one for one in functions(ast.parse(text)) if one[1] > 50] == []
    assert path.stem not in VAGUE


def test_the_layers_hold():
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_only_one_module_prints():
    calls = [
        (path.name, node.func.id)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert [name for name, function in calls if function == "print"] == []


def test_a_skipped_synth_imports_nothing_heavy():
    code = (
        "import sys, charts_py.pipeline, charts_py.cli.main as m; m.parser();"
        "print([name for name in ('pydantic', 'cdk8s', 'jsii', 'httpx', 'jinja2', 'yaml', 'jsonschema')"
        " if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
