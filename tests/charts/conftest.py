"""A project of its own for each test: the shipped environments, in a folder that may be changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT.parent / "shared" / "schemas"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The shipped environments, waivers and locks in a folder that is the working directory; its own cache."""
    for name in ("environments", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("waivers.yaml", "images.lock", "crd-schemas.lock"):
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PAPERCLIP_CRD_SCHEMAS", raising=False)
    return tmp_path
