"""The tests that are written in the adapter's own language, one a file."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.adapter.node_program import FOLDER, node

ADAPTER = Path(__file__).parents[2] / "adapter"
SOURCES = sorted(path for path in ADAPTER.rglob("*") if path.suffix in {".js", ".cjs"})
_BEGIN = re.compile(r"\s*(export )?(async )?function\b.*\{$|  (async |\*|get |static )*#?\w+\(.*\) \{$|.* => \{$")


@pytest.mark.parametrize(
    "file", sorted(FOLDER.glob("*.test.mjs")), ids=lambda path: path.name.removesuffix(".test.mjs")
)
def test_in_node(file, tmp_path):
    found = subprocess.run(
        [node(), "--test", "--test-timeout=30000", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
    )
    assert found.returncode == 0, found.stdout
    assert re.search(r" pass [1-9]", found.stdout)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ADAPTER)))
def test_a_file_is_small_and_so_are_its_functions(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= 400
    assert max(map(len, lines)) <= 120
    assert all(length <= 50 for length in lengths_of_functions(lines))


def lengths_of_functions(lines):
    """Of those that begin on a line of their own; their end has the same indentation."""
    for at, line in enumerate(lines):
        if _BEGIN.match(line):
            indentation = line[: len(line) - len(line.lstrip())]
            end = next(one for one in range(at + 1, len(lines)) if re.match(rf"{indentation}}}", lines[one]))
            yield end - at + 1


def test_the_lengths_of_functions_are_seen():
    text = "export async function a() {\n  x;\n}\nclass B {\n  *#c(d) {\n    y;\n    z;\n  }\n}".splitlines()
    assert list(lengths_of_functions(text)) == [3, 4]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ADAPTER)))
def test_it_depends_on_nothing_but_node_and_itself(path):
    imported = re.findall(r'(?:from|import|import\(|require\()\s*"([^"]+)"', path.read_text())
    assert [one for one in imported if not one.startswith(("node:", "./", "../source/"))] == []
    if path.suffix == ".cjs":
        assert imported == []
